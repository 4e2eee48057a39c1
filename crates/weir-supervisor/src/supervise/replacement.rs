//! Replaces the service process without a gap: the new one is started beside the old with the same
//! listening sockets, and the old one is asked to end when the new one serves.
//!
//! What only one process can hold (a store's lock) the new one waits for after it has said
//! [`Word::Standby`]: the old one lets go of it while it ends. If the new one ends before it said
//! anything, or takes too long, the old one stays as if nothing had happened.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::process::Signal;

use super::Supervisor;
use crate::child::{self, Process, State};
use crate::inherited::Word;

/// How long a new service process may take until it serves: it may have a large store to read.
pub const REPLACE_DEADLINE: Duration = Duration::from_secs(120);

/// The process beside the service.
#[derive(Debug)]
pub(super) enum Replacement {
    /// To take the service's place.
    Starting(Box<Process>),
    /// Whose place was taken.
    Leaving(Box<Process>),
}

impl Replacement {
    pub(super) fn process(&self) -> &Process {
        match self {
            Self::Starting(process) | Self::Leaving(process) => process,
        }
    }

    fn process_mut(&mut self) -> &mut Process {
        match self {
            Self::Starting(process) | Self::Leaving(process) => process,
        }
    }
}

impl Supervisor {
    /// Lets the first child, the service, be replaced by [`Request::Replace`](crate::requests). It
    /// must be able to run twice for a while: see [`Word::Standby`]. `deadline`: how long the new
    /// process may take until it serves ([`REPLACE_DEADLINE`]).
    #[must_use]
    pub fn replacing_service_within(mut self, deadline: Duration) -> Self {
        self.replace_deadline = Some(deadline);
        self
    }

    /// Starts a successor of the first child, which is the service.
    pub(super) fn replace_service(&mut self, now: Duration) {
        let (Some(service), Some(deadline)) = (self.children.first(), self.replace_deadline) else {
            tracing::warn!("asked to replace the service, which can't run twice: nothing is done");
            return;
        };
        if self.stopping || self.replacement.is_some() || !service.is_ready() {
            tracing::warn!("the service is not replaced now: it is starting, ending or replaced");
            return;
        }
        match Process::start(&service.spec, service.has_control, now) {
            Ok(mut process) => {
                let pid = process.pid.as_raw_nonzero();
                tracing::info!(
                    child = service.spec.name,
                    pid,
                    "started to replace the present one"
                );
                process.kill_at = Some(now + deadline);
                let control = process.control.take();
                self.replacement = Some(Replacement::Starting(Box::new(process)));
                self.connect_to_workers(control);
            }
            Err(error) => tracing::error!(%error, "the service can't be replaced"),
        }
    }

    /// Kills who is overdue.
    pub(super) fn run_replacement(&mut self, now: Duration) {
        let Some(replacement) = &mut self.replacement else { return };
        let process = replacement.process_mut();
        if process.kill_at.is_some_and(|at| at <= now) {
            let pid = process.pid.as_raw_nonzero();
            tracing::warn!(pid, "killed at its deadline while the service is replaced");
            process.kill_at = None;
            process.signal(Signal::KILL);
            self.killed |= self.stopping;
        }
    }

    pub(super) fn listen_to_replacement(&mut self, now: Duration) {
        let Some(replacement) = &mut self.replacement else { return };
        let process = replacement.process_mut();
        process.output.pass_on(self.output.as_fd());
        let words = process.words();
        let is_ready = words.contains(&Word::Ready);
        if is_ready {
            process.ready_at = Some(now);
        }
        if !words.is_empty() {
            process.alive_at = now;
        }
        let may_take_over = is_ready || words.contains(&Word::Standby);
        let is_starting = matches!(replacement, Replacement::Starting(_));
        if is_starting && !self.stopping && (may_take_over || self.service_is_gone()) {
            self.take_over(now);
        }
        self.reap_replacement();
    }

    /// The service died while its successor was starting.
    fn service_is_gone(&self) -> bool {
        self.children.first().is_some_and(|service| matches!(service.state, State::Waiting { .. }))
    }

    /// The successor becomes the service.
    fn take_over(&mut self, now: Duration) {
        let Some(Replacement::Starting(mut new)) = self.replacement.take() else { return };
        let service = &mut self.children[0];
        new.kill_at = None;
        tracing::info!(child = service.spec.name, pid = new.pid.as_raw_nonzero(), "takes over");
        let deadline = service.spec.stop_deadline;
        if let State::Running(mut old) = std::mem::replace(&mut service.state, State::Running(new))
        {
            old.stop(now, deadline);
            self.replacement = Some(Replacement::Leaving(old));
        }
    }

    fn reap_replacement(&mut self) {
        let Some(replacement) = &mut self.replacement else { return };
        let is_starting = matches!(replacement, Replacement::Starting(_));
        let process = replacement.process_mut();
        let Some(status) = process.reap(self.output.as_fd()) else { return };
        let (pid, how) = (process.pid.as_raw_nonzero(), child::describe(status));
        if is_starting && !self.stopping {
            let reason = super::with_last_lines(&how, &process.output.last_lines());
            tracing::error!(pid, "replacement failed, the present service stays: {reason}");
        } else {
            tracing::info!(pid, "{how}");
        }
        self.replacement = None;
    }

    pub(super) fn replacement_wakes_at(&self) -> Option<Duration> {
        self.replacement.as_ref()?.process().kill_at
    }

    /// Everything ends: so does a successor that is starting.
    pub(super) fn stop_replacement(&mut self, now: Duration) {
        let Some(service) = self.children.first() else { return };
        if let Some(Replacement::Starting(process)) = &mut self.replacement {
            process.stop(now, service.spec.stop_deadline);
        }
    }

    pub(super) fn kill_replacement(&self) {
        if let Some(replacement) = &self.replacement {
            replacement.process().signal(Signal::KILL);
        }
    }
}
