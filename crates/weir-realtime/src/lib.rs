//! Realtime channels for web applications, spoken as Pusher's protocol.
//!
//! From the wire inwards:
//! - [`websocket`]: frames of RFC 6455, without a buffer for a connection that is idle.
//! - [`pusher`]: the words of Pusher Channels protocol 7: names, messages, signatures, close codes.
//! - [`shard`]: what one core does: its connections, and writing to them. `session` is one of them,
//!   `fanout` one channel's subscribers there, `http` the HTTP API.
//! - [`hub`]: what the cores share: the apps (`app`), their channels' homes (`channel`), their users.
//! - `sse`: a channel for clients without WebSockets.
//! - `saved`: histories over a graceful restart.
//! - [`webhooks`]: telling the application's server.
//! - [`settings`], [`metrics`], [`origin`].
//! - For operators: [`view`], what they may see; [`watch`], one channel as it goes on;
//!   [`operations`], what they can do.

mod app;
mod channel;
mod fanout;
mod frame;
mod http;
pub mod hub;
#[doc(hidden)]
pub mod measure;
pub mod metrics;
pub mod operations;
pub mod origin;
pub mod pusher;
mod saved;
mod session;
pub mod settings;
pub mod shard;
mod sse;
mod users;
pub mod view;
pub mod watch;
pub mod webhooks;
pub mod websocket;

pub use saved::{Saved, SavedError};
