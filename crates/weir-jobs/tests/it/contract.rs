//! What every store promises, tested the same way for each of them.
//!
//! A test is an `async fn name<H: Harness>(world: World<H>)`. [`contract!`] runs all of them for one
//! harness: a new store needs a harness and one more line here.

#[macro_use]
mod promises;

mod batches;
mod batching;
mod caps;
mod counts;
mod crons;
mod dead;
mod dispatch;
mod durable;
mod fair;
mod harness;
mod job_types;
mod limits;
mod model;
mod moving;
mod order;
mod queues;
mod rates;
mod reservations;
mod resources;
mod restore;
mod retries;
mod scan;
mod scheduled;
mod tracking;
mod unique;
mod waiting;
mod world;

use harness::{EmbeddedHarness, MemoryHarness};

macro_rules! contract {
    ($store:ident: $harness:ty, { $($module:ident: $($test:ident),+;)+ }) => {
        mod $store {
            use super::*;
            $($(
                #[test]
                fn $test() {
                    world::run(super::$module::$test::<$harness>);
                }
            )+)+
        }
    };
}

macro_rules! contract_of_all_stores {
    ($tests:tt) => {
        contract!(memory: MemoryHarness, $tests);
        contract!(embedded: EmbeddedHarness, $tests);
    };
}

macro_rules! tracks_of_all_stores {
    ($tests:tt) => {
        contract!(memory_with_tracks: MemoryHarness, $tests);
        contract!(embedded_with_tracks: EmbeddedHarness, $tests);
    };
}

macro_rules! durable_tracks_of_embedded {
    ($tests:tt) => {
        contract!(embedded_tracks_survive: EmbeddedHarness, $tests);
    };
}

macro_rules! cron_of_all_stores {
    ($tests:tt) => {
        contract!(memory_with_cron: MemoryHarness, $tests);
        contract!(embedded_with_cron: EmbeddedHarness, $tests);
    };
}

macro_rules! durable_cron_of_embedded {
    ($tests:tt) => {
        contract!(embedded_cron_survives: EmbeddedHarness, $tests);
    };
}

promises_of_every_store!(contract_of_all_stores);
promises_of_tracks!(tracks_of_all_stores);
promises_of_durable_tracks!(durable_tracks_of_embedded);
promises_of_cron!(cron_of_all_stores);
promises_of_durable_cron!(durable_cron_of_embedded);

/// What only the memory store has.
mod in_memory {
    use super::*;
    contract!(memory: MemoryHarness, {
        limits:
            the_memory_has_a_size;
    });
    use super::limits;
}

