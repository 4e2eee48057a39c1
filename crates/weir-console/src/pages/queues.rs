//! All queues, and the actions on a whole queue.

use std::cmp::Ordering;

use askama::Template;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;
use weir_base::drain::DrainForecast;
use weir_jobs::handle::Queues;
use weir_jobs::store::QueueAction;
use weir_jobs::view;

use super::frame::{PageFrame, Section, html};
use super::live_page::LiveSection;
use super::request::{FormRequest, PageRequest, PageResult};
use super::snapshot;
use crate::address::address;
use crate::console::Console;
use crate::fetchers::Fetchers;
use crate::figures;
use crate::guard::form_access::FormAccess;
use crate::job_location::JobLocation;
use crate::jobs::JobsSnapshot;
use crate::new_jobs::NewJobs;
use crate::page_error::PageError;

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage<'a> {
    frame: PageFrame,
    live: LiveSection,
    query: QueuesQuery,
    has_queues: bool,
    jobs_url: &'a str,
}

#[derive(Template)]
#[template(path = "queues_live.html")]
struct QueuesLive<'a> {
    rows: Vec<QueueTableRow<'a>>,
    summary: String,
    forms: FormAccess,
}

/// A queue as the tables show it.
pub(crate) struct QueueTableRow<'a> {
    pub(crate) queue: &'a view::QueueView,
    pub(crate) address: String,
    pub(crate) confirm_address: String,
    pub(crate) drain: String,
    pub(crate) target: Option<String>,
    /// The wait of new jobs, if the fresh lane serves them before a backlog that is late.
    pub(crate) new_jobs: Option<String>,
    /// The style's class of the latency.
    pub(crate) latency_class: &'static str,
    /// The number of workers that fetch it, and the style's class of that.
    pub(crate) workers: String,
    pub(crate) workers_class: &'static str,
}

#[derive(Debug, Deserialize)]
pub(crate) struct QueueFlash {
    pub(crate) done: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) count: Option<u64>,
}

/// The filter and order of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct QueuesQuery {
    /// A substring of the name.
    #[serde(default)]
    search: String,
    /// `depth` or `wait`, greatest first; anything else: by name.
    #[serde(default)]
    sort: String,
}

/// `GET /queues`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let console = &request.console;
    let snapshot = snapshot::for_request(&request).await?;
    let jobs = snapshot.jobs()?;
    let jobs_url = &console.jobs()?.url;
    let query: QueuesQuery = request.query()?;
    let flash: QueueFlash = request.query()?;
    let queues_max = console.deps.settings.limits.page_queues;
    let queues = QueuesLive::new(jobs, &query, queues_max, request.visitor.forms());
    request.live_response(queues.render(), &query.fields(), |live| {
        let frame = request.frame(Section::Queues, "Queues").refreshed();
        let frame = frame.with_flash(flash.flash_message());
        let has_queues = !jobs.queues.is_empty();
        Ok(html(&QueuesPage { frame, live, query: query.clone(), has_queues, jobs_url }))
    })
}

impl<'a> QueuesLive<'a> {
    /// Returns the deepest `queues_max` matching queues, in the requested order.
    fn new(
        reading: &'a JobsSnapshot,
        query: &QueuesQuery,
        queues_max: usize,
        forms: FormAccess,
    ) -> Self {
        let fetchers = Fetchers::new(&reading.workers);
        let mut shown: Vec<&view::QueueView> =
            reading.queues.iter().filter(|queue| queue.name.contains(&query.search)).collect();
        let (count, total) = (shown.len(), shown.iter().map(|queue| queue.depth).sum());
        let jobs = figures::counted(total, "job");
        let mut summary = match (reading.queues.len(), count) {
            (0, _) => "There are no queues.".to_owned(),
            (_, 0) => "No queue name contains that.".to_owned(),
            (_, count) => format!("{jobs} in {}", figures::counted(count as u64, "queue")),
        };
        if count > queues_max {
            summary.push_str(&format!("; the {queues_max} deepest are shown"));
        }
        shown.sort_by_key(|queue| std::cmp::Reverse(queue.depth));
        shown.truncate(queues_max);
        query.sort(&mut shown);
        let rows = shown.into_iter().map(|queue| QueueTableRow::new(queue, &fetchers)).collect();
        Self { summary, rows, forms }
    }
}

impl QueuesQuery {
    fn sort(&self, queues: &mut [&view::QueueView]) {
        queues.sort_by(|one, other| {
            let by_figure = match self.sort.as_str() {
                "depth" => other.depth.cmp(&one.depth),
                "wait" => other.latency_seconds.total_cmp(&one.latency_seconds),
                _ => Ordering::Equal,
            };
            by_figure.then_with(|| one.name.cmp(&other.name))
        });
    }

    fn fields(&self) -> [(&str, &str); 2] {
        [("search", &self.search), ("sort", &self.sort)]
    }
}

impl<'a> QueueTableRow<'a> {
    pub(crate) fn new(queue: &'a view::QueueView, fetchers: &Fetchers<'_>) -> Self {
        let count = fetchers.count(&queue.name);
        let is_left =
            fetchers.is_certainly_unfetched(&queue.name) && queue.depth > 0 && !queue.paused;
        let new_jobs = NewJobs::of(queue);
        let are_new_jobs_late = new_jobs.is_none_or(|new_jobs| !new_jobs.are_in_time());
        let is_late =
            |target: f64| queue.latency_seconds > target && queue.depth > 0 && are_new_jobs_late;
        Self {
            address: JobLocation::Queue(queue.name.clone()).address(&[]),
            confirm_address: address("/queues/confirm", &[("name", &queue.name)]),
            drain: drain(queue),
            target: queue.target_latency_seconds.map(figures::duration),
            latency_class: match queue.target_latency_seconds {
                Some(target) if is_late(target) && !queue.paused => "late",
                _ => "",
            },
            workers: figures::count(count.running),
            workers_class: if is_left { "late" } else { "" },
            new_jobs: new_jobs.map(|new_jobs| figures::duration(new_jobs.wait_seconds)),
            queue,
        }
    }
}

