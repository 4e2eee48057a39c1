use super::*;
use crate::RestartPolicy;

const SECOND: Duration = Duration::from_secs(1);

/// A group with a clock, whose processes get ready as soon as they are started.
struct Running {
    group: WorkerGroup,
    numbers: Numbers,
    now: Duration,
    /// Every action, in order.
    seen: Vec<Action>,
    /// How rolling restarts ended.
    rolled: Vec<Result<(), String>>,
}

impl Running {
    fn new(processes: u32) -> Self {
        let times = Times {
            restart: RestartPolicy { backoff_min: SECOND, ..RestartPolicy::default() },
            start_deadline: 10 * SECOND,
            ready_after: None,
            is_probed: false,
            let_go_deadline: 5 * SECOND,
            stop_deadline: 20 * SECOND,
            dump_wait: None,
            watchdog: None,
            retry_after: 60 * SECOND,
        };
        let (group, numbers) = (WorkerGroup::new(times, processes), Numbers::default());
        let (seen, rolled) = (Vec::new(), Vec::new());
        let mut running = Self { group, numbers, now: SECOND, seen, rolled };
        running.run_due(8);
        running
    }

    /// One turn; what is started gets ready in it.
    fn run_due(&mut self, mut starts_left: usize) {
        let moment = Moment { now: self.now, prober_since: None };
        let mut room = ConnectionRoom::default();
        let turn = self.group.run_due(moment, &mut self.numbers, &mut starts_left, &mut room);
        self.follow(turn.actions);
        let turn = self.group.roll(self.now, &mut self.numbers, &mut room);
        self.rolled.extend(turn.rolled);
        self.follow(turn.actions);
    }

    fn follow(&mut self, actions: Vec<Action>) {
        for action in actions {
            let started = if let Action::Start(number) = action { Some(number) } else { None };
            self.seen.push(action);
            if let Some(number) = started {
                let more: Vec<Action> = self
                    .group
                    .slots
                    .iter_mut()
                    .flat_map(|slot| slot.ready(number, self.now))
                    .collect();
                self.follow(more);
            }
        }
    }

    fn ended(&mut self, index: usize, number: u64) -> ExitOutcome {
        let (outcome, rolled) = self.group.ended(index, number, "the reason", self.now);
        self.rolled.extend(rolled.map(Err));
        outcome
    }

    /// What happened since the last look, announcements aside.
    fn seen(&mut self) -> Vec<Action> {
        let mut seen = std::mem::take(&mut self.seen);
        seen.retain(|action| !matches!(action, Action::Announce(_)));
        seen
    }
}

#[test]
fn starts_per_iteration_are_bounded() {
    let mut running = Running::new(10);
    assert_eq!(running.seen().len(), 8);
    let moment = Moment { now: running.now, prober_since: None };
    assert!(running.group.wakes_at(moment).is_some_and(|at| at <= running.now));
    running.run_due(8);
    assert_eq!(running.seen(), [Action::Start(9), Action::Start(10)]);
}

#[test]
fn a_rolling_restart_replaces_one_worker_at_a_time() {
    let mut running = Running::new(3);
    running.seen();
    assert_eq!(running.group.restart_rolling(), Ok(()));
    assert_eq!(running.group.restart_rolling(), Err("a rolling restart is under way".into()));
    for (index, (old, new)) in [(1, 4), (2, 5), (3, 6)].into_iter().enumerate() {
        running.run_due(8);
        running.run_due(8);
        assert_eq!(running.seen(), [Action::Start(new), Action::Stop(old)], "{index}");
        assert_eq!(running.ended(index, old), ExitOutcome::Left);
    }
    running.run_due(8);
    assert_eq!(running.rolled, [Ok(())]);
    assert_eq!(running.seen(), []);
}

#[test]
fn a_rolling_restart_stops_at_the_first_failure() {
    let mut running = Running::new(3);
    running.seen();
    assert_eq!(running.group.restart_rolling(), Ok(()));
    let turn =
        running.group.roll(running.now, &mut running.numbers, &mut ConnectionRoom::default());
    assert_eq!(turn.actions, [Action::Start(4)]);
    assert_eq!(running.ended(0, 4), ExitOutcome::ReplacementFailed);
    assert_eq!(running.rolled, [Err("slot 0: the reason".into())]);
    running.run_due(8);
    assert_eq!(running.seen(), [], "the others are left alone");
    assert_eq!(running.group.restart_rolling(), Ok(()), "it may be tried again");
}

/// Of three; `end`: what happens to the second before its turn comes. Answers what came of its end.
fn rolling_restart_past(end: impl FnOnce(&mut WorkerSlot, Duration)) -> ExitOutcome {
    let mut running = Running::new(3);
    running.seen();
    end(&mut running.group.slots[1], running.now);
    assert_eq!(running.group.restart_rolling(), Ok(()));
    running.run_due(8);
    assert_eq!(running.seen(), [Action::Start(4), Action::Stop(1)]);
    running.ended(0, 1);
    running.run_due(8);
    running.run_due(8);
    assert_eq!((running.seen(), running.rolled.len()), (Vec::new(), 0), "it waits for the second");
    let outcome = running.ended(1, 2);
    running.now += SECOND;
    running.run_due(8);
    assert_eq!(running.seen()[0], Action::Start(5), "in its place, and only one");
    running.run_due(8);
    running.ended(2, 3);
    running.run_due(8);
    assert_eq!(running.rolled, [Ok(())]);
    outcome
}

