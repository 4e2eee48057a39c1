use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn times() -> Times {
    Times {
        restart: crate::RestartPolicy {
            backoff_min: SECOND,
            backoff_max: 4 * SECOND,
            restarts_max: 2,
            healthy_after: 100 * SECOND,
        },
        start_deadline: 10 * SECOND,
        ready_after: None,
        is_probed: false,
        let_go_deadline: 5 * SECOND,
        stop_deadline: 20 * SECOND,
        dump_wait: Some(3 * SECOND),
        watchdog: None,
        retry_after: 60 * SECOND,
    }
}

/// A slot with a clock.
struct SlotBench {
    slot: WorkerSlot,
    numbers: Numbers,
    now: Duration,
    prober_since: Option<Duration>,
}

impl SlotBench {
    fn new(times: Times) -> Self {
        let (slot, numbers) = (WorkerSlot::new(times), Numbers::default());
        Self { slot, numbers, now: SECOND, prober_since: None }
    }

    /// With generation 1 ready.
    fn serving(times: Times) -> Self {
        let mut bench = Self::new(times);
        assert_eq!(bench.run_due(), [Action::Start(1)]);
        assert_eq!(bench.ready(1), [Action::Announce(1)]);
        bench
    }

    fn run_due(&mut self) -> Vec<Action> {
        let moment = Moment { now: self.now, prober_since: self.prober_since };
        let mut actions = self.slot.run_due(moment);
        if self.slot.starts_at().is_some_and(|at| at <= self.now) {
            actions.push(self.slot.start_now(&mut self.numbers, self.now));
        }
        actions
    }

    /// What is due this much later; the slot must have asked to be woken by then, or nothing is.
    fn after(&mut self, wait: Duration) -> Vec<Action> {
        let moment = Moment { now: self.now, prober_since: self.prober_since };
        let wakes = self.slot.wakes_at(moment).into_iter().chain(self.slot.starts_at()).min();
        self.now += wait;
        let actions = self.run_due();
        assert_eq!(!actions.is_empty(), wakes.is_some_and(|at| at <= self.now), "{actions:?}");
        actions
    }

    fn ready(&mut self, number: u64) -> Vec<Action> {
        self.slot.ready(number, self.now)
    }

    fn ended(&mut self, number: u64) -> ExitOutcome {
        self.slot.ended(number, "the reason", self.now)
    }

    fn replace(&mut self) -> Result<Option<Action>, CommandError> {
        self.slot.replace(&mut self.numbers, self.now)
    }

    fn numbers(&self) -> [Option<u64>; 3] {
        let number = |it: &Option<Generation>| it.as_ref().map(|generation| generation.number);
        [&self.slot.current, &self.slot.successor, &self.slot.leaving].map(number)
    }
}

fn kill(number: u64, reason: &str) -> Action {
    Action::Kill(number, reason.to_owned())
}

#[test]
fn dead_workers_are_restarted_with_backoff_given_up_and_retried() {
    let mut bench = SlotBench::serving(times());
    let restarting = |after, deaths_in_a_row| ExitOutcome::Restarting { after, deaths_in_a_row };
    assert_eq!(bench.ended(1), restarting(SECOND, 1));
    assert_eq!(bench.run_due(), []);
    assert_eq!(bench.after(SECOND), [Action::Start(2)]);
    assert_eq!(bench.ended(2), restarting(2 * SECOND, 2));
    assert_eq!(bench.after(2 * SECOND), [Action::Start(3)]);
    assert_eq!(bench.ended(3), ExitOutcome::GivenUp { deaths_in_a_row: 3 });
    assert!(
        matches!(&bench.slot.vacancy, Vacancy::Failed { reason, .. } if reason == "the reason")
    );
    assert_eq!(bench.after(59 * SECOND), []);
    assert_eq!(bench.after(SECOND), [Action::Start(4)]);
    assert_eq!(bench.ended(4), ExitOutcome::GivenUp { deaths_in_a_row: 4 });
    bench.slot.start(bench.now);
    assert_eq!(bench.run_due(), [Action::Start(5)]);
    assert_eq!(bench.ended(5), restarting(SECOND, 1), "a command gives a clean record");
}

#[test]
fn a_worker_that_is_not_ready_in_time_is_killed() {
    let mut bench = SlotBench::new(times());
    assert_eq!(bench.run_due(), [Action::Start(1)]);
    assert_eq!(bench.after(9 * SECOND), []);
    assert_eq!(bench.after(SECOND), [kill(1, "not ready within start_deadline (10s)")]);
    assert_eq!(bench.ready(1), [], "too late");
    assert_eq!(bench.ended(1), ExitOutcome::Restarting { after: SECOND, deaths_in_a_row: 1 });
}

