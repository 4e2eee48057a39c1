//! Counters of the last minutes: rates, increases, and the start of conditions. Limited to the last
//! minute's samples, and one in thirty seconds of the last ten minutes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_realtime::view::{AppView, CoreView, HubOverview, LimitHit};

use super::rates::{RealtimeRates, RealtimeTotals};
use super::snapshot::RealtimeTrend;
use crate::figures::as_float;

/// The time span of the figures beside the charts.
const MOMENT: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);
/// How long a limit that was reached is reported.
const LIMITS_KEPT: Duration = Duration::from_secs(600);
/// The interval of samples that are stored that long.
const LIMITS_STEP: Duration = Duration::from_secs(30);
/// The share of a core's queue from which it is nearly full.
pub(crate) const BUSY_SHARE: f64 = 0.8;

/// Counters within the last minutes.
#[derive(Debug, Default)]
pub(crate) struct RealtimeTally {
    minute: VecDeque<RealtimeTotals>,
    limits_history: VecDeque<(RealtimeTotals, Vec<LimitHit>)>,
    limits_now: Vec<LimitHit>,
    cores_busy_since: Vec<Option<Timestamp>>,
    apps_full_since: BTreeMap<String, Timestamp>,
    webhooks_failing_since: Option<Timestamp>,
}

impl RealtimeTally {
    /// Adds a sample.
    pub(crate) fn add(&mut self, at: Timestamp, overview: &HubOverview) {
        if self.minute.back().is_some_and(|last| at < last.at) {
            // The clock went back, which makes differences meaningless.
            *self = Self::default();
        }
        let counted = RealtimeTotals::new(at, overview);
        self.update_conditions(at, overview);
        self.limits_now = overview.limits_hit.clone();
        if self.limits_history.back().is_none_or(|(last, _)| at.since(last.at) >= LIMITS_STEP) {
            self.limits_history.push_back((counted.clone(), overview.limits_hit.clone()));
        }
        while self.limits_history.len() > 1 && at.since(self.limits_history[0].0.at) > LIMITS_KEPT {
            self.limits_history.pop_front();
        }
        self.minute.push_back(counted);
        while self.minute.len() > 2 && at.since(self.minute[1].at) >= MINUTE {
            self.minute.pop_front();
        }
        // An unreachable receiver is retried at least twice a minute.
        self.webhooks_failing_since =
            (self.trend().webhook_failures > 0).then(|| self.webhooks_failing_since.unwrap_or(at));
    }

    fn update_conditions(&mut self, at: Timestamp, overview: &HubOverview) {
        self.cores_busy_since.resize(overview.cores.len(), None);
        for (since, core) in self.cores_busy_since.iter_mut().zip(&overview.cores) {
            *since = (share(core) >= BUSY_SHARE).then(|| since.unwrap_or(at));
        }
        let is_full = |app: &&AppView| app.connections >= app.connections_max.max(1);
        let full = overview.apps.iter().filter(is_full);
        let before = std::mem::take(&mut self.apps_full_since);
        let since = |app: &AppView| (app.id.clone(), before.get(&app.id).copied().unwrap_or(at));
        self.apps_full_since = full.map(since).collect();
    }

    /// Returns rates per second over the last moment; zero until there are two samples.
    pub(crate) fn rates(&self) -> RealtimeRates {
        let Some(last) = self.minute.back() else { return RealtimeRates::default() };
        let mut first = None;
        for counted in self.minute.iter().rev().skip(1) {
            first = Some(counted);
            if last.at.since(counted.at) >= MOMENT {
                break;
            }
        }
        first.map(|first| last.rates_since(first)).unwrap_or_default()
    }

    /// Returns the input of the rules.
    pub(crate) fn trend(&self) -> RealtimeTrend {
        let (Some(last), Some(first), Some((long_ago, _))) =
            (self.minute.back(), self.minute.front(), self.limits_history.front())
        else {
            return RealtimeTrend::default();
        };
        let seconds = |since: Timestamp| last.at.since(since).as_secs_f64();
        let full = self.apps_full_since.iter();
        RealtimeTrend {
            dropped: last.dropped.saturating_sub(first.dropped),
            webhook_attempts: last.webhook_attempts.saturating_sub(first.webhook_attempts),
            webhook_failures: last.webhook_failures.saturating_sub(first.webhook_failures),
            closed_slow: last.closed_slow.saturating_sub(long_ago.closed_slow),
            limits_hit: self.limits_hit(),
            cores_busy_seconds: self.cores_busy_since.iter().map(|at| at.map(seconds)).collect(),
            apps_full_seconds: full.map(|(id, since)| (id.clone(), seconds(*since))).collect(),
            webhooks_failing_seconds: self.webhooks_failing_since.map(seconds),
        }
    }

