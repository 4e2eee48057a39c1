//! `GET switches`, `POST switches`.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_base::admin_api::{Input, Problem};
use weir_base::switch::Pattern;
use weir_realtime::switchboard::{SwitchError, SwitchView, Switchboard};

use super::{Answer, Realtime, problem};

/// The body of `POST switches`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Flip {
    /// Names of events; `*` stands for any text.
    pub(crate) pattern: Pattern,
    pub(crate) position: Position,
    /// For so long; None: until it is turned on.
    #[serde(default)]
    pub(crate) for_seconds: Option<u64>,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Position {
    On,
    Off,
}

pub(super) async fn list(State(realtime): State<Realtime>) -> Json<Vec<SwitchView>> {
    Json(realtime.switches.list())
}

/// Answers what is off afterwards.
pub(super) async fn flip(
    State(realtime): State<Realtime>,
    Input(flip): Input<Flip>,
) -> Answer<Vec<SwitchView>> {
    let Flip { pattern, position, for_seconds } = &flip;
    tracing::info!(%pattern, ?position, for_seconds, "a switch is flipped");
    let (switches, pattern) = (realtime.switches.clone(), flip.pattern.to_string());
    // The file is synced, which may take a while.
    let changed = tokio::task::spawn_blocking(move || carry_out(&switches, flip)).await;
    let is_changed = changed.map_err(|error| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), "see the log")
    })?;
    match is_changed.map_err(problem::of_switch)? {
        true => Ok(Json(realtime.switches.list())),
        false => Err(problem::is_on(&pattern)),
    }
}

/// Answers whether anything changed.
fn carry_out(switches: &Switchboard, flip: Flip) -> Result<bool, SwitchError> {
    match flip.position {
        Position::Off => {
            switches.turn_off(flip.pattern, flip.for_seconds.map(Duration::from_secs))?;
            Ok(true)
        }
        Position::On => switches.turn_on(&flip.pattern),
    }
}
