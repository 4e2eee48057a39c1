//! The status of all parts: `/v1/status`, `/health`, `/ready`, `/metrics`.

mod without_jobs;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use prometheus_client::registry::Registry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_advisor::Verdict;
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::handle::Handle;
use weir_jobs::view::JobServerOverview;
use weir_realtime::hub::Hub;

use crate::api_routes::{ApiRoutes, get};
use crate::exposition::Format;
use crate::gems::{self, OperatedGems};
use crate::jobs;
use crate::openapi::embedded;
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;
use crate::realtime::{self, Realtime};
use crate::response::AdminResult;
use crate::restart::{self, Restart};
use crate::switches::{self, Switches};
use crate::workers::{self, AppRow};
use weir_gems::Gems;

/// The response of `/v1/status`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub version: String,
    pub pid: u32,
    pub uptime_seconds: f64,
    /// Service processes that were replaced and still have connections.
    #[serde(default)]
    pub old_processes: u32,
    pub data_dir: String,
    /// Is it fine, and if not: what is wrong, and what to do. None: nothing was sampled yet.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// Such as `127.0.0.1:7419`; None: jobs are not served here.
    pub jobs_listen: Option<String>,
    /// Why the job server rejects jobs; None: it accepts them, or is not served here.
    pub problem: Option<String>,
    /// None: they are not served here.
    pub jobs: Option<JobServerOverview>,
    /// `127.0.0.1:8080`; None: not opened.
    pub front_listen: Option<String>,
    pub realtime_listen: Option<String>,
    /// None: it is not served here.
    pub realtime: Option<weir_realtime::view::HubOverview>,
    /// `127.0.0.1:7422`; None: not opened.
    pub gems_listen: Option<String>,
    /// The prefix of gem paths at the front; None: gems are not at the front.
    pub gems_mount: Option<String>,
    /// None: they are not served here.
    pub gems: Option<weir_gems::view::Overview>,
    /// Why the index cannot be read; None: it can, or is not served here.
    #[serde(default)]
    pub gems_problem: Option<String>,
    /// The front's apps and the workers of jobs.
    #[serde(default)]
    pub apps: Vec<AppRow>,
}

/// Facts that are constant for the lifetime of this process.
#[derive(Clone, Debug)]
pub struct Facts {
    pub clock: Clock,
    pub started: Timestamp,
    pub data_dir: String,
    /// The names of the enabled parts; empty: all.
    pub only: Vec<&'static str>,
    /// None: they are not served here.
    pub jobs_listen: Option<SocketAddr>,
    pub cores: Addresses,
    /// None: gems are not at the front.
    pub gems_mount: Option<String>,
}

/// The addresses that the cores listen on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    pub front: Option<SocketAddr>,
    pub realtime: Option<SocketAddr>,
    pub gems: Option<SocketAddr>,
}

/// Returns the latest verdict. The binary passes the console's, which samples all parts.
#[derive(Clone)]
pub struct CurrentVerdict(Arc<dyn Fn() -> Option<Verdict> + Send + Sync>);

impl CurrentVerdict {
    pub fn new(latest: impl Fn() -> Option<Verdict> + Send + Sync + 'static) -> Self {
        Self(Arc::new(latest))
    }

    /// None: nothing was sampled yet.
    #[must_use]
    pub fn get(&self) -> Option<Verdict> {
        (self.0)()
    }
}

impl fmt::Debug for CurrentVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("CurrentVerdict").field(&self.get()).finish()
    }
}

/// The sources of `/v1/status` besides the parts.
#[derive(Clone, Debug)]
pub struct StatusSources {
    pub facts: Facts,
    pub verdict: CurrentVerdict,
}

fn routes() -> ApiRoutes<StatusState> {
    ApiRoutes::new().route("/status", get(status))
}

/// Returns the descriptions of the routes.
#[cfg(feature = "openapi")]
pub(crate) fn operations() -> Vec<Operation> {
    routes().into_operations()
}

