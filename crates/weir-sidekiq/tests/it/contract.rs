//! What every store of weir-jobs promises, on a real Redis.
//!
//! The tests are those of weir-jobs. A promise that Sidekiq's layout can't keep is ignored with the
//! reason, so that every run lists it.

mod harness;
mod sharded;
#[path = "../../../weir-jobs/tests/it/contract/promises.rs"]
#[macro_use]
mod promises;

#[path = "../../../weir-jobs/tests/it/contract/batches.rs"]
mod batches;
#[path = "../../../weir-jobs/tests/it/contract/batching.rs"]
#[expect(dead_code, reason = "Redis has no log that is compacted")]
mod batching;
#[path = "../../../weir-jobs/tests/it/contract/counts.rs"]
mod counts;
#[path = "../../../weir-jobs/tests/it/contract/crons.rs"]
#[expect(dead_code, reason = "Redis has no unique locks")]
mod crons;
#[path = "../../../weir-jobs/tests/it/contract/dead.rs"]
mod dead;
#[path = "../../../weir-jobs/tests/it/contract/dispatch.rs"]
mod dispatch;
#[path = "../../../weir-jobs/tests/it/contract/durable.rs"]
mod durable;
#[path = "../../../weir-jobs/tests/it/contract/fair.rs"]
#[expect(
    dead_code,
    reason = "Redis has no tenants; the tests of rates push as those of tenants do"
)]
mod fair;
#[path = "../../../weir-jobs/tests/it/contract/job_types.rs"]
mod job_types;
#[path = "../../../weir-jobs/tests/it/contract/moving.rs"]
mod moving;
#[path = "../../../weir-jobs/tests/it/contract/order.rs"]
mod order;
#[path = "../../../weir-jobs/tests/it/contract/queues.rs"]
mod queues;
#[path = "../../../weir-jobs/tests/it/contract/rates.rs"]
#[expect(dead_code, reason = "Redis has no tenants, and keeps rates over a crash")]
mod rates;
#[path = "../../../weir-jobs/tests/it/contract/reservations.rs"]
mod reservations;
#[path = "../../../weir-jobs/tests/it/contract/resources.rs"]
#[expect(dead_code, reason = "Redis has no tenants, and its queues are not strictly in turn")]
mod resources;
#[path = "../../../weir-jobs/tests/it/contract/restore.rs"]
mod restore;
#[path = "../../../weir-jobs/tests/it/contract/retries.rs"]
mod retries;
#[path = "../../../weir-jobs/tests/it/contract/scan.rs"]
mod scan;
#[path = "../../../weir-jobs/tests/it/contract/scheduled.rs"]
mod scheduled;
#[path = "../../../weir-jobs/tests/it/contract/tracking.rs"]
#[expect(dead_code, reason = "Redis has no segments to compact")]
mod tracking;
#[path = "../../../weir-jobs/tests/it/contract/unique.rs"]
#[expect(dead_code, reason = "Redis has no log that is compacted")]
mod unique;
#[path = "../../../weir-jobs/tests/it/contract/waiting.rs"]
mod waiting;
#[path = "../../../weir-jobs/tests/it/contract/world.rs"]
mod world;

use harness::{OneAddressHarness, RedisHarness};
use sharded::ShardedHarness;

/// Defines the test of one promise. The first rules are the promises that are not kept.
macro_rules! promise {
    ($harness:ty, scheduled, a_job_waits_for_its_time_to_the_microsecond) => {
        #[test]
        #[ignore = "`at` is stored as the score only: with it in the payload, Sidekiq's scheduler \
                    would schedule the job again"]
        fn a_job_waits_for_its_time_to_the_microsecond() {
            run(super::scheduled::a_job_waits_for_its_time_to_the_microsecond::<$harness>);
        }
    };
    ($harness:ty, restore, a_restored_job_rests_where_it_was) => {
        #[test]
        #[ignore = "`failure.next_at` is stored as the score of the retry set only, so a job that is \
                    restored there without one has it afterwards"]
        fn a_restored_job_rests_where_it_was() {
            run(super::restore::a_restored_job_rests_where_it_was::<$harness>);
        }
    };
    ($harness:ty, durable, a_restart_keeps_every_state) => {
        #[test]
        #[ignore = "totals count from the start of a node: Sidekiq's own include what Sidekiq did"]
        fn a_restart_keeps_every_state() {
            run(super::durable::a_restart_keeps_every_state::<$harness>);
        }
    };
    ($harness:ty, $module:ident, $test:ident) => {
        #[test]
        fn $test() {
            run(super::$module::$test::<$harness>);
        }
    };
}

macro_rules! contract {
    ($store:ident: $harness:ty, { $($module:ident: $($test:ident),+;)+ }) => {
        mod $store {
            use super::*;
            $($(promise!($harness, $module, $test);)+)+
        }
    };
}

macro_rules! contract_of_redis {
    ($tests:tt) => {
        contract!(redis_store: RedisHarness, $tests);
        contract!(sharded_store: ShardedHarness, $tests);
        contract!(one_address_store: OneAddressHarness, $tests);
    };
}

macro_rules! durable_contract_of_redis {
    ($tests:tt) => {
        contract!(redis_survives: RedisHarness, $tests);
        contract!(sharded_survives: ShardedHarness, $tests);
        contract!(one_address_survives: OneAddressHarness, $tests);
    };
}

