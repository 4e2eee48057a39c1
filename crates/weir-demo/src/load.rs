//! Runs all clients and workers, and reports what they measure.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use weir_base::shutdown::ShutdownToken;
use weir_net::http_client::{HttpClient, HttpRequest};

use crate::context::{LoadContext, LoadSettings};
use crate::observer::{Observation, Observer};
use crate::report::{AutopilotReport, FloodReport, QueueReading, Report, ReportSources};
use crate::summary::{DemoSummary, FloodSummary};
use crate::{flood, http, jobs, realtime, requests};

/// Limit of a request to the admin API.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the tasks may take to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What [`run`] reports.
#[derive(Debug)]
pub enum LoadEvent {
    /// An interval is over.
    Report(Box<Report>),
    /// A flood is over, or the demo ends during it.
    Flood(Box<FloodSummary>),
    /// The demo ends.
    End(Box<DemoSummary>),
}

/// Runs the load until `shutdown` is requested, and passes each event to `on_event`.
pub async fn run(
    settings: LoadSettings,
    shutdown: ShutdownToken,
    mut on_event: impl FnMut(&LoadEvent),
) {
    let every = settings.every;
    let admin = http::admin_client(&settings.admin);
    let context = LoadContext::new(settings, shutdown.clone());
    flood::start(&context);
    jobs::start(&context);
    realtime::start(&context);
    requests::start(&context);
    let (mut observer, mut waiting_before) = (Observer::default(), None);
    let mut last = tokio::time::Instant::now();
    loop {
        let is_last = tokio::select! {
            () = shutdown.requested() => true,
            () = tokio::time::sleep(every) => false,
        };
        let interval = last.elapsed();
        last += interval;
        let (report, summary) =
            report(&context, &admin, interval, waiting_before, &mut observer).await;
        waiting_before = report.jobs.waiting;
        if !is_last {
            on_event(&LoadEvent::Report(Box::new(report)));
        }
        if let Some(summary) = summary {
            on_event(&LoadEvent::Flood(Box::new(summary)));
        }
        if is_last {
            break;
        }
    }
    let (flood, demo) = observer.finish();
    if let Some(flood) = flood {
        on_event(&LoadEvent::Flood(Box::new(flood)));
    }
    on_event(&LoadEvent::End(Box::new(demo)));
    shutdown.drain(DRAIN_TIMEOUT).await;
}

/// Returns the report of an interval, and the summary of a flood that is over.
async fn report(
    context: &Arc<LoadContext>,
    admin: &HttpClient,
    interval: Duration,
    waiting_before: Option<u64>,
    observer: &mut Observer,
) -> (Report, Option<FloodSummary>) {
    let now = context.clock.now();
    // Before the counts and the queues: a job that starts meanwhile has left its queue, and is no lost one.
    let flood_jobs = context.flood_jobs(|jobs| jobs.counts());
    let counts = context.meter.take();
    let flood = context.flood().map(|flood| FloodReport {
        times: flood.request.times,
        seconds_left: flood.until.since(now).as_secs_f64(),
    });
    let autopilot = match context.settings.has_autopilot {
        true => read::<AutopilotReading>(admin, "/v1/autopilot").await,
        false => None,
    };
    let queues = read::<Vec<QueueReading>>(admin, "/v1/jobs/queues").await;
    let summary = observer.observe(&Observation {
        now,
        interval,
        counts: &counts,
        waiting: queues.as_ref().map(|queues| queues.iter().map(|queue| queue.depth).sum()),
        flood: context.last_flood(),
        flood_jobs,
    });
    let sources = ReportSources {
        at: now.as_secs_f64(),
        interval,
        counts,
        clients: context.meter.clients(),
        flood,
        queues,
        waiting_before,
        autopilot: autopilot.map(|AutopilotReading { mode, limits }| AutopilotReport {
            mode,
            limits: limits.len(),
        }),
    };
    (sources.into_report(), summary)
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
