//! The admin API of the job server, for the command line, scripts and tests. Mounted under `/v1/jobs`.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET overview`, `queues`, `workers`, `reservations?limit=` | the views of [`view`] |
//! | `GET limits` | [`view::JobLimitsView`] |
//! | `GET list?place=&search=&jobtype=&jid=&after=&limit=&newest_first=` | [`view::JobListPage`] |
//! | `GET count?place=&search=&jobtype=&jid=` | `{"count":n}` |
//! | `GET xray?place=&by=&sample=&full=&seconds=&top=` | [`view::XrayView`] |
//! | `GET types?sort=&minutes=&queue=` | [`view::JobTypesView`] |
//! | `GET type?name=&minutes=` | [`view::JobTypeDetails`], or 404 |
//! | `GET job/{jid}` | [`view::JobView`], or 404 |
//! | `GET export?place=&search=&jobtype=` | JSON lines, page by page; also of `cron`, `batches`, `batch-commits` and `tracks` |
//! | `POST push`, `POST import?only_absent=` (JSON lines) | [`view::Pushed`] |
//! | `POST act` `{place,which,action}` | `{"count":n}`: jobs hit |
//! | `POST act/step` [`StepQuery`] | [`view::StepView`]: one step of an action on all matches |
//! | `POST cancel` [`CancelQuery`] | [`view::CancelView`] |
//! | `POST tasks` [`TaskRequest`] | [`view::TaskView`] of the task that has begun |
//! | `GET tasks`, `GET tasks/{id}` | a list of [`view::TaskView`], or one, or 404 |
//! | `POST tasks/{id}/stop`, `POST tasks/{id}/resume` | [`view::TaskView`] |
//! | `POST queues/act` `{queues,action}` | `{"count":n}`: jobs removed |
//! | `POST workers/signal` `{wid?,signal}` | `{"count":n}`: workers told |
//! | `GET cron` | a list of [`view::CronView`] |
//! | `POST cron/act` `{name,action}` | `{"count":1}` |
//! | `GET batches?after=&limit=` | [`view::BatchListPage`] |
//! | `GET batches/{bid}` | [`view::BatchView`], or 404 |
//! | `GET damage` | [`view::Damage`] of each place that is not acknowledged, at most 1000 |
//! | `POST damage/acknowledge` | `{"count":n}`: places acknowledged |
//! | `POST backup-point` | [`view::BackupPoint`]: what `weir backup` copies from the log |
//!
//! Errors are `{"error":"..","hint":".."}` with a fitting status.

mod errors;
mod export;
mod lines;

pub(crate) use self::errors::handle_error;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::admin_api::{AdminError, JsonInput, Params};

use crate::api_routes::{ApiRoutes, get, post};
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;
use crate::response::AdminResult;
use weir_jobs::handle::{
    CancelQuery, CronAction, Handle, HandleError, ImportMode, JobQuery, JobTypeQuery,
    JobTypesQuery, Queues, StepQuery, TaskRequest, Which, WorkerSignal, XrayQuery, parse_time,
};
use weir_jobs::store::{Action, QueueAction};
use weir_jobs::view;

/// Batches in one response, unless fewer are requested.
const BATCHES: usize = 100;

/// Reservations in one response, unless fewer are requested.
const RESERVATIONS: usize = 100;

/// `{"count":n}`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobCount {
    pub count: u64,
}

/// The body of `POST act`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Act {
    pub place: String,
    pub which: Which,
    pub action: JobAction,
}

/// The body of `POST queues/act`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActOnQueues {
    pub queues: Queues,
    pub action: QueueVerb,
}

/// The body of `POST workers/signal`. Without `wid`: all workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignalWorkers {
    #[serde(default)]
    pub wid: Option<String>,
    pub signal: WorkerSignal,
}

/// The body of `POST cron/act`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActOnCron {
    pub name: String,
    pub action: CronAction,
}

/// [`Action`] by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobAction {
    Requeue,
    Kill,
    Discard,
    /// To an RFC 3339 time.
    Reschedule(String),
}

/// [`QueueAction`] by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueueVerb {
    Pause,
    Resume,
    Remove,
    Clear,
}

impl TryFrom<JobAction> for Action {
    type Error = HandleError;

    fn try_from(action: JobAction) -> Result<Self, HandleError> {
        Ok(match action {
            JobAction::Requeue => Self::Requeue,
            JobAction::Kill => Self::Kill,
            JobAction::Discard => Self::Discard,
            JobAction::Reschedule(time) => Self::Reschedule(parse_time(&time)?),
        })
    }
}

impl From<QueueVerb> for QueueAction {
    fn from(verb: QueueVerb) -> Self {
        match verb {
            QueueVerb::Pause => Self::Pause,
            QueueVerb::Resume => Self::Resume,
            QueueVerb::Remove => Self::Remove,
            QueueVerb::Clear => Self::Clear,
        }
    }
}

