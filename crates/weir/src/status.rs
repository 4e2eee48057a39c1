//! What the whole of Weir says about itself: `/v1/status`, `/health`, `/ready`, `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::handle::Handle;
use weir_jobs::view::Overview;
use weir_realtime::hub::Hub;

use crate::compose::Addresses;
use crate::config::Settings;
use crate::realtime_admin::{self, Realtime};

/// What `/v1/status` answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) version: String,
    pub(crate) pid: u32,
    pub(crate) uptime_seconds: f64,
    pub(crate) data_dir: String,
    /// `127.0.0.1:7419`; None: the job server has no socket here.
    pub(crate) jobs_listen: Option<String>,
    /// Whether the job server takes jobs; the text says why not.
    pub(crate) problem: Option<String>,
    pub(crate) jobs: Overview,
    /// `127.0.0.1:8080`; None: not opened.
    pub(crate) front_listen: Option<String>,
    pub(crate) realtime_listen: Option<String>,
    /// None: it is not served here.
    pub(crate) realtime: Option<weir_realtime::view::Overview>,
}

/// What doesn't change while this process lives.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    clock: Clock,
    started: Timestamp,
    data_dir: String,
    /// None: started without the part that serves jobs.
    jobs_listen: Option<SocketAddr>,
    jobs_listen_setting: SocketAddr,
    has_tls: bool,
    realtime: Addresses,
}

impl Facts {
    /// `realtime`: where it listens; None: it is not served here.
    pub(crate) fn new(
        clock: &Clock,
        settings: &Settings,
        jobs_listen: Option<SocketAddr>,
        realtime: Option<Addresses>,
    ) -> Self {
        Self {
            clock: clock.clone(),
            started: clock.now(),
            data_dir: settings.data_dir.display().to_string(),
            jobs_listen,
            jobs_listen_setting: settings.jobs.listen,
            has_tls: settings.jobs.tls.is_some(),
            realtime: realtime.unwrap_or_default(),
        }
    }

    /// What a Faktory client is told to connect to; a remark is a comment to a shell.
    pub(crate) fn jobs_url(&self) -> String {
        let scheme = if self.has_tls { "tcp+tls" } else { "tcp" };
        match (self.jobs_listen, self.jobs_listen_setting) {
            (Some(address), _) => format!("{scheme}://{address}"),
            (None, setting) => {
                format!(
                    "{scheme}://{setting} # not served: Weir was started with --only, without jobs"
                )
            }
        }
    }
}

/// The admin API, version 1, without its prefix: each part's own routes, and the whole's.
pub(crate) fn api(
    handle: Handle,
    realtime: Option<Realtime>,
    facts: Facts,
    body_bytes_max: usize,
) -> Router {
    let hub = realtime.as_ref().map(|realtime| Arc::clone(&realtime.hub));
    realtime_admin::router(realtime)
        .nest("/jobs", weir_jobs::admin::router(handle.clone()))
        .route("/status", get(status).with_state((handle, hub, facts)))
        .layer(DefaultBodyLimit::max(body_bytes_max))
}

/// `/health`: the process answers. `/ready`: the job server takes jobs; 503 and why otherwise.
pub(crate) fn open_routes(handle: Handle) -> Router {
    Router::new()
        .route("/health", get(async || "ok\n"))
        .route("/ready", get(ready))
        .with_state(handle)
}

/// `/metrics`, as Prometheus reads them.
pub(crate) fn metrics_route(registry: Arc<Registry>) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state(registry)
}

type Whole = (Handle, Option<Arc<Hub>>, Facts);

async fn status(State((handle, hub, facts)): State<Whole>) -> Response {
    let jobs = match handle.overview().await {
        Ok(jobs) => jobs,
        Err(error) => return unavailable(&error.to_string()),
    };
    Json(Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_seconds: facts.clock.now().since(facts.started).as_secs_f64(),
        data_dir: facts.data_dir.clone(),
        jobs_listen: facts.jobs_listen.map(|address| address.to_string()),
        problem: handle.ready().await.err().map(|error| error.to_string()),
        jobs,
        front_listen: facts.realtime.front.map(|address| address.to_string()),
        realtime_listen: facts.realtime.realtime.map(|address| address.to_string()),
        realtime: hub.map(|hub| hub.overview()),
    })
    .into_response()
}

async fn ready(State(handle): State<Handle>) -> Response {
    match handle.ready().await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => unavailable(&error.to_string()),
    }
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(error) => unavailable(&error.to_string()),
    }
}

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn unavailable(why: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
}
