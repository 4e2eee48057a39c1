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

/// What changed within the last minutes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RealtimeTrend {
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