#[test]
fn a_worker_is_ready_after_running_for_the_configured_time() {
    let mut bench = SlotBench::new(Times { ready_after: Some(2 * SECOND), ..times() });
    assert_eq!(bench.run_due(), [Action::Start(1)]);
    assert_eq!(bench.after(2 * SECOND), [Action::Announce(1)]);
    assert_eq!(bench.after(100 * SECOND), []);
}

#[test]
fn without_a_prober_the_start_deadline_is_suspended() {
    let mut bench = SlotBench::new(Times { is_probed: true, ..times() });
    assert_eq!(bench.run_due(), [Action::Start(1)]);
    assert_eq!(bench.after(1_000 * SECOND), []);
    bench.prober_since = Some(bench.now);
    assert_eq!(bench.after(9 * SECOND), []);
    assert_eq!(bench.after(SECOND), [kill(1, "not ready within start_deadline (10s)")]);
}

#[test]
fn a_successor_takes_over_only_when_it_is_ready() {
    let mut bench = SlotBench::serving(times());
    assert_eq!(bench.replace(), Ok(Some(Action::Start(2))));
    assert_eq!(bench.numbers(), [Some(1), Some(2), None]);
    assert_eq!(bench.replace(), Err("is being replaced already".into()));
    assert_eq!(bench.ready(2), [Action::Announce(2), Action::Stop(1)]);
    assert_eq!(bench.numbers(), [Some(2), None, Some(1)]);
    assert!(!bench.slot.is_settled());
    assert_eq!(bench.replace(), Err("is being replaced already".into()));
    assert_eq!(bench.after(20 * SECOND), [kill(1, "still running at its stop_deadline (20s)")]);
    assert_eq!(bench.ended(1), ExitOutcome::Left);
    assert!(bench.slot.is_settled());
}

#[test]
fn a_failed_successor_leaves_the_old_worker_running() {
    let mut bench = SlotBench::serving(times());
    assert_eq!(bench.replace(), Ok(Some(Action::Start(2))));
    assert_eq!(bench.ended(2), ExitOutcome::ReplacementFailed);
    assert!(bench.slot.is_settled());
    assert_eq!(bench.numbers(), [Some(1), None, None]);
    assert_eq!(bench.replace(), Ok(Some(Action::Start(3))));
    assert_eq!(bench.after(10 * SECOND), [kill(3, "not ready within start_deadline (10s)")]);
    assert_eq!(bench.ended(3), ExitOutcome::ReplacementFailed);
    assert!(bench.slot.is_settled());
}

#[test]
fn a_successor_takes_over_from_a_dead_worker() {
    let mut bench = SlotBench::serving(times());
    assert_eq!(bench.replace(), Ok(Some(Action::Start(2))));
    assert_eq!(bench.ended(1), ExitOutcome::SuccessorTakesOver);
    assert_eq!(bench.numbers(), [Some(2), None, None]);
    assert_eq!(bench.run_due(), [], "nobody is started beside it");
    assert_eq!(bench.ready(2), [Action::Announce(2)]);
    assert_eq!(bench.ended(2), ExitOutcome::Restarting { after: SECOND, deaths_in_a_row: 1 });
}

#[test]
fn an_eviction_dumps_kills_and_restarts_at_once() {
    let mut bench = SlotBench::serving(times());
    let dump = Some(Action::Dump(1, "stuck".into()));
    assert_eq!(bench.slot.evict(1, "stuck", bench.now), dump);
    assert_eq!(bench.slot.evict(1, "stuck", bench.now), None, "once is enough");
    assert_eq!(bench.replace(), Err("is ending already".into()));
    assert_eq!(bench.after(2 * SECOND), []);
    assert_eq!(bench.after(SECOND), [kill(1, "stuck")]);
    assert_eq!(bench.ended(1), ExitOutcome::Left);
    assert_eq!(bench.run_due(), [Action::Start(2)]);
    assert_eq!(bench.slot.evict(1, "stuck", bench.now), None, "it is gone");
}

#[test]
fn without_a_dump_signal_an_eviction_kills_at_once() {
    let mut bench = SlotBench::serving(Times { dump_wait: None, ..times() });
    assert_eq!(bench.slot.evict(1, "stuck", bench.now), Some(kill(1, "stuck")));
}

#[test]
fn a_draining_worker_can_be_evicted_and_is_not_restarted() {
    let mut bench = SlotBench::serving(times());
    assert_eq!(bench.slot.stop(bench.now), [Action::Stop(1)]);
    let dump = Some(Action::Dump(1, "stuck".into()));
    assert_eq!(bench.slot.evict(1, "stuck", bench.now), dump);
    assert_eq!(bench.after(3 * SECOND), [kill(1, "stuck")]);
    assert_eq!(bench.ended(1), ExitOutcome::Left);
    assert_eq!(bench.after(1_000 * SECOND), []);
}

