//! Pusher Channels protocol 7, as text: no sockets, no state, no clock of its own.
//!
//! - [`channel`], [`event`], [`socket_id`], [`position`]: the names, each checked once.
//! - [`client_message`]: what a client says; [`server_message`]: what the server says.
//! - [`signature`]: who may subscribe, sign in, call the HTTP API; how webhooks are signed.
//! - [`presence_data`], [`user_data`]: what the application's server vouches for in them.
//! - [`api`]: bodies and answers of the HTTP API; [`webhook`]: what is sent the other way.
//! - [`close_code`]: why a connection ends, and what clients do then.
//! - [`limits`]: every bound of the above.
//!
//! The reference is Pusher's public documentation ("Pusher Channels Protocol", "HTTP API
//! Reference", "Generating authentication and authorization strings", "Webhooks"); where it is
//! silent, what pusher-js and the server libraries send and expect.

pub mod api;
pub mod channel;
pub mod client_message;
pub mod close_code;
pub mod event;
mod excerpt;
mod json;
pub mod limits;
pub mod payload;
pub mod position;
pub mod presence_data;
pub mod server_message;
pub mod signature;
pub mod socket_id;
pub mod user_data;
pub mod user_id;
pub mod webhook;
