//! Rates from totals, and limits that were reached recently. Limited to the last minute of totals
//! and the last ten minutes of limits.

use std::collections::VecDeque;
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_jobs::view;

use super::snapshot::JobRates;
use crate::totals::JobTotals;

/// The time span of the figures beside the charts: long enough to smooth, short enough to be
/// current. The rates of single queues cover the same time (`weir_jobs::view::RecentRates`).
pub(super) const MOMENT: Duration = Duration::from_secs(10);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// How long a limit that was reached is reported.
const LIMITS_KEPT: Duration = Duration::from_secs(600);
/// The interval of samples of the limits' totals.
const LIMITS_STEP: Duration = Duration::from_secs(30);

/// Counters within the last minutes.
#[derive(Debug, Default)]
pub(super) struct JobsTally {
    totals: VecDeque<JobTotals>,
    limits: VecDeque<(Timestamp, Vec<view::LimitHit>)>,
    limits_now: Vec<view::LimitHit>,
}

impl JobsTally {
    /// Adds a sample.
    pub(super) fn add(&mut self, at: Timestamp, overview: &view::JobServerOverview) {
        let totals = JobTotals {
            at,
            pushed: overview.pushed_total,
            processed: overview.processed_total,
            failed: overview.failed_total,
        };
        if self.totals.back().is_some_and(|last| totals.is_behind(last)) {
            // The job server was restarted, or the clock went back: differences are meaningless.
            *self = Self::default();
        }
        self.totals.push_back(totals);
        while self.totals.len() > 2 && at.since(self.totals[1].at) >= MINUTE {
            self.totals.pop_front();
        }
        self.add_limits(at, &overview.limits_hit);
    }

    fn add_limits(&mut self, at: Timestamp, hits: &[view::LimitHit]) {
        self.limits_now = hits.to_vec();
        if self.limits.back().is_none_or(|(last, _)| at.since(*last) >= LIMITS_STEP) {
            self.limits.push_back((at, hits.to_vec()));
        }
        while self.limits.len() > 1 && at.since(self.limits[0].0) > LIMITS_KEPT {
            self.limits.pop_front();
        }
    }

    /// Returns jobs per second over the last `stretch`; zero until there are two samples.
    pub(super) fn rates(&self, stretch: Duration) -> JobRates {
        let Some(last) = self.totals.back() else {
            return JobRates::default();
        };
        let earlier = self.totals.iter().rev().skip(1);
        let mut first = None;
        for totals in earlier {
            first = Some(totals);
            if last.at.since(totals.at) >= stretch {
                break;
            }
        }
        let Some(first) = first else {
            return JobRates::default();
        };
        let rates = last.rates_since(first);
        let [pushed, processed, failed] = rates.map(Option::unwrap_or_default);
        JobRates { pushed, processed, failed }
    }

    /// Returns limits that were reached within the last ten minutes, with counts.
    pub(super) fn limits_hit(&self) -> Vec<view::LimitHit> {
        let Some((_, earlier)) = self.limits.front() else {
            return Vec::new();
        };
        let earlier_hits =
            |limit: &str| earlier.iter().find(|hit| hit.limit == limit).map_or(0, |hit| hit.hits);
        self.limits_now
            .iter()
            .map(|hit| view::LimitHit {
                limit: hit.limit.clone(),
                hits: hit.hits.saturating_sub(earlier_hits(&hit.limit)),
            })
            .filter(|hit| hit.hits > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(pushed: u64, hits: u64) -> view::JobServerOverview {
        let limit = view::LimitHit { limit: "connections_max".into(), hits };
        view::JobServerOverview {
            pushed_total: pushed,
            limits_hit: vec![limit],
            ..view::JobServerOverview::default()
        }
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + second * 1_000)
    }

    #[test]
    fn a_rate_is_the_difference_over_its_time_span() {
        let mut tally = JobsTally::default();
        for second in 0..100 {
            tally.add(at(second), &overview(second * 10, 0));
        }
        tally.add(at(100), &overview(2_000, 0));
        let rates = |seconds| tally.rates(Duration::from_secs(seconds)).pushed;
        assert_eq!((rates(1), rates(5)), (1_010.0, 210.0));
        assert!(tally.totals.len() <= 62, "{}", tally.totals.len());
    }

    #[test]
    fn a_restarted_server_has_no_rate_yet() {
        let mut tally = JobsTally::default();
        tally.add(at(0), &overview(1_000, 0));
        tally.add(at(1), &overview(5, 0));
        assert_eq!(tally.rates(MINUTE), JobRates::default());
        tally.add(at(2), &overview(15, 0));
        assert_eq!(tally.rates(MINUTE).pushed, 10.0);
    }

    #[test]
    fn a_reached_limit_is_reported_for_ten_minutes() {
        let mut tally = JobsTally::default();
        tally.add(at(0), &overview(0, 40));
        assert_eq!(tally.limits_hit(), [], "what was before isn't news");
        tally.add(at(60), &overview(0, 43));
        assert_eq!(tally.limits_hit()[0].hits, 3);
        for second in 61..700 {
            tally.add(at(second), &overview(0, 43));
        }
        assert_eq!(tally.limits_hit(), []);
    }
}
