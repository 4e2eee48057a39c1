//! A set of processes with their pools, planned or running.

use serde::Serialize;

use crate::observation::Ordering;

/// All processes that open connections, and the limits that they share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessLayout {
    /// Web and streaming processes.
    pub services: Vec<ServiceLayout>,
    /// Sidekiq processes.
    pub workers: Vec<WorkerLayout>,
    /// The database's `max_connections`.
    pub max_connections: u32,
    /// Connections kept free for other clients.
    pub reserve: u32,
    /// Connections reserved for superusers or a role (`superuser_reserved_connections`,
    /// `reserved_connections`). They may overlap with `reserve`.
    pub reserved_connections: u32,
    /// The most connections that a pooler opens to the database, or `None` without a pooler.
    pub pooler_connections: Option<u32>,
    /// Memory available to these processes, or `None` if unknown.
    pub memory_bytes_max: Option<u64>,
}

/// A property of a process that is unknown or contradictory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// The command: it may open connections, none of which are counted.
    Command,
    /// The number of processes: one is counted.
    Processes,
    /// The number of threads per process.
    Threads,
    /// The pool size per process: taken to be the number of threads.
    Pool,
    /// The memory per process.
    Memory,
    /// The served queues.
    Queues,
    /// The order of queues: only some have weights, or the configured order contradicts the
    /// weights.
    Order,
}

/// Processes of one kind that run no jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServiceLayout {
    /// "web", "streaming".
    pub name: String,
    /// Number of processes.
    pub processes: u32,
    /// Threads per process that use the database.
    pub threads: u32,
    /// Pool size per process.
    pub pool: u32,
    /// Memory per process.
    pub memory_bytes: u64,
    /// Unknown properties. They are estimated and prove nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}

/// Identical Sidekiq processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkerLayout {
    /// Name of the systemd unit.
    pub name: String,
    /// Number of processes.
    pub processes: u32,
    /// `-c` of each process.
    pub concurrency: u32,
    /// `DB_POOL` of each process.
    pub pool: u32,
    /// How the next queue is selected.
    pub ordering: Ordering,
    /// `-q`, in order.
    pub queues: Vec<String>,
    /// Memory per process.
    pub memory_bytes: u64,
    /// Unknown properties. They are estimated and prove nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}

impl ProcessLayout {
    /// Returns the number of sessions available to users other than superusers.
    #[must_use]
    pub const fn usable_connections(&self) -> u32 {
        self.max_connections.saturating_sub(self.reserved_connections)
    }

    /// Returns the number of connections for pools. The reserve is for psql, migrations and
    /// monitoring, which cannot use connections reserved for superusers.
    #[must_use]
    pub fn budget(&self) -> u32 {
        self.max_connections.saturating_sub(self.reserve.max(self.reserved_connections))
    }

    /// Returns the most connections that all processes together open to the database.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.pooler_connections.map_or_else(|| self.pools(), u64::from)
    }

    /// Returns the sum of all pools, whether they connect to the database or to a pooler.
    #[must_use]
    pub fn pools(&self) -> u64 {
        // Products of two 32-bit numbers fit 64 bits, so an excessive layout cannot overflow and
        // seem to fit.
        let of = |processes: u32, pool: u32| u64::from(processes) * u64::from(pool);
        let services = self.services.iter().map(|it| of(it.processes, it.pool));
        let workers = self.workers.iter().map(|it| of(it.processes, it.pool));
        services.chain(workers).fold(0, u64::saturating_add)
    }

    /// Returns the memory that all processes need.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let of = |processes: u32, bytes: u64| u64::from(processes).saturating_mul(bytes);
        let services = self.services.iter().map(|it| of(it.processes, it.memory_bytes));
        let workers = self.workers.iter().map(|it| of(it.processes, it.memory_bytes));
        services.chain(workers).fold(0, u64::saturating_add)
    }
}

impl WorkerLayout {
    /// Reports whether it runs jobs of `queue`.
    #[must_use]
    pub fn serves(&self, queue: &str) -> bool {
        self.works() && self.queues.iter().any(|it| it == queue)
    }

    /// Returns the number of threads of all its processes.
    #[must_use]
    pub const fn threads(&self) -> u32 {
        self.processes.saturating_mul(self.concurrency)
    }

    /// Reports whether it has threads, or may have them.
    fn works(&self) -> bool {
        self.processes > 0 && (self.concurrency > 0 || self.gaps.contains(&Gap::Threads))
    }

    /// Reports whether its queues are selected at random, so that none is first.
    #[must_use]
    pub fn is_by_chance(&self) -> bool {
        self.queues.len() > 1 && matches!(self.ordering, Ordering::Random | Ordering::Weighted)
    }

    /// Reports whether `queue` is not behind others: it is first, or the selection is random.
    #[must_use]
    pub fn is_first(&self, queue: &str) -> bool {
        let first = self.queues.first().is_some_and(|it| it == queue);
        self.serves(queue) && (first || self.is_by_chance())
    }
}
