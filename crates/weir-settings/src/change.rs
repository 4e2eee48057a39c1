//! What a changed setting takes to be in force.

/// The action that a change requires of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Reload,
    Restart,
    Upgrade,
    StopAndStart,
}

impl Change {
    /// Returns the word in the reference.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::Restart => "restart",
            Self::Upgrade => "upgrade",
            Self::StopAndStart => "stop",
        }
    }

    /// Returns the command in messages.
    pub const fn command(self) -> &'static str {
        match self {
            Self::Reload => "a reload (SIGHUP)",
            Self::Restart => "`weir restart`",
            Self::Upgrade => "`weir upgrade`",
            Self::StopAndStart => "a stop and a start",
        }
    }
}
