//! Actions on jobs: on one, on a selection, on all matches. What can't be undone, and what means
//! all, is confirmed on a page that says how many.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use weir_jobs::handle::{self, Which};
use weir_jobs::store::Action;

use super::shell::{Section, Shell};
use super::theme::Theme;
use super::{PageError, html};
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::guard::form::CheckedForm;
use crate::guard::visitor::Visitor;
use crate::metrics::Limit;
use crate::place::Place;

/// What can be done to a resting job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobAction {
    Requeue,
    Kill,
    Discard,
}

impl JobAction {
    /// What makes sense where.
    pub(crate) const fn of_place(place: &Place) -> &'static [Self] {
        match place {
            Place::Scheduled | Place::Retries => &[Self::Requeue, Self::Kill, Self::Discard],
            Place::Dead => &[Self::Requeue, Self::Discard],
            Place::Queue(_) => &[Self::Kill, Self::Discard],
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Kill => "kill",
            Self::Discard => "discard",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Requeue, Self::Kill, Self::Discard].into_iter().find(|it| it.word() == word)
    }

    /// On a button.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Requeue => "Run now",
            Self::Kill => "Move to dead",
            Self::Discard => "Delete",
        }
    }

    /// On the button that confirms it, for `jobs` such as `3 jobs`.
    pub(crate) fn order(self, jobs: &str) -> String {
        match self {
            Self::Requeue => format!("Run {jobs} now"),
            Self::Kill => format!("Move {jobs} to the dead set"),
            Self::Discard => format!("Delete {jobs}"),
        }
    }

    pub(crate) const fn is_dangerous(self) -> bool {
        matches!(self, Self::Kill | Self::Discard)
    }

    /// Where all matches are confirmed.
    pub(crate) fn confirm_address(self, place: &Place, fields: &[(&str, &str)]) -> String {
        let place = place.name();
        let what = [("place", place.as_str()), ("action", self.word())];
        address("/jobs/confirm", &[&what, fields].concat())
    }

    const fn action(self) -> Action {
        match self {
            Self::Requeue => Action::Requeue,
            Self::Kill => Action::Kill,
            Self::Discard => Action::Discard,
        }
    }
}

/// What was done when it isn't done yet.
const GOES_ON: &str = "on";

/// What was done, from fixed words: an address can't put others into the page.
pub(crate) fn sentence(word: &str, count: Option<u64>) -> Option<String> {
    let count = count.unwrap_or(0);
    let jobs = figures::counted(count, "job");
    let were = if count == 1 { "was" } else { "were" };
    match word {
        "none" => Some("Nothing was selected: tick the jobs first.".to_owned()),
        GOES_ON => Some(
            "That takes a while and goes on by itself: load the page again to see how far it is."
                .to_owned(),
        ),
        "requeue" => Some(format!(
            "{jobs} {were} put into {} now.",
            if count == 1 { "its queue" } else { "their queues" }
        )),
        "kill" => Some(format!("{jobs} {were} moved to the dead set.")),
        "discard" => Some(format!("{jobs} {were} deleted.")),
        _ => None,
    }
}

#[derive(Template)]
#[template(path = "jobs_confirm.html")]
struct ConfirmPage {
    shell: Shell,
    action: JobAction,
    place: Place,
    count: u64,
    order_text: String,
    keys: Vec<String>,
    search: String,
    jobtype: String,
    order: String,
    back: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    place: Place,
    action: JobAction,
    #[serde(default)]
    search: String,
    #[serde(default)]
    jobtype: String,
    #[serde(default)]
    order: String,
}

/// `GET /jobs/confirm`: counts what an action on all matches would hit.
pub(crate) async fn confirm_all(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let query = handle::JobQuery {
        place: wanted.place.name(),
        search: given(&wanted.search),
        jobtype: given(&wanted.jobtype),
        ..handle::JobQuery::default()
    };
    let count = console.jobs()?.handle.count_matching(query).await?;
    Ok(confirm(&console, &visitor, wanted, count, Vec::new()))
}

fn confirm(
    console: &Console,
    visitor: &Visitor,
    wanted: Wanted,
    count: u64,
    keys: Vec<String>,
) -> Response {
    let Wanted { place, action, search, jobtype, order } = wanted;
    let fields = [("search", search.as_str()), ("jobtype", &jobtype), ("order", &order)];
    html(&ConfirmPage {
        shell: Shell::new(console, visitor, Section::None, action.label()),
        back: place.address(&fields),
        order_text: action.order(&figures::counted(count, "job")),
        action,
        place,
        count,
        keys,
        search,
        jobtype,
        order,
    })
}

/// `POST /jobs/act`: on the ticked jobs, or with `scope=all` (from the confirmation) on all
/// matches.
pub(crate) async fn act(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    form: CheckedForm,
) -> Result<Response, PageError> {
    let wanted = wanted(&form)?;
    let is_confirmed = form.get("confirmed").is_some();
    let which = if form.get("scope") == Some("all") {
        if !is_confirmed {
            return Err(PageError::Invalid("an action on all jobs needs its confirmation".into()));
        }
        let given = |name| form.get(name).map(str::to_owned);
        Which::Matching { search: given("search"), jobtype: given("jobtype") }
    } else {
        let keys = form.all("key");
        if keys.is_empty() {
            return Ok(back(&wanted, "none", 0));
        }
        if wanted.action.is_dangerous() && !is_confirmed {
            let count = keys.len() as u64;
            return Ok(confirm(&console, &visitor, wanted, count, keys));
        }
        Which::Keys(keys)
    };
    let place = wanted.place.name();
    let acting = console.jobs()?.handle.act(place.clone(), which, wanted.action.action());
    let acted = tokio::time::timeout(console.deps.settings.limits.action_wait, acting).await;
    let Ok(count) = acted else {
        // The job server finishes what it has begun, whoever waits for it.
        console.metrics().limit_hit(Limit::ActionWait);
        tracing::info!(place, action = wanted.action.word(), "console: an action takes long");
        return Ok(back(&wanted, GOES_ON, 0));
    };
    let count = count?;
    tracing::info!(place, action = wanted.action.word(), count, "console: acted on jobs");
    Ok(back(&wanted, wanted.action.word(), count))
}

fn wanted(form: &CheckedForm) -> Result<Wanted, PageError> {
    let place = form.get("place").and_then(Place::parse);
    let action = form.get("action").and_then(JobAction::parse);
    let (Some(place), Some(action)) = (place, action) else {
        return Err(PageError::Invalid("the form names no place or no action".to_owned()));
    };
    let field = |name| form.get(name).unwrap_or_default().to_owned();
    Ok(Wanted {
        place,
        action,
        search: field("search"),
        jobtype: field("jobtype"),
        order: field("order"),
    })
}

/// Back to the list, which says what was done.
fn back(wanted: &Wanted, done: &str, count: u64) -> Response {
    let count = count.to_string();
    let fields = [
        ("search", wanted.search.as_str()),
        ("jobtype", &wanted.jobtype),
        ("order", &wanted.order),
        ("done", done),
        ("count", &count),
    ];
    Redirect::to(&wanted.place.address(&fields)).into_response()
}
