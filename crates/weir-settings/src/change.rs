//! What a changed setting takes to be in force.

/// What an operator does after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Reload,
    Restart,
    Upgrade,
    StopAndStart,
}

impl Change {
    /// As the reference says it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::Restart => "restart",
            Self::Upgrade => "upgrade",
            Self::StopAndStart => "stop",
        }
    }

    /// As a message says it.
    pub const fn command(self) -> &'static str {
        match self {
            Self::Reload => "a reload (SIGHUP)",
            Self::Restart => "`weir restart`",
            Self::Upgrade => "`weir upgrade`",
            Self::StopAndStart => "a stop and a start",
        }
    }
}