fn routes() -> ApiRoutes<Handle> {
    ApiRoutes::new()
        .route("/overview", get(overview))
        .route("/queues", get(queues))
        .route("/queues/act", post(act_on_queues))
        .route("/limits", get(limits))
        .route("/list", get(list))
        .route("/count", get(count))
        .route("/xray", get(xray))
        .route("/types", get(types))
        .route("/type", get(one_type))
        .route("/job/{jid}", get(job))
        .route("/workers", get(workers))
        .route("/workers/signal", post(signal_workers))
        .route("/reservations", get(reservations))
        .route("/batches", get(batches))
        .route("/batches/{bid}", get(batch))
        .route("/cron", get(cron))
        .route("/cron/act", post(act_on_cron))
        .route("/damage", get(damage))
        .route("/damage/acknowledge", post(acknowledge_damage))
        .route("/backup-point", post(backup_point))
        .route("/export", get(export_jobs))
        .route("/push", post(push))
        .route("/import", post(import))
        .route("/act", post(act))
        .route("/act/step", post(act_step))
        .route("/cancel", post(cancel))
        .route("/tasks", get(tasks).post(start_task))
        .route("/tasks/{id}", get(task))
        .route("/tasks/{id}/stop", post(stop_task))
        .route("/tasks/{id}/resume", post(resume_task))
}

/// Returns the descriptions of the routes.
#[cfg(feature = "openapi")]
pub(crate) fn operations() -> Vec<Operation> {
    routes().into_operations()
}

/// Returns the routes for the server behind `handle`.
pub fn router(handle: Handle) -> Router {
    routes()
        .into_router()
        .fallback(async || AdminError::no_such_page())
        .method_not_allowed_fallback(async || AdminError::wrong_method())
        .with_state(handle)
}

async fn overview(State(handle): State<Handle>) -> AdminResult<view::JobServerOverview> {
    Ok(Json(handle.overview().await.map_err(errors::handle_error)?))
}

async fn queues(State(handle): State<Handle>) -> AdminResult<Vec<view::QueueView>> {
    Ok(Json(handle.queues().await.map_err(errors::handle_error)?))
}

async fn limits(State(handle): State<Handle>) -> AdminResult<view::JobLimitsView> {
    Ok(Json(handle.limits().await.map_err(errors::handle_error)?))
}

#[derive(Deserialize, JsonSchema)]
struct BatchesQuery {
    after: Option<String>,
    limit: Option<usize>,
}

async fn batches(
    State(handle): State<Handle>,
    Params(query): Params<BatchesQuery>,
) -> AdminResult<view::BatchListPage> {
    let limit = query.limit.unwrap_or(BATCHES);
    Ok(Json(handle.batches(query.after, limit).await.map_err(errors::handle_error)?))
}

async fn batch(
    State(handle): State<Handle>,
    Path(bid): Path<String>,
) -> AdminResult<view::BatchView> {
    let batch = handle.batch(bid.clone()).await.map_err(errors::handle_error)?;
    batch.map(Json).ok_or_else(|| errors::no_such_batch(&bid))
}

async fn cron(State(handle): State<Handle>) -> AdminResult<Vec<view::CronView>> {
    Ok(Json(handle.cron().await.map_err(errors::handle_error)?))
}

async fn act_on_cron(
    State(handle): State<Handle>,
    JsonInput(body): JsonInput<ActOnCron>,
) -> AdminResult<JobCount> {
    handle.act_on_cron(body.name, body.action).await.map_err(errors::handle_error)?;
    Ok(Json(JobCount { count: 1 }))
}

async fn list(
    State(handle): State<Handle>,
    Params(query): Params<JobQuery>,
) -> AdminResult<view::JobListPage> {
    Ok(Json(handle.jobs(query).await.map_err(errors::handle_error)?))
}

async fn count(
    State(handle): State<Handle>,
    Params(query): Params<JobQuery>,
) -> AdminResult<JobCount> {
    Ok(Json(JobCount { count: handle.count_matching(query).await.map_err(errors::handle_error)? }))
}

async fn xray(
    State(handle): State<Handle>,
    Params(query): Params<XrayQuery>,
) -> AdminResult<view::XrayView> {
    Ok(Json(handle.xray(query).await.map_err(errors::handle_error)?))
}

async fn types(
    State(handle): State<Handle>,
    Params(query): Params<JobTypesQuery>,
) -> AdminResult<view::JobTypesView> {
    Ok(Json(handle.job_types(&query).map_err(errors::statistics_error)?))
}

async fn one_type(
    State(handle): State<Handle>,
    Params(query): Params<JobTypeQuery>,
) -> AdminResult<view::JobTypeDetails> {
    let found = handle.job_type(&query).map_err(errors::statistics_error)?;
    found.map(Json).ok_or_else(|| errors::no_such_type(&query.name))
}

async fn job(State(handle): State<Handle>, Path(jid): Path<String>) -> AdminResult<view::JobView> {
    let job = handle.job(jid.clone()).await.map_err(errors::handle_error)?;
    job.map(Json).ok_or_else(|| errors::no_such_job(&jid))
}

async fn workers(State(handle): State<Handle>) -> AdminResult<Vec<view::JobWorkerView>> {
    Ok(Json(handle.workers().await.map_err(errors::handle_error)?))
}

