//! The messages of the control channel.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::workers::{JobGroupState, OverrideOutcome, OverrideRequest};

/// A request from the service to the parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParentRequest {
    /// Chosen by the service; the reply repeats it.
    pub id: u64,
    pub command: ParentCommand,
}

/// A command to the parent.
///
/// Generations are identified by number alone. Numbers are unique across all groups, so a command
/// never affects another process than the intended one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum ParentCommand {
    /// A probed worker is ready.
    Ready { generation: u64 },
    /// The service sends a leaving worker no more requests.
    LetGo { generation: u64 },
    /// Starts stopped and failed slots, with a reset restart history. No slot: all.
    Start { group: String, slot: Option<u32> },
    /// Asks workers to end and leaves their slots empty. No slot: all.
    Stop { group: String, slot: Option<u32> },
    /// Starts a successor of a worker; the worker gets its stop signal when the successor is ready.
    Restart { group: String, slot: u32 },
    /// Replaces all workers of a group, one after the other, until one fails.
    RestartRolling { group: String },
    /// Scales the group to this number of running workers.
    Scale { group: String, processes: u32 },
    /// Overrides threads, queues and the number of processes of a group of job workers for a time.
    Set { group: String, change: OverrideRequest },
    /// Limits the threads of each process of a group of job workers for a time, beside what operators
    /// override. None: ends the limit.
    Limit { group: String, limit: Option<OverrideRequest> },
    /// Ends the override of a group.
    Reset { group: String, by: String, dry_run: bool },
    /// Sends a signal by its name.
    Signal { generation: u64, signal: String },
    /// Asks a worker for a dump, with the signal that applied when it was started.
    Dump { generation: u64 },
    /// Sends a worker its group's dump signal, if there is one, kills it and restarts it.
    Evict { generation: u64, reason: String },
    /// Pauses starts in this group; running workers continue.
    Pause { group: String },
    /// Ends a pause.
    Resume { group: String },
    /// Reports what the service, after its replacement, still uses of a worker.
    Used { generation: u64, used: Used },
    /// Starts a new service process that replaces the sender. The reply follows once the new
    /// process has taken over or has failed.
    ReplaceService,
    /// Re-executes the parent's program, whose file may have changed, and then replaces the
    /// service.
    Upgrade,
}

/// A report from the parent to the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum ParentReport {
    /// Starts a snapshot, up to [`ParentReport::SnapshotEnds`]; all earlier state is void.
    SnapshotBegins,
    Totals(ParentTotals),
    Group(GroupState),
    Slot(VacantSlot),
    Worker(WorkerReport),
    /// What other, replaced services still use of a worker.
    Elsewhere {
        generation: u64,
        used: Used,
    },
    SnapshotEnds,
    /// The command was accepted. Its effects are reported as they happen.
    Done {
        id: u64,
        /// Of `Set` and `Reset`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outcome: Option<Box<OverrideOutcome>>,
    },
    /// The command was rejected.
    Refused {
        /// None: the message was not a valid request.
        id: Option<u64>,
        reason: String,
    },
    /// A report that only a newer parent sends.
    #[serde(other)]
    Unknown,
}

/// What a service uses of a worker's slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    pub requests: u32,
    /// WebSockets and event streams.
    pub streams: u32,
}

/// Counters since the parent was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentTotals {
    /// Orphaned descendants that were reaped.
    pub orphans_reaped: u64,
    /// Lines of workers that were dropped because the output was full.
    pub output_lines_dropped: u64,
    /// Snapshots that were sent again because a service read too slowly.
    pub snapshots_repeated: u64,
    /// Replaced service processes that still have connections. A gauge.
    #[serde(default)]
    pub old_processes: u32,
}

/// The state of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupState {
    pub group: String,
    /// The target number of workers.
    pub processes: u32,
    pub is_paused: bool,
    /// The current or latest rolling restart.
    pub rolling: Option<RollingState>,
    /// Of job workers: their values.
    #[serde(default)]
    pub jobs: Option<Box<JobGroupState>>,
}

/// The state of a rolling restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RollingState {
    /// This many slots are done.
    Running {
        done: u32,
    },
    Finished,
    /// A replacement failed; the remaining workers were not replaced.
    Failed {
        reason: String,
    },
}

/// The state of a slot that has no worker or whose replacement has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacantSlot {
    pub group: String,
    pub slot: u32,
    /// None: the slot has a worker.
    pub vacancy: Option<Vacancy>,
    /// Why the latest replacement failed; the old worker is still running.
    pub replacement_failed: Option<String>,
}

/// Why a slot has no worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Vacancy {
    Stopped,
    /// Waiting for a start. `reason` is why the last worker ended, if unrequested, with its last
    /// lines of output.
    Waiting {
        start_in_ms: u64,
        #[serde(default)]
        reason: Option<String>,
    },
    /// Given up. The reason ends with the last lines of output.
    Failed {
        reason: String,
        retry_in_ms: u64,
    },
    /// The slot was removed when the group was scaled down.
    Removed,
}

/// The state of one generation of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerReport {
    pub group: String,
    pub slot: u32,
    pub generation: u64,
    pub pid: i32,
    pub address: Option<WorkerAddress>,
    pub started_ms_ago: u64,
    pub phase: WorkerPhase,
}

/// The address of one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerAddress {
    Unix(PathBuf),
    /// A port on 127.0.0.1.
    Port(u16),
    /// The worker shares sockets with others; this is its [record](crate::selection::busy).
    Shared {
        record: usize,
    },
}

/// The phase of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum WorkerPhase {
    Starting,
    Ready,
    /// About to be asked to end: the service must stop sending it requests and confirm that with
    /// [`ParentCommand::LetGo`].
    Leaving,
    /// Ending: the service must not send it new requests.
    Draining,
    /// About to be killed, after a dump.
    Evicting,
    /// SIGKILL was sent.
    Killed,
    /// The process has ended.
    Ended {
        /// Such as `exited with code 2`, `was killed by signal 9`.
        status: String,
        /// The reason if the parent killed it.
        reason: Option<String>,
        last_lines: Vec<String>,
    },
}
