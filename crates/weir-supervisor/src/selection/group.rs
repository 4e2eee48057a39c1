//! The sockets of an app, joined by the selection among them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::busy::{PER_SLOT, Records};
use super::program::{Classic, NextWorker, classic};
use super::{Plan, Selection};
use crate::system;

/// How long join-idle prefers the same workers, whose code is in the processor's caches: long
/// enough for about ten requests, short enough to distribute requests evenly within seconds. For
/// measurements see docs/benchmarks.md.
const STAY_NS: u32 = 5_000_000;

/// The kernel rejected a program.
#[derive(Debug, thiserror::Error)]
#[error(
    "the kernel refuses selection = \"{}\": {error}; it takes Linux 5.12, and root or CAP_BPF \
     with CAP_PERFMON",
    selection.name()
)]
pub struct SelectionError {
    selection: Selection,
    error: io::Error,
}

/// A selection whose program the kernel has loaded, with the workers' records, before the sockets
/// are bound.
#[derive(Debug)]
pub struct LoadedSelection {
    plan: Plan,
    records: Records,
    /// None: the program is a classic one, or there is none.
    program: Option<OwnedFd>,
}

/// All sockets of an app, in the order of their group.
#[derive(Debug)]
pub struct SocketGroup {
    name: String,
    plan: Plan,
    /// The sockets with their names.
    sockets: Vec<(String, OwnedFd)>,
    records: Records,
}

impl LoadedSelection {
    /// Prepares `plan` before the sockets are bound, for IPv6 or IPv4 connections.
    pub fn new(plan: Plan, is_ipv6: bool) -> Result<Self, SelectionError> {
        Self::with_stay(plan, is_ipv6, STAY_NS)
    }

    pub(super) fn with_stay(
        plan: Plan,
        is_ipv6: bool,
        stay_ns: u32,
    ) -> Result<Self, SelectionError> {
        Self::try_new(plan, is_ipv6, stay_ns)
            .map_err(|error| SelectionError { selection: plan.effective(), error })
    }

    fn try_new(plan: Plan, is_ipv6: bool, stay_ns: u32) -> io::Result<Self> {
        if !plan.effective().is_privileged() {
            return Ok(Self { plan, records: Records::in_memory()?, program: None });
        }
        let records = Records::in_kernel()?;
        let in_use = u32::try_from(PER_SLOT * plan.workers).map_err(io::Error::other)?;
        let must_be_idle = plan.effective() == Selection::JoinIdle;
        let all = u32::try_from(plan.workers).map_err(io::Error::other)?;
        let program = NextWorker {
            map: records.as_fd().as_raw_fd(),
            records: in_use.next_power_of_two(),
            is_ipv6,
            must_be_idle,
            otherwise: must_be_idle.then_some(all),
            stay_ns: if must_be_idle { stay_ns } else { 0 },
        };
        let program = Some(system::load_program(&program.program())?);
        Ok(Self { plan, records, program })
    }

    #[must_use]
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Joins `sockets`, in the order in which they began to listen. They must be as many as the
    /// plan requires and listen at one address (`SO_REUSEPORT`).
    pub fn join(self, name: &str, sockets: Vec<OwnedFd>) -> io::Result<SocketGroup> {
        let Self { plan, records, program } = self;
        let group = SocketGroup::new(name, plan, sockets, records);
        let Some(first) = group.socket(0).filter(|_| plan.sockets() > 1) else { return Ok(group) };
        match (program, plan.effective()) {
            (Some(program), _) => system::attach_program(first, program.as_fd())?,
            (None, Selection::Kernel) => {}
            (None, _) => system::attach_classic(first, &classic(group.classic(), None))?,
        }
        Ok(group)
    }
}

impl SocketGroup {
    /// Restores a group of another process from its [`descriptors`](Self::descriptors), with the
    /// plan of its creation, regardless of the current settings.
    pub fn adopt(name: &str, sockets: Vec<OwnedFd>, records: OwnedFd) -> io::Result<Self> {
        let records = Records::adopt(records)?;
        let plan = records.plan().filter(|plan| plan.sockets() == sockets.len());
        let plan =
            plan.ok_or_else(|| io::Error::other("its memory and its sockets don't match"))?;
        Ok(Self::new(name, plan, sockets, records))
    }

    fn new(name: &str, plan: Plan, sockets: Vec<OwnedFd>, records: Records) -> Self {
        records.set_plan(&plan);
        let named = |(number, socket)| (format!("{name}.{number}"), socket);
        let sockets = sockets.into_iter().enumerate().map(named).collect();
        Self { name: name.to_owned(), plan, sockets, records }
    }

    #[must_use]
    pub fn plan(&self) -> Plan {
        self.plan
    }

    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Returns all descriptors that must outlive the process, with names: the sockets in order,
    /// then the records.
    pub fn descriptors(&self) -> impl Iterator<Item = (String, BorrowedFd<'_>)> {
        let sockets = self.sockets.iter().map(|(name, socket)| (name.clone(), socket.as_fd()));
        sockets.chain([(format!("{}.busy", self.name), self.records.as_fd())])
    }

    /// Returns the named sockets that the worker in `slot` listens on.
    pub(crate) fn slice(&self, slot: usize) -> Vec<(&str, BorrowedFd<'_>)> {
        let named = |socket: usize| {
            let (name, descriptor) = self.sockets.get(socket)?;
            Some((name.as_str(), descriptor.as_fd()))
        };
        self.plan.slice(slot).into_iter().filter_map(named).collect()
    }

    /// Returns the number of connections in the backlog of a socket.
    pub fn waiting(&self, socket: usize) -> io::Result<u32> {
        self.socket(socket).map_or(Ok(0), system::waiting)
    }

    /// Directs connections from `source` to `socket`, until another source is directed.
    pub fn direct(&self, source: SocketAddr, socket: usize) -> io::Result<()> {
        let Some(first) = self.socket(0).filter(|_| self.sockets.len() > 1) else { return Ok(()) };
        if self.plan.effective().is_privileged() {
            self.records.direct(source, socket);
            return Ok(());
        }
        let target = u32::try_from(socket).map_err(io::Error::other)?;
        system::attach_classic(first, &classic(self.classic(), Some((source, target))))
    }

    fn classic(&self) -> Classic {
        match self.plan.effective() {
            Selection::Random => {
                Classic::Random(u32::try_from(self.sockets.len()).unwrap_or(u32::MAX).max(1))
            }
            _ => Classic::Hash,
        }
    }

    fn socket(&self, number: usize) -> Option<BorrowedFd<'_>> {
        self.sockets.get(number).map(|(_, socket)| socket.as_fd())
    }
}