/// What only a store promises that obeys `custom` and runs batches.
mod obeys_custom {
    use super::*;
    macro_rules! promises {
        ($define:ident: $harness:ty) => {
            contract!($define: $harness, {
                unique:
                    equal_jobs_are_refused_until_the_first_succeeds,
                    a_batch_refuses_its_repeats_one_by_one,
                    all_or_none_counts_a_repeat_in_the_same_batch,
                    the_lock_lives_through_retries_and_death,
                    a_job_that_is_thrown_away_frees_its_lock,
                    until_start_the_fetch_frees_the_lock,
                    a_job_that_was_not_delivered_has_its_lock_again,
                    a_lock_runs_out_and_passes_to_the_next_job,
                    the_lock_of_a_scheduled_job_lasts_from_its_time,
                    an_operator_frees_the_lock,
                    a_move_frees_the_lock,
                    locks_are_limited,
                    an_imported_job_is_stored_whoever_holds_its_lock,
                    an_expired_job_is_dropped_when_it_would_be_fetched,
                    many_expired_jobs_do_not_keep_a_fetch_waiting;
                batching:
                    callbacks_come_when_all_jobs_have_ended,
                    a_failed_job_completes_its_batch_and_its_retry_succeeds,
                    a_job_that_is_lost_counts_as_failed,
                    an_empty_batch_fires_at_its_commit,
                    parents_wait_for_their_children,
                    a_batch_can_be_opened_again,
                    a_job_of_an_unknown_batch_is_refused,
                    batches_expire_and_are_limited,
                    the_texts_of_all_batches_are_limited,
                    a_callback_belongs_to_no_batch,
                    a_large_queue_is_cleared_in_slices,
                    batches_move_to_another_store,
                    a_callback_in_progress_moves_with_its_batch,
                    a_lock_moves_with_its_time,
                    a_callback_wakes_a_fetch;
                dispatch:
                    by_targets_queues_are_guaranteed_what_they_need,
                    by_targets_each_end_of_a_new_job_frees_its_place,
                    by_targets_jobs_that_are_due_count_as_arrivals,
                    the_fresh_lane_counts_the_time_of_workers;
                caps:
                    the_bytes_of_waiting_jobs_are_counted,
                    bytes_are_counted_of_jobs_that_waited_before,
                    counting_ends_and_begins_anew,
                    waiting_jobs_of_a_tenant_are_counted,
                    arrivals_are_counted_by_their_cause,
                    limits_are_shown_with_what_they_hold_back;
                fair:
                    each_tenant_gets_its_share,
                    jobs_without_a_tenant_share_one_lane,
                    a_tenant_of_slow_jobs_pays_for_them,
                    failures_and_lapsed_jobs_are_charged,
                    jobs_of_a_vanished_worker_return_in_their_order,
                    weights_divide_the_workers,
                    a_tenant_at_its_limit_waits_for_the_end_of_its_jobs,
                    limits_of_tenants_change_at_a_reload,
                    a_change_of_the_tenants_leaves_them_in_order,
                    many_jobs_get_other_lanes_while_workers_fetch,
                    the_last_slots_are_for_tenants_below_their_share,
                    fetches_that_wait_are_the_free_slots,
                    removed_jobs_leave_their_lanes,
                    expired_jobs_are_dropped_from_lanes,
                    the_fresh_lane_serves_the_newest_job_of_the_tenant,
                    lanes_are_counted;
                rates:
                    a_queue_starts_its_burst_and_then_one_per_interval,
                    a_fetch_serves_other_queues_while_one_waits_for_its_rate,
                    each_tenant_has_its_rate,
                    a_tenant_without_jobs_keeps_what_it_has_used,
                    tenants_without_a_lane_have_one_rate_together,
                    a_concurrency_and_a_rate_hold_together,
                    rates_change_at_a_reload,
                    only_jobs_that_are_handed_out_count_as_starts,
                    a_clock_that_is_set_back_holds_a_rate_back_for_one_interval,
                    a_clock_that_is_set_back_holds_no_queue_back_beside_another_one,
                    a_fetch_that_waits_across_a_reload_is_served_by_the_new_rate;
                resources:
                    a_resource_holds_over_types_and_queues,
                    other_types_of_a_queue_start_in_their_order,
                    a_job_starts_when_all_its_resources_have_room,
                    a_rate_holds_over_queues,
                    queues_get_a_resource_in_turn,
                    many_fetches_of_a_queue_keep_no_resource_from_others,
                    queues_get_the_rate_of_a_resource_in_turn,
                    many_fetches_of_a_queue_keep_no_rate_from_others,
                    a_tenant_whose_next_job_waits_is_left_out,
                    every_end_of_a_job_frees_its_resources,
                    resources_change_while_jobs_wait_and_run,
                    many_jobs_get_other_lanes_when_types_change,
                    the_fresh_lane_serves_the_newest_job_that_may_start,
                    a_tenant_waits_for_the_job_at_either_end_in_the_fresh_lane,
                    a_flush_lets_the_rate_of_a_resource_begin_anew,
                    an_operator_moves_and_deletes_jobs_that_wait_for_a_resource,
                    resources_are_counted;
                crons:
                    a_unique_cron_job_is_left_out_while_the_last_one_runs;
            });
        };
    }
    promises!(memory: MemoryHarness);
    promises!(embedded: EmbeddedHarness);
    use super::{batching, caps, crons, dispatch, fair, rates, resources, unique};
}

/// The same after a crash.
mod obeys_custom_and_survives {
    use super::*;
    contract!(embedded: EmbeddedHarness, {
        unique:
            locks_survive_a_crash,
            after_a_crash_a_lock_is_that_of_its_last_holder,
            features_survive_compaction;
        tracking:
            progress_survives_compaction;
        batching:
            batches_survive_a_crash,
            imported_batches_survive_a_crash,
            jobs_that_were_cleared_stay_lost,
            callbacks_survive_compaction_and_fire_once;
        caps:
            bytes_are_counted_again_after_a_crash;
        fair:
            tenants_survive_a_crash;
        rates:
            rates_begin_with_their_burst_after_a_crash;
        resources:
            jobs_in_progress_count_after_a_restart;
    });
    use super::{batching, caps, fair, rates, resources, tracking, unique};
}

/// What only a store that survives the process can promise.
mod survives {
    use super::*;
    macro_rules! contract_of_embedded {
        ($tests:tt) => {
            contract!(embedded: EmbeddedHarness, $tests);
        };
    }
    promises_of_durable_stores!(contract_of_embedded);
    use super::{batches, durable, moving};
}
