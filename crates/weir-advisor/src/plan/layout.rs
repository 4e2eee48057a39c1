//! Processes and their pools, planned or as they are.

use serde::Serialize;

use crate::observation::Ordering;

/// All that opens connections, and what there is for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// Web and streaming.
    pub services: Vec<ServiceLayout>,
    /// Sidekiq's processes.
    pub workers: Vec<WorkerLayout>,
    /// The database's ceiling.
    pub max_connections: u32,
    /// Connections that nobody plans with.
    pub reserve: u32,
    /// Memory that these processes may use; none if it is not known.
    pub memory_bytes_max: Option<u64>,
}

/// Processes of one kind that are no workers of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServiceLayout {
    /// "web", "streaming".
    pub name: String,
    /// So many.
    pub processes: u32,
    /// Threads of each that use the database.
    pub threads: u32,
    /// Connections that each may open.
    pub pool: u32,
    /// Memory of each.
    pub memory_bytes: u64,
}

/// Processes of Sidekiq that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkerLayout {
    /// Of the systemd unit.
    pub name: String,
    /// So many.
    pub processes: u32,
    /// `-c` of each.
    pub concurrency: u32,
    /// `DB_POOL` of each.
    pub pool: u32,
    /// How the next queue is chosen.
    pub ordering: Ordering,
    /// `-q`, in order.
    pub queues: Vec<String>,
    /// Memory of each.
    pub memory_bytes: u64,
}

impl Layout {
    /// Connections that all may open.
    #[must_use]
    pub fn connections(&self) -> u32 {
        let services = self.services.iter().map(|it| it.processes.saturating_mul(it.pool));
        let workers = self.workers.iter().map(|it| it.processes.saturating_mul(it.pool));
        services.chain(workers).fold(0, u32::saturating_add)
    }

    /// Memory that all need.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let of = |processes: u32, bytes: u64| u64::from(processes).saturating_mul(bytes);
        let services = self.services.iter().map(|it| of(it.processes, it.memory_bytes));
        let workers = self.workers.iter().map(|it| of(it.processes, it.memory_bytes));
        services.chain(workers).fold(0, u64::saturating_add)
    }
}

impl WorkerLayout {
    /// Whether it works off jobs of `queue`.
    #[must_use]
    pub fn serves(&self, queue: &str) -> bool {
        self.processes > 0 && self.queues.iter().any(|it| it == queue)
    }

    /// Whether `queue` has turns of its own: it stands first, or all have them by chance.
    #[must_use]
    pub fn is_first(&self, queue: &str) -> bool {
        let by_chance = matches!(self.ordering, Ordering::Random | Ordering::Weighted);
        let first = self.queues.first().is_some_and(|it| it == queue);
        self.processes > 0 && (first || (by_chance && self.serves(queue)))
    }
}
