//! The machine, and who runs on it.

use serde::Serialize;

/// The machine that the observer runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Cores.
    pub cores: u32,
    /// All memory.
    pub memory_bytes: u64,
    /// Memory that could be had without swapping.
    pub memory_available_bytes: u64,
    /// Cores that were idle between two looks.
    pub cores_idle: f64,
}

/// Processes of one kind with a connection pool each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Service {
    /// "web", "streaming", "sidekiq push".
    pub name: String,
    /// Processes of it.
    pub processes: u32,
    /// Connections that each may open.
    pub pool: u32,
    /// What sets the pool, up to the number: "DB_POOL=", "-c ".
    pub set_by: String,
}

impl Service {
    /// Connections that all of it may open.
    #[must_use]
    pub const fn connections(&self) -> u32 {
        self.processes.saturating_mul(self.pool)
    }

    /// The line that sets the pool.
    #[must_use]
    pub fn pool_line(&self, pool: u32) -> String {
        format!("{}{pool}", self.set_by)
    }
}
