//! The admin API of switches: what is off, of realtime's events and of the endpoints of gems. Mounted
//! under `/v1`.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET switches`, `POST switches` | a list of [`Listed`] |
//!
//! Errors are `{"error":"..","hint":".."}` with a fitting status.

use std::fmt;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use weir_base::admin_api::{AdminError, JsonInput};
use weir_base::switch::Pattern;
use weir_base::switchboard::{SwitchError, SwitchView, Switchboard};
use weir_gems::Endpoint;

use crate::response::AdminResult;

/// The switches of each part that has some and is served here.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    pub realtime: Option<Switchboard>,
    pub gems: Option<Switchboard>,
}

/// The part that a switch belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Events, by name.
    #[default]
    Realtime,
    /// Endpoints, by name.
    Gems,
}

/// A switch that is off.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listed {
    #[serde(default)]
    pub of: Of,
    #[serde(flatten)]
    pub switch: SwitchView,
}

/// The body of `POST switches`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flip {
    #[serde(default)]
    pub of: Of,
    /// Names; `*` stands for any text.
    pub pattern: Pattern,
    pub position: Position,
    /// Duration; None: until it is turned on.
    #[serde(default)]
    pub for_seconds: Option<u64>,
}

/// The requested state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Position {
    On,
    Off,
}

/// Returns the routes; they return an error if no served part has switches.
pub fn router(switches: Switches) -> Router {
    Router::new().route("/switches", get(list).post(flip)).with_state(switches)
}

async fn list(State(switches): State<Switches>) -> AdminResult<Vec<Listed>> {
    if switches.realtime.is_none() && switches.gems.is_none() {
        return Err(not_served(Of::Realtime));
    }
    Ok(Json(switches.list()))
}

/// Changes a switch and returns those that are off afterwards.
async fn flip(
    State(switches): State<Switches>,
    JsonInput(flip): JsonInput<Flip>,
) -> AdminResult<Vec<Listed>> {
    let Flip { of, pattern, position, for_seconds } = &flip;
    let board = switches.of(*of).cloned().ok_or_else(|| not_served(*of))?;
    check_name(&flip)?;
    tracing::info!(%of, %pattern, ?position, for_seconds, "switch changed");
    let pattern = flip.pattern.to_string();
    // Blocking: the file is synced.
    let changed = tokio::task::spawn_blocking(move || carry_out(&board, flip)).await;
    let is_changed = changed.map_err(|error| {
        AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), "see the log")
    })?;
    match is_changed.map_err(of_switch)? {
        true => Ok(Json(switches.list())),
        false => Err(is_on(&pattern)),
    }
}

/// Rejects a misspelt endpoint, since all endpoints are known.
fn check_name(Flip { of, pattern, position, .. }: &Flip) -> Result<(), AdminError> {
    let mut names = Endpoint::ALL.iter().map(|endpoint| endpoint.name());
    if *of != Of::Gems || *position == Position::On || names.any(|name| pattern.matches(name)) {
        return Ok(());
    }
    let names = Endpoint::ALL.map(Endpoint::name).join(", ");
    let pattern = pattern.as_str();
    let error = format!("the gem index has no endpoint {pattern:?}; its endpoints are {names}");
    Err(AdminError::new(StatusCode::BAD_REQUEST, error, ""))
}

/// Returns whether anything changed.
fn carry_out(switches: &Switchboard, flip: Flip) -> Result<bool, SwitchError> {
    match flip.position {
        Position::Off => {
            switches.turn_off(flip.pattern, flip.for_seconds.map(Duration::from_secs))?;
            Ok(true)
        }
        Position::On => switches.turn_on(&flip.pattern),
    }
}

impl Switches {
    fn of(&self, of: Of) -> Option<&Switchboard> {
        match of {
            Of::Realtime => self.realtime.as_ref(),
            Of::Gems => self.gems.as_ref(),
        }
    }

    fn list(&self) -> Vec<Listed> {
        let listed = |of: Of| {
            let off = self.of(of).map(Switchboard::list).unwrap_or_default();
            off.into_iter().map(move |switch| Listed { of, switch })
        };
        [Of::Realtime, Of::Gems].into_iter().flat_map(listed).collect()
    }
}

impl fmt::Display for Of {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Realtime => "realtime",
            Self::Gems => "gems",
        })
    }
}

fn not_served(of: Of) -> AdminError {
    match of {
        Of::Realtime => crate::realtime::not_served(),
        Of::Gems => crate::gems::not_served(),
    }
}

fn is_on(pattern: &str) -> AdminError {
    let hint = "GET switches lists what is off";
    AdminError::new(StatusCode::NOT_FOUND, format!("{pattern:?} is not switched off"), hint)
}

fn of_switch(error: SwitchError) -> AdminError {
    let status = match &error {
        SwitchError::TooMany(_) => StatusCode::UNPROCESSABLE_ENTITY,
        SwitchError::NotKept { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    };
    AdminError::new(status, error.to_string(), "")
}
