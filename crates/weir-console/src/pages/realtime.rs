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

use serde::Deserialize;
use weir_advisor::VerdictFinding;

use super::chart;
use super::request::{PageRequest, PageResult};
use crate::address::address;
use crate::console::Console;
use crate::live::Latest;
use crate::page_error::PageError;
use crate::realtime::RealtimeSnapshot;

/// The query that names a channel.
#[derive(Debug, Deserialize)]
struct ChannelNameQuery {
    app: String,
    name: String,
}

/// The address of chart data.
const CHART_SOURCE: &str = "/realtime/chart";

/// Returns a current snapshot.
fn snapshot(console: &Console) -> Result<RealtimeSnapshot, PageError> {
    let realtime = console.realtime()?;
    Ok(match console.deps.live.latest() {
        Latest::Snapshot(reading) => realtime.read(reading.realtime.as_ref()),
        Latest::Nothing | Latest::Down(_) | Latest::Ended => realtime.read(None),
    })
}

/// Returns the findings of the page at `link`.
fn findings(console: &Console, link: &str) -> Vec<VerdictFinding> {
    let Latest::Snapshot(reading) = console.deps.live.latest() else { return Vec::new() };
    reading.verdict.findings.iter().filter(|finding| finding.page == link).cloned().collect()
}

/// Returns the address of a channel's page.
fn channel_address(app: &str, name: &str, more: &[(&str, &str)]) -> String {
    address("/channel", &[&[("app", app), ("name", name)], more].concat())
}

/// `GET /realtime/chart?series=..&seconds=..`
pub(super) async fn points(request: PageRequest) -> PageResult {
    let history = Arc::clone(&request.console.realtime()?.history);
    chart::read(&request, history).await
}
