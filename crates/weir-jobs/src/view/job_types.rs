//! Statistics by type of job. They are those of one process of Weir, and begin with it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job_types::WINDOW;

/// What the figures are about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TypeFiguresSource {
    /// The name of the machine whose Weir has counted them.
    pub node: String,
    pub now: f64,
    /// When the totals begin: the last start of this Weir.
    pub since: f64,
    /// The time that the recent figures are about, which ends at `now`: whole slices of five minutes, and the present
    /// one.
    pub window_seconds: f64,
    /// Whether other nodes and Sidekiq take jobs from the store as well. Theirs are not counted here.
    pub is_shared: bool,
}

/// All types that had a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobTypesView {
    #[serde(flatten)]
    pub source: TypeFiguresSource,
    pub types: Vec<JobTypeView>,
    /// The jobs of all types beyond `types_max`.
    pub other: Option<JobTypeView>,
    /// `jobs.limits.advanced.job_types_max`
    pub types_max: u64,
    /// The recent runs of all jobs together, also of types that were not selected.
    pub run_seconds: f64,
}

/// The figures of one type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobTypeView {
    pub jobtype: String,
    /// Jobs that workers have reserved now.
    pub running: u64,
    /// When a job last started or ended.
    pub last_at: f64,
    pub recent: TypeCounts,
    /// Since the start.
    pub total: TypeCounts,
    /// From when a job was ready to run until its reservation, recently. `None`: none started.
    pub wait: Option<DurationsView>,
    /// From the reservation of a job until its ACK, its FAIL, or the end of the reservation. `None`: none ended.
    pub run: Option<DurationsView>,
    pub last_failure: Option<LastFailureView>,
}

/// Counts of jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TypeCounts {
    pub started: u64,
    /// With or without an error.
    pub ended: u64,
    pub failed: u64,
    /// Started jobs that did not end: their worker ended first, or they were not delivered.
    pub returned: u64,
    /// The share of those that failed in those that ended. `None`: none ended.
    pub failed_share: Option<f64>,
    /// The waits of all started jobs together.
    pub wait_seconds: f64,
    /// The runs of all ended jobs together.
    pub run_seconds: f64,
}

/// Percentiles of durations. They may be up to an eighth off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DurationsView {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    /// Exact.
    pub max: f64,
}

/// The last failure of a type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastFailureView {
    pub errtype: String,
    pub at: f64,
    /// Since then, jobs fail with this error, without a pause of an hour.
    pub since: f64,
}

impl LastFailureView {
    /// Returns for how many seconds jobs fail with this error, or failed with it the last time.
    #[must_use]
    pub fn lasted(&self, now: f64) -> f64 {
        lasted(self.since, self.at, now)
    }
}

/// One type with all that is known of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobTypeDetails {
    #[serde(flatten)]
    pub source: TypeFiguresSource,
    #[serde(flatten)]
    pub figures: JobTypeView,
    /// Failures by the class of their error, the most frequent recent ones first.
    pub errors: Vec<ErrorGroupView>,
    /// The failures of all classes beyond `jobs.limits.advanced.job_type_groups_max`.
    pub other_errors: Option<ErrorGroupView>,
    /// Starts by queue, the most frequent recent ones first.
    pub queues: Vec<TypeQueueView>,
    /// The starts from all queues beyond that limit.
    pub other_queues: Option<TypeQueueView>,
    /// The slices of the recent time, the latest last.
    pub slices: Vec<TypeSliceView>,
}

/// Failures with one class of error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorGroupView {
    pub errtype: String,
    pub recent: u64,
    /// Since `first_at`.
    pub total: u64,
    pub first_at: f64,
    /// Since then, jobs fail with this error, without a pause of an hour.
    pub since: f64,
    pub last_at: f64,
    /// The job that failed last, and its message, shortened.
    pub jid: String,
    pub message: String,
}

impl ErrorGroupView {
    /// Returns for how many seconds jobs fail with this error, or failed with it the last time.
    #[must_use]
    pub fn lasted(&self, now: f64) -> f64 {
        lasted(self.since, self.last_at, now)
    }
}

fn lasted(since: f64, last_at: f64, now: f64) -> f64 {
    let has_ended = now - last_at >= WINDOW.as_secs_f64();
    let until = if has_ended { last_at } else { now };
    (until - since).max(0.0)
}

/// Starts of jobs from one queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TypeQueueView {
    pub queue: String,
    pub recent: u64,
    /// Of all recent starts of the type.
    pub recent_share: f64,
    pub total: u64,
    pub total_share: f64,
}

/// Five minutes, or the part of them since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TypeSliceView {
    /// When it begins.
    pub at: f64,
    #[serde(flatten)]
    pub counts: TypeCounts,
    pub wait: Option<DurationsView>,
    pub run: Option<DurationsView>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_lasts_until_it_pauses_for_an_hour() {
        let failure = LastFailureView { at: 300.0, since: 100.0, ..LastFailureView::default() };
        let group = ErrorGroupView { last_at: 300.0, since: 100.0, ..ErrorGroupView::default() };
        for (now, seconds) in [(300.0, 200.0), (3_000.0, 2_900.0), (3_900.0, 200.0), (50.0, 0.0)] {
            assert_eq!((failure.lasted(now), group.lasted(now)), (seconds, seconds), "{now}");
        }
    }
}
