//! Lists of jobs: retries, scheduled, dead, a queue. A page at a time by cursor, so a list of
//! millions costs no more than one of fifty.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::value::RawValue;
use weir_jobs::{handle, view};

use super::act::{self, JobAction};
use super::shell::{Section, Shell};
use super::theme::Theme;
use super::{PageError, html};
use super::{queue, queues};
use crate::Deps;
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::guard::visitor::Visitor;
use crate::metrics::Limit;
use crate::place::Place;
use crate::visible::visible;

/// What a list's address says. Also the fields that an action hands back, to return to the list.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Wanted {
    /// The queue's name; only for a queue.
    #[serde(default)]
    name: String,
    #[serde(default)]
    pub(crate) search: String,
    #[serde(default)]
    pub(crate) jobtype: String,
    /// `newest` first; anything else: oldest first.
    #[serde(default)]
    pub(crate) order: String,
    #[serde(default)]
    after: String,
    /// The stretch of a queue's charts.
    #[serde(default)]
    range: String,
    #[serde(default)]
    done: String,
    count: Option<u64>,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct JobsPage {
    shell: Shell,
    place: Place,
    queue: Option<queue::Head>,
    wanted: Wanted,
    rows: Vec<Row>,
    total: String,
    scanned: String,
    is_filtered: bool,
    /// The job whose id is what was searched for, wherever it is.
    exact: Option<Exact>,
    next: Option<String>,
    first: Option<String>,
    other_end: OtherEnd,
    all: Vec<AllAction>,
    done: Option<String>,
}

/// A job in the list.
struct Row {
    key: String,
    address: String,
    jid: String,
    jobtype: String,
    queue: String,
    when: String,
    moment: String,
    machine_moment: String,
    arguments: String,
    error: Option<String>,
    tries: Option<String>,
}

/// A job that was found by its id.
struct Exact {
    address: String,
    jid: String,
    state: &'static str,
}

/// Where the list begins at its other end.
struct OtherEnd {
    label: &'static str,
    address: String,
}

/// What can be done to all matches.
struct AllAction {
    action: JobAction,
    address: String,
}

type Answer = Result<Response, PageError>;

/// `GET /scheduled`
pub(crate) async fn scheduled(
    console: State<Arc<Console>>,
    visitor: Visitor,
    wanted: Query<Wanted>,
) -> Answer {
    list(&console, &visitor, Place::Scheduled, wanted.0).await
}

/// `GET /retries`
pub(crate) async fn retries(
    console: State<Arc<Console>>,
    visitor: Visitor,
    wanted: Query<Wanted>,
) -> Answer {
    list(&console, &visitor, Place::Retries, wanted.0).await
}

/// `GET /dead`
pub(crate) async fn dead(
    console: State<Arc<Console>>,
    visitor: Visitor,
    wanted: Query<Wanted>,
) -> Answer {
    list(&console, &visitor, Place::Dead, wanted.0).await
}

/// `GET /queue?name=..`
pub(crate) async fn queue(
    console: State<Arc<Console>>,
    visitor: Visitor,
    wanted: Query<Wanted>,
) -> Answer {
    list(&console, &visitor, Place::Queue(wanted.name.clone()), wanted.0).await
}

async fn list(console: &Console, visitor: &Visitor, place: Place, wanted: Wanted) -> Answer {
    let deps = &console.deps;
    let queue = match &place {
        Place::Queue(name) => {
            let with = |range| place.address(&[&wanted.fields()[..], &[("range", range)]].concat());
            Some(queue::head(console, visitor, name, &wanted.range, with).await?)
        }
        Place::Scheduled | Place::Retries | Place::Dead => None,
    };
    let page = read(console, wanted.query(&place, deps.settings.limits.page_jobs)).await?;
    let exact = exact(console, &wanted.search).await?;
    let now = deps.clock.now().as_secs_f64();
    let fields = wanted.fields();
    let page_fields = [&fields[..], &[("range", wanted.range.as_str())]].concat();
    Ok(html(&JobsPage {
        shell: Shell::new(console, visitor, section(&place), place.title()),
        rows: page.jobs.iter().map(|job| Row::of(job, now)).collect(),
        total: figures::counted(page.total, "job"),
        scanned: figures::counted(page.scanned, "job"),
        is_filtered: wanted.is_filtered(),
        exact,
        next: page
            .next
            .as_ref()
            .map(|next| place.address(&[&page_fields[..], &[("after", next.as_str())]].concat())),
        first: (!wanted.after.is_empty()).then(|| place.address(&page_fields)),
        other_end: wanted.other_end(&place),
        all: JobAction::of_place(&place)
            .iter()
            .map(|action| AllAction {
                action: *action,
                address: action.confirm_address(&place, &fields),
            })
            .collect(),
        done: wanted.done(&place),
        queue,
        place,
        wanted,
    }))
}

