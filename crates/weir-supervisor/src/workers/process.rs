//! A worker's process while it runs.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};

use super::descendants;
use super::endpoint::WorkerEndpoint;
use super::notify_socket::NotifySocket;
use super::output::WorkerOutput;
use super::signals::WorkerSignal;
use crate::carried::{self, CarriedWorker, Carrier, ResumeError};

/// A worker's slot. It stays valid: only empty slots at the end are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotIndex {
    /// The index of the group in the fleet.
    pub(crate) group: usize,
    pub(crate) slot: usize,
}

/// The process of one generation.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    pub(crate) slot_index: SlotIndex,
    /// Such as `shop-3`.
    pub(crate) name: String,
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) output: WorkerOutput,
    pub(crate) notify: Option<NotifySocket>,
    pub(crate) endpoint: WorkerEndpoint,
    pub(crate) started_at: Duration,
    /// The reason if the parent killed it.
    pub(crate) kill_reason: Option<String>,
    /// The signals for the command that it was started with: a later command may have others.
    pub(crate) stop_signal: WorkerSignal,
    pub(crate) dump_signal: Option<WorkerSignal>,
}

impl WorkerProcess {
    /// Returns its serialized state, and keeps its descriptors open in `carrier`.
    pub(crate) fn carried(
        &self,
        generation: u64,
        group: String,
        carrier: &mut Carrier,
    ) -> CarriedWorker {
        let notify = self.notify.as_ref();
        CarriedWorker {
            generation,
            group,
            slot: self.slot_index.slot,
            name: self.name.clone(),
            pid: self.pid.as_raw_pid(),
            pidfd: carrier.keep_open(&self.pidfd),
            output: self.output.descriptor().map(|output| carrier.keep_open(&output)),
            partial: self.output.partial().to_vec(),
            last_lines: self.output.last_lines(),
            notify: notify
                .map(|notify| (carrier.keep_open(&notify.descriptor()), notify.path().to_owned())),
            address: self.endpoint.address.clone(),
            listener: self.endpoint.listener().map(|listener| carrier.keep_open(listener)),
            started_at: self.started_at,
            kill_reason: self.kill_reason.clone(),
            stop_signal: Some(self.stop_signal.to_string()),
            dump_signal: self.dump_signal.map(|signal| signal.to_string()),
        }
    }

    /// Restores a process that an earlier program started.
    pub(crate) fn resume(carried: CarriedWorker, group: usize) -> Result<Self, ResumeError> {
        let CarriedWorker { slot, name, partial, last_lines, .. } = carried;
        let pipe = carried::take_some(carried.output)?;
        let notify = carried.notify.map(|(socket, path)| {
            carried::take(socket).map(|socket| NotifySocket::resume(socket, path))
        });
        let listener = carried::take_some(carried.listener)?;
        Ok(Self {
            slot_index: SlotIndex { group, slot },
            pid: carried::pid(carried.pid)?,
            pidfd: carried::take(carried.pidfd)?,
            output: WorkerOutput::resume(pipe, &name, carried.pid, partial, &last_lines),
            name,
            notify: notify.transpose()?,
            endpoint: WorkerEndpoint::resume(carried.address, listener),
            started_at: carried.started_at,
            kill_reason: carried.kill_reason,
            stop_signal: signal(carried.stop_signal.as_deref()).unwrap_or(WorkerSignal::TERM),
            dump_signal: signal(carried.dump_signal.as_deref()),
        })
    }

    /// Sends `signal` to the worker only; it is responsible for its own children.
    pub(crate) fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        rustix::process::pidfd_send_signal(&self.pidfd, signal)
    }

    /// Kills the worker, its process group, and descendants in other groups and sessions. Once the
    /// worker has ended, these can no longer be attributed to it.
    pub(crate) fn kill(&mut self, reason: String) {
        self.kill_reason.get_or_insert(reason);
        let started = descendants::find(self.pid);
        // Explicitly, because it may have moved to another process group.
        let _ = self.signal(Signal::KILL);
        self.kill_group();
        for process in started {
            process.kill();
        }
    }

    /// Returns how it ended, if it has, and kills the rest of its process group.
    pub(crate) fn reap(&mut self) -> Option<String> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        self.wait(look | WaitIdOptions::NOWAIT)?;
        // Before its pid, which is the group's id, can be reused.
        self.kill_group();
        self.wait(look).map(|status| describe(&status))
    }

    /// Kills its process group. It was not reaped yet, so the id is still that of its own group.
    fn kill_group(&self) {
        // ESRCH: the group has only zombies.
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
    }

    fn wait(&self, options: WaitIdOptions) -> Option<WaitIdStatus> {
        rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), options).ok().flatten()
    }
}

fn signal(name: Option<&str>) -> Option<WorkerSignal> {
    name?.parse().ok()
}

/// Describes an exit status: `exited with code 2`, `was killed by signal 9`.
fn describe(status: &WaitIdStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
