//! The front's apps and their workers as the console shows them, and the commands to them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use weir_front::view::TotalsView;

/// Lists the apps and carries out commands.
pub trait AppControl: fmt::Debug + Send + Sync {
    /// Returns the current state of all apps.
    fn apps(&self) -> Vec<FrontApp>;
    fn execute(
        &self,
        command: AppCommand,
    ) -> Pin<Box<dyn Future<Output = Result<(), AppCommandError>> + Send>>;
}

/// Why a command failed, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AppCommandError(pub String);

/// A command to an app or its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppCommand {
    /// Replaces one worker, or all of them one after the other.
    Restart {
        app: String,
        worker: Option<u32>,
    },
    Scale {
        app: String,
        processes: u32,
    },
    /// Asks a worker to log what it is doing.
    Dump {
        app: String,
        worker: u32,
    },
    /// Pauses an app: its requests wait.
    Pause {
        app: String,
    },
    Resume {
        app: String,
    },
    /// Turns the maintenance page on or off for all clients.
    Maintenance {
        app: String,
        is_on: bool,
    },
}

/// An app of the front at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrontApp {
    pub name: String,
    /// Whether this is a group of job workers; fields about requests are then meaningless.
    pub runs_jobs: bool,
    /// The address of shared sockets and the selection. Request times are unknown then, and
    /// `assigned` counts what a worker reports. None: requests pass through Weir.
    pub shared_sockets: Option<String>,
    /// The configured number of workers; None: something else runs them.
    pub processes: Option<u32>,
    /// With shared sockets: waiting connections.
    pub requests_waiting: usize,
    pub is_paused: bool,
    pub is_overloaded: bool,
    /// Whether all clients are shown the maintenance page.
    pub is_in_maintenance: bool,
    /// Queues whose backlog causes some requests to be rejected.
    pub shedding: Vec<String>,
    /// Queues whose latency is not known, so that no requests are rejected because of them.
    pub shed_unknown: Vec<String>,
    /// Whether its workers log what they are doing on request.
    pub can_dump: bool,
    /// The current or latest rolling restart.
    pub rolling: Option<String>,
    /// Of job workers: the values that an operator has overridden, with who and why.
    pub overridden: Option<String>,
    /// Stuck workers that were killed since this service process started.
    pub evictions: u64,
    pub totals: TotalsView,
    pub workers: Vec<FrontWorker>,
}

/// A worker, or the slot of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrontWorker {
    /// Its slot; None: something else runs it.
    pub number: Option<u32>,
    pub pid: Option<i32>,
    /// The address, which is practically unique over time; with shared sockets it contains the pid.
    pub address: Option<String>,
    pub state: String,
    pub age: Option<Duration>,
    pub requests: u32,
    pub streams: u32,
    /// Requests and streams that it was given, and the total time that they waited.
    pub assigned: u64,
    pub waited: Duration,
    pub oldest_request: Option<Duration>,
    /// Proportional set size including descendants; None: unknown.
    pub pss_bytes: Option<u64>,
    /// The exceeded limit, if it is being replaced for that.
    pub recycled: Option<String>,
    /// Successors in its slot since this service process was started.
    pub restarts: u64,
    /// Why there is no worker, with its last lines of output.
    pub problem: Option<String>,
}

impl FrontApp {
    /// Returns whether its requests pass through Weir.
    pub(crate) fn is_proxied(&self) -> bool {
        !self.runs_jobs && self.shared_sockets.is_none()
    }
}

impl FrontWorker {
    pub(crate) fn is_serving(&self) -> bool {
        self.state == "serving"
    }
}
