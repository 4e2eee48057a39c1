//! The pages of realtime. They read the hub's views and act through its operations, and need no
//! job server.

pub(super) mod apps;
pub(super) mod channel;
pub(super) mod channels;
pub(super) mod connections;
pub(super) mod publish;
pub(super) mod switches;
pub(super) mod tail;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use weir_realtime::operations::OperationError;

use super::PageError;
use super::chart::{self, Chart};
use crate::address::address;
use crate::console::Console;
use crate::live::Latest;
use crate::realtime::{Reading, Realtime};
use crate::verdict::Finding;

/// Where the charts of realtime come from.
const CHART_SOURCE: &str = "/realtime/chart";

/// Realtime, if it is served here.
fn of(console: &Console) -> Result<&Realtime, PageError> {
    let none = "realtime is not served by this Weir; it is with an app in [[realtime.apps]]";
    console.deps.realtime.as_ref().ok_or_else(|| PageError::NotFound(none.to_owned()))
}

/// A reading of now.
fn reading(console: &Console) -> Result<Reading, PageError> {
    let realtime = of(console)?;
    Ok(match console.deps.live.latest() {
        Latest::Reading(reading) => realtime.read(reading.realtime.as_ref()),
        Latest::Nothing | Latest::Down(_) | Latest::Ended => realtime.read(None),
    })
}

/// What is wrong that the page at `link` shows.
fn findings(console: &Console, link: &str) -> Vec<Finding> {
    let Latest::Reading(reading) = console.deps.live.latest() else { return Vec::new() };
    reading.verdict.findings.iter().filter(|finding| finding.link == link).cloned().collect()
}

/// The page of a channel.
fn channel_address(app: &str, name: &str, more: &[(&str, &str)]) -> String {
    address("/channel", &[&[("app", app), ("name", name)], more].concat())
}

/// `GET /realtime/chart?series=..&seconds=..`
pub(super) async fn points(
    State(console): State<Arc<Console>>,
    wanted: Query<chart::Wanted>,
) -> Result<Json<Chart>, PageError> {
    let history = Arc::clone(&of(&console)?.history);
    chart::read(&console, history, wanted.0).await.map(Json)
}

impl From<OperationError> for PageError {
    fn from(error: OperationError) -> Self {
        use OperationError as E;
        let text = error.to_string();
        match error {
            E::NoSuchApp(_) | E::NoSuchUser(_) | E::NoSuchConnection { .. } => Self::NotFound(text),
            E::AppDisabled(_) | E::Channel(_) | E::Event(_) | E::Data(_) | E::SocketId(_) => {
                Self::Invalid(text)
            }
            E::Refused(_) | E::TooManyWatchers { .. } => Self::Unavailable(text),
        }
    }
}