/// Describes the time until the queue is empty.
pub(crate) fn drain(queue: &view::QueueView) -> String {
    let growth = queue.recent.growth_per_second();
    match queue.drain {
        _ if queue.depth > 0 && queue.paused => "paused".to_owned(),
        DrainForecast::Grows if growth >= 0.05 => {
            format!("never, grows {}", figures::rate(growth))
        }
        DrainForecast::Grows if growth <= -0.05 => {
            format!("not enough data, shrinks {}", figures::rate(-growth))
        }
        drain => drain.describe(figures::duration),
    }
}

impl QueueFlash {
    /// Returns the flash message. The texts are fixed, so a forged address cannot inject others.
    pub(crate) fn flash_message(&self) -> Option<String> {
        let name = figures::shortened(self.name.as_deref().unwrap_or("?"), 80);
        match self.done.as_deref()? {
            "pause" => Some(format!("Queue {name} is paused.")),
            "resume" => Some(format!("Queue {name} is resumed.")),
            "clear" => {
                let removed = figures::counted(self.count.unwrap_or(0), "job");
                Some(format!("Queue {name} is cleared: {removed} deleted."))
            }
            _ => None,
        }
    }
}

#[derive(Template)]
#[template(path = "queue_confirm.html")]
struct QueueConfirmPage {
    frame: PageFrame,
    name: String,
    depth: u64,
    back: String,
    /// Why the visitor may not clear it.
    missing_role: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct QueueNameQuery {
    pub(crate) name: String,
}

/// `GET /queues/confirm`: shows how many jobs clearing would delete.
pub(crate) async fn confirm(request: PageRequest) -> PageResult {
    let QueueNameQuery { name } = request.query()?;
    let queue = find(&request.console, &name).await?;
    let frame = request.frame(Section::Queues, format!("Clear {name}"));
    let back = JobLocation::Queue(name.clone()).address(&[]);
    let missing_role = frame.forms.missing_for("/queues/act", &[("action", "clear")]);
    Ok(html(&QueueConfirmPage { frame, name, depth: queue.depth, back, missing_role }))
}

/// Returns the queue with that name.
pub(crate) async fn find(console: &Console, name: &str) -> Result<view::QueueView, PageError> {
    let queues = console.jobs()?.handle.queues().await?;
    let found = queues.into_iter().find(|queue| queue.name == name);
    found.ok_or_else(|| unknown(name))
}

/// Returns the error for a queue that does not exist.
pub(crate) fn unknown(name: &str) -> PageError {
    let name = figures::shortened(name, 100);
    PageError::NotFound(format!("there is no queue {name:?}"))
}

/// `POST /queues/act`
pub(crate) async fn act(FormRequest { console, form, .. }: FormRequest) -> PageResult {
    let name =
        form.get("name").ok_or_else(|| PageError::Invalid("the form names no queue".to_owned()))?;
    let action_name = form.get("action").unwrap_or_default();
    let action = match action_name {
        "pause" => QueueAction::Pause,
        "resume" => QueueAction::Resume,
        "clear" => QueueAction::Clear,
        other => return Err(PageError::Invalid(format!("there is no action {other:?}"))),
    };
    let queues = Queues::Named(vec![name.to_owned()]);
    let count = console.jobs()?.handle.act_on_queues(queues, action).await?;
    tracing::info!(queue = name, action = action_name, count, "console: acted on a queue");
    let count = count.to_string();
    let done = [("done", action_name), ("count", &count)];
    let back = match form.get("from") {
        Some("queue") => JobLocation::Queue(name.to_owned()).address(&done),
        _ => address("/queues", &[&[("name", name)], &done[..]].concat()),
    };
    Ok(Redirect::to(&back).into_response())
}

#[cfg(test)]
mod tests {
    use weir_base::drain::DrainRange;

    use super::*;

    #[test]
    fn time_to_drain_is_described_in_words() {
        let queue = |depth, arriving, drain| view::QueueView {
            depth,
            recent: view::RecentRates {
                arriving_per_second: arriving,
                processed_per_second: 2.0,
                ..view::RecentRates::default()
            },
            drain,
            ..view::QueueView::default()
        };
        let range =
            DrainRange { expected_seconds: 90.0, shortest_seconds: 60.0, longest_seconds: 120.0 };
        assert_eq!(drain(&queue(0, 3.0, DrainForecast::Empty)), "–");
        let drains = drain(&queue(9, 1.0, DrainForecast::Drains(range)));
        assert_eq!(drains, "1 min 30 s (1 min to 2 min)");
        assert_eq!(drain(&queue(9, 3.0, DrainForecast::Grows)), "never, grows 1.0/s");
        let shrinks_now = drain(&queue(9, 0.0, DrainForecast::Grows));
        assert_eq!(shrinks_now, "not enough data, shrinks 2.0/s", "after a flood");
        assert_eq!(drain(&queue(9, 0.0, DrainForecast::Stalled)), "never, no jobs completed");
        let short = DrainForecast::TooShort { measured_seconds: 15.0 };
        assert_eq!(drain(&queue(9, 1.0, short)), "not enough data, measured for 15 s");
        let paused = view::QueueView { paused: true, ..queue(9, 0.0, DrainForecast::Stalled) };
        assert_eq!(drain(&paused), "paused");
    }
}
