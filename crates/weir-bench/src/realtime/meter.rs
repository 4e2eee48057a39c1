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

/// The server's largest memory, looked at often enough to see a queue fill, and seldom enough to cost little.
#[derive(Debug)]
pub(crate) struct MemoryPeak<'a> {
    target: &'a Target,
    /// `None`: nobody wants to know.
    next: Option<Instant>,
    most: u64,
}

impl<'a> MemoryPeak<'a> {
    pub(crate) fn new(target: &'a Target, is_wanted: bool) -> Self {
        Self { target, next: is_wanted.then(now), most: 0 }
    }

    pub(crate) fn sample(&mut self) -> Result<()> {
        const EVERY: Duration = Duration::from_millis(100);
        let at = now();
        if self.next.is_some_and(|next| at >= next) {
            self.next = Some(at + EVERY);
            let usage = self.target.usage()?;
            self.most = self.most.max(usage.map_or(0, |usage| usage.rss_bytes));
        }
        Ok(())
    }

    /// `None`: nothing was seen.
    pub(crate) fn most(&self) -> Option<u64> {
        Some(self.most).filter(|bytes| *bytes > 0)
    }
}
