//! Orders to the parent.

use std::time::Duration;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use weir_base::admin_api::AdminError;
use weir_supervisor::control::ParentCommand;

/// An order of an operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
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

impl Order {
    pub(super) fn app(&self) -> &str {
        match self {
            Self::Restart { app, .. }
            | Self::Scale { app, .. }
            | Self::Signal { app, .. }
            | Self::Pause { app }
            | Self::Resume { app }
            | Self::Maintenance { app, .. } => app,
        }
    }
}

/// Sends commands to the parent. None: there is no parent (tests).
#[derive(Clone, Debug, Default)]
pub struct Orders(pub Option<mpsc::Sender<Asked>>);

/// A command for the parent, and the receiver of its reply.
#[derive(Debug)]
pub struct Asked {
    pub command: ParentCommand,
    pub answer: oneshot::Sender<Result<(), String>>,
}

impl Orders {
    /// Sends a command and waits up to `patience` for the parent to accept or reject it.
    pub async fn ask(&self, command: ParentCommand, patience: Duration) -> Result<(), AdminError> {
        let unavailable = |error| AdminError::new(StatusCode::SERVICE_UNAVAILABLE, error, "");
        let Some(orders) = &self.0 else { return Err(unavailable("there is no parent process")) };
        let (answer, answered) = oneshot::channel();
        let asked = orders.try_send(Asked { command, answer });
        asked.map_err(|_| unavailable("too many orders are waiting"))?;
        match tokio::time::timeout(patience, answered).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(reason))) => Err(AdminError::new(StatusCode::CONFLICT, reason, "")),
            Ok(Err(_)) | Err(_) => {
                let error = "the parent process has not responded";
                Err(AdminError::new(StatusCode::GATEWAY_TIMEOUT, error, "see the log"))
            }
        }
    }
}
