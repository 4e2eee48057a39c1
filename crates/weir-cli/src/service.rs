//! What the command line starts and does not know: the processes of `weir up`.

use crate::commands::up::UpArguments;
use crate::exit::Exit;

/// The commands that are the service itself.
#[derive(Clone, Copy, Debug)]
pub struct ServiceCommands {
    /// `weir up`: the parent.
    pub up: fn(UpArguments) -> anyhow::Result<Exit>,
    /// `weir service`, which only the parent starts.
    pub service: fn() -> anyhow::Result<Exit>,
}
