//! Below every service: where it listens, TLS, and the runtimes that serve connections.
//!
//! - [`chunks`]: the chunked transfer coding.
//! - [`client`]: what a client is, and what each has open.
//! - [`http_client`]: requests to other servers.
//! - [`listener`]: binding it, with errors that say what to do; taking over one that was inherited.
//! - [`metrics`]: what the server side counts.
//! - [`occupant`]: which process uses a port.
//! - `successor`: requests passed on to the process that has taken over.
//! - [`server`]: one runtime per core; the first request's head decides what a connection becomes.
//! - [`unix_path`]: unix sockets with paths longer than the kernel's 107 bytes.
//! - [`tls`]: certificates from files, by name, replaced while running.
//! - [`webhook`]: events that are posted to other people's servers.

pub mod chunks;
pub mod client;
pub mod http_client;
pub mod listener;
pub mod metrics;
pub mod occupant;
pub mod server;
mod successor;
pub mod tls;
pub mod unix_path;
pub mod webhook;

pub use listener::{BindOptions, Listener};
pub use metrics::NetMetrics;
pub use successor::{Successor, SuccessorError};
pub use tls::{Tls, TlsFiles, TlsSettings};
pub use weir_base::listen_address::ListenAddress;
