//! Collects an [`Observation`] from the servers that hold jobs and from this machine. Read-only,
//! but for the lease of the autopilot.
//!
//! - [`observe`]: takes two samples of all configured sources, some seconds apart;
//! - [`Watcher`]: samples them repeatedly, for a service;
//! - `shards`: combines one or several Redis servers, each by itself and all together;
//! - `jobs`, `redis`: convert samples of Sidekiq and Redis to the advisor's types;
//! - `postgres`: samples a database, and finds out which services hold its connections;
//! - `recent`: averages jobs in progress over many samples;
//! - `services`, `environment`: find the services that may open connections; `pooler`: detects a
//!   pooler in front of the database;
//! - `pgbouncer`: queries it if it is a PgBouncer;
//! - `machine`, `memory`, `sockets`, `commands`: read cores, memory and processes from the kernel.
//!
//! A source that is absent, unresponsive or rejects the observer leaves its facts unknown, with the
//! error and a remedy. It does not affect the other sources.
//!
//! [`Observation`]: weir_advisor::Observation

mod commands;
mod counting;
mod cpu_limits;
mod environment;
mod jobs;
mod machine;
mod memory;
mod observe;
mod pgbouncer;
mod pooler;
mod postgres;
mod presence;
mod recent;
mod redis;
mod services;
mod shards;
mod sockets;
mod watch;

pub use self::machine::this_machine;
pub use self::observe::{Sources, observe};
pub use self::pgbouncer::{PgBouncerSource, pgbouncer_endpoint};
pub use self::postgres::{
    JobSession, JobSessions, JobSessionsReader, LeaseRow, LeaseRowInForce, PostgresEndpoint,
    PostgresError, PostgresLease, PostgresLimits, PostgresSource,
};
pub use self::watch::{PollSchedule, Round, Watcher};
