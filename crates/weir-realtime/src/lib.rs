//! Realtime channels for web applications, spoken as Pusher's protocol.
//!
//! Layers, lowest first; a file uses only files of its own layer and of those below:
//! - [`websocket`], [`pusher`]: frames of RFC 6455, and the messages, names and signatures of Pusher
//!   Channels protocol 7. `frame` is a message of the one in a frame of the other.
//! - [`settings`], [`metrics`], [`origin`], [`webhooks`]: requests to the application's server.
//! - `cores`: the mailbox of each core, and how much may wait in it.
//! - `channel`: a channel's home, which orders what happens on it. `app`: the channels and users of one
//!   app.
//! - `broker`: publishing, subscribing, members and history, behind one trait.
//! - [`hub`]: what the cores share: apps, settings, the broker.
//! - [`shard`]: what one core does: its connections, and writing to them. `session` is one of them,
//!   `fanout` one channel's subscribers there.
//! - `http`: the HTTP API; `sse`: a channel for clients without WebSockets; `saved`: histories over a
//!   graceful restart. For operators: [`view`], what they may see; [`watch`], one channel live;
//!   [`operations`], what they can do.

mod app;
mod broker;
mod channel;
mod cores;
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