#[test]
fn stopping_ends_both_generations_and_starts_none() {
    let mut bench = SlotBench::serving(times());
    assert_eq!(bench.replace(), Ok(Some(Action::Start(2))));
    assert_eq!(bench.slot.stop(bench.now), [Action::Stop(1), Action::Stop(2)]);
    assert_eq!(bench.slot.stop(bench.now), [], "once is enough");
    assert_eq!(bench.ended(2), ExitOutcome::Left);
    assert_eq!(bench.ended(1), ExitOutcome::Left);
    assert_eq!(bench.slot.vacancy, Vacancy::Stopped);
    assert_eq!(bench.after(1_000 * SECOND), []);
}

#[test]
fn a_restarted_slot_starts_after_its_worker_has_ended() {
    let mut bench = SlotBench::serving(times());
    assert_eq!(bench.slot.stop(bench.now), [Action::Stop(1)]);
    bench.slot.start(bench.now);
    assert_eq!(bench.run_due(), []);
    assert_eq!(bench.ended(1), ExitOutcome::Left);
    assert_eq!(bench.run_due(), [Action::Start(2)]);
}

#[test]
fn a_worker_that_exits_by_itself_is_restarted_with_backoff() {
    let mut bench = SlotBench::serving(times());
    assert!(bench.slot.record_self_exit(1, bench.now));
    assert!(!bench.slot.record_self_exit(1, bench.now), "that is known");
    assert_eq!(bench.ended(1), ExitOutcome::Restarting { after: SECOND, deaths_in_a_row: 1 });
}

#[test]
fn a_silent_worker_is_evicted_by_its_watchdog() {
    let mut bench = SlotBench::serving(Times { watchdog: Some(5 * SECOND), ..times() });
    assert_eq!(bench.after(4 * SECOND), []);
    bench.slot.alive(1, bench.now);
    assert_eq!(bench.after(4 * SECOND), []);
    let reason = "no sign of life within watchdog (5s)";
    assert_eq!(bench.after(SECOND), [Action::Dump(1, reason.into())]);
    assert_eq!(bench.after(3 * SECOND), [kill(1, reason)]);
}

#[test]
fn a_new_watchdog_setting_applies_only_to_workers_that_know_it() {
    let with = |watchdog: Option<Duration>| Times { watchdog, ..times() };
    let after_an_upgrade = |before: Option<Duration>, now: Option<Duration>| {
        let mut bench = SlotBench::serving(with(before));
        bench.slot = WorkerSlot::resume(with(now), bench.slot.carried());
        let moment = Moment { now: bench.now, prober_since: None };
        bench.slot.wakes_at(moment).map(|at| at - bench.now)
    };
    let (short, long) = (Some(5 * SECOND), Some(50 * SECOND));
    assert_eq!(after_an_upgrade(None, short), None, "it says nothing, and need not");
    assert_eq!(after_an_upgrade(short, None), None);
    assert_eq!(after_an_upgrade(short, long), long);
    assert_eq!(after_an_upgrade(long, short), long, "it speaks as seldom as it was told");
    assert_eq!(after_an_upgrade(short, short), short);
}

#[test]
fn a_probed_worker_is_stopped_after_the_service_has_released_it() {
    let probed = || Times { is_probed: true, ..times() };
    let replaced = || {
        let mut bench = SlotBench::serving(probed());
        bench.prober_since = Some(SECOND);
        assert_eq!(bench.replace(), Ok(Some(Action::Start(2))));
        assert_eq!(bench.ready(2), [Action::Announce(2), Action::RequestRelease(1)]);
        bench
    };
    let mut bench = replaced();
    assert_eq!(bench.after(4 * SECOND), []);
    assert_eq!(bench.slot.release(1, bench.now), Some(Action::Stop(1)));
    assert_eq!(bench.slot.release(1, bench.now), None, "once");
    assert_eq!(bench.slot.release(2, bench.now), None, "it is to stay");

    let mut bench = replaced();
    assert_eq!(bench.after(5 * SECOND), [Action::Stop(1)], "the service does not say so");

    let mut bench = replaced();
    bench.prober_since = None;
    assert_eq!(bench.after(Duration::ZERO), [Action::Stop(1)], "the service is gone");

    let mut bench = SlotBench::new(probed());
    assert_eq!(bench.run_due(), [Action::Start(1)]);
    assert_eq!(bench.slot.stop(bench.now), [Action::Stop(1)], "nothing is sent to it yet");
}
