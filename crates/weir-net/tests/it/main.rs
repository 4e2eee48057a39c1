//! Sockets and TLS against the real kernel.

mod listener;
mod tls;
