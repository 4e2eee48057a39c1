//! What the rules decide, and what they leave alone.

use weir_control::controls::OverrideTarget;
use weir_control::{Change, Outcome, Override};

use crate::system::{System, class};

const IMPORT: usize = 1;

/// The database serves half of the sessions that it has: each job takes four times as long, and as many end.
fn overload(system: &mut System) {
    for load in &mut system.sample.classes {
        load.sessions *= 4.0;
        load.in_flight *= 3;
    }
    system.sample.threads.busy = 40;
    system.sample.queues[1].waiting = 5_000;
    system.sample.queues[1].oldest_age_seconds = 200.0;
}

fn caps(system: &System) -> Vec<(usize, u32)> {
    system.controls.caps.iter().map(|(class, cap)| (*class, *cap)).collect()
}

#[test]
fn healthy_system_is_left_alone() {
    let mut system = System::new();
    assert_eq!(system.run(3_600.0), []);
}

#[test]
fn queue_with_a_tight_target_gets_its_reservations_when_it_is_late() {
    let mut system = System::healthy();
    system.sample.queues[0].waiting = 10;
    system.sample.queues[0].oldest_age_seconds = 6.0;
    system.run(30.0);
    // 10 jobs/s of 0.2 s with a target close to the run times: 1.3 times the busy threads, and a half. 20 jobs/s of 0.6 s
    // with time to wait for a thread: half of those that are busy.
    let allocation = system.controls.allocation.unwrap();
    assert_eq!(allocation.guarantees, [3, 3]);
}

#[test]
fn threads_never_shrink_below_those_of_the_normal_load() {
    let mut system = System::healthy();
    overload(&mut system);
    // Three times their normal time, which a wrong estimate may explain.
    for load in &mut system.sample.classes {
        load.sessions *= 0.75;
    }
    system.run(60.0);
    system.sample.threads.busy = 20;
    system.run(600.0);
    let normal = 2.0 * System::healthy().sample.classes.iter().map(|it| it.sessions).sum::<f64>();
    let threads = f64::from(system.controls.threads.unwrap());
    assert!(threads >= normal.floor() && threads <= 20.0, "{threads} of {normal}");
}

#[test]
fn threads_beyond_the_plan_are_not_added_while_a_class_is_limited() {
    let mut system = System::healthy();
    system.controls.caps.insert(IMPORT, 5);
    system.sample.classes[IMPORT] = class(2.5, 2.0);
    system.sample.classes[IMPORT].waiting = 500;
    system.sample.queues[1].waiting = 5_000;
    system.sample.queues[1].oldest_age_seconds = 50.0;
    system.sample.threads.busy = 40;
    system.run(55.0);
    assert_eq!(system.controls.threads.unwrap_or(40), 40);
    assert!(!system.controls.caps.is_empty());
}

#[test]
fn threads_shrink_when_more_of_them_do_no_more_work() {
    let mut system = System::healthy();
    overload(&mut system);
    let decisions = system.run(60.0);
    // Jobs that run already are waited for before the next reduction.
    let Change::Threads { from: 40, to } = decisions[0].change else { panic!("{decisions:?}") };
    assert!((15..=35).contains(&to), "{to}");
    let is_threads = |change: &Change| matches!(change, Change::Threads { .. });
    assert_eq!(decisions.iter().filter(|it| is_threads(&it.change)).count(), 1, "{decisions:?}");
    assert!(decisions[0].reason.contains("times their normal time"), "{}", decisions[0].reason);
}

#[test]
fn change_that_did_not_help_is_taken_back() {
    let mut system = System::healthy();
    // Jobs wait, the database is fast: more threads are expected to do more work. They do not.
    system.sample.queues[1].waiting = 5_000;
    system.sample.queues[1].oldest_age_seconds = 200.0;
    system.sample.threads.busy = 60;
    let mut decisions = system.run(5.0);
    for load in &mut system.sample.classes {
        load.sessions *= 1.35;
    }
    decisions.extend(system.run(35.0));
    let threads: Vec<_> = decisions
        .iter()
        .filter_map(|it| match it.change {
            Change::Threads { from, to } => Some((from, to)),
            _ => None,
        })
        .collect();
    assert_eq!(threads, [(40, 60), (60, 40)], "{decisions:?}");
    let outcomes =
        system.history.judged.iter().filter(|(it, _)| matches!(it.change, Change::Threads { .. }));
    assert!(outcomes.map(|(_, outcome)| *outcome).eq([Outcome::DidNotHelp]));
    assert!(decisions.iter().any(|it| it.reason.starts_with("took the last change back")));
    // It is not tried again at once.
    let again = system.run(60.0);
    assert!(!again.iter().any(|it| matches!(it.change, Change::Threads { .. })), "{again:?}");
}

#[test]
fn without_data_all_limits_end_but_those_of_an_operator() {
    let mut system = System::healthy();
    system.controls.caps.extend([(0, 3), (IMPORT, 3)]);
    system.controls.threads = Some(10);
    let target = OverrideTarget::Class(0);
    system.controls.overrides.push(Override { target, until_seconds: 1e9 });
    system.now += system.settings.hold_for_seconds;
    while system.decide().is_some() {
        system.now += system.settings.interval_seconds;
    }
    assert_eq!((caps(&system), system.controls.threads), (vec![(0, 3)], Some(40)));
}

/// Import has become twenty times as expensive, and slows the others down.
fn expensive_import(system: &mut System) {
    system.sample.classes[IMPORT] = class(10.0, 8.0);
    system.sample.classes[IMPORT].in_flight = 80;
    for other in [0, 2] {
        system.sample.classes[other].sessions *= 2.0;
    }
}

