//! One run: the client's counters, and the CPU time of client and server.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};

use super::tally::HttpTally;
use super::url::HttpUrl;
use super::{Load, LoadProfile, client};
use crate::clock::{now, own_cpu_time};
use crate::process_usage::{self, Usage};

/// The server under load and the processes whose CPU and memory are measured.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) url: HttpUrl,
    pub(crate) pids: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct HttpRun {
    pub(crate) tally: HttpTally,
    pub(crate) client_cpu: Duration,
    /// Before and after; `None` without a `--server-pid`.
    pub(crate) server: Option<(Usage, Usage)>,
}

impl Target {
    fn usage(&self) -> Result<Option<Usage>> {
        if self.pids.is_empty() {
            return Ok(None);
        }
        process_usage::read(&self.pids).map(Some)
    }
}

/// `http://host:port[/path][,PID..]`.
impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split(',');
        let url = parts.next().unwrap_or_default().parse()?;
        let pids = parts.map(|pid| pid.parse::<u32>().with_context(|| format!("PID {pid}")));
        Ok(Self { url, pids: pids.collect::<Result<_>>()? })
    }
}

pub(crate) fn run<L: Load>(
    target: &Target,
    load: &mut L,
    profile: &LoadProfile,
) -> Result<HttpRun> {
    let server_before = target.usage()?;
    let cpu_before = own_cpu_time();
    let tally = client::run(&target.url, load, profile, now());
    let tally = tally.with_context(|| target.url.to_string())?;
    let client_cpu = own_cpu_time().saturating_sub(cpu_before);
    let server = server_before.zip(target.usage()?);
    Ok(HttpRun { tally, client_cpu, server })
}
