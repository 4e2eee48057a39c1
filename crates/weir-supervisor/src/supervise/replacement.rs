//! Replaces the service process without a gap: the new one is started beside the old with the same
//! listening sockets, and the old one is asked to end when the new one serves.
//!
//! What only one process can hold (a store's lock) the new one waits for after it has said
//! [`Word::Standby`]: the old one lets go of it while it ends. If the new one ends before it said
//! anything, or takes too long, the old one stays as if nothing had happened.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::process::Signal;

use super::{Events, Supervisor};
use crate::child::{self, Process, State};
use crate::inherited::Word;
use crate::workers::{Asker, Wish};

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
    pub(super) fn replace_service(
        &mut self,
        now: Duration,
        asker: Option<Asker>,
        events: &mut dyn Events,
    ) {
        let started = self.may_be_replaced().and_then(|()| {
            self.notify.reloading();
            events.replacing()?;
            self.start_successor(now).inspect_err(|_| events.replaced(false))
        });
        match started {
            Ok(()) => self.asker = asker,
            Err(reason) => {
                tracing::error!("the service is not replaced: {reason}");
                self.notify.ready("serving; the service was not replaced");
                self.tell(asker, Err(reason));
            }
        }
    }

    pub(super) fn may_be_replaced(&self) -> Result<(), String> {
        let service = self.children.first().filter(|_| self.replace_deadline.is_some());
        let Some(service) = service else { return Err("it can't run twice".into()) };
        if self.stopping {
            return Err("everything is being stopped".into());
        }
        if self.replacement.is_some() {
            return Err("it is being replaced already".into());
        }
        if !service.is_ready() {
            return Err("it is starting; wait until it serves".into());
        }
        Ok(())
    }

    fn start_successor(&mut self, now: Duration) -> Result<(), String> {
        let (service, deadline) = (&self.children[0], self.replace_deadline.unwrap_or_default());
        let (name, program) = (&service.spec.name, service.spec.program.display());
        let mut process = Process::start(&service.spec, service.has_control, now)
            .map_err(|error| format!("{program} can't be started: {error}"))?;
        let pid = process.pid.as_raw_nonzero();
        tracing::info!(child = name, pid, "started to replace the present one");
        process.kill_at = Some(now + deadline);
        let control = process.control.take();
        self.replacement = Some(Replacement::Starting(Box::new(process)));
        self.connect_to_workers(control);
        Ok(())
    }

    /// What the service asks for.
    pub(super) fn follow_wishes(&mut self, now: Duration, events: &mut dyn Events) {
        let wishes = self.workers.as_mut().map(|workers| workers.take_wishes());
        for (wish, asker) in wishes.into_iter().flatten() {
            match wish {
                Wish::ReplaceService => self.replace_service(now, Some(asker), events),
                Wish::Upgrade => self.upgrade(now, Some(asker), events),
            }
        }
    }

    pub(super) fn is_being_replaced(&self) -> bool {
        matches!(self.replacement, Some(Replacement::Starting(_)))
    }

    /// A reload that had to wait.
    pub(super) fn reload_late(&mut self, events: &mut dyn Events) {
        if !self.is_being_replaced() && std::mem::take(&mut self.reload_waits) {
            self.reload(events);
        }
    }

    /// Whether the service that has taken another's place serves, or has died before.
    pub(super) fn note_proven(&mut self, is_done: bool, events: &mut dyn Events) {
        if std::mem::take(&mut self.is_unproven) {
            events.replaced(is_done);
            self.retires_groups |= is_done;
        }
    }

    pub(super) fn tell(&mut self, asker: Option<Asker>, outcome: Result<(), String>) {
        if let (Some(asker), Some(workers)) = (asker, &mut self.workers) {
            workers.grant(asker, outcome);
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

    pub(super) fn listen_to_replacement(&mut self, now: Duration, events: &mut dyn Events) {
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
            self.take_over(now, events);
        }
        self.reap_replacement(events);
    }

    /// The service died while its successor was starting.
    fn service_is_gone(&self) -> bool {
        self.children.first().is_some_and(|service| matches!(service.state, State::Waiting { .. }))
    }

    /// The successor becomes the service.
    fn take_over(&mut self, now: Duration, events: &mut dyn Events) {
        let Some(Replacement::Starting(mut new)) = self.replacement.take() else { return };
        // Before the old one is asked to end: it passes the answer on.
        let asker = self.asker.take();
        self.tell(asker, Ok(()));
        self.is_unproven = true;
        if new.ready_at.is_some() {
            self.notify.ready("serving");
            self.note_proven(true, events);
        }
        let service = &mut self.children[0];
        new.kill_at = None;
        tracing::info!(child = service.spec.name, pid = new.pid.as_raw_nonzero(), "takes over");
        let deadline = service.spec.stop_deadline;
        if let Some(mut old) = service.take_over(new) {
            old.stop(now, deadline);
            self.replacement = Some(Replacement::Leaving(old));
        }
    }

    fn reap_replacement(&mut self, events: &mut dyn Events) {
        let Some(replacement) = &mut self.replacement else { return };
        let is_starting = matches!(replacement, Replacement::Starting(_));
        let process = replacement.process_mut();
        let Some(status) = process.reap(self.output.as_fd()) else { return };
        let (pid, mut how) = (process.pid.as_raw_nonzero(), child::describe(status));
        if is_starting && process.kill_at.is_none() {
            how.push_str(": it did not serve within supervisor.replace_deadline");
        }
        if is_starting && !self.stopping {
            let reason = super::with_last_lines(&how, &process.output.last_lines());
            tracing::error!(pid, "replacement failed, the present service stays: {reason}");
            self.notify.ready("serving; the service was not replaced");
            events.replaced(false);
            let asker = self.asker.take();
            self.tell(asker, Err(format!("the new service process {reason}")));
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
