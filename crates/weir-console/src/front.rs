//! The front's apps as the console reads them, with the history behind their charts.
//!
//! The binary implements [`AppControl`]: the console does not know what runs the workers.

mod activity;
mod app;
mod tally;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::Clock;
use weir_base::history::{self, MetricsHistory};

pub(crate) use self::activity::AppActivity;
pub use self::app::{AppCommand, AppCommandError, AppControl, FrontApp, FrontWorker};
pub(crate) use self::tally::FrontTally;
use crate::figures::as_float;

/// The apps as the console reads them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FrontSource {
    pub(crate) control: Arc<dyn AppControl>,
    /// Behind the charts of [`FrontSource::charted`]. None: there is no app.
    pub(crate) history: Option<Arc<MetricsHistory>>,
    charted: Arc<[String]>,
}

/// The series of one app, behind its name and a dot.
const COLUMNS: [&str; 7] = [
    "requests_per_second",
    "refused_per_second",
    "waiting",
    "queue_seconds_p99",
    "answer_seconds_p50",
    "answer_seconds_p99",
    "jain_index",
];

/// Apps with charts: more columns than that a history can't have.
pub(crate) const CHARTED_APPS_MAX: usize = 36;

impl FrontSource {
    /// `whole` says how the server's history is kept; the apps' is in a folder beside it.
    #[must_use]
    pub fn new(control: Arc<dyn AppControl>, whole: &history::HistorySettings) -> Self {
        let apps = control.apps().into_iter().filter(|app| !app.runs_jobs);
        let names = apps.map(|app| app.name);
        let charted: Arc<[String]> = names.take(CHARTED_APPS_MAX).collect();
        let names = charted.iter().flat_map(|app| COLUMNS.map(|name| column(app, name)));
        let columns: Vec<String> = names.collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let directory = whole.directory.join("front");
        let settings = history::HistorySettings { directory, ..whole.clone() };
        let history =
            (!columns.is_empty()).then(|| Arc::new(MetricsHistory::open(&settings, &columns)));
        Self { control, history, charted }
    }

    pub(crate) fn is_charted(&self, app: &str) -> bool {
        self.charted.iter().any(|charted| charted == app)
    }

    /// A snapshot of now, with the activity of an earlier one.
    pub(crate) fn read(&self, earlier: Option<&FrontSnapshot>) -> FrontSnapshot {
        let minutes = earlier.map(|earlier| earlier.minutes.clone()).unwrap_or_default();
        FrontSnapshot { apps: self.control.apps(), minutes }
    }

    /// The sampler's snapshot, with each app's activity. It is recorded on a thread that may wait for
    /// the disk.
    pub(crate) async fn sample(&self, tally: &mut FrontTally, clock: &Clock) -> FrontSnapshot {
        let (at, apps) = (clock.now(), self.control.apps());
        tally.add(at, &apps);
        let (minutes, moments) = (tally.minutes(), tally.moments());
        let reading = FrontSnapshot { apps, minutes };
        if let Some(history) = self.history.clone() {
            let row = self.row(&reading.apps, &moments);
            let recorded = tokio::task::spawn_blocking(move || history.append(at, &row)).await;
            if let Err(error) = recorded {
                tracing::error!(%error, "console: a row of the front's history is lost");
            }
        }
        reading
    }

    /// The values of all columns.
    fn row(&self, apps: &[FrontApp], moments: &BTreeMap<String, AppActivity>) -> Vec<f64> {
        let values = |name: &String| {
            let app = apps.iter().find(|app| app.name == *name);
            let nothing = AppActivity::default();
            values(app, moments.get(name).unwrap_or(&nothing))
        };
        self.charted.iter().flat_map(values).collect()
    }
}

/// The values of [`COLUMNS`]; NaN: not known.
fn values(app: Option<&FrontApp>, moment: &AppActivity) -> [f64; COLUMNS.len()] {
    let seconds = |length: Option<Duration>| length.map_or(f64::NAN, |it| it.as_secs_f64());
    [
        moment.requests_per_second,
        moment.rejected_per_second,
        app.map_or(f64::NAN, |app| as_float(app.requests_waiting as u64)),
        seconds(moment.waits.quantile(0.99)),
        seconds(moment.responses.quantile(0.5)),
        seconds(moment.responses.quantile(0.99)),
        moment.jain_index.unwrap_or(f64::NAN),
    ]
}

/// A series of one app.
pub(crate) fn column(app: &str, name: &str) -> String {
    format!("{app}.{name}")
}

/// The apps at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrontSnapshot {
    pub(crate) apps: Vec<FrontApp>,
    /// What happened to each within the last minute.
    pub(crate) minutes: BTreeMap<String, AppActivity>,
}

impl FrontSnapshot {
    /// What happened to an app within the last minute.
    pub(crate) fn minute(&self, app: &FrontApp) -> AppActivity {
        self.minutes.get(&app.name).cloned().unwrap_or_default()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.apps.iter().map(|app| app.requests_waiting).sum()
    }

    pub(crate) fn serving(&self) -> usize {
        self.apps.iter().flat_map(|app| &app.workers).filter(|worker| worker.is_serving()).count()
    }

    /// Requests per second over the last minute, of all apps.
    pub(crate) fn requests_per_second(&self) -> f64 {
        self.minutes.values().map(|minute| minute.requests_per_second).sum()
    }

    /// Requests that were refused within the last minute, of all apps.
    pub(crate) fn rejected(&self) -> u64 {
        self.minutes.values().map(|minute| minute.rejected).sum()
    }
}
