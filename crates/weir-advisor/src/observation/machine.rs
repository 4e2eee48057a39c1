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
pub struct ConnectionPools {
    /// "web", "streaming", "sidekiq push".
    pub name: String,
    /// Processes of it.
    pub processes: u32,
    /// Connections that each may open.
    pub pool: u32,
    /// What sets the pool, up to the number: "`DB_POOL=`", "-c ".
    pub set_by: String,
    /// Threads of each that take connections from the pool; none: nobody has said.
    pub threads: Option<u32>,
}

impl ConnectionPools {
    /// Connections that all of it may open.
    #[must_use]
    pub const fn connections(&self) -> u32 {
        self.processes.saturating_mul(self.pool)
    }

    /// Where the line that sets the pool stands. In a file of environment that services share it would
    /// be the pool of all of them.
    #[must_use]
    pub fn place(&self) -> String {
        let Self { name, set_by, .. } = self;
        match set_by.strip_prefix('-') {
            Some(_) => format!("the command line of {name}"),
            None => format!("the environment of {name} alone"),
        }
    }

    /// The line that sets the pool. Threads that it leaves without a connection must go with it.
    #[must_use]
    pub fn pool_line(&self, pool: u32) -> String {
        let line = format!("{}{pool}", self.set_by);
        // Where threads set the pool, the line is theirs.
        match self.threads {
            Some(threads) if threads > pool && self.has_pool_of_its_own() => {
                format!("{line}, and at most as many threads ({})", self.threads_set_by())
            }
            _ => line,
        }
    }

    /// Whether the pool has another line than the threads.
    #[must_use]
    pub fn has_pool_of_its_own(&self) -> bool {
        self.set_by == POOL_VARIABLE
    }

    /// What sets the threads.
    #[must_use]
    pub fn threads_set_by(&self) -> &'static str {
        if is_sidekiq(&self.name) { "-c or RAILS_MAX_THREADS" } else { "MAX_THREADS" }
    }
}

/// The variable that applications read the size of their pool from, up to the number.
pub const POOL_VARIABLE: &str = "DB_POOL=";

/// Whether a service of that name are processes of Sidekiq.
#[must_use]
pub fn is_sidekiq(service: &str) -> bool {
    service.strip_prefix("sidekiq").is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// What passes connections on between the application and the database: its clients' pools are not what
/// the database has to bear.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pooler {
    /// "pgbouncer".
    pub name: String,
    /// What shows that it is there: "it holds 20 connections".
    pub shown_by: String,
    /// Connections to the database that it opens at most; none: nobody has said.
    pub connections: Option<u32>,
}
