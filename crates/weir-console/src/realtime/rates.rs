//! Totals at a moment, and rates between two moments.

use weir_base::clock::Timestamp;
use weir_realtime::view::HubOverview;

use crate::figures::as_float;

/// Counters at a moment.
#[derive(Clone, Debug)]
pub(super) struct RealtimeTotals {
    pub(super) at: Timestamp,
    pub(super) opened: u64,
    pub(super) closed: u64,
    pub(super) closed_slow: u64,
    pub(super) published: u64,
    pub(super) client_events: u64,
    pub(super) deliveries: u64,
    pub(super) delivered_bytes: u64,
    pub(super) dropped: u64,
    pub(super) webhook_attempts: u64,
    pub(super) webhook_failures: u64,
}

/// Rates per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RealtimeRates {
    pub(crate) opened: f64,
    pub(crate) closed: f64,
    pub(crate) published: f64,
    pub(crate) client_events: f64,
    pub(crate) deliveries: f64,
    pub(crate) delivered_bytes: f64,
    pub(crate) dropped: f64,
}

impl RealtimeRates {
    /// Returns the events published by servers and clients.
    pub(crate) fn all_published(&self) -> f64 {
        self.published + self.client_events
    }
}

impl RealtimeTotals {
    pub(super) fn new(at: Timestamp, overview: &HubOverview) -> Self {
        let (totals, webhooks) = (&overview.totals, &overview.webhooks);
        let slow = totals.closed.iter().find(|closed| closed.reason == "slow");
        Self {
            at,
            opened: totals.opened,
            closed: totals.closed.iter().map(|closed| closed.count).sum(),
            closed_slow: slow.map_or(0, |closed| closed.count),
            published: totals.published,
            client_events: totals.client_events,
            deliveries: totals.deliveries,
            delivered_bytes: totals.delivered_bytes,
            dropped: totals.dropped,
            webhook_attempts: webhooks.attempts,
            webhook_failures: webhooks.failed,
        }
    }

    /// Returns the rates per second since `before`; zero if no time has passed.
    pub(super) fn rates_since(&self, before: &Self) -> RealtimeRates {
        let seconds = self.at.since(before.at).as_secs_f64();
        if seconds <= 0.0 {
            return RealtimeRates::default();
        }
        let rate = |now: u64, earlier: u64| as_float(now.saturating_sub(earlier)) / seconds;
        RealtimeRates {
            opened: rate(self.opened, before.opened),
            closed: rate(self.closed, before.closed),
            published: rate(self.published, before.published),
            client_events: rate(self.client_events, before.client_events),
            deliveries: rate(self.deliveries, before.deliveries),
            delivered_bytes: rate(self.delivered_bytes, before.delivered_bytes),
            dropped: rate(self.dropped, before.dropped),
        }
    }
}
