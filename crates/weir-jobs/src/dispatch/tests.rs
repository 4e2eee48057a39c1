use super::*;
use crate::settings::JobServerLimits;

fn names(text: &str) -> Vec<QueueName> {
    let parse = |name| QueueName::parse(name, &JobServerLimits::default()).unwrap();
    text.split_whitespace().map(parse).collect()
}

const NOW: Timestamp = Timestamp::from_micros(1_795_202_902_000_000);

/// Candidates as `running/wait seconds`, `-` for a queue that has nothing or is paused. The newest job has
/// just arrived.
fn candidates(text: &str) -> Vec<Candidate> {
    let parse = |(place, word): (usize, &str)| {
        let (running, wait) = word.split_once('/')?;
        let oldest_wait = Duration::from_secs(wait.parse().unwrap());
        let (running, newest_wait) = (running.parse().unwrap(), Duration::ZERO);
        Some(Candidate { place, running, oldest_wait, newest_wait, is_held_back: false })
    };
    text.split_whitespace().enumerate().filter_map(parse).collect()
}

fn allocation(rules: &[(&str, QueueAllocation)]) -> Allocation {
    let named = |(name, rules): &(&str, QueueAllocation)| (names(name).remove(0), rules.clone());
    Allocation { queues: rules.iter().map(named).collect(), ..Allocation::default() }
}

fn shared(share: u32) -> QueueAllocation {
    QueueAllocation { share: Some(share), ..QueueAllocation::default() }
}

fn guaranteed(guaranteed_slots: u32) -> QueueAllocation {
    QueueAllocation { guaranteed_slots, ..QueueAllocation::default() }
}

fn capped(concurrency: u32) -> QueueAllocation {
    QueueAllocation { concurrency: Some(concurrency), ..QueueAllocation::default() }
}

fn fresh(target_seconds: u64) -> QueueAllocation {
    QueueAllocation {
        fresh_lane: true,
        target_latency: Some(Duration::from_secs(target_seconds)),
        ..QueueAllocation::default()
    }
}

/// Returns the indices of the queues that serve consecutive fetches, as digits.
fn served(allocation: &Allocation, request: &str, state: &str, fetches: usize) -> String {
    let (queues, found) = (names(request), candidates(state));
    let mut dispatcher = Dispatcher::default();
    let mut choose = |_| dispatcher.choose(allocation, &queues, found.iter().copied(), NOW);
    let place = |choice: Option<Choice>| choice.map_or("-".to_owned(), |c| c.place.to_string());
    (0..fetches).map(|n| place(choose(n))).collect()
}

#[test]
fn one_fetch_is_served_by_the_rules() {
    let check = |rules: &[(&str, QueueAllocation)], request: &str, state: &str, expected: &str| {
        let found = served(&allocation(rules), request, state, 1);
        assert_eq!(found, expected, "{rules:?} {request} {state}");
    };
    // Strict order of the request.
    check(&[], "a b", "0/0 0/9", "0");
    check(&[], "a b", "- 0/0", "1");
    check(&[], "a b", "- -", "-");
    check(&[("z", capped(1))], "a b", "5/0 0/9", "0");
    // Concurrency caps.
    check(&[("a", capped(2))], "a b", "1/0 0/0", "0");
    check(&[("a", capped(2))], "a b", "2/0 0/0", "1");
    check(&[("a", capped(2))], "a", "2/0", "-");
    check(&[("a", capped(0))], "a", "0/0", "-");
    // Guarantees precede the order, apply in order among themselves, and end when filled.
    check(&[("b", guaranteed(1))], "a b", "0/0 0/0", "1");
    check(&[("b", guaranteed(1))], "a b", "0/0 1/0", "0");
    check(&[("b", guaranteed(1))], "a b", "0/0 -", "0");
    check(&[("b", guaranteed(2)), ("c", guaranteed(2))], "a c b", "0/0 1/0 0/0", "1");
    let both = QueueAllocation { concurrency: Some(1), ..guaranteed(5) };
    check(&[("b", both)], "a b", "0/0 1/0", "0");
    // A guarantee precedes shares, too.
    check(&[("a", shared(9)), ("b", guaranteed(1))], "a b", "0/0 0/0", "1");
}

