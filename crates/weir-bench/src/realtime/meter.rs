//! What a stretch of a run cost the client and the server.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::target::Target;
use crate::clock::{now, own_cpu_time};
use crate::process_usage::Usage;

#[derive(Debug)]
pub(crate) struct Meter<'a> {
    target: &'a Target,
    server: Option<Usage>,
    client_cpu: Duration,
    pub(crate) started: Instant,
}

#[derive(Debug, Clone)]
pub(crate) struct Spent {
    pub(crate) elapsed: Duration,
    pub(crate) client_cpu: Duration,
    /// Before and after; `None` without a `--server-pid`.
    pub(crate) server: Option<(Usage, Usage)>,
}

impl<'a> Meter<'a> {
    pub(crate) fn start(target: &'a Target) -> Result<Self> {
        let server = target.usage()?;
        Ok(Self { target, server, client_cpu: own_cpu_time(), started: now() })
    }

    /// Reads all again; the stretch ended at `end`.
    pub(crate) fn stop(self, end: Instant) -> Result<Spent> {
        let client_cpu = own_cpu_time().saturating_sub(self.client_cpu);
        let server = self.server.zip(self.target.usage()?);
        Ok(Spent { elapsed: end.saturating_duration_since(self.started), client_cpu, server })
    }
}

impl Spent {
    pub(crate) fn server_cpu(&self) -> Option<Duration> {
        self.server.map(|(before, after)| after.cpu.saturating_sub(before.cpu))
    }
}
