//! What Sidekiq keeps in Redis, for versions 6.4, 7 and 8, read without writing; and the one change
//! that is made to it, [`Backlog`].
//!
//! The only crate that knows Sidekiq's layout: its keys, its jobs, its heartbeats.
//!
//! - [`RedisEndpoint`]: where a Redis is and how to get in; [`RedisConnection`]: one way to it;
//! - [`RedisConnection::sample`]: a [`RedisSnapshot`], of which each part may be refused;
//! - [`RedisConnection::lengths`]: how many jobs wait in some queues, as often as somebody likes;
//! - [`SampleLimits`]: what a look may cost Redis and the caller.
//!
//! Promises: for a look only commands of [`READ_ONLY_ACL`] are sent; no list, set or hash is ever read whole
//! unless it was counted first and is small; a look ends after a number of commands, of bytes of jobs
//! and a time; the arguments of jobs do not leave this crate.

mod away;
mod backlog;
mod connection;
mod counts;
mod endpoint;
mod error;
mod grant;
mod greeting;
mod heartbeat;
mod heartbeats;
mod job;
mod keys;
mod limits;
mod look;
mod questions;
mod server;
mod shards;
mod snapshot;
#[doc(hidden)]
pub mod text;
mod time;
mod unready;

pub use self::backlog::{
    Backlog, NotReady, SetAside, backlog_of, is_backlog, queues_with_backlog, served_last,
};
pub use self::connection::RedisConnection;
pub use self::counts::Lengths;
pub use self::endpoint::{RedisAddress, RedisEndpoint, Sentinel, TlsFiles};
pub use self::error::SidekiqError;
pub use self::heartbeat::{Capsule, CapsuleMode, WeightedQueue};
pub use self::heartbeats::Heartbeat;
pub use self::job::JobSummary;
pub use self::limits::SampleLimits;
pub use self::look::SampleScope;
pub use self::questions::READ_ONLY_ACL;
pub use self::server::{CommandSample, ServerSample, SlowCommand};
pub use self::shards::join;
pub use self::snapshot::{
    ForeignKeys, OddKey, ProcessSample, QueueSample, Read, RedisSnapshot, RejectedCommand,
    RunningJobSample, SetSample,
};
pub use self::unready::UnreadyKind;