#[test]
fn shares_take_turns_by_weight() {
    let check = |rules: &[(&str, QueueAllocation)], request: &str, state: &str, expected: &str| {
        let found = served(&allocation(rules), request, state, expected.len());
        assert_eq!(found, expected, "{rules:?} {request} {state}");
    };
    let rules = [("a", shared(5)), ("b", shared(1)), ("c", shared(1))];
    check(&rules, "a b c", "0/0 0/0 0/0", "00102000010200");
    check(&rules, "c b a", "0/0 0/0 0/0", "22021222202122");
    check(&rules, "a b c", "- 0/0 0/0", "1212");
    // A queue without a share keeps its position in the order.
    check(&[("b", shared(1)), ("c", shared(1))], "a b c", "0/0 0/0 0/0", "0000");
    check(&[("b", shared(1)), ("c", shared(1))], "b a c", "0/0 0/0 0/0", "0202");
    check(&[("a", shared(0)), ("b", shared(3))], "b a", "0/0 0/0", "0000");
    check(&[("a", shared(0)), ("b", shared(3))], "a b", "0/0 0/0", "0000");
}

#[test]
fn shares_are_kept_over_a_long_run() {
    let rules = allocation(&[("a", shared(70)), ("b", shared(25)), ("c", shared(5))]);
    let run = served(&rules, "a b c", "0/0 0/0 0/0", 1_000);
    let count = |place: char| run.chars().filter(|c| *c == place).count();
    assert_eq!((count('0'), count('1'), count('2')), (700, 250, 50));
}

#[test]
fn the_fresh_lane_serves_the_newest_and_leaves_the_backlog_its_turn() {
    let check = |rules: &QueueAllocation, wait: &str, expected: &str| {
        let (queues, found) = (names("a"), candidates(wait));
        let rules = allocation(&[("a", rules.clone())]);
        let mut dispatcher = Dispatcher::default();
        let mut choose =
            |_| dispatcher.choose(&rules, &queues, found.iter().copied(), NOW).unwrap().end;
        let letter = |end: QueueEnd| if end == QueueEnd::Oldest { 'o' } else { 'n' };
        let ends: String = (0..expected.len()).map(|n| letter(choose(n))).collect();
        assert_eq!(ends, expected, "{rules:?} {wait}");
    };
    check(&fresh(5), "0/6", "nnnnonnnno");
    check(&fresh(5), "0/5", "oooooo");
    check(&QueueAllocation { fresh_lane: false, ..fresh(5) }, "0/99", "oooooo");
    check(&QueueAllocation { target_latency: None, ..fresh(5) }, "0/99", "oooooo");
}

#[test]
fn a_queue_whose_tenants_are_held_back_is_skipped() {
    let policies = [DispatchPolicy::Strict, DispatchPolicy::Weighted, DispatchPolicy::Targets];
    let with = |policy| Allocation { policy, ..allocation(&[("a", shared(9)), ("b", shared(1))]) };
    for rules in [Allocation::default()].into_iter().chain(policies.map(with)) {
        let mut found = candidates("0/9 0/1");
        found[0].is_held_back = true;
        let mut dispatcher = Dispatcher::default();
        let mut choose = |found: &[Candidate]| {
            let choice = dispatcher.choose(&rules, &names("a b"), found.iter().copied(), NOW);
            choice.map(|choice| choice.place)
        };
        assert_eq!(choose(&found), Some(1), "{:?}", rules.policy);
        assert_eq!(choose(&found[..1]), None, "{:?}", rules.policy);
    }
}

#[test]
fn a_backlog_without_new_jobs_is_served_from_its_oldest_end() {
    let late = Duration::from_secs(6);
    let found = [Candidate {
        place: 0,
        running: 0,
        oldest_wait: late,
        newest_wait: late,
        is_held_back: false,
    }];
    let rules = allocation(&[("a", fresh(5))]);
    let mut dispatcher = Dispatcher::default();
    let choice = dispatcher.choose(&rules, &names("a"), found.into_iter(), NOW).unwrap();
    assert_eq!((choice.end, choice.charge), (QueueEnd::Oldest, None));
}

/// Lets a queue have so many jobs of a second each second, for a minute.
fn measure(dispatcher: &mut Dispatcher, name: &str, per_second: u32) {
    let name = names(name).remove(0);
    let charge = DispatchCharge { end: QueueEnd::Oldest, lane: None, backlog: None };
    for second in 0..60 {
        for _ in 0..per_second {
            dispatcher.arrived(&name, NOW - Duration::from_secs(60 - second));
            dispatcher.ended(&name, charge, Duration::from_secs(1));
        }
    }
}

