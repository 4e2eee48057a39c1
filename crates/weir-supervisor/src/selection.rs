//! Listening sockets at one address that an app's workers share: the selection of a socket for each
//! connection, and of the sockets that each worker listens on.
//!
//! - [`Plan`]: the number of sockets, and each worker's slice of them. Pure.
//! - [`SocketGroup`]: the sockets, joined by the configured selection.
//! - [`busy`]: the load that workers report, in memory shared by all.
//! - `program`: the selection as a BPF program for the kernel. Pure.

pub mod busy;
mod group;
mod plan;
mod program;

pub use group::{LoadedSelection, SelectionError, SocketGroup};
pub use plan::{Plan, Selection};

#[cfg(test)]
mod tests;
