//! Exit codes, in one list that scripts can rely on.

use std::process::ExitCode;

/// The exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Fine,
    /// One of [`FINDING`] found a problem; or a new worker did not start (`weir workers restart`).
    FoundProblem,
    /// The command failed.
    Failed,
    /// The state for Nagios (`weir doctor --nagios`): 0, 1, 2 or 3.
    Monitored(u8),
    /// Unknown arguments, or arguments that cannot be used together.
    Usage,
}

/// Commands that end with 1 if they find a problem.
const FINDING: &[&str] = &[
    "check",
    "init --check",
    "doctor",
    "plan",
    "plan check",
    "status --all",
    "jobs damage",
    "jobs verify",
    "gems verify",
    "backup verify",
];

/// Returns the exit codes of all commands, with their meanings.
pub(crate) fn meanings() -> [(u8, String); 4] {
    let finding = FINDING.join(", ");
    let found = format!(
        "the command found a problem ({finding}) or a new worker did not start (workers restart)"
    );
    [
        (0, "success".to_owned()),
        (1, found),
        (2, "the command failed".to_owned()),
        (64, "wrong usage".to_owned()),
    ]
}

/// Returns all of them as a sentence, for `--help`.
pub(crate) fn help() -> String {
    let meanings = meanings().map(|(code, meaning)| format!("{code} {meaning}"));
    format!("Exit codes: {}.", meanings.join(", "))
}

/// Arguments that are syntactically valid but cannot be used: a malformed address, options that exclude
/// each other.
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
    /// Returns the exit code for the error of a command.
    pub(crate) fn from_error(error: &anyhow::Error) -> Self {
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