#[test]
fn by_targets_a_queue_is_guaranteed_what_it_needs() {
    let target = |seconds, fresh_lane| QueueAllocation {
        target_latency: Some(Duration::from_secs(seconds)),
        fresh_lane,
        ..QueueAllocation::default()
    };
    let mut rules = allocation(&[("a", target(5, false)), ("b", target(60, true))]);
    rules.policy = DispatchPolicy::Targets;
    let mut dispatcher = Dispatcher::default();
    measure(&mut dispatcher, "a", 4);
    let mut check = |state: &str, expected: (usize, QueueEnd)| {
        let found = candidates(state);
        let choice = dispatcher.choose(&rules, &names("a b c"), found.into_iter(), NOW).unwrap();
        let charge = choice.charge.expect("jobs are measured");
        dispatcher.take_back(&names("a b c")[choice.place], charge);
        assert_eq!((choice.place, choice.end), expected, "{state}");
    };
    check("3/9999 1/0 9/0", (0, QueueEnd::Oldest));
    check("5/9999 - 9/0", (0, QueueEnd::Oldest));
    check("6/9999 1/31 9/0", (1, QueueEnd::Oldest));
    // New jobs of a late queue have their own guarantee.
    check("6/9999 30/99 9/0", (1, QueueEnd::Newest));
    check("6/1 1/1 9/0", (2, QueueEnd::Oldest));
    assert_eq!(dispatcher.states["b"].lane.running, 0);
}

#[test]
fn by_targets_the_backlog_is_shared_by_weight_in_workers_time() {
    let mut rules = allocation(&[("a", shared(3)), ("b", shared(1))]);
    rules.policy = DispatchPolicy::Targets;
    let mut dispatcher = Dispatcher::default();
    let (queues, found) = (names("a b"), candidates("9/99 9/99"));
    let mut spent = [0_u32, 0];
    for _ in 0..4_000 {
        let choice = dispatcher.choose(&rules, &queues, found.iter().copied(), NOW).unwrap();
        // Jobs of b take ten times as long.
        let seconds = [1, 10][choice.place];
        spent[choice.place] += seconds;
        let ran = Duration::from_secs(seconds.into());
        dispatcher.ended(&queues[choice.place], choice.charge.unwrap(), ran);
    }
    let part = f64::from(spent[0]) / f64::from(spent[0] + spent[1]);
    assert!((0.74..0.76).contains(&part), "{spent:?}");
}

#[test]
fn by_targets_a_queue_that_had_no_backlog_gets_nothing_in_advance() {
    let mut rules = allocation(&[("b", shared(50))]);
    rules.policy = DispatchPolicy::Targets;
    let mut dispatcher = Dispatcher::default();
    let queues = names("a b");
    let mut serve = |state: &str, fetches: usize| {
        let mut served = [0, 0];
        for _ in 0..fetches {
            let found = candidates(state);
            let choice = dispatcher.choose(&rules, &queues, found.into_iter(), NOW).unwrap();
            served[choice.place] += 1;
            let (queue, ran) = (&queues[choice.place], Duration::from_secs(10));
            dispatcher.ended(queue, choice.charge.unwrap(), ran);
        }
        served
    };
    assert_eq!(serve("0/9 -", 1_000), [1_000, 0]);
    let [a, b] = serve("9/9 9/9", 510);
    assert!((9..=11).contains(&a), "{a} and {b}");
}

/// Serves late queues with workers that are always busy. `seconds`: how long the jobs of each queue run. Returns the
/// workers' time of each queue in the second half of the time.
fn share_by_time(rules: &Allocation, state: &str, seconds: &[u64], workers: usize) -> Vec<u64> {
    let queues = names("a b c");
    let mut dispatcher = Dispatcher::default();
    if state.starts_with('g') {
        measure(&mut dispatcher, "a", 8);
    }
    let mut running: Vec<(u64, usize, DispatchCharge)> = Vec::new();
    let mut time = vec![0; seconds.len()];
    for second in 0..8_000_u64 {
        let now = NOW + Duration::from_secs(second);
        if state.starts_with('g') {
            (0..8).for_each(|_| dispatcher.arrived(&queues[0], now));
        }
        let (over, left) = running.into_iter().partition(|(end, ..)| *end <= second);
        running = left;
        for (_, place, charge) in over {
            dispatcher.ended(&queues[place], charge, Duration::from_secs(seconds[place]));
        }
        while running.len() < workers {
            let counts = (0..seconds.len())
                .map(|place| running.iter().filter(|(_, at, _)| *at == place).count());
            let late = Duration::from_secs(9_000);
            let candidates: Vec<_> = (0..)
                .zip(counts)
                .map(|(place, count)| {
                    let running = u32::try_from(count).unwrap();
                    Candidate {
                        place,
                        running,
                        oldest_wait: late,
                        newest_wait: late,
                        is_held_back: false,
                    }
                })
                .collect();
            let chosen = dispatcher.choose(rules, &queues, candidates.into_iter(), now).unwrap();
            running.push((second + seconds[chosen.place], chosen.place, chosen.charge.unwrap()));
        }
        for (_, place, _) in running.iter().filter(|_| second >= 4_000) {
            time[*place] += 1;
        }
    }
    time
}

