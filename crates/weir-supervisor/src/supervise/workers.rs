//! The supervisor's workers: they outlive service processes and end after them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::PollFd;
use rustix::process::Pid;

use super::Supervisor;
use crate::child::{Child, ChildState};
use crate::orphans::Orphans;
use crate::workers::Fleet;

impl Supervisor {
    /// Adds `workers`. The first child is the service: each generation of it gets a [control
    /// channel](crate::control) to them. The thread that runs the supervisor must live as long as
    /// the process: when it ends, workers receive their stop signal.
    #[must_use]
    pub fn with_workers(mut self, workers: Fleet) -> Self {
        if let Some(service) = self.children.first_mut() {
            service.has_control = true;
        }
        self.workers = Some(workers);
        self
    }

    /// Adopts and reaps orphaned descendants. From then on the supervisor reaps every unknown child
    /// of this process, so nothing else in the process may start children.
    pub fn adopting_orphans(mut self) -> io::Result<Self> {
        self.orphans = Some(Orphans::adopt()?);
        Ok(self)
    }

    /// Asks workers to end that need the service during their shutdown, then the service.
    pub(super) fn stop_first_workers(&mut self, now: Duration) {
        self.workers.iter_mut().for_each(|workers| workers.stop_first(now));
        self.stop_children_in_turn(now);
    }

    fn stop_children_in_turn(&mut self, now: Duration) {
        if self.workers.as_ref().is_none_or(Fleet::have_first_ended) {
            self.stop_children(now);
        }
    }

    /// Runs everything that is due. Other workers are asked to end after the service: its requests
    /// in progress need them.
    pub(super) fn run_workers(&mut self, now: Duration) {
        let is_alone = self.other_service_processes().next().is_none();
        if is_alone && std::mem::take(&mut self.retires_groups) {
            self.workers.iter_mut().for_each(|workers| workers.retire(now));
        }
        if self.stopping {
            self.stop_children_in_turn(now);
        }
        let is_last = self.stopping && self.children_ended() && is_alone;
        let Some(workers) = &mut self.workers else { return };
        if is_last {
            workers.stop(now);
        }
        workers.run_due(now);
    }

    /// Returns whether everything has ended. Without children, workers run until they are stopped.
    pub(super) fn has_ended(&self) -> bool {
        let is_alone = self.other_service_processes().next().is_none();
        let workers_ended = || self.workers.as_ref().is_none_or(Fleet::has_ended);
        is_alone
            && self.children_ended()
            && (self.stopping || self.workers.is_none())
            && workers_ended()
    }

    fn children_ended(&self) -> bool {
        self.children.iter().all(|child| matches!(child.state, ChildState::Ended))
    }

    /// Connects the new generation of the service to the workers.
    pub(super) fn connect_workers(&mut self, child: usize) {
        let control = self.children[child].take_control();
        self.connect_to_workers(control);
    }

    pub(super) fn connect_to_workers(&mut self, control: Option<OwnedFd>) {
        let (Some(socket), Some(workers)) = (control, &mut self.workers) else { return };
        if let Err(error) = workers.connect(socket) {
            tracing::error!(%error, "the service can't be told about workers");
        }
    }

    pub(super) fn listen_to_workers(&mut self, now: Duration) {
        if let Some(workers) = &mut self.workers {
            workers.listen(now, self.output.as_fd());
        }
        let Some(orphans) = &mut self.orphans else { return };
        let others = self.successor.as_deref().into_iter().chain(&self.lingering);
        let processes = self.children.iter().filter_map(Child::running).chain(others);
        let pids: Vec<Pid> = processes.map(|process| process.pid).collect();
        let is_child = |pid| pids.contains(&pid);
        let workers = &mut self.workers;
        orphans.reap(now, |pid| {
            is_child(pid) || workers.as_ref().is_some_and(|process| process.is_worker(pid))
        });
        if let Some(workers) = workers {
            workers.totals.orphans_reaped = self.orphans_before + orphans.reaped;
        }
    }

    pub(super) fn kill_workers(&mut self, now: Duration) {
        if let Some(workers) = &mut self.workers {
            workers.kill(now);
        }
    }

    /// Adds the workers' descriptors to `polled`. Returns whether output of workers is buffered.
    pub(super) fn poll_workers<'a>(&'a self, polled: &mut Vec<PollFd<'a>>) -> bool {
        let Some(workers) = &self.workers else { return false };
        workers.poll(polled);
        workers.wants_to_print()
    }

    pub(super) fn workers_wake_at(&self, now: Duration) -> impl Iterator<Item = Duration> {
        let orphans = self.orphans.as_ref().map(Orphans::wakes_at);
        let workers = self.workers.as_ref().and_then(|workers| workers.wakes_at(now));
        orphans.into_iter().chain(workers)
    }

    pub(super) fn end_workers(&mut self) {
        if let Some(workers) = &mut self.workers {
            workers.print_rest(self.output.as_fd());
            self.killed |= workers.was_killed();
        }
    }
}
