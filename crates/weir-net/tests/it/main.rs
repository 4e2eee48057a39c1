//! Sockets, TLS and the server against the real kernel.

mod listener;
mod server;
mod tls;
