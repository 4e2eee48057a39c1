//! Access to a running job server from any thread: the console, the admin API and the command line
//! read and act through a [`Handle`], never through the server's state.
//!
//! Requests travel over a bounded channel to the thread that owns the store; at most
//! `limits.admin_requests_max` wait or run at once. A read request is cancelled when its future is
//! dropped; an action that has started is completed.

mod job_types;
mod request;
mod step;
mod task;
mod xray;

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc, oneshot};

pub use job_types::{JobTypeQuery, JobTypesQuery, TypeOrder};
pub(crate) use request::{Envelope, HandleRequest, Reply, TaskCall};
pub use step::{StepAction, StepQuery, TimeError, parse_time};
pub use task::{STARTED_BY_BYTES_MAX, TaskRequest};
pub use xray::{SAMPLE_JOBS, SAMPLE_JOBS_MAX, XRAY_TOP, XRAY_TOP_MAX, XrayQuery};

use crate::export_lines::StatePlace;
use crate::job_types::JobTypes;
use crate::metrics::{JobServerLimit, JobsMetrics};
use crate::settings::{JobServerLimits, JobServerSettings};
use crate::store::{Action, QueueAction, StoreError};
use crate::temporary_limits::{TemporaryLimits, TemporaryLimitsError};
use crate::view;

/// A handle to a running job server. Cheap to clone; `Send`.
#[derive(Clone, Debug)]
pub struct Handle {
    requests: mpsc::Sender<Envelope>,
    slots: Arc<Semaphore>,
    metrics: JobsMetrics,
    line_bytes_max: usize,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// The server has ended.
    #[error("the job server is not running")]
    Gone,
    /// `limits.admin_requests_max` requests are already waiting or running.
    #[error("the job server is busy: too many admin requests wait; try again")]
    Busy,
    /// The request is invalid; the text says why.
    #[error("{0}")]
    Invalid(String),
    /// The settings have no cron job of this name.
    #[error("there is no cron job {0:?}")]
    NoCronJob(String),
    /// The job of a cron job was not enqueued now.
    #[error("the job of {0:?} was not enqueued: an equal job holds its unique lock")]
    CronNotUnique(String),
    /// The job is not among the jobs that were searched, and there are more.
    #[error("not found: only {searched} jobs were searched")]
    NotSearched { searched: u64 },
    /// No task has this number; ended ones are forgotten after a while.
    #[error("there is no task {0}")]
    NoSuchTask(u64),
    /// `limits.tasks_max` tasks are running.
    #[error("{0} tasks are running, and no more may (jobs.limits.tasks_max)")]
    TooManyTasks(usize),
    /// The task can't be changed as requested; the text says why.
    #[error("{0}")]
    TaskState(String),
    /// The file of the tasks can't be written.
    #[error("the task can't be saved: {0}")]
    TaskNotSaved(String),
    /// Limits can't be set at run time.
    #[error(transparent)]
    Limits(#[from] TemporaryLimitsError),
    /// A time can't be read.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Which jobs to list. In a URL: `?place=retries&search=..&after=..&limit=50&newest_first=true`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobQuery {
    /// `scheduled`, `retries`, `dead` or `queue:NAME`.
    pub place: String,
    /// A glob over the job's JSON; plain text is searched anywhere in it.
    #[serde(default)]
    pub search: Option<String>,
    #[serde(default)]
    pub jobtype: Option<String>,
    /// Jobs with this id; `search` and `jobtype` are then ignored.
    #[serde(default)]
    pub jid: Option<String>,
    #[serde(default)]
    pub after: Option<String>,
    /// At most `limits.page_jobs_max`, which is also the default.
    #[serde(default)]
    pub limit: Option<usize>,
    #[serde(default)]
    pub newest_first: bool,
}

/// The jobs that an action applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// The jobs with these keys, as returned in a list.
    Keys(Vec<String>),
    /// The jobs that match; without conditions, all jobs.
    Matching {
        #[serde(default)]
        search: Option<String>,
        #[serde(default)]
        jobtype: Option<String>,
    },
}

