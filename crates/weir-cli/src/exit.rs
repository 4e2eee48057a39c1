//! How the process ends. One list, so that scripts can rely on it.

use std::process::ExitCode;

/// The exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Did what was asked.
    Fine,
    /// Looked, and found a problem (`weir check`, `weir doctor`, `weir plan`, `weir jobs verify`,
    /// `weir gems verify`); a new worker did not start (`weir workers restart`).
    FoundProblem,
    /// Could not do what was asked.
    Failed,
    /// As Nagios reads it (`weir doctor --nagios`): 0, 1, 2 or 3.
    Monitored(u8),
    /// Asked for something that doesn't exist.
    Usage,
}

/// Asked for something that can't be: an address that is none, options that do not go together.
#[derive(Debug)]
pub(crate) struct WrongUsage(String);

impl WrongUsage {
    pub(crate) fn new(problem: impl std::fmt::Display) -> Self {
        Self(problem.to_string())
    }
}

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

impl Exit {
    /// How a command ends that has failed.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if error.downcast_ref::<WrongUsage>().is_some() { Self::Usage } else { Self::Failed }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::FoundProblem => 1,
            Exit::Failed => 2,
            Exit::Monitored(state) => state,
            // EX_USAGE of sysexits.h.
            Exit::Usage => 64,
        })
    }
}
