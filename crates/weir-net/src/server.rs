//! The server side: one single-threaded runtime per core, and the protocols of connections.
//!
//! [`start`] runs threads `weir-core-0`, `weir-core-1` and so on. Each has a socket of its own in
//! every `SO_REUSEPORT` group, so the kernel spreads connections. A connection stays on the core
//! that accepted it, with that core's [`ConnectionService`].
//!
//! This module reads the head of the first request. If it asks for an upgrade that the service
//! claims, the connection becomes a raw socket ([`ConnectionService::upgrade`], with the bytes read
//! behind the head). Otherwise it is HTTP/1 or HTTP/2 (by ALPN or by its first bytes), and each of
//! its requests goes to [`ConnectionService::http`], or to `upgrade` if a later request of HTTP/1
//! asks for one. HTTP/2 has no upgrades here.
//!
//! Promises: every wait and every buffer has a setting in [`HttpServerLimits`] and a counter in
//! [`crate::NetMetrics`]; a rejected client gets an HTTP response with the reason, as far as it can
//! read one; a core that fails ends the others and is reported, and [`LivenessProbe`] finds one
//! that hangs.

mod accept;
mod answer_within;
mod body;
mod error_response;
mod first_head;
mod handshakes;
mod head;
mod http;
mod http2;
mod limits;
mod liveness;
mod messages;
mod open;
mod progress;
mod raw_target;
mod rearming_timer;
mod replay;
mod running;
mod runtime;
mod service;
mod stream;

pub use answer_within::AnswerWithin;
pub use body::{BoxError, ResponseBody};
pub use head::HttpRequestHead;
pub use httparse::Header;
pub use limits::{Http2Limits, HttpServerLimits};
pub use liveness::LivenessProbe;
pub use open::CountedSocket;
pub use raw_target::RawTarget;
pub use running::{
    CoreListener, DrainOutcome, RunningServer, ServerOptions, ServerOutcome, ServerStop,
    StartError, start,
};
pub use runtime::CoreIndex;
pub use service::{ConnectionService, Peer, RejectedUpgrade, Upgrade};
pub use stream::ConnectionStream;
