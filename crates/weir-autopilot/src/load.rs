//! What the sources report at one time.

use crate::thread_groups::ThreadGroup;

/// The state of a job system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobsLoad {
    /// Queues.
    pub queues: Vec<QueueFigures>,
    /// Job types.
    pub classes: Vec<ClassFigures>,
    /// The figures of all types that have none of their own.
    pub other_classes: Option<ClassFigures>,
    /// Jobs in progress.
    pub busy: u32,
    /// Workers that wait for a job.
    pub idle: u32,
    /// How long ago this was true.
    pub age_seconds: f64,
    /// The processes whose threads can be changed, where nothing else can be.
    pub groups: Vec<ThreadGroup>,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueFigures {
    /// Its name.
    pub name: String,
    /// Jobs that wait.
    pub waiting: u64,
    /// How long the oldest has waited.
    pub oldest_age_seconds: f64,
    /// Jobs that were pushed, since the start.
    pub pushed_total: u64,
    /// Jobs in progress.
    pub in_flight: u32,
    /// No thread that can be changed serves it.
    pub is_unmanaged: bool,
    /// The wait that its settings aim at.
    pub target_seconds: Option<f64>,
    /// Jobs that wait by type, estimated.
    pub waiting_by_class: Vec<(String, u64)>,
}

/// A job type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassFigures {
    /// Its name.
    pub name: String,
    /// The queue from which most of its jobs come.
    pub queue: String,
    /// Jobs in progress.
    pub in_flight: u32,
    /// Jobs that ended, since the start.
    pub ended_total: u64,
    /// Seconds that those ran.
    pub run_seconds_total: f64,
}

/// The sessions of a database at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseActivity {
    /// Sessions that are active or idle in a transaction.
    pub sessions: Vec<SessionFigures>,
    /// Connections that are open.
    pub connections: u32,
    /// `max_connections`.
    pub connections_max: u32,
}

/// A session that is active or idle in a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFigures {
    /// Its process.
    pub pid: u32,
    /// The job type that a comment of its last statement names, as it is there.
    pub comment: Option<String>,
    /// `application_name`.
    pub application_name: String,
    /// Whether it waits for a lock.
    pub is_waiting: bool,
    /// Whether it has been idle in its transaction for long.
    pub is_idle: bool,
    /// The sessions that hold this lock, or wait for it in front of this one.
    pub blocked_by: Vec<u32>,
}
