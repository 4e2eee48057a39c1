//! Pusher Channels protocol 7, as text. Has no sockets, state or clock of its own.
//!
//! - [`channel`], [`event`], [`socket_id`], [`position`]: validated names and ids.
//! - [`client_message`]: messages of clients. [`server_message`]: messages of the server.
//! - [`signature`]: verifying subscriptions, sign-ins and requests to the HTTP API, and signing
//!   webhooks.
//! - [`presence_data`], [`user_data`]: the signed data of presence subscriptions and sign-ins.
//! - [`api`]: request and response bodies of the HTTP API. [`webhook`]: requests to the
//!   application's server.
//! - [`close_code`]: close codes, and what clients do on each.
//! - [`limits`]: the limits of all of these.
//!
//! The reference is Pusher's public documentation ("Pusher Channels Protocol", "HTTP API
//! Reference", "Generating authentication and authorization strings", "Webhooks"). Where it says
//! nothing, the reference is what pusher-js and the server libraries send and expect.

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
