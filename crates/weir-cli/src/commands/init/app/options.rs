//! What an administrator chooses on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::today::RunBy;

/// What an administrator chooses.
#[derive(Debug)]
pub(in crate::commands::init) struct AppOptions {
    /// The weir.toml to write.
    pub(in crate::commands::init) settings: PathBuf,
    pub(in crate::commands::init) listen: SocketAddr,
    /// The folder of systemd's units.
    pub(in crate::commands::init) units: PathBuf,
    pub(in crate::commands::init) from: Option<RunBy>,
    /// Options of `weir plan`.
    pub(in crate::commands::init) plan: Vec<String>,
    /// The path of this program.
    pub(in crate::commands::init) program: PathBuf,
}
