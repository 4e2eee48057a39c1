//! All queues, and what can be done to one as a whole.

use std::cmp::Ordering;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use weir_jobs::handle::Queues;
use weir_jobs::store::QueueAction;
use weir_jobs::view;

use super::shell::{Section, Shell};
use super::theme::Theme;
use super::{PageError, html, reading};
use crate::address::address;
use crate::console::Console;
use crate::fetchers::Fetchers;
use crate::figures;
use crate::guard::form::CheckedForm;
use crate::guard::visitor::Visitor;
use crate::jobs::Reading;
use crate::place::Place;

#[derive(Template)]
#[template(path = "queues.html")]
struct QueuesPage<'a> {
    shell: Shell,
    live: LivePart<'a>,
    wanted: Wanted,
    has_queues: bool,
    done: Option<String>,
    jobs_url: &'a str,
}

#[derive(Template)]
#[template(path = "queues_live.html")]
struct LivePart<'a> {
    address: String,
    rows: Vec<Row<'a>>,
    summary: String,
    csrf: &'a str,
}

/// A queue as the tables show it.
pub(crate) struct Row<'a> {
    pub(crate) queue: &'a view::QueueView,
    pub(crate) address: String,
    pub(crate) confirm_address: String,
    pub(crate) drain: String,
    pub(crate) target: Option<String>,
    /// The style's class of the wait.
    pub(crate) wait_class: &'static str,
    /// How many workers take from it, and the style's class of that.
    pub(crate) workers: String,
    pub(crate) workers_class: &'static str,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Done {
    pub(crate) done: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) count: Option<u64>,
}

/// Which queues, in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Wanted {
    /// A part of the name.
    #[serde(default)]
    search: String,
    /// `depth` or `wait`, greatest first; anything else: by name.
    #[serde(default)]
    sort: String,
}

/// `GET /queues`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(done): Query<Done>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    let reading = reading::fresh(&console).await?;
    let shell = Shell::new(&console, &visitor, Section::Queues, "Queues").refreshed();
    let queues_max = console.deps.settings.limits.page_queues;
    let jobs = reading.jobs()?;
    let live = LivePart::new(jobs, &wanted, queues_max, &visitor.csrf);
    let jobs_url = &console.jobs()?.url;
    let has_queues = !jobs.queues.is_empty();
    let done = done.sentence();
    Ok(html(&QueuesPage { shell, live, wanted, has_queues, done, jobs_url }))
}

/// `GET /live/queues`
pub(crate) async fn fragment(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    let reading = reading::shared(&console).await?;
    let queues_max = console.deps.settings.limits.page_queues;
    Ok(html(&LivePart::new(reading.jobs()?, &wanted, queues_max, &visitor.csrf)))
}

impl<'a> LivePart<'a> {
    /// The deepest `queues_max` of the wanted queues, in the wanted order.
    fn new(reading: &'a Reading, wanted: &Wanted, queues_max: usize, csrf: &'a str) -> Self {
        let fetchers = Fetchers::of(&reading.workers);
        let mut shown: Vec<&view::QueueView> =
            reading.queues.iter().filter(|queue| queue.name.contains(&wanted.search)).collect();
        let (count, total) = (shown.len(), shown.iter().map(|queue| queue.depth).sum());
        let jobs = figures::counted(total, "job");
        let mut summary = match (reading.queues.len(), count) {
            (0, _) => "There are no queues.".to_owned(),
            (_, 0) => "No queue has such a name.".to_owned(),
            (_, count) => format!("{jobs} in {}", figures::counted(count as u64, "queue")),
        };
        if count > queues_max {
            summary.push_str(&format!("; the {queues_max} deepest are shown"));
        }
        shown.sort_by_key(|queue| std::cmp::Reverse(queue.depth));
        shown.truncate(queues_max);
        wanted.sort(&mut shown);
        let rows = shown.into_iter().map(|queue| Row::new(queue, &fetchers)).collect();
        Self { address: wanted.live_address(), summary, rows, csrf }
    }
}

impl Wanted {
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

    fn live_address(&self) -> String {
        address("/live/queues", &[("search", &self.search), ("sort", &self.sort)])
    }
}

