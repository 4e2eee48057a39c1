//! Lists of jobs: retries, scheduled, dead, a queue. Pages use a cursor, so a list of millions
//! costs no more than one of fifty.

use askama::Template;
use axum::response::{Html, IntoResponse};
use serde::Deserialize;
use serde_json::value::RawValue;
use weir_jobs::{handle, view};

use super::act::{self, JobAction};
use super::frame::{PageFrame, Section, html};
use super::job::{self, job_address};
use super::job_types::{queue_types_address, type_address};
use super::live_page::RequestedPart;
use super::queue;
use super::queues::{QueueFlash, QueueNameQuery};
use super::request::{PageRequest, PageResult};
use super::xray::xray_address;
use crate::console::Console;
use crate::deps::Deps;
use crate::figures;
use crate::job_location::JobLocation;
use crate::metrics::ConsoleLimit;
use crate::page_error::PageError;
use crate::visible::visible;

/// The query of a list, and the fields that an action returns to the list with.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct JobsQuery {
    #[serde(default)]
    pub(crate) search: String,
    #[serde(default)]
    pub(crate) jobtype: String,
    /// `newest` first; anything else: oldest first.
    #[serde(default)]
    pub(crate) order: String,
    #[serde(default)]
    after: String,
    /// The time range of a queue's charts.
    #[serde(default)]
    range: String,
    #[serde(default)]
    done: String,
    count: Option<u64>,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    frame: PageFrame,
    location: JobLocation,
    queue: Option<queue::QueueHeader>,
    query: JobsQuery,
    rows: Vec<JobRow>,
    total: String,
    scanned: String,
    is_filtered: bool,
    /// The job whose id is the search text, in any set or queue.
    exact: Option<ExactMatch>,
    /// What can't be read now.
    missing: Option<String>,
    next: Option<String>,
    first: Option<String>,
    xray: String,
    /// The types of the jobs of a queue.
    types: Option<String>,
    other_end: OtherEnd,
    all: Vec<AllAction>,
}

/// A job in the list.
struct JobRow {
    key: String,
    address: String,
    jid: String,
    jobtype: String,
    type_address: String,
    queue: String,
    relative_time: String,
    moment: String,
    machine_moment: String,
    arguments: String,
    error: Option<String>,
    tries: Option<String>,
}

/// A job that was found by its id.
struct ExactMatch {
    address: String,
    jid: String,
    state: &'static str,
}

/// A link to the other end of the list.
struct OtherEnd {
    label: &'static str,
    address: String,
}

/// An action on all matches.
struct AllAction {
    action: JobAction,
    address: String,
}

/// `GET /scheduled`
pub(crate) async fn scheduled(request: PageRequest) -> PageResult {
    list(&request, JobLocation::Scheduled).await
}

/// `GET /retries`
pub(crate) async fn retries(request: PageRequest) -> PageResult {
    list(&request, JobLocation::Retries).await
}

/// `GET /dead`
pub(crate) async fn dead(request: PageRequest) -> PageResult {
    list(&request, JobLocation::Dead).await
}

/// `GET /queue?name=..`
pub(crate) async fn queue(request: PageRequest) -> PageResult {
    let QueueNameQuery { name } = request.query()?;
    match request.requested_part() {
        RequestedPart::WholePage => list(&request, JobLocation::Queue(name)).await,
        RequestedPart::SectionOnly => {
            let live = queue::live_section(&request, &name).await?;
            Ok(Html(live.html).into_response())
        }
    }
}

async fn list(request: &PageRequest, location: JobLocation) -> PageResult {
    let query: JobsQuery = request.query()?;
    let console = &request.console;
    let fields = query.fields();
    let queue = match &location {
        JobLocation::Queue(name) => {
            let with = |range| location.address(&[&fields[..], &[("range", range)]].concat());
            Some(queue::header(request, name, &query.range, with).await?)
        }
        JobLocation::Scheduled | JobLocation::Retries | JobLocation::Dead => None,
    };
    let page =
        read(console, query.search(&location, console.deps.settings.limits.page_jobs)).await?;
    let exact = exact(console, &query.search).await?;
    let now = console.deps.clock.now().as_secs_f64();
    let page_fields = [&fields[..], &[("range", query.range.as_str())]].concat();
    let after =
        |next: &String| location.address(&[&page_fields[..], &[("after", next.as_str())]].concat());
    let action = |action: &JobAction| AllAction {
        action: *action,
        address: action.confirm_address(&location, &fields),
    };
    let frame = request.frame(section(&location), location.title());
    Ok(html(&JobsPage {
        frame: frame.with_flash(query.flash(&location)),
        rows: page.jobs.iter().map(|job| JobRow::new(job, now)).collect(),
        total: figures::counted(page.total, "job"),
        scanned: figures::counted(page.scanned, "job"),
        is_filtered: query.is_filtered(),
        exact,
        missing: page.missing.as_deref().map(|missing| visible(missing).into_owned()),
        next: page.next.as_ref().map(after),
        first: (!query.after.is_empty()).then(|| location.address(&page_fields)),
        xray: xray_address(&location),
        types: match &location {
            JobLocation::Queue(name) => Some(queue_types_address(name)),
            JobLocation::Scheduled | JobLocation::Retries | JobLocation::Dead => None,
        },
        other_end: query.other_end(&location),
        all: JobAction::possible_at(&location).iter().map(action).collect(),
        queue,
        location: location.clone(),
        query: query.clone(),
    }))
}

