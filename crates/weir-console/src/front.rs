//! The front's apps for the console, with the history behind their charts.
//!
//! The binary implements [`AppControl`], so the console is independent of what runs the workers.

mod activity;
mod app;
mod reasons;
mod tally;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::Clock;
use weir_base::history::{self, MetricsHistory};

pub(crate) use self::activity::AppActivity;
pub use self::app::{AppCommand, AppCommandError, AppControl, FrontApp, FrontWorker};
pub(crate) use self::reasons::{reason_text, reasons_text};
pub(crate) use self::tally::FrontTally;
use crate::figures::as_float;

/// The source of the apps. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FrontSource {
    pub(crate) control: Arc<dyn AppControl>,
    /// The history of the apps in [`FrontSource::charted`]. None: there is no app.
    pub(crate) history: Option<Arc<MetricsHistory>>,
    charted: Arc<[String]>,
}

/// The series of one app; a column's name is the app's name, a dot and one of these.
const COLUMNS: [&str; 8] = [
    "requests_per_second",
    "refused_per_second",
    "waiting",
    "busy_peak",
    "queue_seconds_p99",
    "answer_seconds_p50",
    "answer_seconds_p99",
    "jain_index",
];

/// Limit of apps with charts, from the limit of a history's columns.
pub(crate) const CHARTED_APPS_MAX: usize = 32;

impl FrontSource {
    /// Creates the source. `server_settings` is the configuration of the server's history; the
    /// apps' history is in a subfolder.
    #[must_use]
    pub fn new(control: Arc<dyn AppControl>, server_settings: &history::HistorySettings) -> Self {
        let apps = control.apps().into_iter().filter(|app| !app.runs_jobs);
        let names = apps.map(|app| app.name);
        let charted: Arc<[String]> = names.take(CHARTED_APPS_MAX).collect();
        let names = charted.iter().flat_map(|app| COLUMNS.map(|name| column(app, name)));
        let columns: Vec<String> = names.collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let directory = server_settings.directory.join("front");
        let settings = history::HistorySettings { directory, ..server_settings.clone() };
        let history =
            (!columns.is_empty()).then(|| Arc::new(MetricsHistory::open(&settings, &columns)));
        Self { control, history, charted }
    }

    pub(crate) fn is_charted(&self, app: &str) -> bool {
        self.charted.iter().any(|charted| charted == app)
    }

    /// Returns a current snapshot, with the activity of an earlier one.
    pub(crate) fn read(&self, earlier: Option<&FrontSnapshot>) -> FrontSnapshot {
        let minutes = earlier.map(|earlier| earlier.minutes.clone()).unwrap_or_default();
        FrontSnapshot { apps: self.control.apps(), minutes }
    }

    /// Takes the sampler's snapshot with each app's activity, and records it on a thread that may
    /// block on the disk.
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

    /// Returns the values of all columns.
    fn row(&self, apps: &[FrontApp], moments: &BTreeMap<String, AppActivity>) -> Vec<f64> {
        let values = |name: &String| {
            let app = apps.iter().find(|app| app.name == *name);
            let none = AppActivity::default();
            values(app, moments.get(name).unwrap_or(&none))
        };
        self.charted.iter().flat_map(values).collect()
    }
}

/// Returns the values of [`COLUMNS`]; NaN: unknown.
fn values(app: Option<&FrontApp>, moment: &AppActivity) -> [f64; COLUMNS.len()] {
    let seconds =
        |length: Option<Duration>| length.map_or(f64::NAN, |duration| duration.as_secs_f64());
    [
        moment.requests_per_second,
        moment.rejected_per_second,
        app.map_or(f64::NAN, |app| as_float(app.requests_waiting as u64)),
        app.map_or(f64::NAN, |app| f64::from(app.totals.busy_peak)),
        seconds(moment.waits.quantile(0.99)),
        seconds(moment.responses.quantile(0.5)),
        seconds(moment.responses.quantile(0.99)),
        moment.jain_index.unwrap_or(f64::NAN),
    ]
}

/// Returns the column of a series of one app.
pub(crate) fn column(app: &str, name: &str) -> String {
    format!("{app}.{name}")
}

/// The apps at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrontSnapshot {
    pub(crate) apps: Vec<FrontApp>,
    /// The activity of each within the last minute.
    pub(crate) minutes: BTreeMap<String, AppActivity>,
}

impl FrontSnapshot {
    /// Returns the activity of an app within the last minute.
    pub(crate) fn minute(&self, app: &FrontApp) -> AppActivity {
        self.minutes.get(&app.name).cloned().unwrap_or_default()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.apps.iter().map(|app| app.requests_waiting).sum()
    }

    pub(crate) fn serving(&self) -> usize {
        self.apps.iter().flat_map(|app| &app.workers).filter(|worker| worker.is_serving()).count()
    }

    /// Returns the requests per second of all apps over the last minute.
    pub(crate) fn requests_per_second(&self) -> f64 {
        self.minutes.values().map(|minute| minute.requests_per_second).sum()
    }

    /// Returns the requests of all apps that were rejected within the last minute.
    pub(crate) fn rejected(&self) -> u64 {
        self.minutes.values().map(|minute| minute.rejected).sum()
    }
}
