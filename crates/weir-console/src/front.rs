//! What the console shows of the front's apps, and what it can have done to them.
//!
//! Who runs the apps' workers is not the console's business: whoever joins the parts tells it
//! ([`Operated`]).

mod lately;
mod tally;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::Clock;
use weir_base::history::{self, MetricsHistory};
use weir_front::view::TotalsView;

pub(crate) use self::lately::Lately;
pub(crate) use self::tally::Tally;
use crate::figures::as_float;

/// The apps, and the way to steer them.
pub trait Operated: fmt::Debug + Send + Sync {
    /// All of them, now.
    fn apps(&self) -> Vec<App>;
    /// Does it, or says why not.
    fn follow(&self, order: Order) -> Pin<Box<dyn Future<Output = Result<(), Refused>> + Send>>;
}

/// Why an order is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Successors for one worker, or for all of them one after the other.
    Restart {
        app: String,
        worker: Option<u32>,
    },
    Scale {
        app: String,
        processes: u32,
    },
    /// A worker is to say what it is doing.
    Dump {
        app: String,
        worker: u32,
    },
    /// Requests wait.
    Pause {
        app: String,
    },
    Resume {
        app: String,
    },
    /// Everybody is shown the maintenance page, or no more.
    Maintenance {
        app: String,
        is_on: bool,
    },
}

/// An app now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct App {
    pub name: String,
    /// It is none, but a group of workers of jobs: what is said of requests means nothing.
    pub runs_jobs: bool,
    /// Where its workers take connections themselves, and which of them gets one. Then what requests
    /// wait and take is not known, and a worker is given what it says it has answered. None: requests
    /// come through Weir.
    pub shared_sockets: Option<String>,
    /// How many workers Weir is to run; None: something else runs them.
    pub processes: Option<u32>,
    /// With shared sockets: connections.
    pub requests_waiting: usize,
    pub is_paused: bool,
    pub is_overloaded: bool,
    /// Everybody is shown the maintenance page.
    pub is_in_maintenance: bool,
    /// The queues of jobs for whose sake some requests are refused.
    pub shedding: Vec<String>,
    /// Whether its workers say what they are doing when they are asked.
    pub can_dump: bool,
    /// The present or the latest rolling restart.
    pub rolling: Option<String>,
    /// Workers that were killed for they were stuck, since this service process was started.
    pub evictions: u64,
    pub totals: TotalsView,
    pub workers: Vec<Worker>,
}

/// A worker, or the place of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Worker {
    /// Its place among the workers of its app; None: something else runs it.
    pub number: Option<u32>,
    pub pid: Option<i32>,
    /// Where it listens: no two that ever ran have the same, or nearly so; with shared sockets there is
    /// its pid in it.
    pub address: Option<String>,
    pub state: String,
    pub age: Option<Duration>,
    pub requests: u32,
    pub streams: u32,
    /// Requests and streams that it was given, and how long these waited for it in all.
    pub given: u64,
    pub waited: Duration,
    pub oldest_request: Option<Duration>,
    /// Proportional set size, with the processes that it has started; None: not known.
    pub pss_bytes: Option<u64>,
    /// Which limit it has passed, if it is being replaced for that.
    pub recycled: Option<String>,
    /// Successors in its place since this service process was started.
    pub restarts: u64,
    /// Why there is no worker, with its last lines of output.
    pub problem: Option<String>,
}

impl App {
    /// Whether its requests come through Weir.
    pub(crate) fn is_proxied(&self) -> bool {
        !self.runs_jobs && self.shared_sockets.is_none()
    }
}

impl Worker {
    pub(crate) fn is_serving(&self) -> bool {
        self.state == "serving"
    }
}

/// The apps, as far as the console needs them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Front {
    pub(crate) operated: Arc<dyn Operated>,
    /// Behind the charts of [`Front::charted`]. None: there is no app.
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

impl Front {
    /// `whole` says how the server's history is kept; the apps' is in a folder beside it.
    #[must_use]
    pub fn new(operated: Arc<dyn Operated>, whole: &history::HistorySettings) -> Self {
        let apps = operated.apps().into_iter().filter(|app| !app.runs_jobs);
        let names = apps.map(|app| app.name);
        let charted: Arc<[String]> = names.take(CHARTED_APPS_MAX).collect();
        let names = charted.iter().flat_map(|app| COLUMNS.map(|name| column(app, name)));
        let columns: Vec<String> = names.collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let directory = whole.directory.join("front");
        let settings = history::HistorySettings { directory, ..whole.clone() };
        let history =
            (!columns.is_empty()).then(|| Arc::new(MetricsHistory::open(&settings, &columns)));
        Self { operated, history, charted }
    }

    pub(crate) fn is_charted(&self, app: &str) -> bool {
        self.charted.iter().any(|charted| charted == app)
    }

    /// A reading of now, with what needs time from an earlier one.
    pub(crate) fn read(&self, earlier: Option<&Reading>) -> Reading {
        let minutes = earlier.map(|earlier| earlier.minutes.clone()).unwrap_or_default();
        Reading { apps: self.operated.apps(), minutes }
    }

    /// The sampler's reading: what changed lately is counted, and recorded on a thread that may
    /// wait for the disk.
    pub(crate) async fn sample(&self, tally: &mut Tally, clock: &Clock) -> Reading {
        let (at, apps) = (clock.now(), self.operated.apps());
        tally.add(at, &apps);
        let (minutes, moments) = (tally.minutes(), tally.moments());
        let reading = Reading { apps, minutes };
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
    fn row(&self, apps: &[App], moments: &BTreeMap<String, Lately>) -> Vec<f64> {
        let values = |name: &String| {
            let app = apps.iter().find(|app| app.name == *name);
            let nothing = Lately::default();
            values(app, moments.get(name).unwrap_or(&nothing))
        };
        self.charted.iter().flat_map(values).collect()
    }
}

/// The values of [`COLUMNS`]; NaN: not known.
fn values(app: Option<&App>, moment: &Lately) -> [f64; COLUMNS.len()] {
    let seconds = |length: Option<Duration>| length.map_or(f64::NAN, |it| it.as_secs_f64());
    [
        moment.requests_per_second,
        moment.refused_per_second,
        app.map_or(f64::NAN, |app| as_float(app.requests_waiting as u64)),
        seconds(moment.waits.quantile(0.99)),
        seconds(moment.answers.quantile(0.5)),
        seconds(moment.answers.quantile(0.99)),
        moment.jain_index.unwrap_or(f64::NAN),
    ]
}

/// A series of one app.
pub(crate) fn column(app: &str, name: &str) -> String {
    format!("{app}.{name}")
}

/// The apps at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) apps: Vec<App>,
    /// What happened to each within the last minute.
    pub(crate) minutes: BTreeMap<String, Lately>,
}

impl Reading {
    /// What happened to an app within the last minute.
    pub(crate) fn minute(&self, app: &App) -> Lately {
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
    pub(crate) fn refused(&self) -> u64 {
        self.minutes.values().map(|minute| minute.refused).sum()
    }
}
