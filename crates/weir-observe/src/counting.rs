//! Counts waiting jobs between the two samples, to estimate which changes may be due to chance.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_advisor::flow;
use weir_base::clock::Timestamp;
use weir_sidekiq::{Lengths, RedisConnection, RedisSnapshot};

/// Counts between the samples. The resulting ten intervals estimate a deviation to within a
/// quarter.
const COUNTS: u32 = 9;
/// Shorter intervals are dominated by the round trip and single jobs.
const STRETCH_MIN: Duration = Duration::from_millis(100);
/// Maximum number of queues per Redis that are counted, longest first, in one round trip.
const QUEUES_MAX: usize = 49;

/// Returns the times of the counts, relative to the first sample. Yields none if the window is too
/// short.
pub(crate) fn moments(window: Duration) -> impl Iterator<Item = Duration> {
    let stretch = window / (COUNTS + 1);
    (1..=COUNTS).map(move |count| stretch * count).filter(move |_| stretch >= STRETCH_MIN)
}

/// The counts of one Redis.
#[derive(Debug, Default)]
pub(crate) struct QueueLengths {
    queues: Vec<String>,
    counted: Vec<Lengths>,
}

/// Variance of each queue's change, in jobs squared.
pub(crate) type Variances = BTreeMap<String, f64>;

impl QueueLengths {
    /// Starts with the queues that have jobs in the first sample.
    pub(crate) fn of(first: &RedisSnapshot) -> Self {
        let mut waiting: Vec<_> =
            first.queues.iter().flatten().filter(|it| it.length > 0).collect();
        waiting.sort_by_key(|queue| std::cmp::Reverse(queue.length));
        waiting.truncate(QUEUES_MAX);
        let (queues, lengths) = waiting.iter().map(|it| (it.name.clone(), it.length)).unzip();
        Self { queues, counted: vec![Lengths { at: first.lengths_at, lengths }] }
    }

    /// Counts again and returns the time by Redis' clock. Returns `None` on errors, which the
    /// second sample reports.
    pub(crate) async fn count(&mut self, connection: &mut RedisConnection) -> Option<Timestamp> {
        let lengths = connection.lengths(&self.queues).await.ok()?.ok()?;
        let at = lengths.at;
        self.counted.push(lengths);
        Some(at)
    }

    /// Returns the variances, with the second sample as the last count.
    pub(crate) fn variances(&self, second: &RedisSnapshot) -> Variances {
        let ends = second.queues.iter().flatten().map(|it| (it.name.as_str(), it.length));
        let ends: BTreeMap<&str, u64> = ends.collect();
        let queues = self.queues.iter().enumerate();
        let variances = queues.filter_map(|(place, name)| {
            let seconds = |at: Timestamp| at.since(self.counted[0].at).as_secs_f64();
            let counted = self.counted.iter().map(|it| (seconds(it.at), it.lengths[place]));
            let end =
                (seconds(second.lengths_at), ends.get(name.as_str()).copied().unwrap_or_default());
            let counts: Vec<_> = counted.chain([end]).collect();
            Some((name.clone(), flow::variance(&counts)?))
        });
        variances.collect()
    }
}

/// Sums the variances over all shards, where changes are independent.
pub(crate) fn joined(shards: impl IntoIterator<Item = Variances>) -> Variances {
    let mut joined = Variances::new();
    for (name, variance) in shards.into_iter().flatten() {
        *joined.entry(name).or_default() += variance;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_parted_unless_it_is_short() {
        let seconds = |window| moments(Duration::from_secs(window)).collect::<Vec<_>>();
        assert_eq!(seconds(10), (1..=9).map(Duration::from_secs).collect::<Vec<_>>());
        assert_eq!(moments(Duration::from_millis(900)).count(), 0);
    }

    #[test]
    fn shards_add_up() {
        let one = |name: &str, variance| Variances::from([(name.to_owned(), variance)]);
        let all = joined([one("a", 4.0), one("a", 5.0), one("b", 1.0)]);
        assert_eq!(all, Variances::from([("a".to_owned(), 9.0), ("b".to_owned(), 1.0)]));
    }
}
