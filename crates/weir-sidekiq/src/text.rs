//! What Redis holds as text, which anybody who may write there has written. For who feeds it anything: the
//! fuzz target.

use crate::heartbeat::{Capsule, HeartbeatInfo, RunningJob};
use crate::job::JobSummary;
use crate::server::{CommandSample, ServerSample};
use crate::snapshot::RunningJobSample;

/// A job's payload.
#[must_use]
pub fn job(payload: &[u8]) -> Option<JobSummary> {
    JobSummary::parse(payload)
}

/// The `info` of a heartbeat.
#[must_use]
pub fn capsules(info: &[u8]) -> Option<Vec<Capsule>> {
    HeartbeatInfo::parse(info).map(|info| info.capsules())
}

/// A job in hand.
#[must_use]
pub fn work(text: &[u8]) -> Option<RunningJobSample> {
    let work = RunningJob::parse(text)?;
    Some(RunningJobSample { run_at: work.run_at, job: work.job(), queue: work.queue })
}

/// What `INFO` and `INFO commandstats` answer.
#[must_use]
pub fn server(info: &str, commands_max: usize) -> (ServerSample, Vec<CommandSample>) {
    (ServerSample::parse(info), CommandSample::parse(info, commands_max))
}
