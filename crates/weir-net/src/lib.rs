//! Below every service: where it listens, and TLS.
//!
//! - [`address`]: a listening address, parsed once.
//! - [`listener`]: binding it, with errors that say what to do; taking over one that was inherited.
//! - [`occupant`]: who holds a port that is in use.
//! - [`unix_path`]: unix sockets with paths longer than the kernel's 107 bytes.
//! - [`tls`]: a rustls server configuration from files, replaced while running.

pub mod address;
pub mod listener;
pub mod occupant;
pub mod tls;
pub mod unix_path;

pub use address::ListenAddress;
pub use listener::{BindOptions, Listener};
pub use tls::{Tls, TlsFiles};
