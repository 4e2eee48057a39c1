//! One single-threaded runtime per core, and what becomes of a connection.
//!
//! [`start`] runs threads `weir-core-0`, `weir-core-1` and so on. Each has a socket of its own of
//! every `SO_REUSEPORT` group, so that the kernel spreads connections and nothing is handed from
//! one thread to another: a connection stays on the core that accepted it, with the [`ConnectionService`]
//! that was made there.
//!
//! The first request's head is read here. One that asks for an upgrade that the service claims
//! becomes a raw socket ([`ConnectionService::upgrade`], with the bytes read behind the head); all else is
//! HTTP/1 or HTTP/2 (agreed on by TLS, or told by its first bytes), every request of it routed by
//! itself ([`ConnectionService::http`]), later upgrades of HTTP/1 included. HTTP/2 has no upgrades here.
//!
//! Promises: every wait and every buffer has a setting in [`HttpServerLimits`] and a count in
//! [`crate::NetMetrics`]; a rejected client gets an HTTP response that says why, as far as it can
//! read one; a core that ends by itself ends the others and is reported, and
//! one that hangs is found by its [`Pulse`].

mod accept;
mod answer;
mod answer_within;
mod body;
mod first_head;
mod handshakes;
mod head;
mod http;
mod http2;
mod limits;
mod messages;
mod open;
mod progress;
mod pulse;
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
pub use open::CountedSocket;
pub use pulse::Pulse;
pub use raw_target::RawTarget;
pub use running::{
    CoreListener, DrainOutcome, RunningServer, ServerOptions, ServerOutcome, ServerStop,
    StartError, start,
};
pub use runtime::CoreIndex;
pub use service::{ConnectionService, Peer, RejectedUpgrade, Upgrade};
pub use stream::ConnectionStream;
