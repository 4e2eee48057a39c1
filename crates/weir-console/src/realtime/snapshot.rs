//! Realtime at one moment, and what the console derives from earlier samples.

use weir_realtime::view;

use super::rates::RealtimeRates;

/// Realtime at one moment.
#[derive(Clone, Debug)]
pub(crate) struct RealtimeSnapshot {
    pub(crate) overview: view::HubOverview,
    pub(crate) switches_off: usize,
    pub(crate) rates: RealtimeRates,
    pub(crate) trend: RealtimeTrend,
}

/// Changes within the last minutes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RealtimeTrend {
    /// Events dropped over the last minute.
    pub(crate) dropped: u64,
    pub(crate) webhook_attempts: u64,
    pub(crate) webhook_failures: u64,
    /// Over the last ten minutes: clients that were disconnected because they were too slow ..
    pub(crate) closed_slow: u64,
    /// .. and limits that were reached.
    pub(crate) limits_hit: Vec<view::LimitHit>,
    /// How many seconds each core's queue has been nearly full; None: it is not.
    pub(crate) cores_busy_seconds: Vec<Option<f64>>,
    /// How many seconds apps have been at their connection limit, by id.
    pub(crate) apps_full_seconds: Vec<(String, f64)>,
    /// How many seconds webhooks have failed, without a minute free of failures.
    pub(crate) webhooks_failing_seconds: Option<f64>,
}
