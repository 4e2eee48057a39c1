//! The promises by module, for every crate that has a store.
//!
//! Each macro passes its list to the macro that is named, which turns it into tests.

/// What every store promises.
macro_rules! promises_of_every_store {
    ($define:ident) => {
        $define!({
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
                nobody_has_to_ask_for_what_is_due,
                a_rescheduled_job_is_due_at_its_new_time,
                a_rescheduled_job_wakes_a_fetch;
            dead:
                the_dead_set_has_a_size,
                the_dead_are_forgotten_with_age,
                the_dead_can_be_brought_back,
                any_resting_job_can_be_killed_or_discarded;
            queues:
                the_last_job_of_a_removed_queue_may_fail,
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
                a_late_report_leaves_the_job_of_another_worker,
                a_late_ack_leaves_a_waiting_twin,
                a_lapsed_reservation_counts_as_a_failure,
                a_reservation_lapses_to_the_microsecond,
                a_reservation_can_be_extended_but_not_shortened,
                a_vanished_worker_gives_its_jobs_back_in_order,
                a_job_that_kills_three_workers_is_dead,
                only_what_kills_workers_counts,
                kills_are_forgotten_after_three_days,
                kills_are_forgotten_when_the_job_is_dead,
                what_a_worker_reserves_after_it_was_given_up_stays,
                a_lease_that_ends_after_its_worker_was_lost_counts_as_a_kill,
                without_a_limit_kills_change_nothing,
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
                a_job_is_found_wherever_it_is,
                samples_are_drawn_uniformly,
                samples_of_nothing_are_empty;
            moving:
                jobs_move_to_the_end_of_another_queue,
                a_moved_job_fails_and_is_retried_in_its_new_queue,
                jobs_that_move_to_a_paused_queue_wait,
                a_move_changes_only_what_is_there,
                a_moved_job_takes_its_kills_along,
                jobs_move_out_of_the_middle_of_a_long_queue,
                a_move_makes_only_so_many_queues,
                a_removed_queue_ends_with_its_last_job;
            restore:
                a_restored_job_rests_where_it_was,
                its_next_failure_counts_on,
                restored_work_wakes_a_fetch,
                the_caps_hold_for_restored_jobs;
            dispatch:
                a_cap_holds_over_all_workers,
                a_guarantee_goes_before_the_order,
                shares_are_kept,
                queues_without_rules_of_their_own_have_shares,
                a_late_queue_serves_the_newest_and_a_share_of_the_backlog;
            job_types:
                a_type_counts_starts_ends_and_failures,
                failures_are_grouped_by_their_class,
                a_wait_begins_when_a_job_is_ready,
                a_wait_does_not_begin_with_an_earlier_return,
                a_wrapped_job_has_the_type_that_it_wraps,
                a_job_of_a_worker_that_ended_waits_from_then_on,
                what_does_not_end_is_returned,
                a_lapsed_reservation_is_a_failure_of_its_type,
                types_beyond_the_limit_share_their_figures;
            counts:
                counts_follow_a_job_through_its_life,
                flush_forgets_everything,
                after_closing_nothing_is_taken;
        });
    };
}

/// What a store promises that tracks jobs.
macro_rules! promises_of_tracks {
    ($define:ident) => {
        $define!({
            tracking:
                a_track_follows_its_job,
                operators_and_vanished_workers_change_the_state,
                tracks_are_limited_and_expire,
                progress_moves_to_another_store;
        });
    };
}

/// The same of a store that survives the process.
macro_rules! promises_of_durable_tracks {
    ($define:ident) => {
        $define!({
            tracking:
                progress_survives_a_crash;
        });
    };
}

/// What a store promises that remembers the times of cron jobs.
macro_rules! promises_of_cron {
    ($define:ident) => {
        $define!({
            crons:
                a_time_enqueues_one_job,
                a_paused_cron_job_passes_its_times,
                names_are_registered_once,
                a_cron_job_wakes_a_fetch,
                the_state_of_a_cron_job_can_be_replaced;
        });
    };
}

/// The same of a store that survives the process.
macro_rules! promises_of_durable_cron {
    ($define:ident) => {
        $define!({
            crons:
                handled_times_survive_a_crash;
        });
    };
}

/// What only a store that survives the process can promise.
macro_rules! promises_of_durable_stores {
    ($define:ident) => {
        $define!({
            durable:
                a_restart_keeps_every_state,
                a_crash_puts_reserved_jobs_back_in_their_places,
                a_late_ack_after_a_crash_removes_the_job,
                kills_count_over_crashes,
                a_rescheduled_job_keeps_its_time_over_a_crash,
                order_goes_on_after_a_restart,
                what_was_emptied_stays_empty,
                a_removed_queue_stays_away_while_its_jobs_are_in_sets;
            moving:
                moved_jobs_survive_a_crash;
            batches:
                after_a_crash_what_a_batch_did_not_acknowledge_is_back;
        });
    };
}
