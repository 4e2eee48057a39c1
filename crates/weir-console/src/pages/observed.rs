//! The pages of what is observed. They read the newest look only: nobody asks a source for a page.

pub(super) mod doctor;
mod frame;
pub(super) mod plan;
pub(super) mod postgres;
pub(super) mod queue;
pub(super) mod redis;
mod shards;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use weir_advisor::observation::Missing;

pub(super) use self::frame::routes as live;
use super::PageError;
use super::chart::{self, Chart};
use crate::console::Console;
use crate::figures;
use crate::observed::{Looked, Observed};
use crate::visible::visible;

/// Where their charts come from.
const CHART_SOURCE: &str = "/observed/chart";

#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    range: Option<String>,
}

/// What is observed, if something is.
fn of(console: &Console) -> Result<&Observed, PageError> {
    let none = "nothing is observed by this Weir; it is with a table [observe] in weir.toml";
    console.deps.observed.as_ref().ok_or_else(|| PageError::NotFound(none.to_owned()))
}

/// The newest look; none: there was none yet.
fn latest(console: &Console) -> Result<Option<Arc<Looked>>, PageError> {
    Ok(of(console)?.read().looked)
}

/// `GET /observed/chart?series=..&seconds=..`
pub(super) async fn points(
    State(console): State<Arc<Console>>,
    wanted: Query<chart::Wanted>,
) -> Result<Json<Chart>, PageError> {
    let history = Arc::clone(&of(&console)?.history);
    chart::read(&console, history, wanted.0).await.map(Json)
}

/// How old the look is, for people: "3 s ago, took 12 ms".
fn age(console: &Console, looked: &Looked) -> String {
    let (now, at) = (console.deps.clock.now().as_secs_f64(), looked.at.as_secs_f64());
    let took = figures::duration(looked.took.as_secs_f64());
    format!("{}, took {took}", figures::relative(now, at))
}

/// Something that is not known, and why.
struct Gap {
    what: String,
    why: String,
    remedy: Option<String>,
}

impl Gap {
    fn of(missing: &Missing) -> Self {
        Self {
            what: shown(&missing.what),
            why: shown(&missing.reason),
            remedy: missing.remedy.as_deref().map(shown),
        }
    }
}

/// Text of somebody else.
fn shown(text: &str) -> String {
    visible(text).into_owned()
}
