//! Worker processes and their jobs.

use std::collections::HashMap;

use askama::Template;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;
use weir_jobs::handle::WorkerSignal;
use weir_jobs::view;

use super::frame::{PageFrame, Section, html};
use super::job::job_address;
use super::live_page::LiveSection;
use super::request::{FormRequest, PageRequest, PageResult};
use crate::figures;
use crate::guard::form_access::FormAccess;
use crate::job_location::JobLocation;
use crate::page_error::PageError;
use crate::verdict::SILENT_SECONDS;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "workers.html")]
struct WorkersPage<'a> {
    frame: PageFrame,
    live: LiveSection,
    is_empty: bool,
    jobs_url: &'a str,
}

#[derive(Template)]
#[template(path = "workers_live.html")]
struct WorkersLive {
    rows: Vec<WorkerPanel>,
    /// Reservations of clients that are not worker processes.
    unassigned_jobs: Vec<BusyJob>,
    summary: String,
    forms: FormAccess,
}

/// A worker as the page shows it.
struct WorkerPanel {
    worker: view::JobWorkerView,
    /// The worker's id, safe to display; the form sends the original.
    wid_shown: String,
    started: String,
    heartbeat: String,
    /// The style's class of the heartbeat.
    heartbeat_class: &'static str,
    memory: String,
    state: &'static str,
    /// The number of queues beyond the listed ones.
    more_queues: u64,
    queues: Vec<QueueLink>,
    jobs: Vec<BusyJob>,
}

/// A queue that a worker fetches.
struct QueueLink {
    name: String,
    address: String,
}

/// A job in progress.
struct BusyJob {
    address: String,
    jid: String,
    jobtype: String,
    queue: String,
    age: String,
    expires: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct WorkersFlash {
    done: Option<String>,
    count: Option<u64>,
}

/// `GET /workers`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let workers = WorkersLive::read(&request).await?;
    let jobs_url = &request.console.jobs()?.url;
    let flash: WorkersFlash = request.query()?;
    request.live_response(workers.render(), &[], |live| {
        let frame = request.frame(Section::Workers, "Workers").refreshed();
        let frame = frame.with_flash(flash.flash_message());
        let is_empty = workers.rows.is_empty() && workers.unassigned_jobs.is_empty();
        Ok(html(&WorkersPage { frame, live, is_empty, jobs_url }))
    })
}

impl WorkersLive {
    async fn read(request: &PageRequest) -> Result<Self, PageError> {
        let console = &request.console;
        let handle = &console.jobs()?.handle;
        let page_workers = console.deps.settings.limits.page_workers;
        let mut workers = handle.workers().await?;
        let reservations = handle.reservations(page_workers).await?;
        let now = console.deps.clock.now().as_secs_f64();
        let total = workers.len();
        let busy: u64 = workers.iter().map(|worker| worker.busy).sum();
        let connections: u64 = workers.iter().map(|worker| worker.connections).sum();
        workers.sort_by(|one, other| (&one.hostname, one.pid).cmp(&(&other.hostname, other.pid)));
        workers.truncate(page_workers);
        let mut by_wid: HashMap<String, Vec<BusyJob>> = HashMap::new();
        for reservation in reservations {
            let job = BusyJob::new(&reservation, now);
            by_wid.entry(reservation.wid.unwrap_or_default()).or_default().push(job);
        }
        let rows: Vec<WorkerPanel> = workers
            .into_iter()
            .map(|worker| {
                let jobs = by_wid.remove(&worker.wid).unwrap_or_default();
                WorkerPanel::new(worker, jobs, now)
            })
            .collect();
        let all = figures::counted(total as u64, "worker");
        let connections = figures::counted(connections, "connection");
        let busy = figures::counted(busy, "job");
        let mut summary = format!("{all} with {connections}, {busy} in progress");
        if total > rows.len() {
            summary.push_str(&format!("; {} are not shown", total - rows.len()));
        }
        Ok(Self {
            summary,
            rows,
            unassigned_jobs: by_wid.into_values().flatten().collect(),
            forms: request.visitor.forms(),
        })
    }
}

