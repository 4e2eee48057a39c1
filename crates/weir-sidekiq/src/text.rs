//! Exposes the parsers of text from Redis to the fuzz target. Any client may have written that
//! text.

use crate::heartbeat::{Capsule, HeartbeatInfo, RunningJob};
use crate::job::JobSummary;
use crate::server::{CommandSample, ServerSample};
use crate::snapshot::RunningJobSample;

/// Parses a job's payload.
#[must_use]
pub fn job(payload: &[u8]) -> Option<JobSummary> {
    JobSummary::parse(payload)
}

/// Parses the `info` of a heartbeat.
#[must_use]
pub fn capsules(info: &[u8]) -> Option<Vec<Capsule>> {
    HeartbeatInfo::parse(info).map(|info| info.capsules())
}

/// Parses a job in progress.
#[must_use]
pub fn work(text: &[u8]) -> Option<RunningJobSample> {
    let work = RunningJob::parse(text)?;
    Some(RunningJobSample { run_at: work.run_at, job: work.job(), queue: work.queue })
}

/// Parses the replies to `INFO` and `INFO commandstats`.
#[must_use]
pub fn server(info: &str, commands_max: usize) -> (ServerSample, Vec<CommandSample>) {
    (ServerSample::parse(info), CommandSample::parse(info, commands_max))
}
