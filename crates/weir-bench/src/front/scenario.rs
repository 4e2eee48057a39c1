//! One run: the client's, and what it and the server spent meanwhile.

use std::time::Duration;

use anyhow::{Context, Result};

use super::settings::LoadSettings;
use super::tally::FrontTally;
use super::url::AppUrl;
use super::{client, probe};
use crate::clock::{now, own_cpu_time};
use crate::process_usage::{self, Usage};

/// The server under load and the processes that are charged for it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) url: AppUrl,
    pub(crate) pids: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) tally: FrontTally,
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

pub(crate) fn run(target: &Target, settings: &LoadSettings) -> Result<Run> {
    probe::ask(&target.url, settings.timeout)?;
    let server_before = target.usage()?;
    let cpu_before = own_cpu_time();
    let tally = client::run(&target.url, settings, now());
    let tally = tally.with_context(|| target.url.to_string())?;
    let client_cpu = own_cpu_time().saturating_sub(cpu_before);
    let server = server_before.zip(target.usage()?);
    Ok(Run { tally, client_cpu, server })
}
