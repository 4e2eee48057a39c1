//! Sockets, TLS and the server against the real kernel.

mod http_client;
mod listener;
mod server;
mod tls;
