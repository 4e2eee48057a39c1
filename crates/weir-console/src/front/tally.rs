//! Samples of the apps within the last minute, limited to one in five seconds.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_base::clock::Timestamp;

use super::activity::{AppActivity, sum};
use super::app::FrontApp;

/// The time span of the figures beside the charts.
const MINUTE: Duration = Duration::from_secs(60);
/// The interval of stored samples, and the time span of the charts' values.
const STEP: Duration = Duration::from_secs(5);

/// Samples of the apps within the last minute.
#[derive(Debug, Default)]
pub(crate) struct FrontTally {
    samples: VecDeque<FrontSample>,
    /// The newest sample, stored or not.
    newest: Option<FrontSample>,
    /// When each app was last seen to have rejected requests.
    rejected_at: BTreeMap<String, Timestamp>,
}

#[derive(Clone, Debug)]
struct FrontSample {
    at: Timestamp,
    apps: Vec<FrontApp>,
}

impl FrontTally {
    /// Adds a sample.
    pub(crate) fn add(&mut self, at: Timestamp, apps: &[FrontApp]) {
        if self.newest.as_ref().is_some_and(|newest| at < newest.at) {
            // The clock went back, which makes differences meaningless.
            *self = Self::default();
        }
        self.note_rejections(at, apps);
        let before = self.newest.replace(FrontSample { at, apps: apps.to_vec() });
        let is_due = self.samples.back().is_none_or(|last| at.since(last.at) > STEP);
        if is_due && let Some(before) = before {
            self.samples.push_back(before);
        }
        while self.samples.len() > 1 && at.since(self.samples[1].at) >= MINUTE {
            self.samples.pop_front();
        }
    }

    fn note_rejections(&mut self, at: Timestamp, apps: &[FrontApp]) {
        let Some(newest) = &self.newest else { return };
        for app in apps {
            let before = newest.apps.iter().find(|before| before.name == app.name);
            let rejections = |app: &FrontApp| sum(&app.totals.rejections);
            if before.is_some_and(|before| rejections(app) > rejections(before)) {
                self.rejected_at.insert(app.name.clone(), at);
            }
        }
    }

    /// Returns the activity within the last minute, by app.
    pub(crate) fn minutes(&self) -> BTreeMap<String, AppActivity> {
        self.since(self.samples.front())
    }

    /// Returns the activity within the last few seconds, by app.
    pub(crate) fn moments(&self) -> BTreeMap<String, AppActivity> {
        self.since(self.samples.back())
    }

    fn since(&self, before: Option<&FrontSample>) -> BTreeMap<String, AppActivity> {
        let (Some(before), Some(now)) = (before, &self.newest) else { return BTreeMap::new() };
        let seconds = now.at.since(before.at).as_secs_f64();
        let apps = now.apps.iter().filter_map(|app| {
            let before = before.apps.iter().find(|before| before.name == app.name)?;
            let since_rejected = self.rejected_at.get(&app.name).map(|at| now.at.since(*at));
            let mut activity = AppActivity::between(before, app, seconds);
            activity.since_rejected = since_rejected.filter(|_| activity.rejected > 0);
            Some((app.name.clone(), activity))
        });
        apps.collect()
    }
}

#[cfg(test)]
mod tests {
    use weir_front::Distribution;
    use weir_front::view::{ReasonCount, TotalsView};

    use super::*;
    use crate::front::FrontWorker;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_millis((1_000_000 + second) * 1_000)
    }

    fn worker(address: &str, assigned: u64, waited_ms: u64) -> FrontWorker {
        FrontWorker {
            address: Some(address.to_owned()),
            state: "serving".to_owned(),
            assigned,
            waited: Duration::from_millis(waited_ms),
            ..FrontWorker::default()
        }
    }

    fn app(responses: u64, refused: u64, workers: Vec<FrontWorker>) -> FrontApp {
        let rejections = vec![ReasonCount { reason: "queue_max", count: refused }];
        let totals = TotalsView { responses, rejections, ..TotalsView::default() };
        FrontApp { name: "shop".to_owned(), totals, workers, ..FrontApp::default() }
    }

    #[test]
    fn figures_cover_a_minute_and_charts_seconds() {
        let mut tally = FrontTally::default();
        assert_eq!(tally.minutes(), BTreeMap::new());
        for second in 0..200 {
            tally.add(at(second), &[app(second.saturating_sub(100) * 10, second, Vec::new())]);
        }
        let (minute, moment) = (&tally.minutes()["shop"], &tally.moments()["shop"]);
        assert_eq!((minute.requests_per_second, moment.requests_per_second), (10.0, 10.0));
        assert!((60..=66).contains(&minute.rejected), "{}", minute.rejected);
        assert_eq!(minute.since_rejected, Some(Duration::ZERO));
        assert_eq!(minute.rejections[0].count, minute.rejected);
        assert!((1..=6).contains(&moment.rejected), "{}", moment.rejected);
        assert!(tally.samples.len() <= 13, "{}", tally.samples.len());
        tally.add(at(100), &[app(0, 0, Vec::new())]);
        assert_eq!(tally.minutes(), BTreeMap::new(), "the clock went back");
    }

    #[test]
    fn a_workers_load_counts_from_its_start_or_a_minute_ago() {
        let mut tally = FrontTally::default();
        tally.add(at(0), &[app(0, 0, vec![worker("a", 100, 0), worker("b", 0, 0)])]);
        let mut leaving = worker("a", 100, 0);
        leaving.state = "draining".to_owned();
        let now = vec![leaving, worker("b", 40, 2_000), worker("c", 40, 0)];
        tally.add(at(1), &[app(80, 0, now.clone())]);
        let minute = &tally.minutes()["shop"];
        assert_eq!(minute.jain_index, Some(1.0), "of those that serve");
        assert_eq!(minute.mean_wait(&now[0]), None);
        assert_eq!(minute.mean_wait(&now[1]), Some(Duration::from_millis(50)));
        assert_eq!(minute.mean_wait(&now[2]), Some(Duration::ZERO));
    }

    #[test]
    fn workers_with_shared_sockets_report_their_own_counts() {
        let shared = |workers| FrontApp {
            shared_sockets: Some("127.0.0.1:8081".to_owned()),
            ..app(0, 0, workers)
        };
        let mut tally = FrontTally::default();
        tally.add(at(0), &[shared(vec![worker("a", 100, 0), worker("b", 7, 0)])]);
        let now = vec![worker("a", 130, 0), worker("b", 17, 0)];
        tally.add(at(1), &[shared(now.clone())]);
        let minute = &tally.minutes()["shop"];
        assert_eq!(minute.requests_per_second, 40.0);
        assert_eq!(minute.mean_wait(&now[0]), None, "nobody knows");
    }

    #[test]
    fn durations_are_those_between_two_samples() {
        let with = |lengths: &[u64]| {
            let lengths: Vec<Duration> =
                lengths.iter().map(|millis| Duration::from_millis(*millis)).collect();
            let mut app = app(0, 0, Vec::new());
            app.totals.service_times = Distribution::from_durations(&lengths);
            app
        };
        let mut tally = FrontTally::default();
        tally.add(at(0), &[with(&[9_000; 50])]);
        tally.add(at(1), &[with(&[&[9_000; 50][..], &[10; 3]].concat())]);
        let p99 = tally.minutes()["shop"].responses.quantile(0.99).expect("three responses");
        assert!(p99 < Duration::from_millis(11), "{p99:?}");
    }
}
