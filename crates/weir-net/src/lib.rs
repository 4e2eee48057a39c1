//! Below every service: where it listens, TLS, and the runtimes that serve connections.
//!
//! - [`chunks`]: the chunked transfer coding.
//! - [`client`]: what a client is, and what each has open.
//! - [`listener`]: binding it, with errors that say what to do; taking over one that was inherited.
//! - [`metrics`]: what the server side counts.
//! - [`occupant`]: which process uses a port.
//! - [`post`]: requests to other servers.
//! - `successor`: requests passed on to the process that has taken over.
//! - [`server`]: one runtime per core; the first request's head decides what a connection becomes.
//! - [`unix_path`]: unix sockets with paths longer than the kernel's 107 bytes.
//! - [`tls`]: certificates from files, by name, replaced while running.

pub mod chunks;
pub mod client;
pub mod listener;
pub mod metrics;
pub mod occupant;
pub mod post;
pub mod server;
mod successor;
pub mod tls;
pub mod unix_path;

pub use listener::{BindOptions, Listener};
pub use metrics::NetMetrics;
pub use successor::{Successor, SuccessorError};
pub use tls::{Tls, TlsFiles, TlsSettings};
pub use weir_base::listen_address::ListenAddress;
