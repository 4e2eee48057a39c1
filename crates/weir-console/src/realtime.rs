//! Realtime as the console reads it, with the history behind its charts.

mod rates;
mod snapshot;
mod tally;

use std::sync::Arc;

use weir_base::clock::Clock;
use weir_base::history::{self, MetricsHistory};
use weir_base::switchboard::Switchboard;
use weir_realtime::hub::Hub;

pub(crate) use self::snapshot::RealtimeSnapshot;
pub(crate) use self::tally::{RealtimeTally, share};
use crate::figures::as_float;

/// The series of realtime's history: open it with [`RealtimeSource::new`].
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

/// The source of realtime. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RealtimeSource {
    pub(crate) hub: Arc<Hub>,
    pub(crate) switches: Switchboard,
    /// The history behind its charts.
    pub(crate) history: Arc<MetricsHistory>,
}

impl RealtimeSource {
    /// Creates the source. `server_settings` is the configuration of the server's history;
    /// realtime's is in a subfolder.
    #[must_use]
    pub fn new(
        hub: Arc<Hub>,
        switches: Switchboard,
        server_settings: &history::HistorySettings,
    ) -> Self {
        let directory = server_settings.directory.join("realtime");
        let settings = history::HistorySettings { directory, ..server_settings.clone() };
        Self { hub, switches, history: Arc::new(MetricsHistory::open(&settings, &COLUMNS)) }
    }

    /// Returns a current snapshot, with the rates and trends of an earlier one.
    pub(crate) fn read(&self, earlier: Option<&RealtimeSnapshot>) -> RealtimeSnapshot {
        let (rates, trend) =
            earlier.map(|earlier| (earlier.rates, earlier.trend.clone())).unwrap_or_default();
        let overview = self.hub.overview();
        RealtimeSnapshot { overview, switches_off: self.switches.list().len(), rates, trend }
    }

    /// Takes the sampler's snapshot with rates and trends, and records it on a thread that may
    /// block on the disk.
    pub(crate) async fn sample(
        &self,
        tally: &mut RealtimeTally,
        clock: &Clock,
    ) -> RealtimeSnapshot {
        let (at, overview) = (clock.now(), self.hub.overview());
        tally.add(at, &overview);
        let switches_off = self.switches.list().len();
        let reading =
            RealtimeSnapshot { switches_off, rates: tally.rates(), trend: tally.trend(), overview };
        let (history, row) = (Arc::clone(&self.history), row(&reading));
        let recorded = tokio::task::spawn_blocking(move || history.append(at, &row)).await;
        if let Err(error) = recorded {
            tracing::error!(%error, "console: a row of realtime's history is lost");
        }
        reading
    }
}

/// Returns the values of [`COLUMNS`].
fn row(reading: &RealtimeSnapshot) -> [f64; COLUMNS.len()] {
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
