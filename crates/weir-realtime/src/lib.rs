//! Realtime channels for web applications, over the Pusher Channels protocol.
//!
//! Layers, lowest first. A file uses only files of its own layer and of the layers below it:
//! - [`websocket`], [`pusher`]: the frames of RFC 6455; the messages, names and signatures of
//!   Pusher Channels protocol 7. `frame` encodes a Pusher message as a WebSocket frame.
//! - [`settings`], [`metrics`], `trace`, [`origin`], [`webhooks`] (requests to the application's server).
//! - `cores`: each core's mailbox, and the limits of what may wait for delivery by that core.
//! - [`shared_log`]: what a log that several nodes share must do.
//! - `channel`: a channel's home, which orders the channel's messages. `app`: the channels and
//!   users of one app.
//! - `broker`: publishing, subscribing, members and history behind one trait.
//! - [`hub`]: state that all cores share: apps, settings and the broker.
//! - [`shard`]: the connections of one core, and writing to them. `session` is one connection,
//!   `fanout` the subscribers of one channel on that core.
//! - `http`: the HTTP API. `sse`: event streams for clients without WebSockets. `saved`: histories
//!   that outlive a graceful restart. For operators: [`view`] (state), [`watch`] (live messages of
//!   a channel) and [`operations`] (actions).

mod app;
mod broker;
mod channel;
mod connection_share;
mod cores;
mod durable;
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
mod removed_apps;
mod saved;
mod session;
pub mod settings;
pub mod shard;
pub mod shared_log;
mod sse;
mod trace;
mod users;
pub mod view;
pub mod watch;
mod watchlist;
pub mod webhooks;
pub mod websocket;

pub use durable::{DurableError, DurableFailure};
pub use saved::{Saved, SavedError, begin_new_epochs};
