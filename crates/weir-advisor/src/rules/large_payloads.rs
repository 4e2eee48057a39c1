//! Jobs of a class are so large that Redis, the network and the processes feel it.

use std::collections::BTreeMap;

use crate::finding::{Finding, Severity};
use crate::observation::{Observation, ObservedQueue, PayloadSize, SidekiqObservation};
use crate::shell;
use crate::wording::{self, bytes};

pub(crate) const NAME: &str = "large-payloads";

/// A job that refers to its data has less than a kilobyte.
const MEAN_MIN_BYTES: u64 = 100_000;
/// Redis, which runs one command at a time, needs a millisecond or more for each.
const MEAN_WARNING_BYTES: u64 = 1_000_000;
/// Share of the memory of Redis that makes it a warning.
const MEMORY_SHARE: f64 = 0.25;
/// Jobs that take less memory than this together do not fill Redis.
const TOTAL_WARNING_BYTES: u64 = 256 << 20;
/// A single large job is an exception.
const COUNT_MIN: u64 = 3;
/// Classes that are named, largest first.
const NAMED_MAX: usize = 3;

/// Jobs of one class in one place.
struct Large<'a> {
    size: &'a PayloadSize,
    /// The key of the place.
    key: String,
    place: String,
    /// Jobs of the class there, as the sample estimates.
    jobs: u64,
}

impl Large<'_> {
    fn total_bytes(&self) -> u64 {
        self.jobs.saturating_mul(self.size.mean_bytes)
    }
}

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let mut largest: BTreeMap<&str, Large<'_>> = BTreeMap::new();
    for large in all(jobs) {
        let known = largest.get(large.size.class.as_str()).map_or(0, Large::total_bytes);
        if large.total_bytes() > known {
            largest.insert(&large.size.class, large);
        }
    }
    let mut largest: Vec<_> = largest.into_values().collect();
    largest.sort_by_key(|large| std::cmp::Reverse(large.total_bytes()));
    largest.iter().take(NAMED_MAX).map(|large| found(observation, large)).collect()
}

fn all(jobs: &SidekiqObservation) -> impl Iterator<Item = Large<'_>> {
    let queues = jobs.queues.iter().map(|queue: &ObservedQueue| {
        (
            &queue.sample,
            queue.length,
            format!("queue:{}", queue.name),
            format!("queue {}", queue.name),
        )
    });
    let sets = [("retry", "the retry set", &jobs.retries), ("dead", "the dead set", &jobs.dead)];
    let sets =
        sets.map(|(key, place, set)| (&set.sample, set.size, key.to_owned(), place.to_owned()));
    queues.chain(sets).flat_map(|(sample, length, key, place)| {
        let sample = sample.known().filter(|_| length > 0);
        let sizes = sample.map(|it| it.payloads.as_slice()).unwrap_or_default();
        let sampled = sample.map_or(1, |it| it.size.max(1));
        let large = |it: &&PayloadSize| it.mean_bytes >= MEAN_MIN_BYTES && it.count >= COUNT_MIN;
        sizes.iter().filter(large).map(move |size| {
            let jobs = (length as f64 * (size.count as f64 / sampled as f64).min(1.0)).ceil();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a length is at most the length"
            )]
            let jobs = jobs as u64;
            Large { size, key: key.clone(), place: place.clone(), jobs }
        })
    })
}

fn found(observation: &Observation, large: &Large<'_>) -> Finding {
    let PayloadSize { class, count, mean_bytes, largest_bytes } = large.size;
    let redis = observation.redis.first().and_then(|redis| redis.known());
    let used = redis.map_or(0, |redis| redis.info.used_memory_bytes);
    let total = large.total_bytes();
    let fills =
        used > 0 && total as f64 >= MEMORY_SHARE * used as f64 && total >= TOTAL_WARNING_BYTES;
    let severity = match *mean_bytes >= MEAN_WARNING_BYTES || fills {
        true => Severity::Warning,
        false => Severity::Notice,
    };
    let evidence = format!(
        "a job has {} (the mean of {} in {}; the largest has {}); about {} of them take {}",
        bytes(*mean_bytes),
        wording::number(*count, "sampled job", "sampled jobs"),
        large.place,
        bytes(*largest_bytes),
        wording::count(large.jobs),
        bytes(total)
    );
    let class = if class.is_empty() { "an unknown class" } else { class.as_str() };
    let finding = Finding::new(NAME, severity, format!("jobs of {class}"), evidence).leads_to(
        "Each is sent to Redis and back, kept in its memory, and parsed by the process; Redis \
         serves no other client while it copies one. Store the data elsewhere (the database, a file) and give the \
         job its id.",
    );
    let Some(redis) = redis else { return finding };
    let key = shell::word(&large.key);
    finding.next(observation.redis_command(&redis.name, |cli| format!("{cli} MEMORY USAGE {key}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{Fact, JobSample};

    fn with(mean_bytes: u64, length: u64) -> Vec<Finding> {
        let mut observation = healthy::observation();
        let queue = observation.jobs.known_mut().queue_mut("push");
        let size = |class: &str, count, mean_bytes| PayloadSize {
            class: class.to_owned(),
            count,
            mean_bytes,
            largest_bytes: 2 * mean_bytes,
        };
        let payloads = vec![size("Import", 30, mean_bytes), size("Feed", 90, 400)];
        queue.length = length;
        queue.sample = Fact::Known(JobSample { size: 120, payloads, ..JobSample::default() });
        check(&observation)
    }

    #[test]
    fn large_jobs_are_told_from_small_ones_with_what_they_take() {
        for (mean_bytes, length, severity) in [
            (99_999, 1_000, None),
            (100_000, 1_000, Some(Severity::Notice)),
            (1_000_000, 100, Some(Severity::Warning)),
            (200_000, 8_000, Some(Severity::Warning)),
        ] {
            let found = with(mean_bytes, length);
            assert_eq!(found.first().map(|it| it.severity), severity, "{mean_bytes} {length}");
        }
        let finding = with(1 << 20, 100).remove(0);
        let expected = "a job has 1 MB (the mean of 30 sampled jobs in queue push; the largest has 2 MB); \
                        about 25 of them take 25 MB";
        assert_eq!(
            (finding.subject.as_str(), finding.evidence.as_str()),
            ("jobs of Import", expected)
        );
        let command = "redis-cli -h 127.0.0.1 -p 6379 MEMORY USAGE queue:push";
        assert_eq!(finding.next_step(), Some(command));
    }
}