/// Reads a page of jobs. The job server interrupts long searches; this continues until the page is
/// full, for at most `limits.search_time`.
async fn read(console: &Console, query: handle::JobQuery) -> Result<view::JobListPage, PageError> {
    let Deps { clock, settings, .. } = &console.deps;
    let handle = &console.jobs()?.handle;
    let page_size = query.limit.unwrap_or(settings.limits.page_jobs);
    let ends_at = clock.now() + settings.limits.search_time;
    let mut page = handle.jobs(query.clone()).await?;
    while page.jobs.len() < page_size && page.next.is_some() {
        if clock.now() >= ends_at {
            console.metrics().limit_hit(ConsoleLimit::SearchTime);
            break;
        }
        let limit = Some(page_size - page.jobs.len());
        let on = handle::JobQuery { after: page.next.take(), limit, ..query.clone() };
        let more = handle.jobs(on).await?;
        page.jobs.extend(more.jobs);
        page.scanned += more.scanned;
        page.missing = page.missing.or(more.missing);
        (page.next, page.total) = (more.next, more.total);
    }
    Ok(page)
}

/// Finds the job whose id is the search text, in any set or queue.
async fn exact(console: &Console, search: &str) -> Result<Option<ExactMatch>, PageError> {
    if search.is_empty() {
        return Ok(None);
    }
    let found = console.jobs()?.handle.job(search.to_owned()).await?;
    Ok(found.map(|job| ExactMatch {
        address: job_address(&job.jid),
        jid: visible(&job.jid).into_owned(),
        state: job::state_word(job.state),
    }))
}

const fn section(location: &JobLocation) -> Section {
    match location {
        JobLocation::Scheduled => Section::Scheduled,
        JobLocation::Retries => Section::Retries,
        JobLocation::Dead => Section::Dead,
        JobLocation::Queue(_) => Section::Queues,
    }
}

impl JobsQuery {
    fn search(&self, location: &JobLocation, limit: usize) -> handle::JobQuery {
        let non_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        handle::JobQuery {
            place: location.name(),
            search: non_empty(&self.search),
            jobtype: non_empty(&self.jobtype),
            after: non_empty(&self.after),
            limit: Some(limit),
            newest_first: self.is_newest_first(),
            jid: None,
        }
    }

    /// Returns the message about the last action on the queue or on jobs.
    fn flash(&self, location: &JobLocation) -> Option<String> {
        let to_queue = || {
            let JobLocation::Queue(name) = location else { return None };
            let (done, name) = (Some(self.done.clone()), Some(name.clone()));
            QueueFlash { done, name, count: self.count }.flash_message()
        };
        act::flash_message(&self.done, self.count).or_else(to_queue)
    }

    /// Returns the link to the same list from its other end.
    fn other_end(&self, location: &JobLocation) -> OtherEnd {
        let (label, order) = match self.is_newest_first() {
            true => ("From the oldest", ""),
            false => ("From the newest", "newest"),
        };
        let fields = [
            ("search", self.search.as_str()),
            ("jobtype", &self.jobtype),
            ("order", order),
            ("range", &self.range),
        ];
        OtherEnd { label, address: location.address(&fields) }
    }

    fn is_newest_first(&self) -> bool {
        self.order == "newest"
    }

    fn is_filtered(&self) -> bool {
        !self.search.is_empty() || !self.jobtype.is_empty()
    }

    /// Returns the query fields that preserve the list.
    fn fields(&self) -> [(&str, &str); 3] {
        [("search", &self.search), ("jobtype", &self.jobtype), ("order", &self.order)]
    }
}

/// Characters of arguments and errors in a list; the job's page has the whole text.
const EXCERPT_CHARACTERS: usize = 160;

impl JobRow {
    fn new(job: &view::JobView, now: f64) -> Self {
        let failure = job.failure.as_ref();
        Self {
            key: job.key.clone(),
            address: job_address(&job.jid),
            jid: visible(&job.jid).into_owned(),
            jobtype: visible(&job.jobtype).into_owned(),
            type_address: type_address(&job.jobtype),
            queue: job.queue.clone(),
            relative_time: figures::relative(now, job.at),
            moment: figures::moment(job.at),
            machine_moment: figures::machine_moment(job.at),
            arguments: visible(&arguments(&job.payload)).into_owned(),
            error: failure.map(|failure| {
                let text = format!("{}: {}", failure.errtype, failure.message);
                visible(&figures::shortened(&text, EXCERPT_CHARACTERS)).into_owned()
            }),
            tries: failure.map(tries),
        }
    }
}

fn tries(failure: &view::FailureView) -> String {
    let failed = failure.retry_count + 1;
    match failure.remaining {
        0 => format!("failed {failed}×"),
        left => format!("failed {failed}×, {left} left"),
    }
}

/// Returns the job's arguments as pushed, truncated for a table.
fn arguments(payload: &str) -> String {
    #[derive(Deserialize)]
    struct PayloadArguments<'a> {
        #[serde(borrow)]
        args: &'a RawValue,
    }
    let parsed: Result<PayloadArguments<'_>, _> = serde_json::from_str(payload);
    parsed.map_or_else(
        |_| String::new(),
        |parsed| figures::shortened(parsed.args.get(), EXCERPT_CHARACTERS),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_their_digits() {
        let payload = r#"{"jid":"x","args":[109326485893512345, {"a" : 1.10}],"args2":[]}"#;
        assert_eq!(arguments(payload), r#"[109326485893512345, {"a" : 1.10}]"#);
        assert_eq!(arguments("no json"), "");
        assert_eq!(
            arguments(&format!(r#"{{"args":["{}"]}}"#, "ä".repeat(400))).chars().count(),
            161
        );
    }
}