#[test]
fn class_that_alone_slows_others_down_is_limited() {
    let mut system = System::healthy();
    expensive_import(&mut system);
    let decisions = system.run(30.0);
    let is_cap = |change: &Change| matches!(change, Change::Cap { .. });
    let first = decisions.iter().find(|it| is_cap(&it.change)).unwrap();
    let Change::Cap { class: IMPORT, from: None, to: Some(to) } = first.change else {
        panic!("{decisions:?}")
    };
    assert!((1..=40).contains(&to), "{to}");
    assert!(first.reason.starts_with("limited Import to"), "{}", first.reason);
}

#[test]
fn nobody_is_limited_below_the_stated_confidence() {
    let mut system = System::healthy();
    expensive_import(&mut system);
    system.sample.database.as_mut().unwrap().confidence = 0.5;
    system.run(60.0);
    assert_eq!(caps(&system), []);
}

#[test]
fn class_whose_limit_cannot_be_carried_out_is_not_limited() {
    let mut system = System::healthy();
    expensive_import(&mut system);
    system.roster.classes[IMPORT].can_be_limited = false;
    system.run(60.0);
    assert_eq!(caps(&system), []);
}

#[test]
fn system_that_shares_its_threads_itself_gets_no_reservations() {
    let mut system = System::new();
    system.roster.shares_threads_itself = true;
    system.sample.queues[1].waiting = 5_000;
    system.sample.queues[1].oldest_age_seconds = 200.0;
    let decisions = system.run(600.0);
    let is_of_dispatch =
        |change: &Change| matches!(change, Change::Allocation { .. } | Change::FreshLane { .. });
    assert!(!decisions.iter().any(|it| is_of_dispatch(&it.change)), "{decisions:?}");
}

#[test]
fn holder_of_a_lock_is_limited_to_one_and_then_paused() {
    let mut system = System::healthy();
    system.sample.classes[IMPORT].blocks = 20.0;
    system.sample.database.as_mut().unwrap().lock_waits = 20.0;
    system.sample.classes[IMPORT].in_flight = 4;
    system.run(10.0);
    assert_eq!(caps(&system), [(IMPORT, 1)]);
    system.run(20.0);
    assert_eq!(caps(&system), [(IMPORT, 0)]);
}

#[test]
fn limit_grows_by_one_or_a_tenth_each_minute() {
    let mut system = System::healthy();
    system.controls.caps.insert(IMPORT, 5);
    // Its jobs wait, and they are still expensive; others are as fast as ever.
    system.sample.classes[IMPORT] = class(2.5, 2.0);
    system.sample.classes[IMPORT].waiting = 500;
    system.run(5.0);
    let decisions = system.run(300.0);
    let grown: Vec<u32> = decisions
        .iter()
        .filter_map(|it| match it.change {
            Change::Cap { to: Some(to), .. } => Some(to),
            _ => None,
        })
        .collect();
    assert!((4..=5).contains(&grown.len()), "{decisions:?}");
    assert!(grown.windows(2).all(|pair| pair[1] == pair[0] + 1), "{grown:?}");
}

#[test]
fn limit_ends_when_nothing_waits_behind_it() {
    let mut system = System::healthy();
    system.controls.caps.insert(IMPORT, 20);
    system.run(10.0);
    assert_eq!(caps(&system), []);
}

#[test]
fn without_data_it_holds_for_a_minute_and_then_steps_back() {
    let mut system = System::healthy();
    system.controls.caps.insert(IMPORT, 10);
    system.controls.threads = Some(10);
    let mut held = Vec::new();
    system.now += 10.0;
    for _ in 0..9 {
        system.now += 5.0;
        held.extend(system.decide());
    }
    assert_eq!(held, [], "nothing changes for a minute");
    let mut steps = Vec::new();
    for _ in 0..20 {
        system.now += 5.0;
        steps.extend(system.decide());
    }
    assert!(steps.len() >= 5, "one step at a time: {steps:?}");
    assert_eq!(caps(&system), []);
    assert_eq!(system.controls.threads, Some(40));
    assert_eq!(system.controls.allocation, None);
}

#[test]
fn database_that_cannot_be_read_is_no_fresh_data() {
    let mut system = System::healthy();
    expensive_import(&mut system);
    system.sample.database = None;
    assert_eq!(system.run(55.0), []);
    let steps = system.run(60.0);
    assert!(steps.iter().all(|it| it.reason.contains("no data")), "{steps:?}");
    assert_eq!(caps(&system), []);
}

#[test]
fn what_an_operator_has_set_is_left_alone_until_it_expires() {
    let mut system = System::healthy();
    let until_seconds = system.now + 100.0;
    let set = |target| Override { target, until_seconds };
    system.controls.overrides = vec![set(OverrideTarget::Threads), set(OverrideTarget::Allocation)];
    overload(&mut system);
    assert_eq!(system.run(95.0), []);
    assert!(!system.run(20.0).is_empty());
}

#[test]
fn newest_jobs_are_first_only_where_the_settings_permit_it() {
    let mut system = System::healthy();
    for queue in &mut system.sample.queues {
        queue.waiting = 500;
        queue.oldest_age_seconds = 100.0;
    }
    system.run(60.0);
    assert_eq!(system.controls.allocation.unwrap().fresh, [false, true]);
}

#[test]
fn decisions_are_bounded_whatever_the_load_does() {
    let mut system = System::healthy();
    let mut decisions = 0;
    for minute in 0..60 {
        let mut changed = System::new();
        match minute % 4 {
            0 => overload(&mut changed),
            1 => expensive_import(&mut changed),
            2 => changed.sample.queues[0].arrivals = 500,
            _ => {}
        }
        system.sample = changed.sample;
        decisions += system.run(60.0).len();
    }
    // One in fifteen seconds at most, while everything changes each minute.
    assert!(decisions <= 240, "{decisions}");
}
