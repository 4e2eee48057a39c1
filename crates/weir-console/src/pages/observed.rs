//! The pages about observed systems. They read the newest snapshot and poll no source.

mod charted;
pub(super) mod doctor;
pub(super) mod plan;
pub(super) mod postgres;
pub(super) mod queue;
pub(super) mod redis;
mod shards;

use std::sync::Arc;

use weir_advisor::observation::Missing;

use super::chart;
use super::request::{PageRequest, PageResult};
use crate::console::Console;
use crate::figures;
use crate::observed::ObservedSnapshot;
use crate::page_error::PageError;
use crate::visible::visible;

/// The address of their chart data.
const CHART_SOURCE: &str = "/observed/chart";

/// Returns the newest snapshot; None: there is none yet.
fn latest(console: &Console) -> Result<Option<Arc<ObservedSnapshot>>, PageError> {
    Ok(console.observed()?.read().latest)
}

/// `GET /observed/chart?series=..&seconds=..`
pub(super) async fn points(request: PageRequest) -> PageResult {
    let history = Arc::clone(&request.console.observed()?.history);
    chart::read(&request, history).await
}

/// Formats the age of a snapshot: "3 s ago, took 12 ms".
fn age(console: &Console, snapshot: &ObservedSnapshot) -> String {
    let (now, at) = (console.deps.clock.now().as_secs_f64(), snapshot.at.as_secs_f64());
    let took = figures::duration(snapshot.took.as_secs_f64());
    format!("{}, took {took}", figures::relative(now, at))
}

/// An unknown fact, with the reason.
struct MissingFact {
    fact: String,
    reason: String,
    remedy: Option<String>,
}

impl MissingFact {
    fn new(missing: &Missing) -> Self {
        Self {
            fact: displayable(&missing.what),
            reason: displayable(&missing.reason),
            remedy: missing.remedy.as_deref().map(displayable),
        }
    }
}

/// Makes external text safe to display.
fn displayable(text: &str) -> String {
    visible(text).into_owned()
}