#[test]
fn a_rolling_restart_waits_for_an_eviction() {
    let outcome = rolling_restart_past(|slot, now| {
        assert_eq!(slot.evict(2, "stuck", now), Some(Action::Kill(2, "stuck".into())));
    });
    assert_eq!(outcome, ExitOutcome::Left);
}

#[test]
fn a_rolling_restart_waits_for_a_worker_that_exits_by_itself() {
    let outcome = rolling_restart_past(|slot, now| assert!(slot.record_self_exit(2, now)));
    assert_eq!(outcome, ExitOutcome::Restarting { after: SECOND, deaths_in_a_row: 1 });
}

#[test]
fn a_rolling_restart_skips_stopped_slots() {
    let mut running = Running::new(2);
    running.seen();
    running.group.stop(Some(0), running.now).expect("stopped");
    running.ended(0, 1);
    assert_eq!(running.group.restart_rolling(), Ok(()));
    running.run_due(8);
    assert_eq!(running.seen(), [Action::Start(3), Action::Stop(2)]);
}

#[test]
fn only_one_worker_of_a_group_is_replaced_at_a_time() {
    let mut running = Running::new(2);
    let (now, room) = (running.now, &mut ConnectionRoom::default());
    let restarted = running.group.restart(0, &mut running.numbers, now, room);
    assert_eq!(restarted, Ok(Some(Action::Start(3))));
    let refused = running.group.restart(1, &mut running.numbers, now, room);
    assert_eq!(refused, Err("slot 0 is being replaced; one at a time".into()));
    assert!(running.group.restart_rolling().is_err());
    let refused = running.group.restart(7, &mut running.numbers, now, room);
    assert!(refused.is_err());
}

#[test]
fn scaling_down_removes_the_last_slots_after_their_end() {
    let mut running = Running::new(3);
    let now = running.now;
    let actions = running.group.resize(1, now);
    assert_eq!(actions, [Action::Stop(2), Action::Stop(3)]);
    running.ended(1, 2);
    running.run_due(8);
    assert_eq!(running.group.slots.len(), 3, "the last is still there");
    running.ended(2, 3);
    running.run_due(8);
    assert_eq!(running.group.slots.len(), 1);
    running.seen();
    assert_eq!(running.group.resize(2, now), []);
    running.run_due(8);
    assert_eq!(running.seen(), [Action::Start(4)]);
    assert!(running.group.check_scale(PROCESSES_MAX + 1).is_err());
}

#[test]
fn scaling_up_again_keeps_slots_that_are_still_ending() {
    let mut running = Running::new(2);
    running.seen();
    running.group.resize(1, running.now);
    running.group.resize(2, running.now);
    running.run_due(8);
    assert_eq!(running.seen(), []);
    running.ended(1, 2);
    running.run_due(8);
    assert_eq!(running.seen(), [Action::Start(3)]);
}

#[test]
fn a_paused_group_starts_no_worker() {
    let mut running = Running::new(1);
    running.seen();
    assert_eq!(running.group.pause(), None);
    assert_eq!(running.ended(0, 1), ExitOutcome::Restarting { after: SECOND, deaths_in_a_row: 1 });
    running.now += 10 * SECOND;
    let moment = Moment { now: running.now, prober_since: None };
    assert_eq!(running.group.wakes_at(moment), None, "nothing to wake up for");
    running.run_due(8);
    assert_eq!(running.seen(), []);
    let room = &mut ConnectionRoom::default();
    let refused = running.group.restart(0, &mut running.numbers, running.now, room);
    assert_eq!(refused, Err("the group is paused; resume it first".into()));
    running.group.is_paused = false;
    running.run_due(8);
    assert_eq!(running.seen(), [Action::Start(2)]);
}

#[test]
fn a_rolling_restart_continues_after_scaling_down() {
    let mut running = Running::new(4);
    running.group.restart_rolling().expect("begun");
    running.run_due(8);
    running.seen();
    assert!(running.group.check_scale(2).is_err(), "an operator waits for its end");
    assert_eq!(running.group.resize(2, running.now), [Action::Stop(3), Action::Stop(4)]);
    for (index, number) in [(0, 1), (2, 3), (3, 4)] {
        assert_eq!(running.ended(index, number), ExitOutcome::Left);
    }
    running.run_due(8);
    running.run_due(8);
    assert_eq!(running.seen(), [Action::Start(6), Action::Stop(2)]);
    running.ended(1, 2);
    running.run_due(8);
    assert_eq!((running.group.slots.len(), running.rolled), (2, vec![Ok(())]));
}

#[test]
fn failed_slots_are_retried_at_once_after_an_upgrade() {
    let mut running = Running::new(1);
    running.seen();
    assert_eq!(running.ended(0, 1), ExitOutcome::Restarting { after: SECOND, deaths_in_a_row: 1 });
    running.run_due(8);
    assert_eq!(running.seen(), []);
    running.group.retry(running.now);
    running.run_due(8);
    assert_eq!(running.seen(), [Action::Start(2)]);
    running.group.retry(running.now);
    running.run_due(8);
    assert_eq!(running.seen(), [], "it runs");
}

#[test]
fn a_stop_ends_a_rolling_restart() {
    let mut running = Running::new(2);
    running.group.restart_rolling().expect("begun");
    running.run_due(8);
    let (actions, rolled) = running.group.stop(None, running.now).expect("stopped");
    assert_eq!(actions, [Action::Stop(3), Action::Stop(2)]);
    assert_eq!(rolled.as_deref(), Some("stopped on command"));
    assert!(!running.group.has_ended());
    for (index, number) in [(0, 1), (0, 3), (1, 2)] {
        assert_eq!(running.ended(index, number), ExitOutcome::Left);
    }
    assert!(running.group.has_ended());
}