/// The queues that an action applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Queues {
    Named(Vec<String>),
    All,
}

/// Which jobs of an import are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportMode {
    All,
    /// Those whose jid no job of the store has: an import that was interrupted sends lines again.
    Absent,
}

/// A directive that a worker process receives in the reply to its next BEAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerSignal {
    Quiet,
    Terminate,
}

/// The jobs in progress that are cancelled: those with these ids, or all of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelQuery {
    #[serde(default)]
    pub jids: Vec<String>,
    #[serde(default)]
    pub jobtype: Option<String>,
}

/// What an operator does with a cron job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CronAction {
    /// Enqueues its job now; its times do not change.
    Run,
    Pause,
    Resume,
}

/// Creates a handle and the receiver of its requests.
pub(crate) fn channel(
    limits: &JobServerLimits,
    metrics: JobsMetrics,
) -> (Handle, mpsc::Receiver<Envelope>) {
    let requests_max = limits.admin_requests_max.max(1);
    let (requests, receiver) = mpsc::channel(requests_max);
    let slots = Arc::new(Semaphore::new(requests_max));
    let line_bytes_max = limits.line_bytes_max;
    (Handle { requests, slots, metrics, line_bytes_max }, receiver)
}

impl Handle {
    /// Returns whether the server still accepts requests.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Returns an overview of the whole server.
    pub async fn overview(&self) -> Result<view::JobServerOverview, HandleError> {
        self.ask(HandleRequest::Overview).await
    }

    /// Returns all queues, sorted by name.
    pub async fn queues(&self) -> Result<Vec<view::QueueView>, HandleError> {
        self.ask(HandleRequest::Queues).await
    }

    /// Returns the limits of queues, tenants and shared resources, and what they hold back.
    pub async fn limits(&self) -> Result<view::JobLimitsView, HandleError> {
        self.ask(HandleRequest::Limits).await
    }

    /// Returns a page of the jobs of a queue or set. A search may return fewer than `limit` jobs,
    /// or none, together with a `next` key once it has examined `limits.scan_jobs_max` jobs.
    pub async fn jobs(&self, query: JobQuery) -> Result<view::JobListPage, HandleError> {
        self.ask(|reply| HandleRequest::Jobs(query, reply)).await
    }

    /// Counts the jobs of a queue or set that match. Examines all of them, yielding to commands in
    /// between.
    pub async fn count_matching(&self, query: JobQuery) -> Result<u64, HandleError> {
        self.ask(|reply| HandleRequest::Count(query, reply)).await
    }

    /// Finds out what the jobs of a queue or set consist of, by samples or from all of them.
    pub async fn xray(&self, query: XrayQuery) -> Result<view::XrayView, HandleError> {
        self.ask(|reply| HandleRequest::Xray(query, reply)).await
    }

    /// Returns the statistics of all types of jobs that had one, in the requested order.
    pub fn job_types(&self, query: &JobTypesQuery) -> Result<view::JobTypesView, HandleError> {
        let mut view = self
            .statistics()?
            .read(query.window().map_err(HandleError::Invalid)?, query.queue.as_deref());
        query.sort.sort(&mut view.types);
        Ok(view)
    }

    /// Returns the statistics of one type of job, if it had one.
    pub fn job_type(
        &self,
        query: &JobTypeQuery,
    ) -> Result<Option<view::JobTypeDetails>, HandleError> {
        Ok(self.statistics()?.read_one(&query.name, query.window().map_err(HandleError::Invalid)?))
    }

    /// They are read without the server's thread.
    fn statistics(&self) -> Result<&JobTypes, HandleError> {
        if self.is_running() { Ok(self.metrics.types()) } else { Err(HandleError::Gone) }
    }

