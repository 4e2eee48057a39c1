//! HTTP/1.1 to workers: one request at a time on a connection, driven by the task that waits for its
//! response.
//!
//! hyper's client gives each connection a task of its own, and a request goes to it and its response
//! comes back through channels. Here both sockets belong to one task: docs/benchmarks.md has what
//! that saves. The parsing of heads is httparse's, as in hyper.

mod answer;
mod by_hand;
mod connection;
mod exchange;
mod framing;
mod outgoing;
mod pool;
mod reader;
mod scratch;
mod sending;
mod socket;

pub(crate) use self::answer::{BadAnswer, HeadLimits, UpstreamResponse};
pub(crate) use self::by_hand::read as read_by_hand;
pub(crate) use self::connection::UpstreamConnection;
pub(crate) use self::exchange::{Exchange, UpstreamError};
pub(crate) use self::outgoing::{BadBody, Outgoing};
pub(crate) use self::pool::IdleConnections;
pub(crate) use self::reader::{AnswerReader, UpstreamBodyError};
pub(crate) use self::sending::Framed;
