//! Plain data for the admin API, the command line and the console. Times are seconds since the Unix epoch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attribution::AttributionMethod;
use crate::lease::LeaseState;
use crate::mode::{JobSystem, ManagedSystem, Mode};
use crate::thread_groups::ThreadGroup;

/// What the autopilot sees and does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AutopilotStatus {
    /// When this was true.
    pub at: f64,
    /// The mode in force.
    pub mode: Mode,
    /// The mode in weir.toml.
    pub mode_in_settings: Mode,
    /// Who has set the mode at run time. `None`: it is that of weir.toml.
    pub mode_set_by: Option<String>,
    /// When.
    pub mode_set_at: Option<f64>,
    /// What `on` may change.
    pub manage: Vec<ManagedSystem>,
    /// The job system that is watched.
    #[serde(default)]
    pub system: JobSystem,
    /// The processes whose threads can be changed, or could be.
    #[serde(default)]
    pub groups: Vec<ThreadGroup>,
    /// Whether processes are being replaced for a change of their threads.
    #[serde(default)]
    pub is_changing: bool,
    /// Whether a job type can be limited by moving its waiting jobs (`autopilot.move_jobs`).
    #[serde(default)]
    pub moves_jobs: bool,
    /// What is wrong with the limit of a job type that is in force.
    #[serde(default)]
    pub class_problem: Option<String>,
    /// Why `on` is not possible here. `None`: it is.
    pub cannot_act: Option<String>,
    /// Which of several autopilots acts. `None`: the mode is not `on`.
    #[serde(default)]
    pub lease: Option<LeaseView>,
    /// Why there are no fresh data. `None`: there are, or nothing is read.
    pub problem: Option<String>,
    /// Age of the data that decisions are based on. `None`: there are none.
    pub data_age_seconds: Option<f64>,
    /// Without fresh data nothing changes for this long.
    pub hold_for_seconds: f64,
    /// Workers that run jobs or wait for one: the most of the last minutes.
    pub workers: u32,
    /// Jobs in progress.
    pub busy: u32,
    /// Jobs that wait in all queues.
    pub waiting: u64,
    /// The database. `None`: not known now.
    pub database: Option<DatabaseView>,
    /// The classes with the most database sessions.
    pub classes: Vec<ClassView>,
    /// Limits in force.
    pub limits: Vec<LimitView>,
    /// Queues and job types that are not looked at by themselves, because there are too many.
    pub left_out: u64,
    /// Entries that could not be written to the journal.
    pub journal_errors: u64,
}

/// The database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatabaseView {
    /// Busy sessions.
    pub sessions: f64,
    /// Sessions that wait for a lock.
    pub lock_waits: f64,
    /// Open connections.
    pub connections: u32,
    /// `max_connections`.
    pub connections_max: u32,
    /// How many times longer jobs are in the database than in calm times.
    pub slowdown: f64,
    /// How sessions are attributed to classes.
    pub attribution: AttributionMethod,
    /// How certain that is, 0 to 1.
    pub confidence: f64,
}

/// The lease that lets one autopilot act.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseView {
    /// Who may act.
    pub state: LeaseState,
    /// Where the lease is.
    pub store: String,
    /// The other autopilot that holds it, if it is known.
    pub holder: Option<String>,
    /// Why it is not known who holds it, with a remedy.
    pub problem: Option<String>,
    /// All of it in one sentence.
    pub text: String,
}

/// A class of jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassView {
    /// The job type.
    pub name: String,
    /// Jobs in progress.
    pub in_flight: u32,
    /// Jobs that wait.
    pub waiting: u64,
    /// Busy database sessions.
    pub sessions: f64,
    /// Sessions that wait for a lock which it holds.
    pub blocks: f64,
    /// Seconds that a job is in the database in calm times. `None`: there were none yet, so that it is not known whether its
    /// jobs have become expensive.
    pub normal_seconds: Option<f64>,
}

/// A limit in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitView {
    /// The job type. `None`: all queues together.
    pub class: Option<String>,
    /// The most jobs in progress.
    pub jobs: u32,
    /// Since when.
    pub since: f64,
    /// Who has set it by hand. `None`: the autopilot.
    pub set_by: Option<String>,
    /// When it ends unless it is renewed; of a value that was set by hand, when it ends.
    pub until: f64,
}

/// The body of `POST autopilot/mode`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModeChange {
    /// The new mode.
    pub mode: Mode,
    /// Who changes it.
    #[serde(default)]
    pub by: String,
}

/// The body of `POST autopilot/override`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct OverrideChange {
    /// The job type. `None`: all queues together.
    #[serde(default)]
    pub class: Option<String>,
    /// The most jobs in progress. `None`: end what was set by hand.
    #[serde(default)]
    pub jobs: Option<u32>,
    /// How long it holds.
    #[serde(default)]
    pub for_seconds: Option<u64>,
    /// Who changes it.
    #[serde(default)]
    pub by: String,
}

/// The query of `GET autopilot/journal`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct JournalQuery {
    /// Only entries before this one.
    #[serde(default)]
    pub before: Option<u64>,
    /// The most entries.
    #[serde(default)]
    pub limit: Option<usize>,
}

/// Groups of processes in one sentence.
const GROUPS_MAX: usize = 5;

impl AutopilotStatus {
    /// Returns what can be limited where the system limits no classes itself: the threads by group, and whether a class can be.
    #[must_use]
    pub fn threads(&self) -> Option<(String, String)> {
        if self.system.limits_classes() {
            return None;
        }
        let group = |group: &ThreadGroup| {
            let ThreadGroup { name, processes, threads, threads_now, .. } = group;
            let of = if threads == threads_now { String::new() } else { format!(" of {threads}") };
            format!("{name}: {processes} x {threads_now}{of}")
        };
        let shown: Vec<String> = self.groups.iter().take(GROUPS_MAX).map(group).collect();
        let more = match self.groups.len().saturating_sub(GROUPS_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let note = if self.is_changing { "; processes are being replaced" } else { "" };
        let shown = match shown.is_empty() {
            true => "none that may be changed".to_owned(),
            false => shown.join(", "),
        };
        let limits = match self.moves_jobs {
            true => "threads, and one job type at a time, whose waiting jobs are moved",
            false => "threads only; Sidekiq has no limit for a job type (autopilot.move_jobs)",
        };
        let problem = self.class_problem.as_ref().map(|problem| format!(": {problem}"));
        let limits = format!("{limits}{}", problem.unwrap_or_default());
        Some((format!("{shown}{more}{note}"), limits))
    }
}

impl LimitView {
    /// Returns what is limited, for people.
    #[must_use]
    pub fn what(&self) -> &str {
        self.class.as_deref().unwrap_or("all queues")
    }
}
