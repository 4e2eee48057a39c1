//! The admin API of switches: what is off, of realtime's events and of the endpoints of gems. Mounted
//! under `/v1`.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET switches`, `POST switches` | a list of [`ListedSwitch`] |
//!
//! Errors are `{"error":"..","hint":".."}` with a fitting status.

use std::fmt;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::admin_api::{AdminError, JsonInput};
use weir_base::switch::Pattern;
use weir_base::switchboard::{SwitchError, SwitchView, Switchboard};
use weir_gems::Endpoint;

use crate::api_routes::{ApiRoutes, get};
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;
use crate::response::AdminResult;

/// The switches of each part that has some and is served here.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    pub realtime: Option<Switchboard>,
    pub gems: Option<Switchboard>,
}

/// The part that a switch belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SwitchPart {
    /// Events, by name.
    #[default]
    Realtime,
    /// Endpoints, by name.
    Gems,
}

/// A switch that is off.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListedSwitch {
    #[serde(default)]
    pub of: SwitchPart,
    #[serde(flatten)]
    pub switch: SwitchView,
}

/// The body of `POST switches`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SwitchChange {
    #[serde(default)]
    pub of: SwitchPart,
    /// Names; `*` stands for any text.
    pub pattern: Pattern,
    pub position: Position,
    /// Duration; None: until it is turned on.
    #[serde(default)]
    pub for_seconds: Option<u64>,
}

/// The requested state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Position {
    On,
    Off,
}

fn routes() -> ApiRoutes<Switches> {
    ApiRoutes::new().route("/switches", get(list).post(change_switch))
}

/// Returns the descriptions of the routes.
#[cfg(feature = "openapi")]
pub(crate) fn operations() -> Vec<Operation> {
    routes().into_operations()
}

/// Returns the routes; they return an error if no served part has switches.
pub fn router(switches: Switches) -> Router {
    routes().into_router().with_state(switches)
}

async fn list(State(switches): State<Switches>) -> AdminResult<Vec<ListedSwitch>> {
    if switches.realtime.is_none() && switches.gems.is_none() {
        return Err(not_served(SwitchPart::Realtime));
    }
    Ok(Json(switches.list()))
}

/// Changes a switch and returns those that are off afterwards.
async fn change_switch(
    State(switches): State<Switches>,
    JsonInput(change): JsonInput<SwitchChange>,
) -> AdminResult<Vec<ListedSwitch>> {
    let SwitchChange { of, pattern, position, for_seconds } = &change;
    let board = switches.board(*of).cloned().ok_or_else(|| not_served(*of))?;
    check_name(&change)?;
    tracing::info!(%of, %pattern, ?position, for_seconds, "switch changed");
    let pattern = change.pattern.to_string();
    // Blocking: the file is synced.
    let changed = tokio::task::spawn_blocking(move || apply_change(&board, change)).await;
    let is_changed = changed.map_err(|error| {
        AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), "see the log")
    })?;
    match is_changed.map_err(switch_error)? {
        true => Ok(Json(switches.list())),
        false => Err(not_switched_off(&pattern)),
    }
}

/// Rejects a misspelt endpoint, since all endpoints are known.
fn check_name(SwitchChange { of, pattern, position, .. }: &SwitchChange) -> Result<(), AdminError> {
    let mut names = Endpoint::ALL.iter().map(|endpoint| endpoint.name());
    if *of != SwitchPart::Gems
        || *position == Position::On
        || names.any(|name| pattern.matches(name))
    {
        return Ok(());
    }
    let names = Endpoint::ALL.map(Endpoint::name).join(", ");
    let pattern = pattern.as_str();
    let error = format!("the gem index has no endpoint {pattern:?}; its endpoints are {names}");
    Err(AdminError::new(StatusCode::BAD_REQUEST, error, ""))
}

/// Returns whether anything changed.
fn apply_change(switches: &Switchboard, change: SwitchChange) -> Result<bool, SwitchError> {
    match change.position {
        Position::Off => {
            switches.turn_off(change.pattern, change.for_seconds.map(Duration::from_secs))?;
            Ok(true)
        }
        Position::On => switches.turn_on(&change.pattern),
    }
}

impl Switches {
    fn board(&self, of: SwitchPart) -> Option<&Switchboard> {
        match of {
            SwitchPart::Realtime => self.realtime.as_ref(),
            SwitchPart::Gems => self.gems.as_ref(),
        }
    }

    fn list(&self) -> Vec<ListedSwitch> {
        let list_part = |of: SwitchPart| {
            let off = self.board(of).map(Switchboard::list).unwrap_or_default();
            off.into_iter().map(move |switch| ListedSwitch { of, switch })
        };
        [SwitchPart::Realtime, SwitchPart::Gems].into_iter().flat_map(list_part).collect()
    }
}

impl fmt::Display for SwitchPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Realtime => "realtime",
            Self::Gems => "gems",
        })
    }
}

fn not_served(of: SwitchPart) -> AdminError {
    match of {
        SwitchPart::Realtime => crate::realtime::not_served(),
        SwitchPart::Gems => crate::gems::not_served(),
    }
}

fn not_switched_off(pattern: &str) -> AdminError {
    let hint = "GET switches lists what is off";
    AdminError::new(StatusCode::NOT_FOUND, format!("{pattern:?} is not switched off"), hint)
}

fn switch_error(error: SwitchError) -> AdminError {
    let status = match &error {
        SwitchError::TooMany(_) => StatusCode::UNPROCESSABLE_ENTITY,
        SwitchError::NotKept { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    };
    AdminError::new(status, error.to_string(), "")
}