    /// Finds a job by its jid in all queues, sets and reservations.
    pub async fn job(&self, jid: String) -> Result<Option<view::JobView>, HandleError> {
        self.ask(|reply| HandleRequest::Job(jid, reply)).await
    }

    /// Returns all worker processes, oldest first.
    pub async fn workers(&self) -> Result<Vec<view::JobWorkerView>, HandleError> {
        self.ask(HandleRequest::Workers).await
    }

    /// Returns up to `limit` reservations (at most `limits.page_jobs_max`), oldest first.
    pub async fn reservations(
        &self,
        limit: usize,
    ) -> Result<Vec<view::ReservationView>, HandleError> {
        self.ask(|reply| HandleRequest::Reservations(limit, reply)).await
    }

    /// Stores jobs, given as JSON. Rejecting one job does not affect the others.
    pub async fn push(&self, jobs: Vec<Vec<u8>>) -> Result<view::Pushed, HandleError> {
        self.ask(|reply| HandleRequest::Push(jobs, reply)).await
    }

    /// Imports exported lines. The admin API's documentation describes their format.
    pub async fn import(
        &self,
        lines: Vec<Vec<u8>>,
        mode: ImportMode,
    ) -> Result<view::Pushed, HandleError> {
        self.ask(|reply| HandleRequest::Import(lines, mode, reply)).await
    }

    /// Returns a page of what an export contains beside jobs.
    pub async fn exported_state(
        &self,
        place: StatePlace,
        after: Option<String>,
    ) -> Result<view::StatePage, HandleError> {
        self.ask(|reply| HandleRequest::ExportedState(place, after, reply)).await
    }

    /// Applies `action` to jobs of a queue or set. Returns the number of jobs affected.
    pub async fn act(
        &self,
        place: String,
        which: Which,
        action: Action,
    ) -> Result<u64, HandleError> {
        self.ask(|reply| HandleRequest::Act(place, which, action, reply)).await
    }

    /// Runs one step of an action on all matching jobs.
    pub async fn act_step(&self, query: StepQuery) -> Result<view::StepView, HandleError> {
        self.ask(|reply| HandleRequest::ActStep(query, reply)).await
    }

    /// Cancels jobs in progress.
    pub async fn cancel(&self, query: CancelQuery) -> Result<view::CancelView, HandleError> {
        self.ask(|reply| HandleRequest::Cancel(query, reply)).await
    }

    /// Starts a task: an action on all matching jobs that the server runs in the background.
    pub async fn start_task(&self, request: TaskRequest) -> Result<view::TaskView, HandleError> {
        self.ask(|reply| HandleRequest::Task(TaskCall::Start(request, reply))).await
    }

    /// Returns the tasks that run, and the last ones that ended, by their numbers.
    pub async fn tasks(&self) -> Result<Vec<view::TaskView>, HandleError> {
        self.ask(|reply| HandleRequest::Task(TaskCall::List(reply))).await
    }

    /// Returns one task.
    pub async fn task(&self, id: u64) -> Result<view::TaskView, HandleError> {
        let tasks = self.tasks().await?;
        tasks.into_iter().find(|task| task.id == id).ok_or(HandleError::NoSuchTask(id))
    }

    /// Stops a task after the step in progress. A task that has ended stays as it is.
    pub async fn stop_task(&self, id: u64) -> Result<view::TaskView, HandleError> {
        self.ask(|reply| HandleRequest::Task(TaskCall::Stop(id, reply))).await
    }

    /// Continues a task that was stopped or has failed. A task that runs stays as it is.
    pub async fn resume_task(&self, id: u64) -> Result<view::TaskView, HandleError> {
        self.ask(|reply| HandleRequest::Task(TaskCall::Resume(id, reply))).await
    }

