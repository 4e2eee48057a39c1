//! The time that an app's requests take in each stage.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_advisor::observation::RequestPath;
use weir_base::clock::Timestamp;
use weir_front::view::TotalsView;

use super::peaks::BusyPeaks;
use crate::workers::{AppRow, JOBS, SOCKETS};

/// The time span that is covered.
const WINDOW: Duration = Duration::from_secs(300);
/// Interval of stored readings: ten of them, each 8 KiB per app.
const READING_INTERVAL: Duration = Duration::from_secs(30);
/// Fewer responses have no meaningful 95th percentile.
const RESPONSES_MIN: u64 = 20;
const QUANTILE: f64 = 0.95;

/// Readings of the last minutes.
#[derive(Debug, Default)]
pub(super) struct RequestMeasurements {
    readings: VecDeque<Reading>,
    newest: Option<Reading>,
    peaks: BusyPeaks,
}

#[derive(Clone, Debug)]
struct Reading {
    at: Timestamp,
    /// By app, with the number of workers that serve it.
    apps: BTreeMap<String, (u32, TotalsView)>,
}

impl RequestMeasurements {
    pub(super) fn record(&mut self, at: Timestamp, rows: Vec<(AppRow, TotalsView)>) {
        // Workers that accept connections themselves are not measured.
        let proxied = rows.into_iter().filter(|(row, _)| row.mode != SOCKETS && row.mode != JOBS);
        let apps = proxied.map(|(row, totals)| {
            let serving = row.workers.iter().filter(|worker| worker.state == "serving").count();
            (row.name, (u32::try_from(serving).unwrap_or(u32::MAX), totals))
        });
        let reading = Reading { at, apps: apps.collect() };
        let peaks = reading.apps.iter().map(|(app, (_, totals))| (app.as_str(), totals.busy_peak));
        self.peaks.note(at, peaks);
        if self.readings.back().is_none_or(|last| at.since(last.at) >= READING_INTERVAL) {
            self.readings.push_back(reading.clone());
        }
        while self.readings.len() > 1 && at.since(self.readings[1].at) >= WINDOW {
            self.readings.pop_front();
        }
        self.newest = Some(reading);
    }

    /// Returns the paths of apps with enough requests.
    pub(super) fn paths(&self) -> Vec<RequestPath> {
        let (Some(previous), Some(now)) = (self.readings.front(), &self.newest) else {
            return Vec::new();
        };
        let path = |(app, (workers, totals)): (&String, &(u32, TotalsView))| {
            let (_, previous) = previous.apps.get(app)?;
            let of_window =
                self.readings.iter().filter_map(|it| Some(it.apps.get(app)?.1.busy_peak));
            Some(RequestPath {
                busy_peak: of_window.chain([totals.busy_peak]).max().unwrap_or_default(),
                busy_peak_of_day: self.peaks.of_day(app),
                ..path(app, *workers, previous, totals)?
            })
        };
        now.apps.iter().filter_map(path).collect()
    }
}

fn path(app: &str, workers: u32, previous: &TotalsView, now: &TotalsView) -> Option<RequestPath> {
    let client_times = now.client_times.since(&previous.client_times);
    if client_times.count() < RESPONSES_MIN {
        return None;
    }
    let (service_times, app_times) = (
        now.service_times.since(&previous.service_times),
        now.app_times.since(&previous.app_times),
    );
    // If only some responses report it, they may be of another kind.
    let is_reported_by_most = app_times.count() * 2 > service_times.count();
    let inside = if is_reported_by_most { app_times } else { service_times };
    Some(RequestPath {
        app: app.to_owned(),
        inside: inside.quantile(QUANTILE)?,
        waiting: now
            .queue_times
            .since(&previous.queue_times)
            .quantile(QUANTILE)
            .unwrap_or_default(),
        outside: client_times.quantile(QUANTILE)?,
        workers,
        slots: now.request_slots,
        busy_peak: now.busy_peak,
        busy_peak_of_day: None,
    })
}

#[cfg(test)]
mod tests {
    use weir_front::Distribution;

    use super::*;

    fn rows(client_times: &[u64], app_times: &[u64], mode: &str) -> Vec<(AppRow, TotalsView)> {
        let millis = |all: &[u64]| {
            Distribution::from_durations(
                &all.iter().map(|it| Duration::from_millis(*it)).collect::<Vec<_>>(),
            )
        };
        let totals = TotalsView {
            client_times: millis(client_times),
            service_times: millis(&vec![30; client_times.len()]),
            queue_times: millis(&vec![350; client_times.len()]),
            app_times: millis(app_times),
            ..TotalsView::default()
        };
        let row = AppRow { name: "shop".to_owned(), mode: mode.to_owned(), ..AppRow::default() };
        vec![(row, totals)]
    }

    fn paths(client_times: &[u64], app_times: &[u64], mode: &str) -> Vec<RequestPath> {
        let mut requests = RequestMeasurements::default();
        requests.record(Timestamp::from_millis(0), rows(&[9_000; 50], &[], mode));
        let client_times = [&[9_000; 50], client_times].concat();
        requests.record(Timestamp::from_millis(10_000), rows(&client_times, app_times, mode));
        requests.paths()
    }

    #[test]
    fn reported_service_time_is_preferred() {
        let path = |app_times: &[u64]| paths(&[400; 100], app_times, "proxy").remove(0);
        let near = |found: Duration, millis: u64| {
            (found.as_secs_f64() * 1_000.0 / millis as f64 - 1.0).abs() < 0.07
        };
        let told = path(&[20; 100]);
        assert!(near(told.inside, 20) && near(told.outside, 400) && near(told.waiting, 350));
        assert!(near(path(&[20; 50]).inside, 30), "half of them do not say it");
        assert_eq!(paths(&[400; 19], &[], "proxy"), [], "too few");
        assert_eq!(paths(&[400; 100], &[], SOCKETS), []);
    }

    #[test]
    fn only_recent_readings_are_kept() {
        let mut requests = RequestMeasurements::default();
        for step in 0..1_000 {
            let client_times = vec![if step < 500 { 400 } else { 40 }; step + 1];
            let at = Timestamp::from_millis(step as u64 * 10_000);
            requests.record(at, rows(&client_times, &[], "proxy"));
        }
        assert!(requests.readings.len() <= 11, "{}", requests.readings.len());
    }
}