/// A page of jobs. The job server stops a search now and then to let others run; it is asked again
/// until the page is full, for at most `limits.search_time`.
async fn read(console: &Console, query: handle::JobQuery) -> Result<view::JobListPage, PageError> {
    let Deps { clock, settings, .. } = &console.deps;
    let handle = &console.jobs()?.handle;
    let wanted = query.limit.unwrap_or(settings.limits.page_jobs);
    let ends_at = clock.now() + settings.limits.search_time;
    let mut page = handle.jobs(query.clone()).await?;
    while page.jobs.len() < wanted && page.next.is_some() {
        if clock.now() >= ends_at {
            console.metrics().limit_hit(Limit::SearchTime);
            break;
        }
        let limit = Some(wanted - page.jobs.len());
        let on = handle::JobQuery { after: page.next.take(), limit, ..query.clone() };
        let more = handle.jobs(on).await?;
        page.jobs.extend(more.jobs);
        page.scanned += more.scanned;
        (page.next, page.total) = (more.next, more.total);
    }
    Ok(page)
}

/// Who searches for a job's id wants that job, wherever it is.
async fn exact(console: &Console, search: &str) -> Result<Option<Exact>, PageError> {
    if search.is_empty() {
        return Ok(None);
    }
    let found = console.jobs()?.handle.job(search.to_owned()).await?;
    Ok(found.map(|job| Exact {
        address: job_address(&job.jid),
        jid: visible(&job.jid).into_owned(),
        state: super::job::state_word(job.state),
    }))
}

const fn section(place: &Place) -> Section {
    match place {
        Place::Scheduled => Section::Scheduled,
        Place::Retries => Section::Retries,
        Place::Dead => Section::Dead,
        Place::Queue(_) => Section::Queues,
    }
}

impl Wanted {
    fn query(&self, place: &Place, limit: usize) -> handle::JobQuery {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        handle::JobQuery {
            place: place.name(),
            search: given(&self.search),
            jobtype: given(&self.jobtype),
            after: given(&self.after),
            limit: Some(limit),
            newest_first: self.is_newest_first(),
        }
    }

    /// What was just done, to the queue or to jobs.
    fn done(&self, place: &Place) -> Option<String> {
        let to_queue = || {
            let Place::Queue(name) = place else { return None };
            let (done, name) = (Some(self.done.clone()), Some(name.clone()));
            queues::Done { done, name, count: self.count }.sentence()
        };
        act::sentence(&self.done, self.count).or_else(to_queue)
    }

    /// The same list from its other end.
    fn other_end(&self, place: &Place) -> OtherEnd {
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
        OtherEnd { label, address: place.address(&fields) }
    }

    fn is_newest_first(&self) -> bool {
        self.order == "newest"
    }

    fn is_filtered(&self) -> bool {
        !self.search.is_empty() || !self.jobtype.is_empty()
    }

    /// The fields that keep the list as it is.
    fn fields(&self) -> [(&str, &str); 3] {
        [("search", &self.search), ("jobtype", &self.jobtype), ("order", &self.order)]
    }
}

/// Characters of arguments and errors in a list; the job's page has them whole.
const EXCERPT_CHARACTERS: usize = 160;

impl Row {
    fn of(job: &view::JobView, now: f64) -> Self {
        let failure = job.failure.as_ref();
        Self {
            key: job.key.clone(),
            address: job_address(&job.jid),
            jid: visible(&job.jid).into_owned(),
            jobtype: visible(&job.jobtype).into_owned(),
            queue: job.queue.clone(),
            when: figures::relative(now, job.at),
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

/// Where a job's page is.
pub(crate) fn job_address(jid: &str) -> String {
    address("/job", &[("jid", jid)])
}

fn tries(failure: &view::FailureView) -> String {
    let failed = failure.retry_count + 1;
    match failure.remaining {
        0 => format!("failed {failed}×"),
        left => format!("failed {failed}×, {left} left"),
    }
}

/// The job's arguments as they were pushed, cut for a table.
fn arguments(payload: &str) -> String {
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        args: &'a RawValue,
    }
    let parsed: Result<Arguments<'_>, _> = serde_json::from_str(payload);
    parsed
        .map_or_else(|_| String::new(), |it| figures::shortened(it.args.get(), EXCERPT_CHARACTERS))
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
