//! Keeps what earlier samples have shown, so that a later one can say since when something is so.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_advisor::observation::{JobProcess, MemoryGrowth, PastSample, SidekiqObservation};
use weir_base::clock::Timestamp;

/// Time between two samples that are kept.
const INTERVAL: Duration = Duration::from_secs(60);
/// Three hours.
const SAMPLES_MAX: usize = 180;
/// Time between two sizes of a process that are kept.
const SIZE_INTERVAL: Duration = Duration::from_secs(300);
/// Two hours: a process that grows by 30 MB in an hour then shows it.
const SIZES_MAX: usize = 24;

/// The past of one Sidekiq.
#[derive(Debug, Default)]
pub(super) struct Past {
    samples: VecDeque<(Timestamp, PastSample)>,
    /// The sizes of each process, by identity. Limited to the processes of a sample.
    sizes: BTreeMap<String, VecDeque<(Timestamp, u64)>>,
}

impl Past {
    /// Adds the past to a new sample, and the sample to the past.
    pub(super) fn note(&mut self, at: Timestamp, jobs: &mut SidekiqObservation) {
        let past = self.samples.iter();
        jobs.past = past.map(|(when, it)| PastSample { before: at.since(*when), ..*it }).collect();
        if self.samples.back().is_none_or(|(last, _)| at.since(*last) >= INTERVAL) {
            self.samples.push_back((at, sample(jobs)));
        }
        while self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.sizes.retain(|identity, _| jobs.processes.iter().any(|it| it.identity == *identity));
        for process in &mut jobs.processes {
            self.note_size(at, process);
        }
    }

    fn note_size(&mut self, at: Timestamp, process: &mut JobProcess) {
        let Some(bytes) = process.rss_bytes else { return };
        let sizes = self.sizes.entry(process.identity.clone()).or_default();
        // A single interval shows less than the growth between two samples.
        if let Some((first, before)) =
            sizes.front().filter(|(it, _)| at.since(*it) >= SIZE_INTERVAL)
        {
            let bytes = bytes.saturating_sub(*before);
            process.growth = Some(MemoryGrowth { bytes, over: at.since(*first) });
        }
        if sizes.back().is_none_or(|(last, _)| at.since(*last) >= SIZE_INTERVAL) {
            sizes.push_back((at, bytes));
        }
        if sizes.len() > SIZES_MAX {
            sizes.pop_front();
        }
    }
}

fn sample(jobs: &SidekiqObservation) -> PastSample {
    PastSample {
        before: Duration::ZERO,
        latency: jobs.latency_max(),
        processed_per_second: jobs.processed_per_second.known().copied(),
        failed_share: jobs.failed_share.known().copied(),
        round_trip: jobs.serving().filter_map(|process| process.round_trip).max(),
    }
}

#[cfg(test)]
mod tests {
    use weir_advisor::observation::ObservedQueue;

    use super::*;

    fn jobs(latency: u64, mib: u64) -> SidekiqObservation {
        let latency = Duration::from_secs(latency);
        let queue = ObservedQueue { latency, ..ObservedQueue::default() };
        let process = JobProcess { rss_bytes: Some(mib << 20), ..JobProcess::default() };
        let (queues, processes) = (vec![queue], vec![process]);
        SidekiqObservation { queues, processes, ..SidekiqObservation::default() }
    }

    #[test]
    fn a_sample_a_minute_is_kept_for_three_hours() {
        let mut past = Past::default();
        let mut last = jobs(0, 100);
        for second in (0..24_000).step_by(15) {
            last = jobs(second, 100);
            past.note(Timestamp::from_millis(second * 1_000), &mut last);
        }
        assert_eq!(last.past.len(), SAMPLES_MAX);
        let newest = last.past.last().unwrap();
        assert!(newest.before <= INTERVAL && newest.latency >= Duration::from_secs(23_900));
        assert!(last.past[0].before >= Duration::from_secs(10_700), "{:?}", last.past[0]);
    }

    #[test]
    fn growth_is_that_of_the_last_hours() {
        let mut past = Past::default();
        let mut growth = None;
        for minute in 0..300 {
            let mut now = jobs(0, 100 + minute);
            past.note(Timestamp::from_millis(minute * 60_000), &mut now);
            growth = now.processes[0].growth;
        }
        let MemoryGrowth { bytes, over } = growth.unwrap();
        assert_eq!(bytes >> 20, over.as_secs() / 60, "one megabyte a minute");
        assert!((6_600..=7_500).contains(&over.as_secs()), "{over:?}");
    }
}
