//! Connections to Redis, for all crates that use one.
//!
//! - [`RedisEndpoint`]: address and credentials of a Redis, with [`RedisAddress`], [`Sentinel`] and
//!   [`TlsFiles`].
//! - [`ServerConnection`]: a connection that is logged in, opened with [`ConnectOptions`].
//! - [`named_primary`]: the primary that Sentinels name now, as a [`NamedPrimary`].
//! - [`ConnectError`], and [`RedisConnectionError`]: an error by its [`RedisErrorKind`], with a
//!   remedy. [`error_kind`] is the only module that reads the text of Redis' errors.
//! - [`server_state`]: whether a server can be used, by its `INFO`.
//! - [`cluster`]: sends commands to the nodes of a Redis Cluster that have their keys;
//!   [`cluster_slots`], [`slots`]: which of them has a key.
//! - [`lease`]: a lease that one process of many holds.
//! - [`acl`], [`grant`]: the permissions of a user, and the command that grants them.
//!
//! Promise: certificates, keys and passwords in files are read for each connection, so that they can
//! be replaced while Weir runs. No error contains a password.

pub mod acl;
mod address;
mod client;
pub mod cluster;
pub mod cluster_slots;
mod connection;
mod endpoint;
mod error;
pub mod error_kind;
mod explanation;
pub mod grant;
mod greeting;
pub mod lease;
mod network_error;
mod node_away;
mod sentinel;
pub mod server_state;
pub mod slots;

pub use self::address::{RedisAddress, Sentinel};
pub use self::connection::{ConnectOptions, ServerConnection};
pub use self::endpoint::{RedisEndpoint, TlsFiles};
pub use self::error::{ConnectError, RedisConnectionError};
pub use self::error_kind::{Blocker, RedisErrorKind};
pub use self::network_error::{NetworkErrorKind, TlsErrorKind};
pub use self::sentinel::{NamedPrimary, named_primary};
