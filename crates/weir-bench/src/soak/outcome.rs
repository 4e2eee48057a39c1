//! What a run came to, and whether it passed.

use std::time::Duration;

use super::fault::Fault;
use super::growth::Growth;
use super::jobs::JobCounts;
use super::journal::Errors;
use super::realtime::RealtimeCounts;
use super::samples::Sample;
use super::window::Windows;
use crate::latency::Latencies;

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) load: Duration,
    /// How long it took after the end of the load until all was done.
    pub(super) drain: Duration,
    pub(super) seed: u64,
    pub(super) windows: Windows,
    pub(super) start: Duration,
    pub(super) skipped: Vec<(Fault, String)>,
    pub(super) jobs: JobCounts,
    pub(super) realtime: RealtimeCounts,
    pub(super) errors: Errors,
    pub(super) requests: RequestCounts,
    pub(super) latencies: Latencies,
    pub(super) samples: Vec<Vec<Sample>>,
    pub(super) growth: Vec<Growth>,
    /// Processes that ended by themselves, faults that could not be injected, nodes that did not recover.
    pub(super) incidents: Vec<String>,
}

/// Operations of the other parts.
#[derive(Debug, Default, Clone, serde::Serialize)]
pub(super) struct RequestCounts {
    pub(super) requests: u64,
    pub(super) wrong_responses: u64,
    pub(super) gem_reads: u64,
    pub(super) gem_pushes: u64,
    pub(super) page_reads: u64,
    pub(super) slow_connections: u64,
    pub(super) slow_closed: u64,
}

impl Outcome {
    /// Returns the violations by name, without those of which there are none.
    pub(super) fn violations(&self) -> Vec<(&'static str, u64)> {
        let (jobs, realtime) = (&self.jobs, &self.realtime);
        let growing = self.growth.iter().filter(|growth| growth.is_too_much()).count() as u64;
        let all = [
            ("acknowledged jobs lost", jobs.lost),
            ("jobs that ran again without a failure or a fault", jobs.run_again_unexplained),
            ("jobs of one queue reordered without a fault", jobs.reordered),
            ("unique jobs accepted while the lock was held", jobs.unique_violations),
            ("batches without callback", jobs.batches_without_callback),
            ("batches with two callbacks", jobs.batches_with_two_callbacks),
            ("callbacks before the end of a job", jobs.callbacks_too_early),
            ("jobs that nobody pushed", jobs.foreign),
            ("acknowledged events lost without a gap", realtime.lost),
            ("events reordered", realtime.reordered),
            ("events delivered twice", realtime.duplicated),
            ("subscribers without the last event", realtime.incomplete),
            ("gaps without a fault", realtime.gaps_unexplained),
            ("gaps in durable histories", realtime.gaps_of_durable),
            ("wrong responses", self.requests.wrong_responses),
            ("errors without a fault", self.errors.unexplained()),
            ("figures that grow", growing),
            ("incidents", self.incidents.len() as u64),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    pub(super) fn operations(&self) -> u64 {
        let RequestCounts { requests, gem_reads, gem_pushes, page_reads, .. } = self.requests;
        let others = requests + gem_reads + gem_pushes + page_reads;
        self.jobs.pushed
            + self.jobs.runs
            + self.realtime.published
            + self.realtime.delivered
            + others
    }
}