#[derive(Deserialize, JsonSchema)]
struct ReservationsQuery {
    limit: Option<usize>,
}

async fn reservations(
    State(handle): State<Handle>,
    Params(query): Params<ReservationsQuery>,
) -> AdminResult<Vec<view::ReservationView>> {
    Ok(Json(
        handle
            .reservations(query.limit.unwrap_or(RESERVATIONS))
            .await
            .map_err(errors::handle_error)?,
    ))
}

async fn damage(State(handle): State<Handle>) -> AdminResult<Vec<view::Damage>> {
    Ok(Json(handle.damages().await.map_err(errors::handle_error)?))
}

async fn acknowledge_damage(State(handle): State<Handle>) -> AdminResult<JobCount> {
    let count = handle.acknowledge_damages().await.map_err(errors::handle_error)?;
    tracing::info!(places = count, "damage of the job store was acknowledged");
    Ok(Json(JobCount { count }))
}

async fn backup_point(State(handle): State<Handle>) -> AdminResult<view::BackupPoint> {
    Ok(Json(handle.backup_point().await.map_err(errors::handle_error)?))
}

async fn export_jobs(
    State(handle): State<Handle>,
    Params(query): Params<JobQuery>,
) -> Result<([(HeaderName, &'static str); 1], Body), AdminError> {
    let body = export::Export::start(handle, query).await.map_err(errors::handle_error)?;
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::new(body)))
}

async fn push(State(handle): State<Handle>, body: Body) -> AdminResult<view::Pushed> {
    lines::store_lines(&handle, body, lines::LineKind::Jobs).await.map(Json)
}

#[derive(Deserialize, JsonSchema)]
struct ImportQuery {
    #[serde(default)]
    only_absent: bool,
}

async fn import(
    State(handle): State<Handle>,
    Params(query): Params<ImportQuery>,
    body: Body,
) -> AdminResult<view::Pushed> {
    let mode = if query.only_absent { ImportMode::Absent } else { ImportMode::All };
    lines::store_lines(&handle, body, lines::LineKind::Exported(mode)).await.map(Json)
}

async fn act(
    State(handle): State<Handle>,
    JsonInput(act): JsonInput<Act>,
) -> AdminResult<JobCount> {
    let action = act.action.try_into().map_err(errors::handle_error)?;
    let count = handle.act(act.place, act.which, action).await.map_err(errors::handle_error)?;
    Ok(Json(JobCount { count }))
}

async fn act_step(
    State(handle): State<Handle>,
    JsonInput(query): JsonInput<StepQuery>,
) -> AdminResult<view::StepView> {
    Ok(Json(handle.act_step(query).await.map_err(errors::handle_error)?))
}

async fn cancel(
    State(handle): State<Handle>,
    JsonInput(query): JsonInput<CancelQuery>,
) -> AdminResult<view::CancelView> {
    Ok(Json(handle.cancel(query).await.map_err(errors::handle_error)?))
}

async fn tasks(State(handle): State<Handle>) -> AdminResult<Vec<view::TaskView>> {
    Ok(Json(handle.tasks().await.map_err(errors::handle_error)?))
}

async fn start_task(
    State(handle): State<Handle>,
    JsonInput(request): JsonInput<TaskRequest>,
) -> AdminResult<view::TaskView> {
    Ok(Json(handle.start_task(request).await.map_err(errors::handle_error)?))
}

async fn task(State(handle): State<Handle>, Path(id): Path<String>) -> AdminResult<view::TaskView> {
    Ok(Json(handle.task(task_id(&id)?).await.map_err(errors::handle_error)?))
}

async fn stop_task(
    State(handle): State<Handle>,
    Path(id): Path<String>,
) -> AdminResult<view::TaskView> {
    Ok(Json(handle.stop_task(task_id(&id)?).await.map_err(errors::handle_error)?))
}

async fn resume_task(
    State(handle): State<Handle>,
    Path(id): Path<String>,
) -> AdminResult<view::TaskView> {
    Ok(Json(handle.resume_task(task_id(&id)?).await.map_err(errors::handle_error)?))
}

fn task_id(text: &str) -> Result<u64, AdminError> {
    text.parse().map_err(|_| errors::no_task_id(text))
}

async fn act_on_queues(
    State(handle): State<Handle>,
    JsonInput(act): JsonInput<ActOnQueues>,
) -> AdminResult<JobCount> {
    let count =
        handle.act_on_queues(act.queues, act.action.into()).await.map_err(errors::handle_error)?;
    Ok(Json(JobCount { count }))
}

async fn signal_workers(
    State(handle): State<Handle>,
    JsonInput(signal): JsonInput<SignalWorkers>,
) -> AdminResult<JobCount> {
    let all = signal.wid.is_none();
    let count = handle
        .signal_workers(signal.wid.clone(), signal.signal)
        .await
        .map_err(errors::handle_error)?;
    if count == 0 && !all {
        return Err(errors::no_such_worker(&signal.wid.unwrap_or_default()));
    }
    Ok(Json(JobCount { count }))
}
