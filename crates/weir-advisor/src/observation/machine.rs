//! The observer's machine, and the services that open connections to the database.

use serde::Serialize;

use crate::wording;

/// The machine that the observer runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Number of CPU cores.
    pub cores: u32,
    /// Total memory.
    pub memory_bytes: u64,
    /// Memory available without swapping.
    pub memory_available_bytes: u64,
    /// Average number of idle cores between two samples.
    pub cores_idle: f64,
    /// Processes that the kernel has killed for lack of memory since its start.
    pub oom_kills: u64,
    /// Share of the cores' time that the hypervisor gave to other machines (steal), from 0 to 1.
    pub stolen_share: f64,
    /// Share of the last minute in which no program could go on because memory was short
    /// (`/proc/pressure/memory`, full), from 0 to 1. `None` if the kernel does not report it.
    pub memory_stall_share: Option<f64>,
}

/// A program that used the CPU between two samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BusyProgram {
    /// Its name, as the kernel has it: at most 15 characters.
    pub name: String,
    /// Its process ID.
    pub pid: u32,
    /// Average number of cores that it used.
    pub cores: f64,
}

/// Processes of one kind, each with a connection pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionPools {
    /// "web", "streaming", "sidekiq push".
    pub name: String,
    /// Number of processes.
    pub processes: u32,
    /// Connections per process.
    pub pool: u32,
    /// The setting for the pool size, up to the number: "`DB_POOL=`", "-c ".
    pub set_by: String,
    /// Threads per process that use the pool, or `None` if unknown.
    pub threads: Option<u32>,
}

impl ConnectionPools {
    /// Returns the most connections that all processes together may open.
    #[must_use]
    pub const fn connections(&self) -> u32 {
        self.processes.saturating_mul(self.pool)
    }

    /// Returns where the line that sets the pool belongs. An environment file that several services
    /// share would change all of their pools.
    #[must_use]
    pub fn place(&self) -> String {
        let Self { name, set_by, .. } = self;
        match set_by.strip_prefix('-') {
            Some(_) => format!("the command line of {name}"),
            None => format!("the environment of {name} alone"),
        }
    }

    /// Returns the line that sets the pool size. If that leaves threads without a connection, the
    /// line also reduces the threads.
    #[must_use]
    pub fn pool_line(&self, pool: u32) -> String {
        let line = format!("{}{pool}", self.set_by);
        // Without a setting for the pool, the number of threads sets it, and the line is for the
        // threads.
        match self.threads {
            Some(threads) if threads > pool && self.has_pool_of_its_own() => {
                // The threads first: the line must not leave any without a connection.
                let threads = wording::number(pool, "thread", "threads");
                format!("at most {threads} ({}), and {line}", self.threads_set_by())
            }
            _ => line,
        }
    }

    /// Reports whether the pool has a setting apart from the number of threads.
    #[must_use]
    pub fn has_pool_of_its_own(&self) -> bool {
        self.set_by == POOL_VARIABLE || self.set_by == RAILS_POOL_VARIABLE
    }

    /// Returns the name of the setting for the number of threads. Sidekiq's option overrides both its
    /// file and `RAILS_MAX_THREADS`, so it has an effect however they were set.
    #[must_use]
    pub fn threads_set_by(&self) -> &'static str {
        if is_sidekiq(&self.name) { "-c" } else { "MAX_THREADS" }
    }

    /// Returns the place and the line that set the number of threads.
    #[must_use]
    pub fn threads_line(&self, threads: u32) -> (String, String) {
        match is_sidekiq(&self.name) {
            true => (format!("the command line of {}", self.name), format!("-c {threads}")),
            false => (
                format!("the command that starts {}", self.name),
                format!(
                    "{} ({})",
                    wording::number(threads, "thread", "threads"),
                    self.threads_set_by()
                ),
            ),
        }
    }
}

/// The variable with which applications set the size of their pool, up to the number.
pub const POOL_VARIABLE: &str = "DB_POOL=";

/// The variable that Rails' own `config/database.yml` reads as the size of the pool, up to the number.
/// Sidekiq reads it as its number of threads, unless its option `-c` sets that.
pub const RAILS_POOL_VARIABLE: &str = "RAILS_MAX_THREADS=";

/// Reports whether the name of a service stands for Sidekiq processes.
#[must_use]
pub fn is_sidekiq(service: &str) -> bool {
    service.strip_prefix("sidekiq").is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// A connection pooler between the services and the database. With it, the services' pools do not
/// determine the connections to the database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pooler {
    /// "pgbouncer".
    pub name: String,
    /// The evidence for the pooler: "it holds 20 connections".
    pub shown_by: String,
    /// The most connections that it opens to the database, or `None` if unknown.
    pub connections: Option<u32>,
    /// It runs on this machine, and nothing shows that it connects to the observed database.
    pub may_serve_another: bool,
}
