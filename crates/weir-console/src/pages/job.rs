//! The page of one job: its state, location, error and exact payload.

use askama::Template;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;
use serde::Deserialize;
use weir_jobs::view;

use super::act::JobAction;
use super::frame::{PageFrame, Section, html};
use super::job_history::{self, JobEvent};
use super::job_types::type_address;
use super::request::{PageRequest, PageResult};
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::job_location::JobLocation;
use crate::json_text;
use crate::page_error::PageError;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    frame: PageFrame,
    /// The set or queue that contains it; None: a worker is running it.
    location: Option<JobLocation>,
    actions: &'static [JobAction],
    state: &'static str,
    time_name: &'static str,
    relative_time: String,
    moment: String,
    reserve_for: String,
    retry: String,
    history: Vec<JobEvent>,
    /// Whether there were earlier failures, which are only counted.
    has_forgotten: bool,
    payload: String,
    payload_size: String,
    payload_shown: String,
    is_cut: bool,
    download: String,
    type_address: String,
    job: view::JobView,
}

#[derive(Debug, Deserialize)]
pub(crate) struct JobQuery {
    jid: String,
}

/// Returns the address of a job's page.
pub(crate) fn job_address(jid: &str) -> String {
    address("/job", &[("jid", jid)])
}

/// `GET /job?jid=..`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let JobQuery { jid } = request.query()?;
    let console = &request.console;
    let job = find(console, jid).await?;
    let now = console.deps.clock.now().as_secs_f64();
    let location = location(&job);
    let bytes_max = console.deps.settings.limits.payload_display_bytes_max;
    let shown = json_text::pretty(&job.payload, bytes_max);
    let title = format!("Job {}", visible(&figures::shortened(&job.jid, 40)));
    Ok(html(&JobPage {
        frame: request.frame(section(job.state), title),
        actions: location.as_ref().map_or(&[][..], JobAction::possible_at),
        time_name: location.as_ref().map_or("Reserved", JobLocation::time_means),
        state: state_word(job.state),
        relative_time: figures::relative(now, job.at),
        moment: figures::moment(job.at),
        reserve_for: figures::duration(figures::as_float(job.reserve_for_seconds)),
        retry: retry(job.retry),
        history: job_history::events(&job, now),
        has_forgotten: job.failure.as_ref().is_some_and(|failure| failure.retry_count > 0),
        payload: visible(&shown.text).into_owned(),
        is_cut: shown.is_cut,
        payload_size: figures::bytes(job.payload.len() as u64),
        payload_shown: figures::bytes(bytes_max as u64),
        download: download(&job.jid),
        type_address: type_address(&job.jobtype),
        location,
        job: with_visible_text(job),
    }))
}

/// Makes text written by clients safe to display, except for the key.
fn with_visible_text(mut job: view::JobView) -> view::JobView {
    let escape = |text: &mut String| *text = visible(text).into_owned();
    escape(&mut job.jid);
    escape(&mut job.jobtype);
    job.wid.iter_mut().for_each(escape);
    if let Some(failure) = &mut job.failure {
        escape(&mut failure.errtype);
        escape(&mut failure.message);
        failure.backtrace.iter_mut().for_each(escape);
    }
    job
}

/// `GET /job/payload?jid=..`: returns the payload exactly as a worker gets it, as a file.
pub(crate) async fn payload(request: PageRequest) -> PageResult {
    let JobQuery { jid } = request.query()?;
    let job = find(&request.console, jid).await?;
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CONTENT_DISPOSITION, "attachment; filename=\"job.json\""),
    ];
    Ok((headers, job.payload).into_response())
}

async fn find(console: &Console, jid: String) -> Result<view::JobView, PageError> {
    let found = console.jobs()?.handle.job(jid.clone()).await?;
    found.ok_or_else(|| {
        let jid = figures::shortened(&jid, 100);
        PageError::NotFound(format!("there is no job {jid}: it is done, deleted or unknown"))
    })
}

fn location(job: &view::JobView) -> Option<JobLocation> {
    match job.state {
        view::JobViewState::Enqueued => Some(JobLocation::Queue(job.queue.clone())),
        view::JobViewState::Working => None,
        view::JobViewState::Scheduled => Some(JobLocation::Scheduled),
        view::JobViewState::Retries => Some(JobLocation::Retries),
        view::JobViewState::Dead => Some(JobLocation::Dead),
    }
}

const fn section(state: view::JobViewState) -> Section {
    match state {
        view::JobViewState::Enqueued => Section::Queues,
        view::JobViewState::Working => Section::Workers,
        view::JobViewState::Scheduled => Section::Scheduled,
        view::JobViewState::Retries => Section::Retries,
        view::JobViewState::Dead => Section::Dead,
    }
}

pub(crate) const fn state_word(state: view::JobViewState) -> &'static str {
    match state {
        view::JobViewState::Enqueued => "is waiting in its queue",
        view::JobViewState::Working => "is in progress",
        view::JobViewState::Scheduled => "is scheduled",
        view::JobViewState::Retries => "is waiting for a retry",
        view::JobViewState::Dead => "is dead",
    }
}

fn retry(retry: i64) -> String {
    match retry {
        ..0 => "none, moved to the dead set at the first failure".to_owned(),
        0 => "none, deleted at the first failure".to_owned(),
        tries => format!("up to {tries}"),
    }
}

fn download(jid: &str) -> String {
    address("/job/payload", &[("jid", jid)])
}
