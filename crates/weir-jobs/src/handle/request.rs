//! The requests that a handle sends to the thread that owns the store.

use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{
    CancelQuery, CronAction, HandleError, ImportMode, JobQuery, Queues, StepQuery, TaskRequest,
    Which, WorkerSignal, XrayQuery,
};
use crate::export_lines::StatePlace;
use crate::settings::JobServerSettings;
use crate::store::{Action, QueueAction};
use crate::temporary_limits::TemporaryLimits;
use crate::view;

/// The sender of a request's result.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, HandleError>>;

/// A request and its permit out of `limits.admin_requests_max`, held until the reply is sent.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) request: HandleRequest,
    pub(crate) slot: OwnedSemaphorePermit,
}

/// One method of [`super::Handle`], with its arguments.
#[derive(Debug)]
pub(crate) enum HandleRequest {
    Overview(Reply<view::JobServerOverview>),
    Queues(Reply<Vec<view::QueueView>>),
    Limits(Reply<view::JobLimitsView>),
    Jobs(JobQuery, Reply<view::JobListPage>),
    Count(JobQuery, Reply<u64>),
    Xray(XrayQuery, Reply<view::XrayView>),
    Job(String, Reply<Option<view::JobView>>),
    Workers(Reply<Vec<view::JobWorkerView>>),
    Reservations(usize, Reply<Vec<view::ReservationView>>),
    Push(Vec<Vec<u8>>, Reply<view::Pushed>),
    Import(Vec<Vec<u8>>, ImportMode, Reply<view::Pushed>),
    ExportedState(StatePlace, Option<String>, Reply<view::StatePage>),
    Act(String, Which, Action, Reply<u64>),
    ActStep(StepQuery, Reply<view::StepView>),
    Task(TaskCall),
    Cancel(CancelQuery, Reply<view::CancelView>),
    ActOnQueues(Queues, QueueAction, Reply<u64>),
    SignalWorkers(Option<String>, WorkerSignal, Reply<u64>),
    Damages(Reply<Vec<view::Damage>>),
    AcknowledgeDamages(Reply<u64>),
    BackupPoint(Reply<view::BackupPoint>),
    Cron(Reply<Vec<view::CronView>>),
    Batches(Option<String>, usize, Reply<view::BatchListPage>),
    Batch(String, Reply<Option<view::BatchView>>),
    ActOnCron(String, CronAction, Reply<()>),
    Ready(Reply<()>),
    Reload(Box<JobServerSettings>, Reply<Vec<String>>),
    LimitTemporarily(TemporaryLimits, Duration, Reply<()>),
}

/// A request about tasks, with where the reply goes.
#[derive(Debug)]
pub(crate) enum TaskCall {
    Start(TaskRequest, Reply<view::TaskView>),
    List(Reply<Vec<view::TaskView>>),
    Stop(u64, Reply<view::TaskView>),
    Resume(u64, Reply<view::TaskView>),
}
