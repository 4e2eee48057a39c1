//! Realtime channels for web applications, spoken as Pusher's protocol.
//!
//! From the wire inwards:
//! - [`websocket`]: frames of RFC 6455, without a buffer for a connection that is idle.
//! - [`pusher`]: the words of Pusher Channels protocol 7: names, messages, signatures, close codes.
//! - [`webhooks`]: tells the application's server what happens, signed, in batches, until it listens.

pub mod pusher;
pub mod webhooks;
pub mod websocket;
