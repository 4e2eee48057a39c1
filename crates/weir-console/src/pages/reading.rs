//! The reading behind a live page: asked for anew when a person opens the page (so that what they
//! just did shows), the sampler's when a script refreshes it.

use std::sync::Arc;
use std::time::Duration;

use weir_jobs::handle::HandleError;

use crate::console::Console;
use crate::live::{Latest, Reading, Served};
use crate::observed::Observed;

/// A reading older than this isn't shown as live.
const FRESH: Duration = Duration::from_secs(3);

/// The sampler's reading if it is fresh, otherwise one of our own.
pub(crate) async fn shared(console: &Console) -> Result<Arc<Reading>, HandleError> {
    match console.deps.live.latest() {
        Latest::Reading(reading) if console.deps.clock.now().since(reading.at) < FRESH => {
            Ok(reading)
        }
        _ => fresh(console).await.map(Arc::new),
    }
}

/// A reading of now. Rates and trends are the sampler's: they need time.
pub(crate) async fn fresh(console: &Console) -> Result<Reading, HandleError> {
    let deps = &console.deps;
    let earlier = match deps.live.latest() {
        Latest::Reading(reading) => Some(reading),
        Latest::Nothing | Latest::Down(_) | Latest::Ended => None,
    };
    let jobs = match &deps.jobs {
        Some(jobs) => Some(jobs.read(earlier.as_ref().and_then(|it| it.jobs.as_ref())).await?),
        None => None,
    };
    let earlier = earlier.as_deref();
    let before = earlier.and_then(|reading| reading.realtime.as_ref());
    let realtime = deps.realtime.as_ref().map(|realtime| realtime.read(before));
    let before = earlier.and_then(|reading| reading.front.as_ref());
    let front = deps.front.as_ref().map(|front| front.read(before));
    let observed = deps.observed.as_ref().map(Observed::read);
    let parts = Served { jobs, realtime, front, observed };
    Ok(Reading::new(deps.clock.now(), deps.jobs.as_ref(), parts))
}
