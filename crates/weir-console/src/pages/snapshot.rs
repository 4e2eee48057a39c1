//! The snapshot behind a live page: a new one when a visitor opens the page, so that it shows the
//! effect of their last action; the sampler's when the script updates the live section.

use std::sync::Arc;
use std::time::Duration;

use weir_jobs::handle::HandleError;

use super::live_page::RequestedPart;
use super::request::PageRequest;
use crate::console::Console;
use crate::live::{ConsoleSnapshot, Latest, Served};
use crate::observed::ObservedSource;

/// Limit of the age of a snapshot that is shown as live.
const FRESH: Duration = Duration::from_secs(3);

/// Returns the snapshot for a request.
pub(crate) async fn for_request(
    request: &PageRequest,
) -> Result<Arc<ConsoleSnapshot>, HandleError> {
    match request.requested_part() {
        RequestedPart::WholePage => take_snapshot(&request.console).await.map(Arc::new),
        RequestedPart::SectionOnly => recent_or_new(&request.console).await,
    }
}

/// Returns the sampler's snapshot if it is fresh, otherwise a new one.
async fn recent_or_new(console: &Console) -> Result<Arc<ConsoleSnapshot>, HandleError> {
    match console.deps.live.latest() {
        Latest::Snapshot(reading) if console.deps.clock.now().since(reading.at) < FRESH => {
            Ok(reading)
        }
        _ => take_snapshot(console).await.map(Arc::new),
    }
}

/// Takes a new snapshot, with the rates and trends of the sampler's, since they need several
/// samples.
async fn take_snapshot(console: &Console) -> Result<ConsoleSnapshot, HandleError> {
    let deps = &console.deps;
    let earlier = match deps.live.latest() {
        Latest::Snapshot(reading) => Some(reading),
        Latest::Nothing | Latest::Down(_) | Latest::Ended => None,
    };
    let jobs = match &deps.jobs {
        Some(jobs) => {
            Some(jobs.read(earlier.as_ref().and_then(|snapshot| snapshot.jobs.as_ref())).await?)
        }
        None => None,
    };
    let earlier = earlier.as_deref();
    let before = earlier.and_then(|reading| reading.realtime.as_ref());
    let realtime = deps.realtime.as_ref().map(|realtime| realtime.read(before));
    let before = earlier.and_then(|reading| reading.front.as_ref());
    let front = deps.front.as_ref().map(|front| front.read(before));
    let observed = deps.observed.as_ref().map(ObservedSource::read);
    let parts = Served { jobs, realtime, front, observed };
    Ok(ConsoleSnapshot::new(deps.clock.now(), deps.jobs.as_ref(), parts))
}