#[test]
fn by_targets_long_and_short_jobs_share_by_weight() {
    let mut rules = allocation(&[("a", shared(1)), ("b", shared(3))]);
    rules.policy = DispatchPolicy::Targets;
    for (seconds, workers) in [([600, 1], 1), ([600, 1], 20), ([1, 600], 60), ([90, 7], 4)] {
        let time = share_by_time(&rules, "", &seconds, workers);
        let percent = time[0] * 100 / (time[0] + time[1]);
        assert!((20..=30).contains(&percent), "{seconds:?} {workers}: {time:?}");
    }
}

#[test]
fn by_targets_queues_beside_a_late_one_with_a_guarantee_share_by_weight() {
    let mut rules = allocation(&[("b", shared(3)), ("c", shared(1))]);
    rules.policy = DispatchPolicy::Targets;
    // a is guaranteed ten of the workers.
    let time = share_by_time(&rules, "guaranteed", &[1, 1, 60], 18);
    let percent = time[2] * 100 / (time[1] + time[2]);
    assert!((22..=28).contains(&percent), "{time:?}");
    assert!((39_000..=41_000).contains(&time[0]), "its guarantee: {time:?}");
}

#[test]
fn by_targets_queues_beside_one_at_its_concurrency_share_by_weight() {
    let mut rules = allocation(&[("a", capped(4)), ("b", shared(2)), ("c", shared(1))]);
    rules.policy = DispatchPolicy::Targets;
    let time = share_by_time(&rules, "", &[1, 1, 1], 40);
    let percent = time[2] * 100 / (time[1] + time[2]);
    assert!((31..=35).contains(&percent), "{time:?}");
    assert!((15_000..=16_000).contains(&time[0]), "four of the workers: {time:?}");
}

#[test]
fn by_targets_a_running_job_is_charged_while_it_runs_and_when_it_lapses() {
    let mut rules = allocation(&[]);
    rules.policy = DispatchPolicy::Targets;
    let mut dispatcher = Dispatcher::default();
    let queues = names("a b");
    let choose = |dispatcher: &mut Dispatcher, state: &str, second| {
        let (found, now) = (candidates(state), NOW + Duration::from_secs(second));
        dispatcher.choose(&rules, &queues, found.into_iter(), now).unwrap()
    };
    let long = choose(&mut dispatcher, "9/9 9/9", 0);
    assert_eq!(long.place, 0);
    for second in 1..600 {
        let next = choose(&mut dispatcher, "9/9 9/9", second);
        assert_eq!(next.place, 1, "{second}: a has a job that runs");
        dispatcher.ended(&queues[1], next.charge.unwrap(), Duration::from_secs(1));
    }
    dispatcher.lapsed(&queues[0], long.charge.unwrap(), Duration::from_secs(1_800));
    for second in 600..1_700 {
        let next = choose(&mut dispatcher, "9/9 9/9", second);
        assert_eq!(next.place, 1, "{second}: a was charged the time of the reservation");
        dispatcher.ended(&queues[1], next.charge.unwrap(), Duration::from_secs(1));
    }
}

#[test]
fn by_targets_old_jobs_of_a_fresh_lane_count_for_the_share_of_its_queue() {
    let mut rules = allocation(&[("a", fresh(5))]);
    rules.policy = DispatchPolicy::Targets;
    let mut dispatcher = Dispatcher::default();
    let queues = names("a b");
    let wait = Duration::from_secs(9);
    // New jobs of a arrive every other time; then only old ones wait.
    let mut old = 0;
    for round in 0..400 {
        let newest_wait = if round % 2 == 0 { Duration::ZERO } else { wait };
        let found = [(0, newest_wait), (1, wait)].map(|(place, newest_wait)| Candidate {
            place,
            running: 9,
            oldest_wait: wait,
            newest_wait,
            is_held_back: false,
        });
        let choice = dispatcher.choose(&rules, &queues, found.into_iter(), NOW).unwrap();
        old += u32::from(choice.place == 0 && choice.end == QueueEnd::Oldest);
        let queue = &queues[choice.place];
        dispatcher.ended(queue, choice.charge.unwrap(), Duration::from_secs(1));
    }
    // All new jobs are of a; of the others, both queues get as many.
    assert!((115..=125).contains(&old), "{old}");
}

