//! Replaces the service process without a gap: the new process is started beside the old one with
//! the same listening sockets, and the old one is notified when the new one serves. For what
//! happens to the old one then, see [`lingering`](super::lingering).
//!
//! The new process sends [`ChildStatus::Standby`] and then waits for resources that only one
//! process can hold (a store's lock), which the old one releases when it is notified. If the new
//! process ends before it sends a word, or takes too long, the old one continues unchanged.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::process::Signal;

use super::{Events, Supervisor};
use crate::child::{self, ChildProcess, ChildState};
use crate::inherited::ChildStatus;
use crate::workers::{CommandSender, ServiceCommand};

/// How long a new service process may take until it serves: it may have a large store to read.
pub const REPLACE_DEADLINE: Duration = Duration::from_secs(120);

impl Supervisor {
    /// Lets [`ControlRequest::Replace`](crate::requests::ControlRequest::Replace) replace the first
    /// child, the service, which must be able to run twice for a while: see
    /// [`ChildStatus::Standby`]. `deadline` is how long the new process may take until it serves
    /// ([`REPLACE_DEADLINE`]).
    #[must_use]
    pub fn replacing_service_within(mut self, deadline: Duration) -> Self {
        self.replace_deadline = Some(deadline);
        self
    }

    /// Starts a successor of the first child, which is the service.
    pub(super) fn replace_service(
        &mut self,
        now: Duration,
        requester: Option<CommandSender>,
        events: &mut dyn Events,
    ) {
        let result = self.may_be_replaced().and_then(|()| {
            self.notify.reloading();
            events.replacing()?;
            self.start_successor(now).inspect_err(|_| events.replaced(false))
        });
        match result {
            Ok(()) => self.requester = requester,
            Err(reason) => {
                tracing::error!("the service is not replaced: {reason}");
                self.notify.ready("serving; the service was not replaced");
                self.report_outcome(requester, Err(reason));
            }
        }
    }

    pub(super) fn may_be_replaced(&self) -> Result<(), String> {
        let service = self.children.first().filter(|_| self.replace_deadline.is_some());
        let Some(service) = service else { return Err("it can't run twice".into()) };
        if self.stopping {
            return Err("everything is being stopped".into());
        }
        let waits_for_end = service.spec.old_processes_max.is_none() && !self.lingering.is_empty();
        if self.successor.is_some() || waits_for_end {
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
        let mut process = ChildProcess::start(&service.spec, service.has_control, now)
            .map_err(|error| format!("{program} can't be started: {error}"))?;
        let pid = process.pid.as_raw_nonzero();
        tracing::info!(child = name, pid, "started to replace the present one");
        process.kill_at = Some(now + deadline);
        let control = process.control.take();
        self.successor = Some(Box::new(process));
        self.connect_to_workers(control);
        Ok(())
    }

    /// Runs the commands that the service has sent.
    pub(super) fn run_service_commands(&mut self, now: Duration, events: &mut dyn Events) {
        let commands = self.workers.as_mut().map(|workers| workers.take_service_commands());
        for (command, requester) in commands.into_iter().flatten() {
            match command {
                ServiceCommand::ReplaceService => {
                    self.replace_service(now, Some(requester), events)
                }
                ServiceCommand::Upgrade => self.upgrade(now, Some(requester), events),
            }
        }
    }

    pub(super) fn is_being_replaced(&self) -> bool {
        self.successor.is_some()
    }

    /// Runs a reload that waited for the end of a replacement.
    pub(super) fn reload_if_waiting(&mut self, events: &mut dyn Events) {
        if !self.is_being_replaced() && std::mem::take(&mut self.reload_waits) {
            self.reload(events);
        }
    }

    /// Records whether the service that replaced another serves (`is_done`) or has died.
    pub(super) fn report_proven(&mut self, is_done: bool, events: &mut dyn Events) {
        if std::mem::take(&mut self.is_unproven) {
            events.replaced(is_done);
            self.retires_groups |= is_done;
        }
    }

    pub(super) fn report_outcome(
        &mut self,
        requester: Option<CommandSender>,
        outcome: Result<(), String>,
    ) {
        if let (Some(requester), Some(workers)) = (requester, &mut self.workers) {
            workers.reply(requester, outcome);
        }
    }

    /// Kills a successor that is past its deadline.
    pub(super) fn run_successor(&mut self, now: Duration) {
        let Some(process) = &mut self.successor else { return };
        if process.kill_at.is_some_and(|time| time <= now) {
            let pid = process.pid.as_raw_nonzero();
            tracing::warn!(pid, "killed at its deadline while it was to replace the service");
            process.kill_at = None;
            process.signal(Signal::KILL);
            self.killed |= self.stopping;
        }
    }

    pub(super) fn listen_to_successor(&mut self, now: Duration, events: &mut dyn Events) {
        let Some(process) = &mut self.successor else { return };
        process.output.forward(self.output.as_fd());
        let statuses = process.read_statuses();
        let is_ready = statuses.contains(&ChildStatus::Ready);
        if is_ready {
            process.ready_at = Some(now);
        }
        if !statuses.is_empty() {
            process.alive_at = now;
        }
        let may_take_over = is_ready || statuses.contains(&ChildStatus::Standby);
        if !self.stopping && (may_take_over || self.service_is_gone()) {
            self.take_over(now, events);
        }
        self.reap_successor(events);
    }

    /// Returns whether the service died while its successor was starting.
    fn service_is_gone(&self) -> bool {
        self.children
            .first()
            .is_some_and(|service| matches!(service.state, ChildState::Waiting { .. }))
    }

    /// Makes the successor the service.
    fn take_over(&mut self, now: Duration, events: &mut dyn Events) {
        let Some(mut new) = self.successor.take() else { return };
        // Before the old process is notified: it forwards the reply.
        let requester = self.requester.take();
        self.report_outcome(requester, Ok(()));
        self.is_unproven = true;
        if new.ready_at.is_some() {
            self.notify.ready("serving");
            self.report_proven(true, events);
        }
        let service = &mut self.children[0];
        new.kill_at = None;
        tracing::info!(child = service.spec.name, pid = new.pid.as_raw_nonzero(), "takes over");
        if let Some(old) = service.take_over(new) {
            self.let_linger(*old, now);
        }
    }

    fn reap_successor(&mut self, events: &mut dyn Events) {
        let Some(process) = &mut self.successor else { return };
        let Some(status) = process.reap(self.output.as_fd()) else { return };
        let (pid, mut description) = (process.pid.as_raw_nonzero(), child::describe(status));
        if process.kill_at.is_none() {
            description.push_str(": it did not serve within supervisor.replace_deadline");
        }
        if self.stopping {
            tracing::info!(pid, "{description}");
        } else {
            let reason = super::with_last_lines(&description, &process.output.last_lines());
            tracing::error!(pid, "replacement failed, the present service stays: {reason}");
            self.notify.ready("serving; the service was not replaced");
            events.replaced(false);
            let requester = self.requester.take();
            self.report_outcome(requester, Err(format!("the new service process {reason}")));
        }
        self.successor = None;
    }
}