    /// Applies `action` to queues. Returns the number of jobs removed.
    pub async fn act_on_queues(
        &self,
        queues: Queues,
        action: QueueAction,
    ) -> Result<u64, HandleError> {
        self.ask(|reply| HandleRequest::ActOnQueues(queues, action, reply)).await
    }

    /// Returns the first 1,000 damaged ranges of the log that no operator has acknowledged.
    pub async fn damages(&self) -> Result<Vec<view::Damage>, HandleError> {
        self.ask(HandleRequest::Damages).await
    }

    /// Marks all damage as acknowledged by an operator. Returns the number of damaged ranges.
    pub async fn acknowledge_damages(&self) -> Result<u64, HandleError> {
        self.ask(HandleRequest::AcknowledgeDamages).await
    }

    /// Sends a directive to one worker process, or to all (`None`). Returns the number of
    /// processes.
    pub async fn signal_workers(
        &self,
        wid: Option<String>,
        signal: WorkerSignal,
    ) -> Result<u64, HandleError> {
        self.ask(|reply| HandleRequest::SignalWorkers(wid, signal, reply)).await
    }

    /// Returns a state of the log to copy, once it is as durable as the settings demand.
    pub async fn backup_point(&self) -> Result<view::BackupPoint, HandleError> {
        self.ask(HandleRequest::BackupPoint).await
    }

    /// Returns all cron jobs, in the order of the settings.
    pub async fn cron(&self) -> Result<Vec<view::CronView>, HandleError> {
        self.ask(HandleRequest::Cron).await
    }

    /// Returns up to `limit` batches behind `after` (at most `limits.page_jobs_max`), in the order of their ids.
    pub async fn batches(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<view::BatchListPage, HandleError> {
        self.ask(|reply| HandleRequest::Batches(after, limit, reply)).await
    }

    /// Returns the batch with this id, if there is one.
    pub async fn batch(&self, bid: String) -> Result<Option<view::BatchView>, HandleError> {
        self.ask(|reply| HandleRequest::Batch(bid, reply)).await
    }

    /// Runs a cron job now, pauses or resumes it.
    pub async fn act_on_cron(&self, name: String, action: CronAction) -> Result<(), HandleError> {
        self.ask(|reply| HandleRequest::ActOnCron(name, action, reply)).await
    }

    /// Returns an error unless the store accepts jobs. Serves health checks.
    pub async fn ready(&self) -> Result<(), HandleError> {
        self.ask(HandleRequest::Ready).await
    }

    /// Applies new settings. Returns the names of the changed settings that need a restart.
    pub async fn reload(&self, settings: JobServerSettings) -> Result<Vec<String>, HandleError> {
        self.ask(|reply| HandleRequest::Reload(Box::new(settings), reply)).await
    }

    /// Replaces the limits that were set at run time. They end after `lease` unless they are set again before.
    pub async fn limit_temporarily(
        &self,
        limits: TemporaryLimits,
        lease: Duration,
    ) -> Result<(), HandleError> {
        self.ask(|reply| HandleRequest::LimitTemporarily(limits, lease, reply)).await
    }

    /// Returns `limits.line_bytes_max` as of the start: the maximum length of a line for
    /// [`Handle::push`] and [`Handle::import`].
    #[must_use]
    pub fn line_bytes_max(&self) -> usize {
        self.line_bytes_max
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> HandleRequest,
    ) -> Result<T, HandleError> {
        if self.requests.is_closed() {
            return Err(HandleError::Gone);
        }
        let busy = || {
            self.metrics.limit_hit(JobServerLimit::AdminRequestsMax);
            HandleError::Busy
        };
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| busy())?;
        let (reply, answer) = oneshot::channel();
        let envelope = Envelope { request: request(reply), slot };
        match self.requests.try_send(envelope) {
            Ok(()) => answer.await.unwrap_or(Err(HandleError::Gone)),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(HandleError::Gone),
            Err(mpsc::error::TrySendError::Full(_)) => Err(busy()),
        }
    }
}
