//! Access to a running autopilot from other threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

use crate::journal::JournalEntry;
use crate::view::{AutopilotStatus, JournalQuery, ModeChange, OverrideChange};

/// Commands that wait at once.
const COMMANDS_MAX: usize = 16;
/// Entries of the journal in one response, by default.
const ENTRIES: usize = 50;

/// Access to an autopilot. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AutopilotHandle {
    shared: Arc<Mutex<Published>>,
    commands: mpsc::Sender<Command>,
}

/// What the autopilot publishes.
#[derive(Clone, Debug, Default)]
struct Published {
    status: Arc<AutopilotStatus>,
    entries: Arc<Vec<JournalEntry>>,
}

/// A change that an operator wants.
#[derive(Debug)]
pub(crate) enum Command {
    Mode(ModeChange, CommandReply),
    Override(OverrideChange, CommandReply),
    /// A change that was carried out elsewhere: who made it, and all of it in one sentence.
    Note(String, String),
}

pub(crate) type CommandReply = oneshot::Sender<Result<(), CommandError>>;

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// It has ended.
    #[error("the autopilot does not run")]
    NotRunning,
    /// Other commands wait.
    #[error("the autopilot is busy: {COMMANDS_MAX} commands wait; try again")]
    Busy,
    /// The settings or the store do not permit it.
    #[error("{0}")]
    NotPossible(String),
    /// It cannot be understood.
    #[error("{0}")]
    Invalid(String),
    /// The files cannot be written, or the job server did not accept the limits.
    #[error("{0}")]
    Failed(String),
}

impl AutopilotHandle {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        (Self { shared: Arc::default(), commands }, receiver)
    }

    /// Returns the status of the last round.
    #[must_use]
    pub fn status(&self) -> Arc<AutopilotStatus> {
        Arc::clone(&self.lock().status)
    }

    /// Returns entries of the journal, the newest first.
    #[must_use]
    pub fn journal(&self, query: &JournalQuery) -> Vec<JournalEntry> {
        let entries = Arc::clone(&self.lock().entries);
        let limit = query.limit.unwrap_or(ENTRIES).clamp(1, entries.len().max(1));
        let is_before = |entry: &&JournalEntry| query.before.is_none_or(|id| entry.id < id);
        entries.iter().rev().filter(is_before).take(limit).cloned().collect()
    }

    /// Changes the mode.
    ///
    /// # Errors
    /// It cannot be changed to this one.
    pub async fn set_mode(&self, change: ModeChange) -> Result<(), CommandError> {
        self.ask(|reply| Command::Mode(change, reply)).await
    }

    /// Sets a value, or ends what was set.
    ///
    /// # Errors
    /// It cannot be set.
    pub async fn set_override(&self, change: OverrideChange) -> Result<(), CommandError> {
        self.ask(|reply| Command::Override(change, reply)).await
    }

    /// Writes a change that an operator made elsewhere to the journal, unless too many commands wait.
    pub fn note(&self, by: String, text: String) {
        let noted = self.commands.try_send(Command::Note(by, text));
        if let Err(error) = noted {
            tracing::warn!(%error, "a change of an operator is not in the journal");
        }
    }

    async fn ask(&self, command: impl FnOnce(CommandReply) -> Command) -> Result<(), CommandError> {
        let (reply, answer) = oneshot::channel();
        self.commands.try_send(command(reply)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => CommandError::Busy,
            mpsc::error::TrySendError::Closed(_) => CommandError::NotRunning,
        })?;
        answer.await.unwrap_or(Err(CommandError::NotRunning))
    }

    pub(crate) fn publish(&self, status: AutopilotStatus) {
        self.lock().status = Arc::new(status);
    }

    pub(crate) fn publish_entries(&self, entries: Vec<JournalEntry>) {
        self.lock().entries = Arc::new(entries);
    }

    fn lock(&self) -> MutexGuard<'_, Published> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
