//! Checks what one subscriber has received: the publisher's order, each event once, and none missing without a gap.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

use super::channel::{Channel, Publication};
use crate::soak::fault::Fault;
use crate::soak::window::Windows;

/// Numbers of received events that are remembered, to tell a repetition from a wrong order.
const RECENT_MAX: usize = 4_096;
const EXAMPLES_MAX: usize = 5;
/// Faults after which a client of a durable history may get a gap: events have an age.
const DURABLE_GAP_FAULTS: [Fault; 1] = [Fault::ClockStep];

#[derive(Debug, Default)]
pub(in crate::soak) struct SubscriberCheck {
    last: Option<u64>,
    has_gap: bool,
    recent: VecDeque<u64>,
    /// When each gap may have come about.
    gaps: Vec<(Duration, Duration)>,
    delivered: u64,
    lost: u64,
    reordered: u64,
    duplicated: u64,
    pub(super) reconnects: u64,
    pub(super) recovered: u64,
    examples: Vec<String>,
}

impl SubscriberCheck {
    pub(super) fn on_event(&mut self, number: u64, channel: &Channel) {
        self.delivered += 1;
        match self.last {
            Some(last) if number <= last => self.on_earlier_event(number, last, channel),
            last => {
                self.check_missing(last, number, channel);
                (self.last, self.has_gap) = (Some(number), false);
            }
        }
        self.recent.push_back(number);
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
    }

    fn check_missing(&mut self, last: Option<u64>, number: u64, channel: &Channel) {
        let Some(last) = last.filter(|_| !self.has_gap) else {
            return;
        };
        let (missing, first) = channel.acknowledged_between(last + 1, number);
        if let Some(first) = first {
            self.lost += missing;
            let name = &channel.name;
            self.example(format!("{name}: {missing} events from {first} on are missing, no gap"));
        }
    }

    fn on_earlier_event(&mut self, number: u64, last: u64, channel: &Channel) {
        let name = &channel.name;
        if self.recent.contains(&number) {
            self.duplicated += 1;
            self.example(format!("{name}: {number} arrived twice, the second time after {last}"));
        } else if channel.publication(number) != Some(Publication::Unknown) {
            self.reordered += 1;
            self.example(format!("{name}: {number} arrived after {last}"));
        }
    }

    pub(super) fn on_gap(&mut self, from: Duration, to: Duration) {
        self.has_gap = true;
        self.gaps.push((from, to));
    }

    /// Returns whether the last event has arrived.
    pub(super) fn is_complete(&self, channel: &Channel) -> bool {
        channel.last().is_some_and(|last| self.last.is_some_and(|it| it >= last))
    }

    fn example(&mut self, text: String) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(text);
        }
    }
}

/// The outcome over all subscribers.
#[derive(Debug, Default, Serialize)]
pub(in crate::soak) struct RealtimeCounts {
    pub(in crate::soak) published: u64,
    pub(in crate::soak) publications_unknown: u64,
    pub(in crate::soak) subscribers: u64,
    pub(in crate::soak) delivered: u64,
    pub(in crate::soak) reconnects: u64,
    pub(in crate::soak) recovered: u64,
    pub(in crate::soak) gaps: u64,
    pub(in crate::soak) gaps_unexplained: u64,
    pub(in crate::soak) gaps_of_durable: u64,
    pub(in crate::soak) lost: u64,
    pub(in crate::soak) reordered: u64,
    pub(in crate::soak) duplicated: u64,
    pub(in crate::soak) incomplete: u64,
    pub(in crate::soak) examples: Vec<String>,
}

impl RealtimeCounts {
    #[cfg(test)]
    const fn violations(&self) -> u64 {
        self.lost
            + self.reordered
            + self.duplicated
            + self.incomplete
            + self.gaps_unexplained
            + self.gaps_of_durable
    }
}

/// Sums up all subscribers. `is_durable_embedded`: durable histories are on the disk of the node, so that no fault but a
/// step of the clock may cause a gap in them.
pub(in crate::soak) fn judge<'a>(
    channels: impl Iterator<Item = &'a Channel>,
    checks: &[(&'a Channel, SubscriberCheck)],
    windows: &Windows,
    is_durable_embedded: bool,
) -> RealtimeCounts {
    let mut counts = RealtimeCounts::default();
    for channel in channels {
        let (acknowledged, unknown) = channel.counts();
        counts.published += acknowledged;
        counts.publications_unknown += unknown;
    }
    for (channel, check) in checks {
        counts.subscribers += 1;
        counts.delivered += check.delivered;
        counts.reconnects += check.reconnects;
        counts.recovered += check.recovered;
        counts.lost += check.lost;
        counts.reordered += check.reordered;
        counts.duplicated += check.duplicated;
        counts.gaps += check.gaps.len() as u64;
        for (from, to) in &check.gaps {
            if !windows.explain(*from, *to) {
                counts.gaps_unexplained += 1;
            } else if channel.is_durable
                && is_durable_embedded
                && !windows.explain_by(&DURABLE_GAP_FAULTS, *from, *to)
            {
                counts.gaps_of_durable += 1;
            }
        }
        counts.examples.extend(check.examples.iter().cloned());
        if !check.is_complete(channel) {
            counts.incomplete += 1;
            let (name, last, end) = (&channel.name, check.last, channel.last());
            counts.examples.push(format!("{name}: received up to {last:?}, the end is {end:?}"));
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A channel with these publications.
    fn channel(publications: &[bool]) -> Channel {
        let app = "1:key:secret".parse().expect("an app");
        let channel = Channel::new("c".to_owned(), app, true);
        for is_acknowledged in publications {
            let number = channel.begin();
            channel.end(number, *is_acknowledged);
        }
        channel
    }

    fn received(numbers: &[u64], channel: &Channel) -> SubscriberCheck {
        let mut check = SubscriberCheck::default();
        for number in numbers {
            check.on_event(*number, channel);
        }
        check
    }

    #[test]
    fn missing_acknowledged_event_is_lost_unless_a_gap_was_reported() {
        let channel = channel(&[true, true, false, true]);
        assert_eq!(received(&[0, 3], &channel).lost, 1);
        assert_eq!(received(&[0, 1, 3], &channel).lost, 0, "an unknown one may be missing");
        let mut check = received(&[0], &channel);
        check.on_gap(Duration::ZERO, Duration::ZERO);
        check.on_event(3, &channel);
        assert_eq!(check.lost, 0);
    }

    #[test]
    fn repetitions_and_wrong_orders_are_told_apart() {
        let channel = channel(&[true, true, false, true]);
        let repeated = received(&[0, 1, 1], &channel);
        assert_eq!((repeated.duplicated, repeated.reordered), (1, 0));
        let reordered = received(&[0, 3, 1], &channel);
        assert_eq!((reordered.duplicated, reordered.reordered), (0, 1));
        assert_eq!(received(&[1, 3, 2], &channel).reordered, 0, "an unknown one may be late");
    }

    #[test]
    fn gaps_need_an_explanation_and_the_last_event_must_arrive() {
        let channel = channel(&[true, true]);
        channel.close(1);
        let mut check = received(&[0], &channel);
        check.on_gap(Duration::from_secs(1), Duration::from_secs(2));
        let checks = [(&channel, check)];
        let counts = judge([&channel].into_iter(), &checks, &Windows::default(), true);
        assert_eq!((counts.gaps, counts.gaps_unexplained, counts.incomplete), (1, 1, 1));
        assert_eq!((counts.published, counts.violations()), (2, 2));
    }
}
