//! The reading behind a live page: asked for anew when a person opens the page (so that what they
//! just did shows), the sampler's when a script refreshes it.

use std::sync::Arc;
use std::time::Duration;

use weir_jobs::handle::HandleError;

use crate::console::Console;
use crate::live::{Latest, Rates, Reading};
use crate::verdict::{Facts, Trend, judge};

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
    let overview = deps.handle.overview().await?;
    let queues = Arc::new(deps.handle.queues().await?);
    let workers = Arc::new(deps.handle.workers().await?);
    let earlier = match deps.live.latest() {
        Latest::Reading(reading) => Some(reading),
        Latest::Nothing | Latest::Down(_) | Latest::Ended => None,
    };
    let (rates, trend) = match &earlier {
        Some(reading) => (reading.rates, reading.trend.clone()),
        None => (Rates::default(), Trend::default()),
    };
    let earlier = earlier.as_ref().and_then(|reading| reading.realtime.as_ref());
    let realtime = deps.realtime.as_ref().map(|realtime| realtime.read(earlier));
    let verdict = judge(&Facts {
        overview: &overview,
        queues: &queues,
        workers: &workers,
        trend: &trend,
        limits: &deps.jobs_limits,
        jobs_url: &deps.jobs_url,
        realtime: realtime.as_ref(),
    });
    Ok(Reading { at: deps.clock.now(), overview, queues, workers, rates, trend, verdict, realtime })
}
