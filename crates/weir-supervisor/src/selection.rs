//! Listening sockets at one address that an app's workers share: which of them a connection gets to,
//! and which of them a worker listens on.
//!
//! - [`Plan`]: how many there are, and each worker's slice of them; pure.
//! - [`SocketGroup`]: the sockets, joined by the configured selection.
//! - [`busy`]: what workers say of themselves, in memory that all share.
//! - `program`: the choice as a program for the kernel; pure.

pub mod busy;
mod group;
mod plan;
mod program;

pub use group::{LoadedSelection, SelectionError, SocketGroup};
pub use plan::{Plan, Selection};

#[cfg(test)]
mod tests;
