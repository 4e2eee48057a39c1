//! The HTTP/1.1 client for workers: one request at a time on a connection, driven by the task that
//! waits for the response.
//!
//! hyper's client runs a task for each connection and passes requests and responses through
//! channels. Here one task drives both sockets; docs/benchmarks.md has the measurements. Heads are
//! parsed by httparse, as in hyper.

mod connection;
mod exchange;
mod framing;
mod manual;
mod outgoing;
mod pool;
mod reader;
mod response;
mod scratch;
mod sending;
mod socket;

pub(crate) use self::connection::UpstreamConnection;
pub(crate) use self::exchange::{Exchange, UpstreamError};
pub(crate) use self::manual::read as read_in_pieces;
pub(crate) use self::outgoing::{BadBody, Outgoing};
pub(crate) use self::pool::IdleConnections;
pub(crate) use self::reader::{ResponseReader, UpstreamBodyError};
pub(crate) use self::response::{HeadLimits, UpstreamResponse, UpstreamResponseError};
pub(crate) use self::sending::Framed;
