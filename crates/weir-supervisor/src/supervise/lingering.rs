//! Replaced service processes that still have connections: WebSockets, event streams, long
//! responses, clients that may reuse a connection. Each ends by itself once these have closed.
//!
//! They must continue to send signs of life and are killed if they do not. Their number is limited:
//! beyond [`old_processes_max`](crate::ChildSpec::old_processes_max) the oldest closes its streams,
//! beyond [`LINGERING_MAX`] it is asked to end. At shutdown they end with everything else.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::process::Signal;

use super::Supervisor;
use crate::child::{self, ChildProcess};
use crate::workers::LINGERING_MAX;

impl Supervisor {
    /// Notifies `old` that it was replaced, and keeps supervising it until it ends.
    pub(super) fn let_linger(&mut self, mut old: ChildProcess, now: Duration) {
        let spec = &self.children[0].spec;
        let deadline = spec.stop_deadline;
        match spec.old_processes_max {
            Some(_) if old.can_linger => old.send_replaced(),
            // Its program does not support running on.
            _ => old.stop(now, deadline),
        }
        self.lingering.push(old);
        let beyond = self.lingering.len().saturating_sub(LINGERING_MAX);
        for process in self.lingering.iter_mut().take(beyond) {
            if process.kill_at.is_none() {
                let pid = process.pid.as_raw_nonzero();
                tracing::warn!(pid, "too many old service processes; the oldest is asked to end");
                process.stop(now, deadline);
            }
        }
        self.close_streams_beyond();
    }

    /// Tells the oldest processes beyond the limit to close their streams.
    fn close_streams_beyond(&mut self) {
        let Some(max) = self.children[0].spec.old_processes_max else { return };
        let keeps_streams =
            |process: &&mut ChildProcess| process.kill_at.is_none() && !process.closes_streams;
        let with_streams: Vec<_> = self.lingering.iter_mut().filter(keeps_streams).collect();
        let beyond = with_streams.len().saturating_sub(max);
        for process in with_streams.into_iter().take(beyond) {
            let pid = process.pid.as_raw_nonzero();
            tracing::info!(
                pid,
                "more old service processes than supervisor.old_processes_max; it closes its streams"
            );
            process.close_streams();
        }
    }

    /// Kills processes that are past their deadline or silent.
    pub(super) fn run_lingering(&mut self, now: Duration) {
        for process in &mut self.lingering {
            process.check_silence("old service", now);
            if process.kill_at.is_some_and(|time| time <= now) {
                let pid = process.pid.as_raw_nonzero();
                tracing::warn!(pid, "an old service process still runs at its deadline; killed");
                process.kill_at = Some(Duration::MAX);
                process.signal(Signal::KILL);
                self.killed |= self.stopping;
            }
        }
    }

    pub(super) fn listen_to_lingering(&mut self, now: Duration) {
        let output = self.output.as_fd();
        self.lingering.retain_mut(|process| {
            process.output.forward(output);
            if !process.read_statuses().is_empty() {
                process.alive_at = now;
                process.silence.broken(now);
            }
            let Some(status) = process.reap(output) else { return true };
            let (pid, description) = (process.pid.as_raw_nonzero(), child::describe(status));
            tracing::info!(pid, "an old service process {description}");
            false
        });
        if let Some(workers) = &mut self.workers {
            workers.totals.old_processes = u32::try_from(self.lingering.len()).unwrap_or(u32::MAX);
        }
    }

    /// Returns all service processes except the current one.
    pub(super) fn other_service_processes(&self) -> impl Iterator<Item = &ChildProcess> {
        self.successor.as_deref().into_iter().chain(&self.lingering)
    }

    pub(super) fn other_services_wake_at(&self) -> impl Iterator<Item = Duration> {
        let lingering = self.lingering.iter().filter_map(|process| process.silence.check_at());
        self.other_service_processes().filter_map(|process| process.kill_at).chain(lingering)
    }

    /// Asks all of them to end, as part of a shutdown.
    pub(super) fn stop_other_services(&mut self, now: Duration) {
        let Some(service) = self.children.first() else { return };
        let deadline = service.spec.stop_deadline;
        if let Some(successor) = &mut self.successor {
            successor.stop(now, deadline);
        }
        for process in &mut self.lingering {
            if process.kill_at.is_none() {
                process.stop(now, deadline);
            }
        }
    }

    pub(super) fn kill_other_services(&self) {
        for process in self.other_service_processes() {
            process.signal(Signal::KILL);
        }
    }
}
