//! Orders to the parent.

use std::time::Duration;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use weir_base::admin_api::AdminError;
use weir_supervisor::control::ParentCommand;
use weir_supervisor::workers::{OverrideOutcome, OverrideRequest};

/// An order of an operator.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum OperatorCommand {
    /// Replaces one worker, or all one after the other: a successor is started, and the old worker
    /// ends when the successor is ready.
    Restart {
        app: String,
        worker: Option<u32>,
    },
    Scale {
        app: String,
        processes: u32,
    },
    /// Overrides processes, threads and queues of a group of job workers for a time.
    Set {
        app: String,
        change: OverrideRequest,
    },
    /// Ends the override, and what `scale` has set.
    Reset {
        app: String,
        #[serde(default)]
        by: String,
        #[serde(default)]
        dry_run: bool,
    },
    /// Sends a signal to one worker; None: its dump signal.
    Signal {
        app: String,
        worker: u32,
        #[serde(default)]
        signal: Option<String>,
    },
    /// Pauses an app: its requests wait.
    Pause {
        app: String,
    },
    Resume {
        app: String,
    },
    /// Turns the maintenance page on or off for all clients.
    Maintenance {
        app: String,
        is_on: bool,
    },
}

impl OperatorCommand {
    /// Returns who changes values of a group of job workers, and the change in one sentence.
    pub(super) fn change_of_values(&self) -> Option<(String, String)> {
        match self {
            Self::Set { app, change } if !change.dry_run => {
                let processes = change.processes.map(|it| format!("processes {it}"));
                let threads = change.threads.map(|it| format!("threads {it}"));
                let queues = change.queues.as_ref().map(|it| format!("queues {}", it.join(",")));
                let values: Vec<String> =
                    [processes, threads, queues].into_iter().flatten().collect();
                let reason = match change.reason.as_str() {
                    "" => String::new(),
                    reason => format!(": {reason}"),
                };
                let mut text = format!("workers of {app}: {}{reason}", values.join(", "));
                text.retain(|character| !character.is_control());
                Some((change.by.clone(), text))
            }
            Self::Reset { app, by, dry_run: false } => {
                Some((by.clone(), format!("workers of {app}: back to weir.toml")))
            }
            _ => None,
        }
    }

    pub(super) fn app(&self) -> &str {
        match self {
            Self::Restart { app, .. }
            | Self::Scale { app, .. }
            | Self::Set { app, .. }
            | Self::Reset { app, .. }
            | Self::Signal { app, .. }
            | Self::Pause { app }
            | Self::Resume { app }
            | Self::Maintenance { app, .. } => app,
        }
    }
}

/// Sends commands to the parent. None: there is no parent (tests).
#[derive(Clone, Debug, Default)]
pub struct ParentCommands(pub Option<mpsc::Sender<PendingCommand>>);

/// A command for the parent, and the receiver of its reply.
#[derive(Debug)]
pub struct PendingCommand {
    pub command: ParentCommand,
    pub reply_sender: oneshot::Sender<CommandResult>,
}

/// The parent's reply: the outcome of a change of values, if it was one, or why it is rejected.
pub type CommandResult = Result<Option<OverrideOutcome>, String>;

impl ParentCommands {
    /// Sends a command and waits up to `timeout` for the parent to accept or reject it.
    pub async fn send(
        &self,
        command: ParentCommand,
        timeout: Duration,
    ) -> Result<Option<OverrideOutcome>, AdminError> {
        let unavailable = |error| AdminError::new(StatusCode::SERVICE_UNAVAILABLE, error, "");
        let Some(parent_commands) = &self.0 else {
            return Err(unavailable("there is no parent process"));
        };
        let (reply_sender, reply) = oneshot::channel();
        let queued = parent_commands.try_send(PendingCommand { command, reply_sender });
        queued.map_err(|_| unavailable("too many orders are waiting"))?;
        match tokio::time::timeout(timeout, reply).await {
            Ok(Ok(Ok(outcome))) => Ok(outcome),
            Ok(Ok(Err(reason))) => Err(AdminError::new(StatusCode::CONFLICT, reason, "")),
            Ok(Err(_)) | Err(_) => {
                let error = "the parent process has not responded";
                Err(AdminError::new(StatusCode::GATEWAY_TIMEOUT, error, "see the log"))
            }
        }
    }
}