    /// Returns limits that were reached within the last ten minutes, with counts.
    fn limits_hit(&self) -> Vec<LimitHit> {
        let earlier = self.limits_history.front().map_or(&[][..], |(_, limits)| limits);
        let before = |hit: &LimitHit| {
            earlier
                .iter()
                .find(|earlier| earlier.limit == hit.limit)
                .map_or(0, |earlier| earlier.hits)
        };
        let risen = self.limits_now.iter().map(|hit| LimitHit {
            limit: hit.limit.clone(),
            hits: hit.hits.saturating_sub(before(hit)),
        });
        risen.filter(|hit| hit.hits > 0).collect()
    }
}

/// Returns how full a core's queue is: by events or bytes, whichever is nearer to its limit.
pub(crate) fn share(core: &CoreView) -> f64 {
    let of = |count: usize, max: usize| as_float(count as u64) / as_float(max.max(1) as u64);
    of(core.events, core.events_max).max(of(core.bytes, core.bytes_max))
}

#[cfg(test)]
mod tests {
    use weir_realtime::view::{HubTotals, WebhookTotals};

    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_millis((1_000_000 + second) * 1_000)
    }

    fn overview(change: impl FnOnce(&mut HubOverview)) -> HubOverview {
        let core = CoreView { events_max: 100, bytes_max: 1_000, ..CoreView::default() };
        let app = AppView { id: "1".into(), connections_max: 2, ..AppView::default() };
        let mut overview =
            HubOverview { apps: vec![app], cores: vec![core], ..HubOverview::default() };
        change(&mut overview);
        overview
    }

    fn counted(published: u64, dropped: u64) -> HubOverview {
        overview(|overview| {
            overview.totals = HubTotals { published, dropped, ..HubTotals::default() };
        })
    }

    #[test]
    fn rates_cover_seconds_and_sums_a_minute() {
        let mut tally = RealtimeTally::default();
        for second in 0..200 {
            tally.add(at(second), &counted(second * 10, second));
        }
        assert_eq!((tally.rates().published, tally.trend().dropped), (10.0, 60));
        tally.add(at(200), &counted(2_040, 199));
        assert_eq!(tally.rates().published, 18.0);
        assert!(tally.minute.len() <= 62 && tally.limits_history.len() <= 22);
        tally.add(at(100), &counted(0, 0));
        assert_eq!(tally.rates(), RealtimeRates::default(), "the clock went back");
    }

    #[test]
    fn a_reached_limit_is_reported_for_ten_minutes() {
        let hit = |hits| {
            overview(|overview| {
                overview.limits_hit = vec![LimitHit { limit: "x".into(), hits }];
            })
        };
        let mut tally = RealtimeTally::default();
        tally.add(at(0), &hit(40));
        assert_eq!(tally.trend().limits_hit, [], "what was before isn't news");
        tally.add(at(60), &hit(43));
        assert_eq!(tally.trend().limits_hit[0].hits, 3);
        for second in 61..700 {
            tally.add(at(second), &hit(43));
        }
        assert_eq!(tally.trend().limits_hit, []);
    }

    #[test]
    fn conditions_are_timed_from_start_to_end() {
        let wrong = || {
            overview(|overview| {
                overview.cores[0].bytes = 800;
                overview.apps[0].connections = 2;
            })
        };
        let mut tally = RealtimeTally::default();
        for second in [0, 10, 25] {
            tally.add(at(second), &wrong());
        }
        let trend = tally.trend();
        assert_eq!(trend.cores_busy_seconds, [Some(25.0)]);
        assert_eq!(trend.apps_full_seconds, [("1".to_owned(), 25.0)]);
        tally.add(at(30), &overview(|_| {}));
        let trend = tally.trend();
        assert_eq!((trend.cores_busy_seconds, trend.apps_full_seconds), (vec![None], vec![]));
        tally.add(at(31), &wrong());
        assert_eq!(tally.trend().cores_busy_seconds, [Some(0.0)], "it begins anew");
    }

    #[test]
    fn webhooks_are_failing_until_a_minute_without_failures() {
        let webhooks = |attempts, failed| {
            overview(|overview| {
                overview.webhooks = WebhookTotals { attempts, failed, ..Default::default() };
            })
        };
        let mut tally = RealtimeTally::default();
        tally.add(at(0), &webhooks(5, 5));
        assert_eq!(tally.trend().webhooks_failing_seconds, None, "that was long ago");
        tally.add(at(1), &webhooks(6, 6));
        tally.add(at(9), &webhooks(6, 6));
        let trend = tally.trend();
        assert_eq!((trend.webhooks_failing_seconds, trend.webhook_failures), (Some(8.0), 1));
        tally.add(at(40), &webhooks(9, 6));
        assert_eq!(tally.trend().webhooks_failing_seconds, Some(39.0));
        tally.add(at(62), &webhooks(9, 6));
        assert_eq!(tally.trend().webhooks_failing_seconds, None);
    }
}
