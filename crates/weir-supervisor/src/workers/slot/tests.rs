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
struct Place {
    slot: WorkerSlot,
    numbers: Numbers,
    now: Duration,
    prober_since: Option<Duration>,
}

impl Place {
    fn new(times: Times) -> Self {
        let (slot, numbers) = (WorkerSlot::new(times), Numbers::default());
        Self { slot, numbers, now: SECOND, prober_since: None }
    }

    /// With generation 1 ready.
    fn serving(times: Times) -> Self {
        let mut place = Self::new(times);
        assert_eq!(place.run_due(), [Action::Start(1)]);
        assert_eq!(place.ready(1), [Action::Announce(1)]);
        place
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

    fn ended(&mut self, number: u64) -> Fate {
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
fn the_dead_are_restarted_with_backoff_then_given_up_then_tried_again() {
    let mut place = Place::serving(times());
    let restarting = |after, deaths_in_a_row| Fate::Restarting { after, deaths_in_a_row };
    assert_eq!(place.ended(1), restarting(SECOND, 1));
    assert_eq!(place.run_due(), []);
    assert_eq!(place.after(SECOND), [Action::Start(2)]);
    assert_eq!(place.ended(2), restarting(2 * SECOND, 2));
    assert_eq!(place.after(2 * SECOND), [Action::Start(3)]);
    assert_eq!(place.ended(3), Fate::GivenUp { deaths_in_a_row: 3 });
    assert!(
        matches!(&place.slot.vacancy, Vacancy::Failed { reason, .. } if reason == "the reason")
    );
    assert_eq!(place.after(59 * SECOND), []);
    assert_eq!(place.after(SECOND), [Action::Start(4)]);
    assert_eq!(place.ended(4), Fate::GivenUp { deaths_in_a_row: 4 });
    place.slot.start(place.now);
    assert_eq!(place.run_due(), [Action::Start(5)]);
    assert_eq!(place.ended(5), restarting(SECOND, 1), "a command gives a clean record");
}

#[test]
fn who_is_not_ready_in_time_is_killed_and_counts_as_dead() {
    let mut place = Place::new(times());
    assert_eq!(place.run_due(), [Action::Start(1)]);
    assert_eq!(place.after(9 * SECOND), []);
    assert_eq!(place.after(SECOND), [kill(1, "not ready within start_deadline (10s)")]);
    assert_eq!(place.ready(1), [], "too late");
    assert_eq!(place.ended(1), Fate::Restarting { after: SECOND, deaths_in_a_row: 1 });
}

#[test]
fn who_has_to_live_for_a_while_is_ready_then() {
    let mut place = Place::new(Times { ready_after: Some(2 * SECOND), ..times() });
    assert_eq!(place.run_due(), [Action::Start(1)]);
    assert_eq!(place.after(2 * SECOND), [Action::Announce(1)]);
    assert_eq!(place.after(100 * SECOND), []);
}

#[test]
fn without_a_prober_the_start_deadline_does_not_run() {
    let mut place = Place::new(Times { is_probed: true, ..times() });
    assert_eq!(place.run_due(), [Action::Start(1)]);
    assert_eq!(place.after(1_000 * SECOND), []);
    place.prober_since = Some(place.now);
    assert_eq!(place.after(9 * SECOND), []);
    assert_eq!(place.after(SECOND), [kill(1, "not ready within start_deadline (10s)")]);
}

#[test]
fn a_successor_takes_the_place_when_it_is_ready_and_not_before() {
    let mut place = Place::serving(times());
    assert_eq!(place.replace(), Ok(Some(Action::Start(2))));
    assert_eq!(place.numbers(), [Some(1), Some(2), None]);
    assert_eq!(place.replace(), Err("is being replaced already".into()));
    assert_eq!(place.ready(2), [Action::Announce(2), Action::Stop(1)]);
    assert_eq!(place.numbers(), [Some(2), None, Some(1)]);
    assert!(!place.slot.is_settled());
    assert_eq!(place.replace(), Err("is being replaced already".into()));
    assert_eq!(place.after(20 * SECOND), [kill(1, "still running at its stop_deadline (20s)")]);
    assert_eq!(place.ended(1), Fate::Left);
    assert!(place.slot.is_settled());
}

#[test]
fn a_successor_that_fails_leaves_the_old_one_in_peace() {
    let mut place = Place::serving(times());
    assert_eq!(place.replace(), Ok(Some(Action::Start(2))));
    assert_eq!(place.ended(2), Fate::ReplacementFailed);
    assert!(place.slot.is_settled());
    assert_eq!(place.numbers(), [Some(1), None, None]);
    assert_eq!(place.replace(), Ok(Some(Action::Start(3))));
    assert_eq!(place.after(10 * SECOND), [kill(3, "not ready within start_deadline (10s)")]);
    assert_eq!(place.ended(3), Fate::ReplacementFailed);
    assert!(place.slot.is_settled());
}

#[test]
fn a_successor_takes_over_from_one_that_dies() {
    let mut place = Place::serving(times());
    assert_eq!(place.replace(), Ok(Some(Action::Start(2))));
    assert_eq!(place.ended(1), Fate::SuccessorTakesOver);
    assert_eq!(place.numbers(), [Some(2), None, None]);
    assert_eq!(place.run_due(), [], "nobody is started beside it");
    assert_eq!(place.ready(2), [Action::Announce(2)]);
    assert_eq!(place.ended(2), Fate::Restarting { after: SECOND, deaths_in_a_row: 1 });
}

#[test]
fn an_eviction_asks_for_a_dump_kills_and_starts_anew_at_once() {
    let mut place = Place::serving(times());
    let dump = Some(Action::Dump(1, "stuck".into()));
    assert_eq!(place.slot.evict(1, "stuck", place.now), dump);
    assert_eq!(place.slot.evict(1, "stuck", place.now), None, "once is enough");
    assert_eq!(place.replace(), Err("is ending already".into()));
    assert_eq!(place.after(2 * SECOND), []);
    assert_eq!(place.after(SECOND), [kill(1, "stuck")]);
    assert_eq!(place.ended(1), Fate::Left);
    assert_eq!(place.run_due(), [Action::Start(2)]);
    assert_eq!(place.slot.evict(1, "stuck", place.now), None, "it is gone");
}

#[test]
fn without_a_dump_an_eviction_kills_at_once() {
    let mut place = Place::serving(Times { dump_wait: None, ..times() });
    assert_eq!(place.slot.evict(1, "stuck", place.now), Some(kill(1, "stuck")));
}

#[test]
fn one_that_drains_can_be_evicted_and_is_not_started_again() {
    let mut place = Place::serving(times());
    assert_eq!(place.slot.stop(place.now), [Action::Stop(1)]);
    let dump = Some(Action::Dump(1, "stuck".into()));
    assert_eq!(place.slot.evict(1, "stuck", place.now), dump);
    assert_eq!(place.after(3 * SECOND), [kill(1, "stuck")]);
    assert_eq!(place.ended(1), Fate::Left);
    assert_eq!(place.after(1_000 * SECOND), []);
}

#[test]
fn stopping_ends_old_and_new_and_starts_nobody() {
    let mut place = Place::serving(times());
    assert_eq!(place.replace(), Ok(Some(Action::Start(2))));
    assert_eq!(place.slot.stop(place.now), [Action::Stop(1), Action::Stop(2)]);
    assert_eq!(place.slot.stop(place.now), [], "once is enough");
    assert_eq!(place.ended(2), Fate::Left);
    assert_eq!(place.ended(1), Fate::Left);
    assert_eq!(place.slot.vacancy, Vacancy::Stopped);
    assert_eq!(place.after(1_000 * SECOND), []);
}

#[test]
fn one_that_is_wanted_again_while_it_ends_is_started_when_it_has() {
    let mut place = Place::serving(times());
    assert_eq!(place.slot.stop(place.now), [Action::Stop(1)]);
    place.slot.start(place.now);
    assert_eq!(place.run_due(), []);
    assert_eq!(place.ended(1), Fate::Left);
    assert_eq!(place.run_due(), [Action::Start(2)]);
}

#[test]
fn one_that_ends_by_itself_is_restarted_with_backoff_like_any_dead() {
    let mut place = Place::serving(times());
    assert!(place.slot.leaves(1, place.now));
    assert!(!place.slot.leaves(1, place.now), "that is known");
    assert_eq!(place.ended(1), Fate::Restarting { after: SECOND, deaths_in_a_row: 1 });
}

#[test]
fn a_silent_worker_is_evicted_by_its_watchdog() {
    let mut place = Place::serving(Times { watchdog: Some(5 * SECOND), ..times() });
    assert_eq!(place.after(4 * SECOND), []);
    place.slot.alive(1, place.now);
    assert_eq!(place.after(4 * SECOND), []);
    let reason = "no sign of life within watchdog (5s)";
    assert_eq!(place.after(SECOND), [Action::Dump(1, reason.into())]);
    assert_eq!(place.after(3 * SECOND), [kill(1, reason)]);
}

#[test]
fn a_watchdog_of_later_settings_is_only_for_those_who_were_told_of_one() {
    let with = |watchdog: Option<Duration>| Times { watchdog, ..times() };
    let after_an_upgrade = |before: Option<Duration>, now: Option<Duration>| {
        let mut place = Place::serving(with(before));
        place.slot = WorkerSlot::resume(with(now), place.slot.carried());
        let moment = Moment { now: place.now, prober_since: None };
        place.slot.wakes_at(moment).map(|at| at - place.now)
    };
    let (short, long) = (Some(5 * SECOND), Some(50 * SECOND));
    assert_eq!(after_an_upgrade(None, short), None, "it says nothing, and need not");
    assert_eq!(after_an_upgrade(short, None), None);
    assert_eq!(after_an_upgrade(short, long), long);
    assert_eq!(after_an_upgrade(long, short), long, "it speaks as seldom as it was told");
    assert_eq!(after_an_upgrade(short, short), short);
}

#[test]
fn a_probed_worker_is_asked_to_end_when_the_service_has_let_go_of_it() {
    let probed = || Times { is_probed: true, ..times() };
    let replaced = || {
        let mut place = Place::serving(probed());
        place.prober_since = Some(SECOND);
        assert_eq!(place.replace(), Ok(Some(Action::Start(2))));
        assert_eq!(place.ready(2), [Action::Announce(2), Action::AskToLetGo(1)]);
        place
    };
    let mut place = replaced();
    assert_eq!(place.after(4 * SECOND), []);
    assert_eq!(place.slot.release(1, place.now), Some(Action::Stop(1)));
    assert_eq!(place.slot.release(1, place.now), None, "once");
    assert_eq!(place.slot.release(2, place.now), None, "it is to stay");

    let mut place = replaced();
    assert_eq!(place.after(5 * SECOND), [Action::Stop(1)], "the service does not say so");

    let mut place = replaced();
    place.prober_since = None;
    assert_eq!(place.after(Duration::ZERO), [Action::Stop(1)], "the service is gone");

    let mut place = Place::new(probed());
    assert_eq!(place.run_due(), [Action::Start(1)]);
    assert_eq!(place.slot.stop(place.now), [Action::Stop(1)], "nothing is sent to it yet");
}
