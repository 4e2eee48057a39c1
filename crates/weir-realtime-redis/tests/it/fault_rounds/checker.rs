//! Checks what all clients have received: one order for all, and no event is missing without a gap.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use super::load::{Acknowledged, CHANNELS, ClientLog, END, NODE_STEP, Seen};

/// What was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) acknowledged: usize,
    pub(super) delivered: usize,
    /// Gaps that were reported to clients.
    pub(super) gaps: usize,
    /// Acknowledged events that no client received, although one had no gap there: a server lost them before
    /// any node had them.
    pub(super) lost_unseen: usize,
    /// The longest time from the reply to a publisher until the last client had the event.
    pub(super) late_max: Duration,
}

impl Account {
    pub(super) fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.delivered += other.delivered;
        self.gaps += other.gaps;
        self.lost_unseen += other.lost_unseen;
        self.late_max = self.late_max.max(other.late_max);
    }
}

pub(super) fn check(acknowledged: &Acknowledged, logs: &[&ClientLog]) -> Account {
    let mut account = Account { acknowledged: acknowledged.len(), ..Account::default() };
    for channel in CHANNELS {
        let logs: Vec<&ClientLog> =
            logs.iter().filter(|log| log.channel == channel).copied().collect();
        let order = one_order(&logs);
        let places: HashMap<u64, usize> =
            order.iter().enumerate().map(|(place, number)| (*number, place)).collect();
        for log in &logs {
            check_client(log, &order, &places, &mut account);
            for (number, at) in events(log) {
                if let Some(replied) = acknowledged.get(&(channel, number)) {
                    account.late_max = account.late_max.max(at.saturating_duration_since(*replied));
                }
            }
        }
        let numbers = acknowledged.keys().filter(|(of, _)| *of == channel).map(|(_, it)| *it);
        let unseen = numbers.filter(|number| !places.contains_key(number));
        let is_reported = |number: u64| logs.iter().all(|log| has_gap_at(log, number));
        account.lost_unseen += unseen.filter(|number| !is_reported(*number)).count();
    }
    account
}

fn events(log: &ClientLog) -> impl Iterator<Item = (u64, Instant)> {
    log.seen.iter().filter_map(|seen| match seen {
        Seen::Event { number, at } => Some((*number, *at)),
        Seen::Gap => None,
    })
}

/// Returns whether a client was notified of a gap between the events of the same publisher before and after
/// this one.
fn has_gap_at(log: &ClientLog, number: u64) -> bool {
    let mut has_gap = false;
    for seen in &log.seen {
        match seen {
            Seen::Gap => has_gap = true,
            Seen::Event { number: other, .. } if *other == END || is_after(*other, number) => {
                return has_gap;
            }
            Seen::Event { number: other, .. } if is_after(number, *other) => has_gap = false,
            Seen::Event { .. } => {}
        }
    }
    has_gap
}

/// Returns whether a publisher has published `one` after `other`.
fn is_after(one: u64, other: u64) -> bool {
    one / NODE_STEP == other / NODE_STEP && one > other
}

/// Returns an order that is that of every client. Of events that no client relates, the one that was seen
/// first is first.
fn one_order(logs: &[&ClientLog]) -> Vec<u64> {
    let mut first_seen: HashMap<u64, Instant> = HashMap::new();
    let mut next: HashMap<u64, HashSet<u64>> = HashMap::new();
    let mut before: HashMap<u64, usize> = HashMap::new();
    for log in logs {
        let all: Vec<(u64, Instant)> = events(log).collect();
        for (number, at) in &all {
            let first = first_seen.entry(*number).or_insert(*at);
            *first = (*first).min(*at);
        }
        for pair in all.windows(2) {
            if next.entry(pair[0].0).or_default().insert(pair[1].0) {
                *before.entry(pair[1].0).or_default() += 1;
            }
        }
    }
    let is_free = |number: &u64| !before.contains_key(number);
    let mut free: BTreeSet<(Instant, u64)> =
        first_seen.iter().filter(|(it, _)| is_free(it)).map(|(it, at)| (*at, *it)).collect();
    let mut order = Vec::with_capacity(first_seen.len());
    while let Some((_, number)) = free.pop_first() {
        order.push(number);
        for follower in next.remove(&number).unwrap_or_default() {
            let left = before.get_mut(&follower).expect("it was counted");
            *left -= 1;
            if *left == 0 {
                free.insert((first_seen[&follower], follower));
            }
        }
    }
    assert_eq!(order.len(), first_seen.len(), "clients received events in different orders");
    order
}

fn check_client(
    log: &ClientLog,
    order: &[u64],
    places: &HashMap<u64, usize>,
    account: &mut Account,
) {
    let (mut next, mut has_gap) = (0, false);
    for seen in &log.seen {
        match seen {
            Seen::Gap => {
                has_gap = true;
                account.gaps += 1;
            }
            Seen::Event { number, .. } => {
                let place = places[number];
                assert!(place >= next, "{number} of {} arrived twice", log.channel);
                let missing = &order[next..place];
                assert!(missing.is_empty() || has_gap, "lost silently: {missing:?}");
                (next, has_gap) = (place + 1, false);
                account.delivered += 1;
            }
        }
    }
    assert_eq!(next, places[&END] + 1, "the last event is the last one");
}

/// The checks find what they are for.
mod tests {
    use super::*;

    fn log(numbers: &[Option<u64>]) -> ClientLog {
        let at = Instant::now();
        let seen = |number: &Option<u64>| match number {
            Some(number) => Seen::Event { number: *number, at },
            None => Seen::Gap,
        };
        ClientLog { channel: CHANNELS[0], seen: numbers.iter().map(seen).collect() }
    }

    /// Checks two clients of the first channel, and nothing of the others.
    fn check_two(one: &[Option<u64>], two: &[Option<u64>]) -> Account {
        let end = |channel| ClientLog { channel, ..log(&[Some(END)]) };
        let others: Vec<ClientLog> = CHANNELS[1..].iter().map(|channel| end(channel)).collect();
        let both = [log(one), log(two)];
        let logs: Vec<&ClientLog> = both.iter().chain(&others).collect();
        check(&Acknowledged::new(), &logs)
    }

    const LAST: Option<u64> = Some(END);

    #[tokio::test]
    async fn an_event_that_no_client_received_is_lost_unless_all_were_notified() {
        let number = |log: &[Option<u64>]| has_gap_at(&self::log(log), 2);
        assert!(number(&[Some(1), None, Some(NODE_STEP), Some(3), LAST]));
        assert!(number(&[Some(1), Some(NODE_STEP), None, LAST]));
        assert!(!number(&[None, Some(1), Some(NODE_STEP), Some(3), None, LAST]));
        assert!(!number(&[Some(1), LAST]));
    }

    #[tokio::test]
    async fn a_reported_gap_is_no_silent_loss() {
        let account =
            check_two(&[Some(1), Some(2), Some(3), LAST], &[Some(1), None, Some(3), LAST]);
        assert_eq!(account.gaps, 1);
    }

    #[tokio::test]
    #[should_panic(expected = "lost silently: [2]")]
    async fn a_hole_without_a_gap_is_found() {
        check_two(&[Some(1), Some(2), Some(3), LAST], &[Some(1), Some(3), None, LAST]);
    }

    #[tokio::test]
    #[should_panic(expected = "different orders")]
    async fn two_orders_are_found() {
        check_two(&[Some(1), Some(2), LAST], &[Some(2), Some(1), LAST]);
    }
}
