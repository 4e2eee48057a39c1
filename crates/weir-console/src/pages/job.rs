//! One job: what it is, where it is, why it failed, its payload to the last digit.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use weir_jobs::view;

use super::act::JobAction;
use super::job_history::{self, Event};
use super::shell::{Section, Shell};
use super::theme::Theme;
use super::{PageError, html};
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::guard::visitor::Visitor;
use crate::json_text;
use crate::place::Place;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    shell: Shell,
    /// Where it rests; None: a worker has it.
    place: Option<Place>,
    actions: &'static [JobAction],
    state: &'static str,
    time_name: &'static str,
    when: String,
    moment: String,
    reserve_for: String,
    retry: String,
    history: Vec<Event>,
    /// Whether earlier failures than the last are only counted.
    has_forgotten: bool,
    payload: String,
    payload_size: String,
    payload_shown: String,
    is_cut: bool,
    download: String,
    job: view::JobView,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    jid: String,
}

/// `GET /job?jid=..`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(Wanted { jid }): Query<Wanted>,
) -> Result<Response, PageError> {
    let job = find(&console, jid).await?;
    let now = console.deps.clock.now().as_secs_f64();
    let place = place(&job);
    let bytes_max = console.deps.settings.limits.payload_display_bytes_max;
    let shown = json_text::pretty(&job.payload, bytes_max);
    let title = format!("Job {}", visible(&figures::shortened(&job.jid, 40)));
    Ok(html(&JobPage {
        shell: Shell::new(&console, &visitor, section(job.state), title),
        actions: place.as_ref().map_or(&[][..], JobAction::of_place),
        time_name: place.as_ref().map_or("Reserved", Place::time_means),
        state: state_word(job.state),
        when: figures::relative(now, job.at),
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
        place,
        job: in_visible_letters(job),
    }))
}

/// The job with what clients wrote made fit to be read. Its key stays as it is.
fn in_visible_letters(mut job: view::JobView) -> view::JobView {
    let show = |text: &mut String| *text = visible(text).into_owned();
    show(&mut job.jid);
    show(&mut job.jobtype);
    job.wid.iter_mut().for_each(show);
    if let Some(failure) = &mut job.failure {
        show(&mut failure.errtype);
        show(&mut failure.message);
        failure.backtrace.iter_mut().for_each(show);
    }
    job
}

/// `GET /job/payload?jid=..`: the payload exactly as a worker gets it, as a file.
pub(crate) async fn payload(
    State(console): State<Arc<Console>>,
    Query(Wanted { jid }): Query<Wanted>,
) -> Result<Response, PageError> {
    let job = find(&console, jid).await?;
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
        PageError::NotFound(format!("there is no job {jid} now: it is done, deleted or unknown"))
    })
}

fn place(job: &view::JobView) -> Option<Place> {
    match job.state {
        view::JobViewState::Enqueued => Some(Place::Queue(job.queue.clone())),
        view::JobViewState::Working => None,
        view::JobViewState::Scheduled => Some(Place::Scheduled),
        view::JobViewState::Retries => Some(Place::Retries),
        view::JobViewState::Dead => Some(Place::Dead),
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
        view::JobViewState::Enqueued => "waits in its queue",
        view::JobViewState::Working => "is in a worker's hands",
        view::JobViewState::Scheduled => "is scheduled",
        view::JobViewState::Retries => "waits for another try",
        view::JobViewState::Dead => "is dead",
    }
}

fn retry(retry: i64) -> String {
    match retry {
        ..0 => "none, dead at the first failure".to_owned(),
        0 => "none, thrown away at the first failure".to_owned(),
        tries => format!("up to {tries}"),
    }
}

fn download(jid: &str) -> String {
    address("/job/payload", &[("jid", jid)])
}
