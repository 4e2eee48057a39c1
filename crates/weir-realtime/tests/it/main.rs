//! Integration tests of realtime channels, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can not go on says where it stopped")]

mod pusher;
mod server;
mod webhooks;
mod websocket;
mod websocket_cases;
mod websocket_peer;
mod websocket_properties;
