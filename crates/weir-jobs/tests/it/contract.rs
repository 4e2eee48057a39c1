//! What every store promises, tested the same way for each of them.
//!
//! A test is an `async fn name<H: Harness>(world: World<H>)`. [`contract!`] runs all of them for one
//! harness: a new store needs a harness and one more line here.

mod batches;
mod counts;
mod dead;
mod dispatch;
mod durable;
mod harness;
mod limits;
mod model;
mod order;
mod queues;
mod reservations;
mod restore;
mod retries;
mod scan;
mod scheduled;
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

contract_of_all_stores!({
    order:
        a_queue_is_served_in_the_order_of_its_pushes,
        queues_are_served_in_the_order_of_the_request,
        a_payload_arrives_as_it_was_pushed,
        two_jobs_may_have_one_jid,
        a_batch_is_stored_whole_or_not_at_all;
    batches:
        one_fetch_takes_up_to_its_maximum,
        a_fetch_takes_no_job_after_so_many_bytes,
        each_job_of_a_batch_keeps_to_the_rules,
        a_waiting_batch_takes_what_comes_together,
        a_batch_that_was_not_taken_goes_back_in_order,
        an_ack_says_which_jids_it_did_not_know,
        each_job_of_a_batch_fails_by_its_own_rules;
    retries:
        a_failed_job_is_tried_again_when_its_time_comes,
        every_retry_waits_by_the_formula,
        a_job_dies_when_its_retries_are_used_up,
        retry_0_throws_the_job_away,
        a_negative_retry_goes_straight_to_the_dead,
        a_report_is_cut_to_what_the_protocol_keeps,
        only_a_reserved_job_can_fail;
    scheduled:
        a_job_waits_for_its_time_to_the_microsecond,
        due_jobs_are_enqueued_in_the_order_of_their_times,
        a_due_job_goes_behind_those_that_wait,
        nobody_has_to_ask_for_what_is_due;
    dead:
        the_dead_set_has_a_size,
        the_dead_are_forgotten_with_age,
        the_dead_can_be_brought_back,
        any_resting_job_can_be_killed_or_discarded;
    queues:
        a_paused_queue_is_passed_over,
        clearing_leaves_what_workers_hold,
        removing_forgets_the_queue_but_not_what_workers_hold,
        a_removed_queue_comes_back_with_its_next_job,
        a_queue_of_thousands_is_empty_at_once,
        unknown_queues_are_ignored,
        there_are_only_so_many_queues;
    waiting:
        a_fetch_wakes_when_work_arrives,
        who_waited_longest_is_served_first,
        one_job_wakes_one_fetch,
        a_fetch_waits_for_all_its_queues,
        a_dropped_fetch_loses_nothing,
        work_that_was_handed_over_and_not_taken_goes_back_to_its_place,
        work_that_was_not_taken_goes_to_the_next_in_line,
        a_job_that_ended_in_a_dropped_fetchs_hands_stays_ended,
        what_another_worker_holds_by_now_is_not_given_back,
        a_fetch_that_waits_in_vain_comes_back_empty,
        while_all_is_paused_a_fetch_waits,
        a_fetch_wakes_for_everything_that_brings_work,
        a_fetch_wakes_when_a_lapsed_reservation_frees_a_slot,
        only_so_many_fetches_wait,
        closing_ends_every_wait;
    reservations:
        an_ack_ends_the_job,
        a_lapsed_reservation_counts_as_a_failure,
        a_reservation_lapses_to_the_microsecond,
        a_reservation_can_be_extended_but_not_shortened,
        a_vanished_worker_gives_its_jobs_back_in_order,
        a_job_that_outlives_too_many_workers_fails,
        a_late_ack_removes_the_job_that_waits_again,
        a_late_ack_leaves_a_retry_alone,
        reservations_are_listed_oldest_first;
    scan:
        a_place_is_paged_through_in_both_directions,
        a_page_looks_at_only_so_many_jobs,
        filters_choose_jobs,
        a_scan_of_a_changing_set_misses_nothing_that_stays,
        jobs_of_the_same_time_are_all_listed,
        a_jid_used_twice_does_not_hold_up_a_walk,
        a_walk_goes_on_when_its_last_job_leaves_others_of_its_time,
        the_last_page_says_so,
        an_action_never_hits_another_job,
        an_action_on_all_says_how_many,
        a_job_is_found_wherever_it_is;
    restore:
        a_restored_job_rests_where_it_was,
        its_next_failure_counts_on,
        restored_work_wakes_a_fetch,
        the_caps_hold_for_restored_jobs;
    dispatch:
        a_cap_holds_over_all_workers,
        a_guarantee_goes_before_the_order,
        shares_are_kept,
        a_late_queue_serves_the_newest_and_a_share_of_the_backlog;
    counts:
        counts_follow_a_job_through_its_life,
        flush_forgets_everything,
        after_closing_nothing_is_taken;
});

/// What only the memory store has.
mod in_memory {
    use super::*;
    contract!(memory: MemoryHarness, {
        limits:
            the_memory_has_a_size;
    });
    use super::limits;
}

/// What only a store that survives the process can promise.
mod survives {
    use super::*;
    contract!(embedded: EmbeddedHarness, {
        durable:
            a_restart_keeps_every_state,
            a_crash_puts_reserved_jobs_back_in_their_places,
            a_late_ack_after_a_crash_removes_the_job,
            order_goes_on_after_a_restart,
            what_was_emptied_stays_empty,
            a_removed_queue_stays_away_while_its_jobs_are_in_sets;
        batches:
            after_a_crash_what_a_batch_did_not_acknowledge_is_back;
    });
    use super::{batches, durable};
}
