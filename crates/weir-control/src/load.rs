//! What one poll measures. Queues and classes are identified by their position in the [`Roster`].

use serde::Serialize;

use crate::estimate::Recent;

/// The queues and classes of a system, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Roster {
    /// Queues.
    pub queues: Vec<QueueInfo>,
    /// Classes of jobs.
    pub classes: Vec<ClassInfo>,
    /// Whether the system itself shares its threads among the queues and chooses the order of their jobs. Then no
    /// threads are reserved for queues, and no queue is served newest first by these rules.
    pub shares_threads_itself: bool,
}

/// What is known of a queue in advance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueInfo {
    /// Its name.
    pub name: String,
    /// The longest wait that is acceptable.
    pub target_seconds: f64,
    /// Whether the newest jobs may run first while the queue is past its target. Never for queues whose order
    /// matters.
    pub fresh_lane: bool,
    /// Whether only threads that the rules may change serve it.
    pub is_managed: bool,
}

/// What is known of a class in advance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassInfo {
    /// Its name.
    pub name: String,
    /// The position of its queue.
    pub queue: usize,
    /// Whether a limit of the class can be carried out. Not for what stands for several classes, or for sessions of
    /// others.
    pub can_be_limited: bool,
}

/// The load at one time, and what happened since the previous sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LoadSample {
    /// Seconds on a clock that never steps.
    pub at_seconds: f64,
    /// Seconds since the previous sample.
    pub span_seconds: f64,
    /// One for each queue of the roster.
    pub queues: Vec<QueueLoad>,
    /// One for each class of the roster.
    pub classes: Vec<ClassLoad>,
    /// Threads that run jobs.
    pub threads: ThreadLoad,
    /// The database, if it could be read.
    pub database: Option<DatabaseLoad>,
}

/// A queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QueueLoad {
    /// Jobs that wait.
    pub waiting: u64,
    /// Age of the oldest; 0 without any.
    pub oldest_age_seconds: f64,
    /// Jobs pushed since the previous sample.
    pub arrivals: u64,
    /// Jobs in progress.
    pub in_flight: u32,
}

/// A class of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClassLoad {
    /// Jobs that wait.
    pub waiting: u64,
    /// Jobs in progress.
    pub in_flight: u32,
    /// Jobs that ended since the previous sample, failed ones included.
    pub finished: u64,
    /// Seconds that those kept a thread busy, in all.
    pub run_seconds: f64,
    /// Database sessions of the class that are active, or idle in a transaction for a moment, on average since the
    /// previous sample. Sessions that wait for a lock are not among them: their number says nothing about the database.
    pub sessions: f64,
    /// Sessions that are idle in a transaction for long: they hold connections and locks, and cost the database nothing.
    pub idle_sessions: f64,
    /// Sessions that wait for a lock which the class holds, on average.
    pub blocks: f64,
}

/// Threads that run jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadLoad {
    /// Threads that may be busy at once.
    pub limit: u32,
    /// Threads that are busy.
    pub busy: u32,
    /// The most that processes, memory and the connection budget permit.
    pub max: u32,
}

/// The database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DatabaseLoad {
    /// Connections that are open.
    pub connections: u32,
    /// The budget for all of them.
    pub connections_max: u32,
    /// Jobs that wait for a connection of the pool, on average since the previous sample.
    pub waiting_for_connection: f64,
    /// Sessions that wait for a lock, on average.
    pub lock_waits: f64,
    /// How certain the sessions of each class are, 0 to 1: 1 with query comments, 0.9 with application names, R² of
    /// the regression otherwise.
    pub confidence: f64,
}

impl ClassLoad {
    /// Returns the sums over the time of a sample.
    pub(crate) fn over(&self, span_seconds: f64) -> Recent {
        Recent {
            session_seconds: self.sessions * span_seconds,
            idle_seconds: self.idle_sessions * span_seconds,
            finished: self.finished as f64,
            run_seconds: self.run_seconds,
            span_seconds,
            ..Recent::default()
        }
    }
}
