//! What the console shows of realtime: one reading of it, and what changed lately.

mod rates;
mod tally;

use std::sync::Arc;

use weir_base::clock::Clock;
use weir_base::history::{self, History};
use weir_base::switchboard::Switchboard;
use weir_realtime::hub::Hub;
use weir_realtime::view;

pub(crate) use self::rates::Rates;
pub(crate) use self::tally::{Tally, share};
use crate::figures::as_float;

/// The series of realtime's history: open it with [`Realtime::new`].
const COLUMNS: [&str; 12] = [
    "connections",
    "subscriptions",
    "slow_clients",
    "client_queue_bytes",
    "core_queue_events",
    "history_bytes",
    "opened_per_second",
    "published_per_second",
    "client_events_per_second",
    "deliveries_per_second",
    "delivered_bytes_per_second",
    "dropped_per_second",
];

/// Realtime, as far as the console needs it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Realtime {
    pub(crate) hub: Arc<Hub>,
    pub(crate) switches: Switchboard,
    /// Behind its charts.
    pub(crate) history: Arc<History>,
}

/// Realtime at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) overview: view::HubOverview,
    pub(crate) switches_off: usize,
    pub(crate) rates: Rates,
    pub(crate) trend: Trend,
}

/// What changed lately.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Trend {
    /// Over the last minute.
    pub(crate) dropped: u64,
    pub(crate) webhook_attempts: u64,
    pub(crate) webhook_failures: u64,
    /// Over the last ten minutes: clients closed because they were too slow ..
    pub(crate) closed_slow: u64,
    /// .. and limits that were met.
    pub(crate) limits_hit: Vec<view::LimitHit>,
    /// For how many seconds each core's queue has been nearly full; None: it is not.
    pub(crate) cores_busy_seconds: Vec<Option<f64>>,
    /// For how many seconds apps have been at their connection limit, by id.
    pub(crate) apps_full_seconds: Vec<(String, f64)>,
    /// For how many seconds webhooks have failed, with no minute without a failure.
    pub(crate) webhooks_failing_seconds: Option<f64>,
}

impl Realtime {
    /// `whole` says how the server's history is kept; realtime's is in a folder beside it.
    #[must_use]
    pub fn new(hub: Arc<Hub>, switches: Switchboard, whole: &history::Settings) -> Self {
        let directory = whole.directory.join("realtime");
        let settings = history::Settings { directory, ..whole.clone() };
        Self { hub, switches, history: Arc::new(History::open(&settings, &COLUMNS)) }
    }

    /// A reading of now, with what needs time from an earlier one.
    pub(crate) fn read(&self, earlier: Option<&Reading>) -> Reading {
        let (rates, trend) =
            earlier.map(|earlier| (earlier.rates, earlier.trend.clone())).unwrap_or_default();
        let overview = self.hub.overview();
        Reading { overview, switches_off: self.switches.list().len(), rates, trend }
    }

    /// The sampler's reading: what changed lately is counted, and all of it
    /// and recorded, on a thread that may wait for the disk.
    pub(crate) async fn sample(&self, tally: &mut Tally, clock: &Clock) -> Reading {
        let (at, overview) = (clock.now(), self.hub.overview());
        tally.add(at, &overview);
        let switches_off = self.switches.list().len();
        let reading =
            Reading { switches_off, rates: tally.rates(), trend: tally.trend(), overview };
        let (history, row) = (Arc::clone(&self.history), row(&reading));
        let recorded = tokio::task::spawn_blocking(move || history.append(at, &row)).await;
        if let Err(error) = recorded {
            tracing::error!(%error, "console: a row of realtime's history is lost");
        }
        reading
    }
}

/// The values of [`COLUMNS`].
fn row(reading: &Reading) -> [f64; COLUMNS.len()] {
    let (overview, rates) = (&reading.overview, &reading.rates);
    let totals = &overview.totals;
    let waiting: usize = overview.cores.iter().map(|core| core.events).sum();
    [
        as_float(totals.connections),
        as_float(totals.subscriptions),
        as_float(totals.slow_clients),
        as_float(totals.client_queue_bytes),
        as_float(waiting as u64),
        as_float(overview.history_bytes as u64),
        rates.opened,
        rates.published,
        rates.client_events,
        rates.deliveries,
        rates.delivered_bytes,
        rates.dropped,
    ]
}
