//! One timed phase: opens all connections, starts the clock, runs the threads, and reads the CPU time of client and
//! server.

use std::net::TcpStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::connect;
use super::role::Role;
use super::server_url::ServerUrl;
use super::settings::LoadSettings;
use super::tallies::JobTallies;
use crate::clock::{now, own_cpu_time};
use crate::event_loop::{self, LoadError, Progress};
use crate::process_usage::{self, Usage};

/// The server under load and the processes whose CPU and memory are measured.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) url: ServerUrl,
    pub(crate) pids: Vec<u32>,
}

#[derive(Debug, Clone)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// From the first command to the last reply.
    pub(crate) elapsed: Duration,
    pub(crate) tallies: JobTallies,
    pub(crate) client_cpu: Duration,
    /// Before and after; `None` without a `--server-pid`.
    pub(crate) server: Option<(Usage, Usage)>,
}

impl Target {
    pub(crate) fn usage(&self) -> Result<Option<Usage>> {
        if self.pids.is_empty() {
            return Ok(None);
        }
        process_usage::read(&self.pids).map(Some)
    }
}

/// Runs `roles`, one per connection, spread evenly over the threads.
pub(crate) fn run(
    name: &'static str,
    target: &Target,
    settings: &LoadSettings,
    progress: &Progress,
    wid: &str,
    roles: Vec<Role<'_>>,
) -> Result<Phase> {
    let threads = settings.threads.min(roles.len()).max(1);
    let mut groups: Vec<Vec<(TcpStream, Role<'_>)>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, role) in roles.into_iter().enumerate() {
        let wid = (!matches!(role, Role::Pusher(_))).then_some(wid);
        let stream = connect::open(&target.url, wid, settings.operation_timeout)
            .with_context(|| format!("opening connection {}", index + 1))?;
        groups[index % threads].push((stream, role));
    }
    let server_before = target.usage()?;
    let cpu_before = own_cpu_time();
    let (started, finished, tallies) = run_threads(groups, settings, progress)
        .with_context(|| format!("{name} on {}", target.url))?;
    let client_cpu = own_cpu_time().saturating_sub(cpu_before);
    let server = server_before.zip(target.usage()?);
    Ok(Phase { name, elapsed: finished - started, tallies, client_cpu, server })
}

fn run_threads(
    groups: Vec<Vec<(TcpStream, Role<'_>)>>,
    settings: &LoadSettings,
    progress: &Progress,
) -> Result<(Instant, Instant, JobTallies)> {
    let start = Barrier::new(groups.len());
    let outcomes: Vec<Result<_, LoadError>> = std::thread::scope(|scope| {
        let start = &start;
        let spawn = |group| {
            scope.spawn(move || {
                start.wait();
                let mut tallies = JobTallies::new();
                let started = now();
                let timeouts = settings.timeouts();
                let finished = event_loop::run(group, progress, timeouts, &mut tallies)?;
                Ok((started, finished, tallies))
            })
        };
        let threads: Vec<_> = groups.into_iter().map(spawn).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|outcome| outcome.expect("a load thread does not panic")).collect()
    });
    merge_outcomes(outcomes)
}

/// Merges the threads' outcomes. The error of the thread that failed takes precedence over those of threads that were
/// stopped because of it.
fn merge_outcomes(
    outcomes: Vec<Result<(Instant, Instant, JobTallies), LoadError>>,
) -> Result<(Instant, Instant, JobTallies)> {
    let mut merged: Option<(Instant, Instant, JobTallies)> = None;
    let mut abandoned = None;
    for outcome in outcomes {
        match (outcome, &mut merged) {
            (Err(LoadError::Abandoned), _) => abandoned = Some(LoadError::Abandoned),
            (Err(cause), _) => return Err(cause.into()),
            (Ok(outcome), None) => merged = Some(outcome),
            (Ok((started, finished, tallies)), Some(all)) => {
                all.0 = all.0.min(started);
                all.1 = all.1.max(finished);
                all.2.merge(&tallies);
            }
        }
    }
    if let Some(cause) = abandoned {
        return Err(cause.into());
    }
    merged.context("no thread ran")
}