#[test]
fn weights_owe_nothing_after_a_change() {
    let (old, new) = (
        allocation(&[("a", shared(1_000)), ("b", shared(1))]),
        allocation(&[("a", shared(1)), ("b", shared(1))]),
    );
    let (queues, found) = (names("a b"), candidates("0/0 0/0"));
    let mut dispatcher = Dispatcher::default();
    for _ in 0..500 {
        dispatcher.choose(&old, &queues, found.iter().copied(), NOW).unwrap();
    }
    dispatcher.retain(&old, &new);
    let mut choose =
        |_| dispatcher.choose(&new, &queues, found.iter().copied(), NOW).unwrap().place;
    let served: Vec<usize> = (0..20).map(&mut choose).collect();
    let of_b: usize = served.iter().sum();
    assert!((9..=12).contains(&of_b), "{served:?}");
}

#[test]
fn by_targets_one_worker_serves_all_late_queues() {
    let mut rules = allocation(&[("a", fresh(5)), ("b", fresh(500))]);
    rules.policy = DispatchPolicy::Targets;
    let mut dispatcher = Dispatcher::default();
    let queues = names("a b c");
    let mut served = [0, 0, 0];
    for _ in 0..300 {
        let late = |(place, seconds)| {
            let wait = Duration::from_secs(seconds);
            Candidate {
                place,
                running: 0,
                oldest_wait: wait,
                newest_wait: wait,
                is_held_back: false,
            }
        };
        let found = [(0, 86_400), (1, 501), (2, 1)].map(late);
        let choice = dispatcher.choose(&rules, &queues, found.into_iter(), NOW).unwrap();
        served[choice.place] += 1;
        let queue = &queues[choice.place];
        dispatcher.ended(queue, choice.charge.unwrap(), Duration::from_secs(1));
    }
    assert_eq!(served, [100, 100, 100]);
}

#[test]
fn new_jobs_in_progress_count_until_they_end_lapse_or_are_deleted() {
    let mut rules = allocation(&[("a", fresh(5))]);
    rules.policy = DispatchPolicy::Targets;
    let mut dispatcher = Dispatcher::default();
    let queue = names("a").remove(0);
    let take = |dispatcher: &mut Dispatcher| {
        let choice = dispatcher
            .choose(&rules, std::slice::from_ref(&queue), candidates("9/9").into_iter(), NOW)
            .unwrap();
        assert_eq!(choice.end, QueueEnd::Newest);
        choice.charge.unwrap()
    };
    let running = |dispatcher: &Dispatcher| dispatcher.states["a"].lane.running;
    let charges = [take(&mut dispatcher), take(&mut dispatcher), take(&mut dispatcher)];
    take(&mut dispatcher);
    assert_eq!(running(&dispatcher), 4);
    dispatcher.lapsed(&queue, charges[0], Duration::from_secs(1_800));
    dispatcher.ended(&queue, charges[1], Duration::from_secs(1));
    dispatcher.take_back(&queue, charges[2]);
    assert_eq!(running(&dispatcher), 1);
    let half_hour = Duration::from_secs(1_800);
    assert!(
        dispatcher.states["a"].demand.service.known().unwrap() < half_hour,
        "not of the lapsed"
    );
    dispatcher.forget_running();
    assert_eq!(running(&dispatcher), 0);
}

#[test]
fn turns_are_kept_for_the_allocations_queues_only() {
    let rules = allocation(&[("a", shared(1)), ("b", fresh(0))]);
    let mut dispatcher = Dispatcher::default();
    let queues = names("b a x y");
    for state in ["0/9 - - -", "- 0/9 0/9 0/9", "- - 0/9 0/9", "- - - 0/9"] {
        let found = candidates(state);
        assert!(dispatcher.choose(&rules, &queues, found.iter().copied(), NOW).is_some());
    }
    assert_eq!(dispatcher.states.len(), 2);
    let mut new = allocation(&[("a", shared(2))]);
    dispatcher.retain(&rules, &new);
    assert!(dispatcher.states.keys().map(QueueName::as_str).eq(["a"]));
    let old = new.clone();
    new.policy = DispatchPolicy::Weighted;
    dispatcher.retain(&old, &new);
    assert!(dispatcher.states.is_empty(), "another policy starts anew");
}
