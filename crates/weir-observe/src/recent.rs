//! Averages jobs in progress over many samples, because a single one rarely catches jobs that take
//! milliseconds.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_advisor::observation::{RecentActivity, SidekiqObservation};
use weir_base::clock::Timestamp;

/// Processes report jobs in progress with each heartbeat, at least every ten seconds. Earlier
/// samples could see the same data again.
const BEAT: Duration = Duration::from_secs(10);
/// Samples per period. Two periods are stored, each of half an hour with samples 15 s apart.
const SAMPLES_MAX: u32 = 120;

/// Totals of the samples of one Sidekiq.
#[derive(Debug, Default)]
pub(crate) struct RecentSamples {
    last: Option<Timestamp>,
    before: Period,
    now: Period,
}

#[derive(Debug, Default)]
struct Period {
    samples: u32,
    /// Limited to the queues of a sample.
    queues: BTreeMap<String, QueueActivity>,
}

#[derive(Clone, Copy, Debug, Default)]
struct QueueActivity {
    in_hand: u64,
    per_second: f64,
}

impl RecentSamples {
    /// Reports whether a sample at `at` would have new data.
    pub(crate) fn is_due(&self, at: Timestamp) -> bool {
        self.last.is_none_or(|last| at.since(last) >= BEAT)
    }

    /// Adds a sample: for each queue its jobs in progress and its completion rate.
    pub(crate) fn note<'a>(
        &mut self,
        at: Timestamp,
        queues: impl IntoIterator<Item = (&'a str, u64, f64)>,
    ) {
        if !self.is_due(at) {
            return;
        }
        self.last = Some(at);
        if self.now.samples >= SAMPLES_MAX {
            self.before = std::mem::take(&mut self.now);
        }
        self.now.samples += 1;
        for (name, in_hand, per_second) in queues {
            let seen = self.now.queues.entry(name.to_owned()).or_default();
            seen.in_hand = seen.in_hand.saturating_add(in_hand);
            seen.per_second += per_second;
        }
    }

    /// Adds a sample with all of its queues.
    pub(crate) fn note_jobs(&mut self, at: Timestamp, jobs: &SidekiqObservation) {
        let queues = jobs.queues.iter().map(|queue| {
            let served = queue.flow.known().map_or(0.0, |flow| flow.served_per_second());
            (queue.name.as_str(), queue.in_hand, served)
        });
        self.note(at, queues);
    }

    /// Sets the averages of each queue.
    pub(crate) fn add_to(&self, jobs: &mut SidekiqObservation) {
        for queue in &mut jobs.queues {
            queue.lately = self.of(&queue.name);
        }
    }

    /// Returns the averages of a queue, or `None` before the second sample.
    fn of(&self, name: &str) -> Option<RecentActivity> {
        let periods = [&self.before, &self.now];
        let samples: u32 = periods.iter().map(|period| period.samples).sum();
        let seen = periods.iter().filter_map(|period| period.queues.get(name));
        let (in_hand, per_second) = seen.fold((0, 0.0), |(in_hand, per_second), seen| {
            (seen.in_hand + in_hand, seen.per_second + per_second)
        });
        (samples > 1).then(|| RecentActivity {
            looks: samples,
            in_hand: in_hand as f64 / f64::from(samples),
            per_second: per_second / f64::from(samples),
        })
    }
}

#[cfg(test)]
mod tests {
    use weir_advisor::observation::ObservedQueue;

    use super::*;

    fn after(samples: u32, every: u64, in_hand: impl Fn(u32) -> u64) -> Option<RecentActivity> {
        let mut history = RecentSamples::default();
        for sample in 0..samples {
            let at = Timestamp::from_millis(u64::from(sample) * every);
            history.note(at, [("push", in_hand(sample), 3.0)]);
        }
        let queue = ObservedQueue { name: "push".to_owned(), ..ObservedQueue::default() };
        let mut jobs = SidekiqObservation { queues: vec![queue], ..SidekiqObservation::default() };
        history.add_to(&mut jobs);
        jobs.queues[0].lately
    }

    #[test]
    fn jobs_in_hand_are_what_they_are_on_average() {
        let seen = after(10, 15_000, |sample| u64::from(sample == 3)).unwrap();
        assert_eq!((seen.looks, seen.in_hand, seen.per_second), (10, 0.1, 3.0));
        assert_eq!(after(1, 15_000, |_| 1), None, "the look itself tells it");
    }

    #[test]
    fn looks_within_one_heartbeat_are_one() {
        assert_eq!(after(31, 1_000, |_| 0).unwrap().looks, 4);
    }

    #[test]
    fn what_was_hours_ago_is_forgotten() {
        let seen = after(1_000, 15_000, |sample| u64::from(sample < 700)).unwrap();
        assert!(seen.looks <= 2 * SAMPLES_MAX && seen.in_hand == 0.0, "{seen:?}");
    }
}
