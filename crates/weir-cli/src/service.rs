//! The entry points of the processes of `weir up`, which are outside of this crate.

use crate::commands::demo::DemoArguments;
use crate::commands::up::UpArguments;
use crate::exit::Exit;

/// The commands that run the service itself.
#[derive(Clone, Copy, Debug)]
pub struct ServiceCommands {
    /// `weir up`: the parent.
    pub up: fn(UpArguments) -> anyhow::Result<Exit>,
    /// `weir demo`, which starts the parent and the load.
    pub demo: fn(DemoArguments) -> anyhow::Result<Exit>,
    /// `weir service`, which only the parent starts.
    pub service: fn() -> anyhow::Result<Exit>,
}
