//! A scenario file: queues, classes of jobs, workers, the database, and what happens to them.

mod check;

use serde::{Deserialize, Serialize};

pub use self::check::ScenarioError;

/// A scenario. All durations are in seconds, all sizes in MiB.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it describes, in a sentence.
    #[serde(default)]
    pub about: String,
    /// How long to simulate. With events or a backlog, the simulation ends as soon as these are over.
    pub seconds: f64,
    /// The database that all jobs share.
    pub database: DatabaseModel,
    /// The machine of the workers.
    #[serde(default)]
    pub machine: Machine,
    /// Queues.
    pub queues: Vec<Queue>,
    /// Classes of jobs.
    pub classes: Vec<Class>,
    /// Groups of worker processes: the static plan.
    pub workers: Vec<Workers>,
    /// What changes while it runs.
    #[serde(default)]
    pub events: Vec<Event>,
}

/// A database. All running sessions progress at one speed: full speed up to `sessions` of them; beyond, the throughput
/// stays the same (`contention = 0`) or falls.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseModel {
    /// Sessions that run at full speed at once.
    pub sessions: f64,
    /// Share of the throughput that is lost with twice as many sessions: the throughput is divided by
    /// `1 + contention × (load - sessions) / sessions`.
    #[serde(default)]
    pub contention: f64,
    /// Connections for jobs. A job that finds none fails.
    pub connections: u32,
    /// Server connections of a pooler; jobs wait for one. Without: one for each connection.
    pub pool: Option<u32>,
    /// A job that has waited this long for a connection of the pool fails.
    #[serde(default = "default_pool_wait")]
    pub pool_wait_seconds: f64,
    /// How well an observer knows which class a session belongs to, 0 to 1.
    #[serde(default = "default_confidence")]
    pub attribution: f64,
}

fn default_pool_wait() -> f64 {
    5.0
}

fn default_confidence() -> f64 {
    0.9
}

/// The machine of the workers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// Memory for worker processes.
    pub memory_mb: f64,
    /// How long a worker process takes to start.
    pub process_start_seconds: f64,
}

impl Default for Machine {
    fn default() -> Self {
        Self { memory_mb: 65_536.0, process_start_seconds: 20.0 }
    }
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// The longest wait that is acceptable for 95 % of its jobs.
    pub target_seconds: f64,
    /// Whether its target counts in a flood: its p95 is reported as met or missed.
    #[serde(default)]
    pub urgent: bool,
    /// Whether the controller may run its newest jobs first while it is past its target.
    #[serde(default)]
    pub fresh_lane: bool,
}

/// A class of jobs.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Its queue.
    pub queue: String,
    /// Jobs that arrive per second (Poisson).
    pub per_second: f64,
    /// Jobs that wait when the simulation begins.
    #[serde(default)]
    pub backlog: u32,
    /// Mean run time with an idle database and an idle process.
    pub seconds: f64,
    /// The shape of run times.
    #[serde(default)]
    pub distribution: Distribution,
    /// Share of the run time that is spent in the database.
    #[serde(default = "default_share")]
    pub database: f64,
    /// Share of the run time that is computation. The processes of a group compute for one job each at a time, as Ruby
    /// does. The rest is waiting for other systems.
    #[serde(default)]
    pub cpu: f64,
    /// Load of one session of the class on the database, in sessions.
    #[serde(default = "default_load")]
    pub load: f64,
    /// Share of runs that fail.
    #[serde(default)]
    pub fails: f64,
    /// Runs of a job before it is dead.
    #[serde(default = "default_attempts")]
    pub attempts: u32,
    /// The most jobs in progress, whatever the policy.
    #[serde(default)]
    pub limit: Option<u32>,
    /// A lock that each job holds while it is in the database.
    #[serde(default)]
    pub lock: Option<String>,
    /// How long a job keeps its transaction open after its work, holding its thread and its connection.
    #[serde(default)]
    pub idle_in_transaction_seconds: f64,
}

fn default_share() -> f64 {
    0.5
}

fn default_load() -> f64 {
    1.0
}

/// Sidekiq's 25 retries, and the first run.
fn default_attempts() -> u32 {
    26
}

/// The shape of run times around their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// All the same.
    Constant,
    /// Exponential.
    #[default]
    Exponential,
    /// Log-normal with a standard deviation of 1 of the logarithm: p99 is 6.2 times the mean.
    Lognormal,
}

/// A group of worker processes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Workers {
    /// Its name.
    pub name: String,
    /// Processes.
    pub processes: u32,
    /// The most processes that a policy may start.
    pub processes_max: Option<u32>,
    /// Threads of each process.
    pub threads: u32,
    /// Memory of each process.
    #[serde(default = "default_memory")]
    pub memory_mb: f64,
    /// Queues, as `name` or `name,weight`.
    pub queues: Vec<String>,
    /// How a free thread chooses a queue.
    #[serde(default)]
    pub order: Order,
    /// Whether policies may change it. Web servers are not managed.
    #[serde(default = "default_true")]
    pub managed: bool,
}

fn default_memory() -> f64 {
    512.0
}

fn default_true() -> bool {
    true
}

/// How a free thread chooses among the queues of its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The first queue that has a job.
    #[default]
    Strict,
    /// At random by weight, as Sidekiq does.
    Weighted,
}

/// Something that begins at `at_seconds` and ends at `until_seconds`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When it begins.
    pub at_seconds: f64,
    /// When it ends; without: it lasts.
    pub until_seconds: Option<f64>,
    /// The class that changes.
    pub class: Option<String>,
    /// Its jobs per second.
    pub per_second: Option<f64>,
    /// Jobs of it that arrive at once, when the event begins.
    #[serde(default)]
    pub burst: u32,
    /// Its run time.
    pub seconds: Option<f64>,
    /// Its load on the database.
    pub load: Option<f64>,
    /// Its share of failing runs.
    pub fails: Option<f64>,
    /// Its open transactions.
    pub idle_in_transaction_seconds: Option<f64>,
    /// Sessions that the database runs at full speed.
    pub sessions: Option<f64>,
    /// The observer sees nothing.
    #[serde(default)]
    pub blind: bool,
}