/// Returns the admin API, version 1, without its prefix: each part's routes, and the shared ones.
pub fn api(
    jobs: Option<Handle>,
    realtime: Option<Realtime>,
    gems: Option<OperatedGems>,
    front: workers::Front,
    restart: Restart,
    status_sources: StatusSources,
    body_bytes_max: usize,
) -> Router {
    let hub = realtime.as_ref().map(|realtime| Arc::clone(&realtime.hub));
    let index = gems.as_ref().map(|gems| Arc::clone(&gems.index));
    let switches = Switches {
        realtime: realtime.as_ref().map(|realtime| realtime.switches.clone()),
        gems: gems.as_ref().map(|gems| gems.switches.clone()),
    };
    let jobs_routes = match &jobs {
        Some(handle) => jobs::router(handle.clone()),
        None => without_jobs::router(&status_sources.facts.only),
    };
    realtime::router(realtime)
        .merge(gems::router(gems))
        .merge(switches::router(switches))
        .merge(workers::router(front.clone()))
        .merge(restart::router(restart))
        .nest("/jobs", jobs_routes)
        .merge(embedded::router())
        .merge(routes().into_router().with_state((jobs, hub, index, front, status_sources)))
        .layer(DefaultBodyLimit::max(body_bytes_max))
}

type ReadyState = (Option<Handle>, Option<Arc<Gems>>);

fn public() -> ApiRoutes<ReadyState> {
    ApiRoutes::new().route("/health", get(async || "ok\n")).route("/ready", get(ready))
}

/// Returns the descriptions of the routes without a token.
#[cfg(feature = "openapi")]
pub(crate) fn public_operations() -> Vec<Operation> {
    public().into_operations()
}

fn metrics_routes() -> ApiRoutes<Arc<Registry>> {
    ApiRoutes::new().route("/metrics", get(metrics))
}

/// Returns the description of `/metrics`.
#[cfg(feature = "openapi")]
pub(crate) fn metrics_operations() -> Vec<Operation> {
    metrics_routes().into_operations()
}

/// Returns `/health`, which always succeeds, and `/ready`, which succeeds if the job server accepts
/// jobs and the gem index can be read, as far as they are served, and otherwise responds with 503
/// and the reason.
pub fn public_routes(jobs: Option<Handle>, gems: Option<Arc<Gems>>) -> Router {
    public().into_router().with_state((jobs, gems))
}

/// Returns `/metrics`, in the format that the client accepts.
pub fn metrics_route(registry: Arc<Registry>) -> Router {
    metrics_routes().into_router().with_state(registry)
}

type StatusState =
    (Option<Handle>, Option<Arc<Hub>>, Option<Arc<Gems>>, workers::Front, StatusSources);

async fn status(
    State((handle, hub, index, front, sources)): State<StatusState>,
) -> AdminResult<Status> {
    let StatusSources { facts, verdict } = sources;
    let (mut jobs, mut problem) = (None, None);
    if let Some(handle) = handle {
        match handle.overview().await {
            Ok(overview) => jobs = Some(overview),
            Err(error) => return Err(jobs::handle_error(error)),
        }
        problem = handle.ready().await.err().map(|error| error.to_string());
    }
    let (mut gems, mut gems_problem) = (None, None);
    if let Some(index) = index {
        match index.overview().await {
            Ok(overview) => gems = Some(overview),
            Err(error) => gems_problem = Some(error.to_string()),
        }
    }
    Ok(Json(Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_seconds: facts.clock.now().since(facts.started).as_secs_f64(),
        old_processes: front.old_processes(),
        data_dir: facts.data_dir.clone(),
        verdict: verdict.get(),
        jobs_listen: facts.jobs_listen.map(|address| address.to_string()),
        problem,
        jobs,
        front_listen: facts.cores.front.map(|address| address.to_string()),
        realtime_listen: facts.cores.realtime.map(|address| address.to_string()),
        realtime: hub.map(|hub| hub.overview()),
        gems_listen: facts.cores.gems.map(|address| address.to_string()),
        gems_mount: facts.gems_mount,
        gems,
        gems_problem,
        apps: front.rows().into_iter().map(|(row, _)| row).collect(),
    }))
}

async fn ready(State((jobs, gems)): State<ReadyState>) -> Response {
    if let Some(jobs) = jobs
        && let Err(error) = jobs.ready().await
    {
        return unavailable(&error.to_string());
    }
    if let Some(gems) = gems
        && let Err(error) = gems.overview().await
    {
        return unavailable(&error.to_string());
    }
    "ready\n".into_response()
}

async fn metrics(State(registry): State<Arc<Registry>>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::negotiate(accept.unwrap_or_default());
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => {
            ([(header::CONTENT_TYPE, format.content_type())], format.write(text)).into_response()
        }
        Err(error) => unavailable(&error.to_string()),
    }
}

fn unavailable(reason: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response()
}
