//! The words of Pusher Channels protocol 7.

mod api;
mod client_message;
mod close_code;
mod names;
mod server_message;
mod signature;
mod signed_data;
mod webhook;
