//! Resources that client and server spent on a part of a run.

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

    /// Returns what was spent since the start. The part of the run ended at `end`.
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

/// Samples the server's memory and keeps the maximum: often enough to notice a queue that fills, and rarely enough to
/// cost little.
#[derive(Debug)]
pub(crate) struct MemorySampler<'a> {
    target: &'a Target,
    /// `None` if sampling is disabled.
    next: Option<Instant>,
    bytes_max: u64,
}

impl<'a> MemorySampler<'a> {
    pub(crate) fn new(target: &'a Target, is_enabled: bool) -> Self {
        Self { target, next: is_enabled.then(now), bytes_max: 0 }
    }

    pub(crate) fn sample(&mut self) -> Result<()> {
        const EVERY: Duration = Duration::from_millis(100);
        let at = now();
        if self.next.is_some_and(|next| at >= next) {
            self.next = Some(at + EVERY);
            let usage = self.target.usage()?;
            self.bytes_max = self.bytes_max.max(usage.map_or(0, |usage| usage.rss_bytes));
        }
        Ok(())
    }

    /// Returns the largest sample, if there was one.
    pub(crate) fn bytes_max(&self) -> Option<u64> {
        Some(self.bytes_max).filter(|bytes| *bytes > 0)
    }
}
