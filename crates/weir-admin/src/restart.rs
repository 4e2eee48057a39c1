//! The admin API by which the service process asks its parent to be replaced. Mounted under `/v1`.
//!
//! | request | answer |
//! | --- | --- |
//! | `POST restart` | `{}` once a new service process takes over, or why none does |
//! | `POST upgrade` | the same, after the parent has executed its program anew |
//!
//! Errors are `{"error":"..","hint":".."}` with a fitting status.

use std::time::Duration;

use axum::extract::State;
use axum::{Json, Router};
use weir_supervisor::control::ParentCommand;

use crate::api_routes::{ApiRoutes, post};
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;
use crate::response::{AdminResult, Done};
use crate::workers::ParentCommands;

/// Added to the parent's own deadline for a new process.
const REPLY_MARGIN: Duration = Duration::from_secs(15);

/// The state of the routes.
#[derive(Clone, Debug)]
pub struct Restart {
    pub parent_commands: ParentCommands,
    /// `supervisor.replace_deadline`
    pub deadline: Duration,
}

fn routes() -> ApiRoutes<Restart> {
    ApiRoutes::new().route("/restart", post(replace_service)).route("/upgrade", post(upgrade))
}

/// Returns the descriptions of the routes.
#[cfg(feature = "openapi")]
pub(crate) fn operations() -> Vec<Operation> {
    routes().into_operations()
}

/// Returns the routes.
pub fn router(restart: Restart) -> Router {
    routes().into_router().with_state(restart)
}

async fn replace_service(State(restart): State<Restart>) -> AdminResult<Done> {
    restart.send_command(ParentCommand::ReplaceService).await
}

async fn upgrade(State(restart): State<Restart>) -> AdminResult<Done> {
    restart.send_command(ParentCommand::Upgrade).await
}

impl Restart {
    async fn send_command(&self, command: ParentCommand) -> AdminResult<Done> {
        tracing::info!(?command, "asked for");
        self.parent_commands.send(command, self.deadline + REPLY_MARGIN).await?;
        Ok(Json(Done::new()))
    }
}