/// What a store promises that can limit how often jobs start: not several servers that do not know each other.
macro_rules! promises_of_rates {
    ($define:ident) => {
        $define!({
            rates:
                a_queue_starts_its_burst_and_then_one_per_interval,
                a_fetch_serves_other_queues_while_one_waits_for_its_rate,
                a_clock_that_is_set_back_holds_no_queue_back_beside_another_one,
                a_fetch_that_waits_across_a_reload_is_served_by_the_new_rate;
        });
    };
}

/// What a store promises of resources: one server, where a step may use the keys of several queues.
macro_rules! promises_of_resources {
    ($define:ident) => {
        $define!({
            resources:
                a_resource_holds_over_types_and_queues,
                other_types_of_a_queue_start_in_their_order,
                a_job_starts_when_all_its_resources_have_room,
                a_rate_holds_over_queues,
                every_end_of_a_job_frees_its_resources,
                resources_change_while_jobs_wait_and_run,
                many_jobs_get_other_lanes_when_types_change,
                the_fresh_lane_serves_the_newest_job_that_may_start,
                a_flush_lets_the_rate_of_a_resource_begin_anew,
                an_operator_moves_and_deletes_jobs_that_wait_for_a_resource,
                resources_are_counted;
        });
    };
}

macro_rules! resources_of_redis {
    ($tests:tt) => {
        contract!(redis_resources: RedisHarness, $tests);
    };
}

macro_rules! rates_of_redis {
    ($tests:tt) => {
        contract!(redis_limits: RedisHarness, $tests);
        contract!(one_address_limits: OneAddressHarness, $tests);
    };
}

macro_rules! cron_of_redis {
    ($tests:tt) => {
        contract!(redis_cron: RedisHarness, $tests);
        contract!(one_address_cron: OneAddressHarness, $tests);
    };
}

macro_rules! durable_cron_of_redis {
    ($tests:tt) => {
        contract!(redis_cron_survives: RedisHarness, $tests);
        contract!(one_address_cron_survives: OneAddressHarness, $tests);
    };
}

macro_rules! tracks_of_redis {
    ($tests:tt) => {
        contract!(redis_tracks: RedisHarness, $tests);
        contract!(one_address_tracks: OneAddressHarness, $tests);
    };
}

macro_rules! durable_tracks_of_redis {
    ($tests:tt) => {
        contract!(redis_tracks_survive: RedisHarness, $tests);
        contract!(sharded_tracks_survive: ShardedHarness, $tests);
        contract!(one_address_tracks_survive: OneAddressHarness, $tests);
    };
}

/// What a store promises that drops expired jobs, on one server or many.
macro_rules! promises_of_expiry {
    ($define:ident) => {
        $define!({
            unique:
                many_expired_jobs_do_not_keep_a_fetch_waiting;
        });
    };
}

macro_rules! expiry_in_redis {
    ($tests:tt) => {
        contract!(redis_expiry: RedisHarness, $tests);
        contract!(sharded_expiry: ShardedHarness, $tests);
        contract!(one_address_expiry: OneAddressHarness, $tests);
    };
}

/// What a store promises that holds a job's lock where it stores the job: one server.
macro_rules! promises_of_unique_jobs {
    ($define:ident) => {
        $define!({
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
                locks_survive_a_crash,
                after_a_crash_a_lock_is_that_of_its_last_holder;
        });
    };
}

/// What a store promises that counts the jobs of batches where it stores and ends them: one server.
macro_rules! promises_of_batches {
    ($define:ident) => {
        $define!({
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
                a_callback_wakes_a_fetch,
                batches_survive_a_crash,
                imported_batches_survive_a_crash,
                jobs_that_were_cleared_stay_lost;
        });
    };
}

macro_rules! batches_of_redis {
    ($tests:tt) => {
        contract!(redis_batches: RedisHarness, $tests);
    };
}

macro_rules! unique_jobs_of_redis {
    ($tests:tt) => {
        contract!(redis_unique: RedisHarness, $tests);
    };
}

promises_of_every_store!(contract_of_redis);
promises_of_tracks!(tracks_of_redis);
// `tracks_max` holds for each server, so an import does not forget the oldest of all.
contract!(sharded_tracks: ShardedHarness, {
    tracking:
        a_track_follows_its_job,
        operators_and_vanished_workers_change_the_state,
        tracks_are_limited_and_expire;
});
promises_of_durable_tracks!(durable_tracks_of_redis);
promises_of_cron!(cron_of_redis);
promises_of_durable_cron!(durable_cron_of_redis);
promises_of_expiry!(expiry_in_redis);
promises_of_unique_jobs!(unique_jobs_of_redis);
promises_of_batches!(batches_of_redis);
promises_of_rates!(rates_of_redis);
promises_of_resources!(resources_of_redis);
promises_of_durable_stores!(durable_contract_of_redis);

mod restricted;

/// Runs a test, unless there is no Redis.
fn run<H: harness::Harness, F: Future<Output = ()>>(test: impl FnOnce(world::World<H>) -> F) {
    if crate::shared_redis::database().is_some() {
        world::run(test);
    }
}