impl WorkerPanel {
    fn new(mut worker: view::JobWorkerView, jobs: Vec<BusyJob>, now: f64) -> Self {
        worker.labels.iter_mut().chain([&mut worker.hostname]).for_each(|text| {
            *text = visible(text).into_owned();
        });
        Self {
            wid_shown: visible(&worker.wid).into_owned(),
            started: figures::relative(now, worker.started_at),
            heartbeat: figures::relative(now, worker.last_beat_at),
            heartbeat_class: if now - worker.last_beat_at >= SILENT_SECONDS { "late" } else { "" },
            memory: match worker.rss_kb {
                0 => "–".to_owned(),
                kibibytes => figures::bytes(kibibytes.saturating_mul(1024)),
            },
            state: state_word(&worker.state),
            more_queues: worker.queues_total.saturating_sub(worker.queues.len() as u64),
            queues: worker.queues.iter().map(|name| QueueLink::new(name)).collect(),
            jobs,
            worker,
        }
    }
}

impl QueueLink {
    fn new(name: &str) -> Self {
        let location = JobLocation::Queue(name.to_owned());
        Self { name: name.to_owned(), address: location.address(&[]) }
    }
}

/// Returns the state of a worker that was signalled; empty for a running one.
pub(crate) fn state_word(state: &str) -> &'static str {
    match state {
        "quiet" => "quiet",
        "terminate" => "stopping",
        _ => "",
    }
}

impl BusyJob {
    fn new(reservation: &view::ReservationView, now: f64) -> Self {
        Self {
            address: job_address(&reservation.jid),
            jid: visible(&reservation.jid).into_owned(),
            jobtype: visible(&reservation.jobtype).into_owned(),
            queue: reservation.queue.clone(),
            age: figures::whole_duration(now - reservation.since),
            expires: figures::relative(now, reservation.expires_at),
        }
    }
}

impl WorkersFlash {
    fn flash_message(&self) -> Option<String> {
        let count = self.count.unwrap_or(0);
        let workers = figures::counted(count, "worker");
        let verb = if count == 1 { "was" } else { "were" };
        match self.done.as_deref()? {
            "quiet" => Some(format!("{workers} {verb} told to fetch no more jobs.")),
            "terminate" => Some(format!("{workers} {verb} told to stop.")),
            _ => None,
        }
    }
}

#[derive(Template)]
#[template(path = "workers_confirm.html")]
struct WorkersConfirmPage {
    frame: PageFrame,
    workers: String,
    busy: String,
}

/// `GET /workers/confirm`: shows how many workers a stop of all affects.
pub(crate) async fn confirm(request: PageRequest) -> PageResult {
    let workers = request.console.jobs()?.handle.workers().await?;
    let busy: u64 = workers.iter().map(|worker| worker.busy).sum();
    Ok(html(&WorkersConfirmPage {
        frame: request.frame(Section::Workers, "Stop all workers"),
        workers: figures::counted(workers.len() as u64, "worker"),
        busy: figures::counted(busy, "job"),
    }))
}

/// `POST /workers/act`: signals one worker (`wid`) or all (`all`).
pub(crate) async fn act(FormRequest { console, form, .. }: FormRequest) -> PageResult {
    let (signal_name, signal) = match form.get("signal") {
        Some("quiet") => ("quiet", WorkerSignal::Quiet),
        Some("terminate") => ("terminate", WorkerSignal::Terminate),
        _ => {
            return Err(PageError::Invalid("the signal must be quiet or terminate".to_owned()));
        }
    };
    let wid = match (form.get("wid"), form.get("all")) {
        (Some(wid), None) => Some(wid.to_owned()),
        (None, Some(_)) => None,
        _ => return Err(PageError::Invalid("the form must name one worker or all".to_owned())),
    };
    let count = console.jobs()?.handle.signal_workers(wid, signal).await?;
    tracing::info!(signal = signal_name, count, "console: signalled workers");
    Ok(Redirect::to(&format!("/workers?done={signal_name}&count={count}")).into_response())
}
