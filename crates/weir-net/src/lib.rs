//! The network layer below all services: listening sockets, TLS, and the runtimes that serve
//! connections.
//!
//! - [`chunks`]: the chunked transfer coding.
//! - [`client`]: identifies clients and counts what each has open.
//! - [`http_client`]: sends requests to other servers.
//! - [`listener`]: binds listening sockets, with errors that name a remedy, or adopts inherited
//!   ones.
//! - [`metrics`]: the metrics of the server side.
//! - [`occupant`]: finds the process that uses a port.
//! - `successor`: forwards requests to the process that has taken over.
//! - [`server`]: one runtime per core; the head of the first request decides what a connection is.
//! - [`unix_path`]: unix sockets with paths longer than the kernel's 107 bytes.
//! - [`tls`]: certificates from files, selected by server name, reloaded while running.
//! - [`webhook`]: delivers signed events to applications' servers.

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