impl<'a> Row<'a> {
    pub(crate) fn new(queue: &'a view::QueueView, fetchers: &Fetchers<'_>) -> Self {
        let count = fetchers.count(&queue.name);
        let is_left = fetchers.is_surely_left(&queue.name) && queue.depth > 0 && !queue.paused;
        let is_late = |target: f64| queue.latency_seconds > target && queue.depth > 0;
        Self {
            address: Place::Queue(queue.name.clone()).address(&[]),
            confirm_address: address("/queues/confirm", &[("name", &queue.name)]),
            drain: drain(queue),
            target: queue.target_latency_seconds.map(figures::duration),
            wait_class: match queue.target_latency_seconds {
                Some(target) if is_late(target) && !queue.paused => "late",
                _ => "",
            },
            workers: figures::count(count.running),
            workers_class: if is_left { "late" } else { "" },
            queue,
        }
    }
}

/// How long until the queue is empty, in words.
pub(crate) fn drain(queue: &view::QueueView) -> String {
    let growth = queue.pushed_per_second - queue.processed_per_second;
    match queue.drain_seconds {
        _ if queue.depth == 0 => "–".to_owned(),
        _ if queue.paused => "paused".to_owned(),
        Some(seconds) => figures::duration(seconds),
        None if growth >= 0.05 => format!("never, grows {}", figures::rate(growth)),
        None if queue.processed_per_second > 0.0 => "never, stays level".to_owned(),
        None => "never, stands still".to_owned(),
    }
}

impl Done {
    /// What was done, from fixed words: the address can't put others into our mouth.
    pub(crate) fn sentence(&self) -> Option<String> {
        let name = figures::shortened(self.name.as_deref().unwrap_or("?"), 80);
        match self.done.as_deref()? {
            "pause" => Some(format!("Queue {name} is paused.")),
            "resume" => Some(format!("Queue {name} goes on.")),
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
struct ConfirmPage {
    shell: Shell,
    name: String,
    depth: u64,
    back: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    name: String,
}

/// `GET /queues/confirm`: says how many jobs clearing would delete.
pub(crate) async fn confirm(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(Named { name }): Query<Named>,
) -> Result<Response, PageError> {
    let queue = find(&console, &name).await?;
    let shell = Shell::new(&console, &visitor, Section::Queues, format!("Clear {name}"));
    let back = Place::Queue(name.clone()).address(&[]);
    Ok(html(&ConfirmPage { shell, name, depth: queue.depth, back }))
}

/// The queue of that name.
pub(crate) async fn find(console: &Console, name: &str) -> Result<view::QueueView, PageError> {
    let queues = console.jobs()?.handle.queues().await?;
    let found = queues.into_iter().find(|queue| queue.name == name);
    found.ok_or_else(|| unknown(name))
}

/// What to answer for a queue that isn't there.
pub(crate) fn unknown(name: &str) -> PageError {
    let name = figures::shortened(name, 100);
    PageError::NotFound(format!("there is no queue {name:?} now"))
}

/// `POST /queues/act`
pub(crate) async fn act(
    State(console): State<Arc<Console>>,
    form: CheckedForm,
) -> Result<Response, PageError> {
    let name = form.get("name").ok_or_else(|| PageError::Invalid("name a queue".to_owned()))?;
    let word = form.get("action").unwrap_or_default();
    let action = match word {
        "pause" => QueueAction::Pause,
        "resume" => QueueAction::Resume,
        "clear" => QueueAction::Clear,
        other => return Err(PageError::Invalid(format!("there is no action {other:?}"))),
    };
    let queues = Queues::Named(vec![name.to_owned()]);
    let count = console.jobs()?.handle.act_on_queues(queues, action).await?;
    tracing::info!(queue = name, action = word, count, "console: acted on a queue");
    let count = count.to_string();
    let done = [("done", word), ("count", &count)];
    let back = match form.get("from") {
        Some("queue") => Place::Queue(name.to_owned()).address(&done),
        _ => address("/queues", &[&[("name", name)], &done[..]].concat()),
    };
    Ok(Redirect::to(&back).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_to_drain_in_words() {
        let queue = |depth, pushed, processed, drain_seconds| view::QueueView {
            depth,
            pushed_per_second: pushed,
            processed_per_second: processed,
            drain_seconds,
            ..view::QueueView::default()
        };
        assert_eq!(drain(&queue(0, 9.0, 0.0, None)), "–");
        assert_eq!(drain(&queue(9, 1.0, 2.0, Some(90.0))), "1 min 30 s");
        assert_eq!(drain(&queue(9, 3.0, 2.0, None)), "never, grows 1.0/s");
        assert_eq!(drain(&queue(9, 0.0, 0.0, None)), "never, stands still");
        assert_eq!(drain(&queue(9, 2.0, 2.0, None)), "never, stays level");
        let paused = view::QueueView { paused: true, ..queue(9, 0.0, 0.0, None) };
        assert_eq!(drain(&paused), "paused");
    }
}
