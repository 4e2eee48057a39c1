//! Processes and their pools, planned or as they are.

use serde::Serialize;

use crate::observation::Ordering;

/// All that opens connections, and what there is for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessLayout {
    /// Web and streaming.
    pub services: Vec<ServiceLayout>,
    /// Sidekiq's processes.
    pub workers: Vec<WorkerLayout>,
    /// The database's ceiling.
    pub max_connections: u32,
    /// Connections that nobody plans with.
    pub reserve: u32,
    /// Of all connections those that only superusers get, or a role (`superuser_reserved_connections` and
    /// `reserved_connections`). The reserve may be among them.
    pub reserved_connections: u32,
    /// Connections that a pooler in between opens at most; none: nothing stands between.
    pub pooler_connections: Option<u32>,
    /// Memory that these processes may use; none if it is not known.
    pub memory_bytes_max: Option<u64>,
}

/// What is not said of processes, or not in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// What it starts: it may hold connections, and nothing of it is counted.
    Command,
    /// How many processes there are: one is counted.
    Processes,
    /// How many threads each has.
    Threads,
    /// How large the pool of each is: reckoned to be as large as its threads.
    Pool,
    /// How much memory each takes.
    Memory,
    /// Which queues it serves.
    Queues,
    /// Some of its queues have a weight and some have none, or another order is said than they have.
    Order,
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
    /// What nobody has said of them: it is reckoned, and proves nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
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
    /// What nobody has said of them: it is reckoned, and proves nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}

impl ProcessLayout {
    /// Sessions that who is no superuser can have.
    #[must_use]
    pub const fn usable_connections(&self) -> u32 {
        self.max_connections.saturating_sub(self.reserved_connections)
    }

    /// Connections that pools may open: the reserve is for psql, migrations and monitoring, which get none
    /// of those that only superusers get.
    #[must_use]
    pub fn budget(&self) -> u32 {
        self.max_connections.saturating_sub(self.reserve.max(self.reserved_connections))
    }

    /// Connections that all may open to the database.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.pooler_connections.map_or_else(|| self.pools(), u64::from)
    }

    /// Connections that all pools may open, to the database or to a pooler in between.
    #[must_use]
    pub fn pools(&self) -> u64 {
        // Of two numbers of 32 bits the product has 64 at most: what is too much never seems to fit.
        let of = |processes: u32, pool: u32| u64::from(processes) * u64::from(pool);
        let services = self.services.iter().map(|it| of(it.processes, it.pool));
        let workers = self.workers.iter().map(|it| of(it.processes, it.pool));
        services.chain(workers).fold(0, u64::saturating_add)
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
        self.works() && self.queues.iter().any(|it| it == queue)
    }

    /// Threads of all of its processes.
    #[must_use]
    pub const fn threads(&self) -> u32 {
        self.processes.saturating_mul(self.concurrency)
    }

    /// It has threads, as far as anybody has said.
    fn works(&self) -> bool {
        self.processes > 0 && (self.concurrency > 0 || self.gaps.contains(&Gap::Threads))
    }

    /// Whether its queues have their turns by chance, so that none of them is the first.
    #[must_use]
    pub fn is_by_chance(&self) -> bool {
        self.queues.len() > 1 && matches!(self.ordering, Ordering::Random | Ordering::Weighted)
    }

    /// Whether `queue` has turns of its own: it stands first, or all have them by chance.
    #[must_use]
    pub fn is_first(&self, queue: &str) -> bool {
        let first = self.queues.first().is_some_and(|it| it == queue);
        self.serves(queue) && (first || self.is_by_chance())
    }
}
