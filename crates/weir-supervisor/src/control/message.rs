//! The messages themselves.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// From the service to the parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParentRequest {
    /// Chosen by the service; the answer repeats it.
    pub id: u64,
    pub command: ParentCommand,
}

/// What the parent is to do.
///
/// Generations are named by number alone: no two of any group share one, so a command never meets
/// another process than the one that it was meant for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum ParentCommand {
    /// A probed worker answers.
    Ready { generation: u64 },
    /// Nothing is sent any more to a worker that is to leave.
    LetGo { generation: u64 },
    /// Starts what is stopped or given up, with a clean record. No slot: all.
    Start { group: String, slot: Option<u32> },
    /// Asks workers to end and leaves their slots empty. No slot: all.
    Stop { group: String, slot: Option<u32> },
    /// Starts a successor of a worker; the worker gets its stop signal when the successor is ready.
    Restart { group: String, slot: u32 },
    /// The same for all workers of a group, one after the other, until one fails.
    RestartRolling { group: String },
    /// The group is to have so many workers that run.
    Scale { group: String, processes: u32 },
    /// Sends a signal, by its name.
    Signal { generation: u64, signal: String },
    /// Asks a worker for a dump, by the signal that its command was started with.
    Dump { generation: u64 },
    /// Sends a worker its group's dump signal, if there is one, kills it and starts it again.
    Evict { generation: u64, reason: String },
    /// No process of this group is started any more; running ones continue.
    Pause { group: String },
    /// Ends a pause.
    Resume { group: String },
    /// The service was replaced and still uses so much of a worker.
    Used { generation: u64, used: Used },
    /// Starts a new service process, which takes the place of the one that asks. Answered when it
    /// does, or when it is clear that it won't.
    ReplaceService,
    /// Executes the parent's program again, whose file may be another one now, and then does the same.
    Upgrade,
}

/// From the parent to the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum ParentReport {
    /// All that is known follows, up to [`ParentReport::SnapshotEnds`]; what was known before is void.
    SnapshotBegins,
    Totals(ParentTotals),
    Group(GroupState),
    Slot(VacantSlot),
    Worker(WorkerReport),
    /// What other services, which were replaced, still use of a worker.
    Elsewhere {
        generation: u64,
        used: Used,
    },
    SnapshotEnds,
    /// The command was accepted. Its effects are reported as they happen.
    Done {
        id: u64,
    },
    /// The command is not followed.
    Refused {
        /// None: the request was no request.
        id: Option<u64>,
        reason: String,
    },
    /// Something that a newer parent says.
    #[serde(other)]
    Unknown,
}

/// Slots of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    pub requests: u32,
    /// WebSockets and event streams.
    pub streams: u32,
}

/// Counts since the parent was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentTotals {
    /// Processes that lost their parent, were adopted and have ended.
    pub orphans_reaped: u64,
    /// Lines of workers that were not read in time.
    pub output_lines_dropped: u64,
    /// How often a service read too slowly and got a fresh snapshot.
    pub snapshots_repeated: u64,
    /// Service processes that were replaced and still have connections, now.
    #[serde(default)]
    pub old_processes: u32,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupState {
    pub group: String,
    /// How many workers there are to be.
    pub processes: u32,
    pub is_paused: bool,
    /// The present or the latest rolling restart.
    pub rolling: Option<RollingState>,
}

/// How a rolling restart stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RollingState {
    /// So many slots are done.
    Running {
        done: u32,
    },
    Finished,
    /// The rest of the workers are those of before.
    Failed {
        reason: String,
    },
}

/// A slot without a worker, or one whose replacement has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacantSlot {
    pub group: String,
    pub slot: u32,
    /// None: a worker is there.
    pub vacancy: Option<Vacancy>,
    /// Why the latest replacement failed; the worker of before is still there.
    pub replacement_failed: Option<String>,
}

/// Why there is no worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Vacancy {
    Stopped,
    /// With why the one before ended, if that was unrequested, and its last lines of output.
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
    /// It was one too many and is no more.
    Removed,
}

/// One generation of a worker.
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

/// Where one worker alone is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerAddress {
    Unix(PathBuf),
    /// On 127.0.0.1.
    Port(u16),
    /// It shares sockets with others; this is its [record](crate::selection::busy).
    Shared {
        record: usize,
    },
}

/// What a worker does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum WorkerPhase {
    Starting,
    Ready,
    /// It is to end: nothing new is to be sent to it, which [`ParentCommand::LetGo`] confirms.
    Leaving,
    /// It ends: nothing new is to be sent to it.
    Draining,
    /// It is about to be killed.
    Evicting,
    /// SIGKILL was sent.
    Killed,
    /// It is no more.
    Ended {
        /// `exited with code 2`, `was killed by signal 9`
        status: String,
        /// Why the parent killed it, if it did.
        reason: Option<String>,
        last_lines: Vec<String>,
    },
}
