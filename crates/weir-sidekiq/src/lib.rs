//! Sidekiq's data in Redis, for versions 6.4, 7 and 8: read as samples, and used as a [`store`] of
//! Weir's own jobs.
//!
//! This is the only crate that knows Sidekiq's keys and the formats of its jobs and heartbeats.
//!
//! - [`RedisConnection`]: a connection to the Redis of a [`RedisEndpoint`];
//! - [`RedisConnection::sample`]: returns a [`RedisSnapshot`], each part of which Redis may reject;
//! - [`RedisConnection::lengths`]: returns the lengths of some queues, cheaply enough for frequent
//!   use;
//! - [`RedisConnection::latencies`]: returns how long the next jobs of some queues have waited, as
//!   cheaply;
//! - [`SampleLimits`]: limits the cost of a sample for Redis and for the client;
//! - [`Backlog`]: sets a queue's backlog aside and brings it back;
//! - [`LimitedQueues`]: moves the waiting jobs of one class to a queue of their own, and back;
//! - [`store`]: weir-jobs' `Store`, which shares all jobs with Sidekiq;
//! - [`RedisConnectionError`]: the error of every operation, by [`RedisErrorKind`].
//!
//! Guarantees: samples use only commands of [`READ_ONLY_ACL`]. Lists, sets and hashes are read
//! whole only if they were counted first and are small. The number of commands, the bytes of jobs
//! and the time are limited. A sample contains no job arguments. Messages of errors are shortened,
//! and passwords in them are masked.

mod backlog;
mod connection;
mod counts;
mod error;
mod error_message;
mod heartbeat;
mod history;
mod job;
mod keys;
mod latencies;
mod limited_queues;
mod limits;
mod look;
mod questions;
mod server;
mod shards;
mod snapshot;
pub mod store;
#[doc(hidden)]
pub mod text;
mod time;

/// What this crate's interface has of connections.
pub use weir_redis::{
    Blocker, ConnectError, NetworkErrorKind, RedisAddress, RedisConnectionError, RedisEndpoint,
    RedisErrorKind, Sentinel, TlsErrorKind, TlsFiles,
};

pub use self::backlog::{
    Backlog, NotReady, SetAside, backlog_of, is_backlog, queues_with_backlog, served_last,
};
pub use self::connection::RedisConnection;
pub use self::counts::Lengths;
pub use self::error::SidekiqError;
pub use self::heartbeat::{Capsule, CapsuleMode, WeightedQueue};
pub use self::job::JobSummary;
pub use self::latencies::QueueLatency;
pub use self::limited_queues::{
    BroughtBack, LimitedQueue, LimitedQueueState, LimitedQueues, WINDOW_JOBS,
};
pub use self::limits::SampleLimits;
pub use self::look::SampleScope;
pub use self::questions::READ_ONLY_ACL;
pub use self::server::{CommandSample, ServerSample, SlowCommand};
pub use self::shards::join;
pub use self::snapshot::{
    FAR_AHEAD, ForeignKeys, OddKey, ProcessSample, QueueSample, Read, RedisSnapshot,
    RejectedCommand, RunningJobSample, SetSample,
};
