//! State that survives the re-execution of the parent: descriptors keep their numbers, everything
//! else is serialized.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::control::{ParentTotals, RollingState, Used, WorkerAddress};
use crate::restarts::RestartHistory;
use crate::system;
use crate::workers::{CarriedSlot, CommandSender, ListeningSocket, Rolling};

/// The format version of [`CarriedSupervisor`]. Raise it when the meaning of a field changes:
/// programs with another version then reject the state.
pub const VERSION: u32 = 1;

/// The serialized state of a supervisor during an upgrade. Times are those of the monotonic clock,
/// which continues across an exec.
#[derive(Debug, Serialize, Deserialize)]
pub struct CarriedSupervisor {
    pub(crate) service: CarriedProcess,
    /// Replaced service processes that still have connections, the oldest first.
    #[serde(default)]
    pub(crate) lingering: Vec<CarriedProcess>,
    pub(crate) restarts: RestartHistory,
    pub(crate) workers: CarriedFleet,
    pub(crate) orphans_reaped: u64,
    /// Descriptors that every generation of the service inherits, by name.
    pub(crate) descriptors: Vec<(String, RawFd)>,
    /// Listening sockets that all workers of a group inherit: group, name, descriptor number.
    pub(crate) listening: Vec<(String, String, RawFd)>,
    /// The client that requested the upgrade.
    #[serde(rename = "asker")]
    pub(crate) requester: Option<CommandSender>,
}

/// Collects the descriptors that must stay open across an exec.
#[derive(Debug, Default)]
pub struct Carrier(Vec<RawFd>);

/// The serialized state of a service process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CarriedProcess {
    pub(crate) pid: i32,
    pub(crate) pidfd: RawFd,
    #[serde(rename = "life")]
    pub(crate) life_pipe: RawFd,
    pub(crate) status: Option<RawFd>,
    pub(crate) output: Option<RawFd>,
    pub(crate) last_lines: Vec<String>,
    /// An incomplete status line.
    #[serde(rename = "words")]
    pub(crate) status_buffer: Vec<u8>,
    pub(crate) ready_at: Option<Duration>,
    /// Whether its program supports running on after its replacement (SIGUSR1).
    #[serde(default)]
    pub(crate) can_linger: bool,
    #[serde(default)]
    pub(crate) closes_streams: bool,
    #[serde(default)]
    pub(crate) kill_at: Option<Duration>,
}

/// The serialized state of all groups of workers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CarriedFleet {
    pub(crate) last_number: u64,
    pub(crate) lines_made: u64,
    pub(crate) lines: Vec<CarriedLine>,
    pub(crate) let_go: BTreeMap<u64, BTreeSet<u64>>,
    pub(crate) groups: Vec<CarriedGroup>,
    pub(crate) workers: Vec<CarriedWorker>,
    /// Buffered output of workers that was not written yet.
    pub(crate) printing: Vec<u8>,
    pub(crate) lines_dropped: u64,
    pub(crate) totals: ParentTotals,
}

/// The serialized state of a control connection to a service process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CarriedLine {
    pub(crate) number: u64,
    pub(crate) socket: RawFd,
    pub(crate) connected_at: Duration,
    /// Bytes that were received and not parsed yet.
    pub(crate) incoming: Vec<u8>,
    /// The unsent rest of a partly sent line.
    pub(crate) outgoing: Vec<u8>,
    /// The service's latest report of its use of workers, by worker generation.
    #[serde(default)]
    pub(crate) used: BTreeMap<u64, Used>,
}

/// The serialized state of a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CarriedGroup {
    pub(crate) name: String,
    /// The number of workers in the group's specification.
    pub(crate) specified: u32,
    pub(crate) stop_deadline: Duration,
    pub(crate) let_go_deadline: Duration,
    pub(crate) wanted: usize,
    #[serde(default)]
    pub(crate) ends_before_service: bool,
    /// Whether the settings no longer contain the group.
    #[serde(default)]
    pub(crate) is_retired: bool,
    pub(crate) is_paused: bool,
    pub(crate) rolling: Option<Rolling>,
    pub(crate) shown: Option<RollingState>,
    pub(crate) slots: Vec<CarriedSlot>,
}

/// The serialized state of a worker process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CarriedWorker {
    pub(crate) generation: u64,
    pub(crate) group: String,
    pub(crate) slot: usize,
    pub(crate) name: String,
    pub(crate) pid: i32,
    pub(crate) pidfd: RawFd,
    pub(crate) output: Option<RawFd>,
    pub(crate) partial: Vec<u8>,
    pub(crate) last_lines: Vec<String>,
    pub(crate) notify: Option<(RawFd, PathBuf)>,
    pub(crate) address: Option<WorkerAddress>,
    pub(crate) listener: Option<RawFd>,
    pub(crate) started_at: Duration,
    pub(crate) kill_reason: Option<String>,
    /// The signal's name.
    #[serde(default)]
    pub(crate) stop_signal: Option<String>,
    #[serde(default)]
    pub(crate) dump_signal: Option<String>,
}

/// An error while restoring the state of an earlier program.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    #[error("descriptor {0} can't be taken over: {1}")]
    Descriptor(RawFd, std::io::Error),
    #[error("{0} is no pid")]
    Pid(i32),
    #[error(transparent)]
    Fleet(#[from] crate::workers::FleetError),
}

impl CarriedSupervisor {
    /// Takes the descriptors that every generation of the service inherits, by name.
    pub fn descriptors(&mut self) -> Result<BTreeMap<String, OwnedFd>, ResumeError> {
        let all = std::mem::take(&mut self.descriptors).into_iter();
        all.map(|(name, number)| Ok((name, take(number)?))).collect()
    }

    /// Takes the listening sockets that all workers of a group inherit, each with its group's name.
    pub fn listening(&mut self) -> Result<Vec<(String, ListeningSocket)>, ResumeError> {
        let all = std::mem::take(&mut self.listening).into_iter();
        let socket = |(group, name, number)| {
            let descriptor = take(number)?;
            Ok((group, ListeningSocket { name, descriptor }))
        };
        all.map(socket).collect()
    }
}

impl Carrier {
    /// Keeps `descriptor` open across the exec and returns its number.
    pub fn keep_open(&mut self, descriptor: &impl AsRawFd) -> RawFd {
        let number = descriptor.as_raw_fd();
        self.0.push(number);
        number
    }

    /// Returns the numbers of all descriptors to keep open.
    #[must_use]
    pub fn numbers(&self) -> &[RawFd] {
        &self.0
    }
}

/// Takes ownership of descriptor `number`, which an earlier program kept open.
pub fn take(number: RawFd) -> Result<OwnedFd, ResumeError> {
    system::take_descriptor(number).map_err(|error| ResumeError::Descriptor(number, error))
}

pub(crate) fn take_some(number: Option<RawFd>) -> Result<Option<OwnedFd>, ResumeError> {
    number.map(take).transpose()
}

pub(crate) fn pid(number: i32) -> Result<rustix::process::Pid, ResumeError> {
    rustix::process::Pid::from_raw(number).ok_or(ResumeError::Pid(number))
}
