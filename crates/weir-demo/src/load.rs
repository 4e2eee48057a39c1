//! Runs all clients and workers, and reports what they measure.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use weir_base::shutdown::ShutdownToken;
use weir_net::http_client::{HttpClient, HttpRequest};

use crate::context::{LoadContext, LoadSettings};
use crate::report::{AutopilotReport, FloodReport, QueueReading, Report, ReportSources};
use crate::{flood, http, jobs, realtime, requests};

/// Limit of a request to the admin API.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the tasks may take to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the load until `shutdown` is requested, and passes each report to `on_report`.
pub async fn run(
    settings: LoadSettings,
    shutdown: ShutdownToken,
    mut on_report: impl FnMut(&Report),
) {
    let every = settings.every;
    let admin = http::admin_client(&settings.admin);
    let context = LoadContext::new(settings, shutdown.clone());
    flood::start(&context);
    jobs::start(&context);
    realtime::start(&context);
    requests::start(&context);
    let mut waiting_before = None;
    let mut last = tokio::time::Instant::now();
    loop {
        tokio::select! {
            () = shutdown.requested() => break,
            () = tokio::time::sleep(every) => {}
        }
        let interval = last.elapsed();
        last += interval;
        let report = report(&context, &admin, interval, waiting_before).await;
        waiting_before = report.jobs.waiting;
        on_report(&report);
    }
    shutdown.drain(DRAIN_TIMEOUT).await;
}

async fn report(
    context: &Arc<LoadContext>,
    admin: &HttpClient,
    interval: Duration,
    waiting_before: Option<u64>,
) -> Report {
    let now = context.clock.now();
    let counts = context.meter.take();
    let flood = context.flood().map(|flood| FloodReport {
        times: flood.times,
        seconds_left: flood.until.since(now).as_secs_f64(),
    });
    let autopilot = match context.settings.has_autopilot {
        true => read::<AutopilotReading>(admin, "/v1/autopilot").await,
        false => None,
    };
    let sources = ReportSources {
        at: now.as_secs_f64(),
        interval,
        counts,
        clients: context.meter.clients(),
        flood,
        queues: read::<Vec<QueueReading>>(admin, "/v1/jobs/queues").await,
        waiting_before,
        autopilot: autopilot.map(|AutopilotReading { mode, limits }| AutopilotReport {
            mode,
            limits: limits.len(),
        }),
    };
    sources.into_report()
}

#[derive(Deserialize)]
struct AutopilotReading {
    mode: String,
    limits: Vec<serde_json::Value>,
}

/// Reads from the admin API. None: there was no proper response.
async fn read<T: DeserializeOwned>(admin: &HttpClient, path: &str) -> Option<T> {
    let response = tokio::time::timeout(ADMIN_TIMEOUT, async {
        let request = HttpRequest::new(Method::GET, http::target(path), Vec::new().into());
        admin.send(request).await?.read_to_end(http::BODY_BYTES_MAX).await
    });
    serde_json::from_slice(&response.await.ok()?.ok()?).ok()
}
