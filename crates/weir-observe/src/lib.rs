//! Fills an [`Observation`] from the servers that hold jobs and from this machine. Read-only.
//!
//! - [`observe`]: two looks, some seconds apart, at everything that was named;
//! - [`Watcher`]: the same again and again, for a service;
//! - `shards`: one Redis or several, each by itself and all together;
//! - `jobs`, `redis`: what a look at Sidekiq means in the advisor's words;
//! - `postgres`: what a database says of itself, and who holds its connections;
//! - `lately`: jobs in hand over many looks;
//! - `services`, `environment`: who may open connections to it; `pooler`: what passes them on;
//! - `pgbouncer`: what that says of itself, if it is one;
//! - `machine`, `memory`, `sockets`, `commands`: cores, memory and processes, from the kernel.
//!
//! Promise: a source that is absent, refuses or does not answer leaves its facts unknown, with what
//! it said and what would let it be seen; it keeps no other source from being seen.
//!
//! [`Observation`]: weir_advisor::Observation

mod commands;
mod counting;
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
pub use self::postgres::{PostgresEndpoint, PostgresError, PostgresLimits, PostgresSource};
pub use self::watch::{PollSchedule, Round, Watcher};
