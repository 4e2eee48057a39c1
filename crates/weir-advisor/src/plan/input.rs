//! What a plan is computed from.

use serde::Serialize;

use super::{QueueDemand, RedisPolicy, Storage, WebDemand};

/// The machine, the expected load and the limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanInput {
    /// CPU cores of the machine.
    pub cores: u32,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Memory of the machine for Postgres; 0 if it runs elsewhere.
    pub postgres_memory_bytes: u64,
    /// Memory of the machine for Redis; 0 if it runs elsewhere.
    pub redis_memory_bytes: u64,
    /// The type of the database's disk.
    pub storage: Storage,
    /// The database's `max_connections`.
    pub max_connections: u32,
    /// Connections for psql, migrations and monitoring, which are not planned.
    pub reserve: u32,
    /// Connections reserved for superusers or for a role.
    pub reserved_connections: u32,
    /// The most connections that a pooler opens to the database, or `None` without a pooler.
    pub pooler_connections: Option<u32>,
    /// The HTTP load.
    pub web: WebDemand,
    /// Number of streaming processes, and the pool size of each.
    pub streaming: (u32, u32),
    /// The queues, most important first.
    pub queues: Vec<QueueDemand>,
    /// Memory per process, measured or default.
    pub process_memory: ProcessMemory,
    /// What to do with the `maxmemory-policy` of the Redis.
    pub redis_policy: RedisPolicy,
    /// Jobs fail because the pool of their process has too few connections: the application may not
    /// read the size of the pool that the plan sets.
    pub lacks_pool_connections: bool,
}

/// Memory per process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessMemory {
    /// A Ruby process without its threads.
    pub ruby_bytes: u64,
    /// Each of its threads.
    pub thread_bytes: u64,
    /// A streaming process.
    pub streaming_bytes: u64,
}

impl Default for ProcessMemory {
    /// Typical values of Mastodon's processes. Measured values are better.
    fn default() -> Self {
        Self { ruby_bytes: 300 << 20, thread_bytes: 8 << 20, streaming_bytes: 150 << 20 }
    }
}
