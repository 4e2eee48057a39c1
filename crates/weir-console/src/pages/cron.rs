//! The cron jobs: when each is enqueued next, and the actions on one.

use askama::Template;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;
use weir_jobs::handle::{CronAction, HandleError};
use weir_jobs::view::CronView;

use super::frame::{PageFrame, Section, html};
use super::job_types::{queue_address, type_address};
use super::live_page::LiveSection;
use super::request::{FormRequest, PageRequest, PageResult};
use crate::address::address;
use crate::figures;
use crate::guard::form_access::FormAccess;
use crate::page_error::PageError;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "cron.html")]
struct CronPage {
    frame: PageFrame,
    live: LiveSection,
    has_jobs: bool,
}

#[derive(Template)]
#[template(path = "cron_live.html")]
struct CronLive {
    rows: Vec<CronRow>,
    forms: FormAccess,
}

struct CronRow {
    /// As the form sends it.
    name: String,
    shown_name: String,
    schedule: String,
    jobtype: String,
    type_address: String,
    queue: String,
    queue_address: String,
    next: String,
    last: String,
    is_paused: bool,
}

#[derive(Debug, Deserialize)]
struct CronFlash {
    done: Option<String>,
    name: Option<String>,
}

/// `GET /cron`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let flash: CronFlash = request.query()?;
    let console = &request.console;
    let now = console.deps.clock.now().as_secs_f64();
    let jobs = console.jobs()?.handle.cron().await?;
    let rows: Vec<CronRow> = jobs.iter().map(|cron| CronRow::new(cron, now)).collect();
    let has_jobs = !rows.is_empty();
    let live = CronLive { rows, forms: request.visitor.forms() };
    request.live_response(live.render(), &[], |live| {
        let frame = request.frame(Section::Cron, "Cron").refreshed();
        Ok(html(&CronPage { frame: frame.with_flash(flash.message()), live, has_jobs }))
    })
}

/// `POST /cron/act`
pub(crate) async fn act(FormRequest { console, form, .. }: FormRequest) -> PageResult {
    let missing = || PageError::Invalid("the form names no cron job".to_owned());
    let name = form.get("name").ok_or_else(missing)?.to_owned();
    let action_name = form.get("action").unwrap_or_default();
    let action = match action_name {
        "run" => CronAction::Run,
        "pause" => CronAction::Pause,
        "resume" => CronAction::Resume,
        other => return Err(PageError::Invalid(format!("there is no action {other:?}"))),
    };
    let done = match console.jobs()?.handle.act_on_cron(name.clone(), action).await {
        Err(HandleError::CronNotUnique(_)) => "not-unique",
        acted => {
            acted?;
            tracing::info!(cron = name, action = action_name, "console: acted on a cron job");
            action_name
        }
    };
    let back = address("/cron", &[("name", &name), ("done", done)]);
    Ok(Redirect::to(&back).into_response())
}

impl CronRow {
    fn new(cron: &CronView, now: f64) -> Self {
        let moment = |at: f64| format!("{} UTC ({})", figures::moment(at), relative(now, at));
        Self {
            name: cron.name.clone(),
            shown_name: visible(&cron.name).into_owned(),
            schedule: format!("{} {}", cron.schedule, cron.timezone),
            jobtype: visible(&cron.jobtype).into_owned(),
            type_address: type_address(&cron.jobtype),
            queue: cron.queue.clone(),
            queue_address: queue_address(&cron.queue),
            next: match cron.next_at {
                _ if cron.paused => "paused".to_owned(),
                next => next.map_or_else(|| "never".to_owned(), moment),
            },
            last: cron.last_at.map_or_else(|| "–".to_owned(), moment),
            is_paused: cron.paused,
        }
    }
}

fn relative(now: f64, at: f64) -> String {
    figures::relative(now, at)
}

impl CronFlash {
    /// Returns the flash message. The texts are fixed, so a forged address cannot inject others.
    fn message(&self) -> Option<String> {
        let name = figures::shortened(&visible(self.name.as_deref().unwrap_or("?")), 80);
        Some(match self.done.as_deref()? {
            "run" => format!("The job of {name} is enqueued."),
            "pause" => format!("{name} is paused: its times pass without a job."),
            "resume" => format!("{name} is resumed."),
            "not-unique" => {
                format!("The job of {name} was not enqueued: an equal job holds its unique lock.")
            }
            _ => return None,
        })
    }
}
