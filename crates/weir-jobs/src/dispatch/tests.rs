use super::*;
use crate::settings::JobServerLimits;

fn names(text: &str) -> Vec<QueueName> {
    let parse = |name| QueueName::parse(name, &JobServerLimits::default()).unwrap();
    text.split_whitespace().map(parse).collect()
}

/// Candidates as `running/wait seconds`, `-` for a queue that has nothing or is paused.
fn candidates(text: &str) -> Vec<Candidate> {
    let parse = |(place, word): (usize, &str)| {
        let (running, wait) = word.split_once('/')?;
        let oldest_wait = Duration::from_secs(wait.parse().unwrap());
        Some(Candidate { place, running: running.parse().unwrap(), oldest_wait })
    };
    text.split_whitespace().enumerate().filter_map(parse).collect()
}

fn allocation(rules: &[(&str, QueueAllocation)]) -> Allocation {
    let named = |(name, rules): &(&str, QueueAllocation)| (names(name).remove(0), rules.clone());
    Allocation { queues: rules.iter().map(named).collect() }
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
    let mut choose = |_| dispatcher.choose(allocation, &queues, found.iter().copied());
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
        let mut choose = |_| dispatcher.choose(&rules, &queues, found.iter().copied()).unwrap().end;
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
fn turns_are_kept_for_the_allocations_queues_only() {
    let rules = allocation(&[("a", shared(1)), ("b", fresh(0))]);
    let mut dispatcher = Dispatcher::default();
    let queues = names("b a x y");
    for state in ["0/9 - - -", "- 0/9 0/9 0/9", "- - 0/9 0/9", "- - - 0/9"] {
        let found = candidates(state);
        assert!(dispatcher.choose(&rules, &queues, found.iter().copied()).is_some());
    }
    assert_eq!(dispatcher.turns.len(), 2);
    dispatcher.retain(&allocation(&[("a", shared(2))]));
    assert!(dispatcher.turns.keys().map(QueueName::as_str).eq(["a"]));
}
