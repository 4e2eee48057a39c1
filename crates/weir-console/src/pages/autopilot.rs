//! The autopilot: its mode, what is in force, its decisions with their outcomes, and values set by hand.

use askama::Template;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;
use weir_autopilot::journal::{EntryKind, EntryOutcome, JournalEntry};
use weir_autopilot::lease::LeaseState;
use weir_autopilot::view::{
    AutopilotStatus, ClassView, JournalQuery, LeaseView, LimitView, ModeChange, OverrideChange,
};
use weir_autopilot::{AutopilotHandle, CommandError, Mode};

use super::frame::{PageFrame, Section, html};
use super::live_page::LiveSection;
use super::request::{FormRequest, PageRequest, PageResult};
use crate::address::address;
use crate::figures;
use crate::guard::form::CheckedForm;
use crate::guard::form_access::FormAccess;
use crate::page_error::PageError;
use crate::visible::visible;

/// Entries of the journal on the page.
const ENTRIES: usize = 30;
/// Who changes something here, in the journal.
const BY: &str = "console";

#[derive(Template)]
#[template(path = "autopilot.html")]
struct AutopilotPage {
    frame: PageFrame,
    live: LiveSection,
    modes: Vec<&'static str>,
    cannot_act: Option<String>,
}

#[derive(Template)]
#[template(path = "autopilot_live.html")]
struct AutopilotLive {
    mode: String,
    set_by: Option<String>,
    lease: Option<LeaseRow>,
    problem: Option<String>,
    facts: Vec<(&'static str, String)>,
    limits: Vec<LimitRow>,
    classes: Vec<ClassRow>,
    entries: Vec<EntryRow>,
    forms: FormAccess,
}

struct LeaseRow {
    may_act: bool,
    text: String,
}

struct LimitRow {
    /// The value for the form; empty for all queues.
    class: String,
    shown: String,
    jobs: String,
    since: String,
    until: String,
    set_by: Option<String>,
}

struct ClassRow {
    name: String,
    in_flight: String,
    waiting: String,
    sessions: String,
    blocks: String,
}

struct EntryRow {
    at: String,
    kind: &'static str,
    class: &'static str,
    text: String,
}

#[derive(Debug, Deserialize)]
struct AutopilotFlash {
    done: Option<String>,
}

/// `GET /autopilot`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let flash: AutopilotFlash = request.query()?;
    let handle = request.console.autopilot()?.clone();
    let status = handle.status();
    let live = AutopilotLive::new(&request, &handle, &status);
    request.live_response(live.render(), &[], |live| {
        let frame = request.frame(Section::Autopilot, "Autopilot").refreshed();
        let frame = frame.with_flash(flash.message());
        let modes = [("off", Mode::Off), ("advise", Mode::Advise), ("on", Mode::On)];
        let is_possible = |mode: Mode| mode != Mode::On || status.cannot_act.is_none();
        let modes = modes.into_iter().filter(|(_, mode)| is_possible(*mode));
        let modes = modes.map(|(name, _)| name).collect();
        let cannot_act = status.cannot_act.clone();
        Ok(html(&AutopilotPage { frame, live, modes, cannot_act }))
    })
}

/// `POST /autopilot/act`
pub(crate) async fn act(FormRequest { console, form, .. }: FormRequest) -> PageResult {
    let handle = console.autopilot()?;
    let by = BY.to_owned();
    let done = match form.get("action").unwrap_or_default() {
        "mode" => {
            let (name, mode) = mode(&form)?;
            handle.set_mode(ModeChange { mode, by }).await?;
            name
        }
        "set" => {
            let jobs = form.get("jobs").and_then(|jobs| jobs.parse().ok());
            let jobs =
                jobs.ok_or_else(|| PageError::Invalid("the number of jobs is missing".to_owned()))?;
            let minutes = form.get("minutes").and_then(|minutes| minutes.parse::<u64>().ok());
            let class = form.get("class").map(|class| class.trim().to_owned());
            let for_seconds = minutes.map(|minutes| minutes.saturating_mul(60));
            let change = OverrideChange { class, jobs: Some(jobs), for_seconds, by };
            handle.set_override(change).await?;
            "set"
        }
        "end" => {
            let class = form.get("class").map(str::to_owned);
            let change = OverrideChange { class, by, ..OverrideChange::default() };
            handle.set_override(change).await?;
            "end"
        }
        other => return Err(PageError::Invalid(format!("there is no action {other:?}"))),
    };
    tracing::info!(action = done, "console: changed the autopilot");
    Ok(Redirect::to(&address("/autopilot", &[("done", done)])).into_response())
}

fn mode(form: &CheckedForm) -> Result<(&'static str, Mode), PageError> {
    match form.get("mode").unwrap_or_default() {
        "off" => Ok(("off", Mode::Off)),
        "advise" => Ok(("advise", Mode::Advise)),
        "on" => Ok(("on", Mode::On)),
        other => Err(PageError::Invalid(format!("there is no mode {other:?}"))),
    }
}

impl From<CommandError> for PageError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::NotPossible(_) | CommandError::Invalid(_) => {
                Self::Invalid(error.to_string())
            }
            CommandError::NotRunning | CommandError::Busy | CommandError::Failed(_) => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}

impl AutopilotFlash {
    /// Returns the flash message. The texts are fixed, so a forged address cannot inject others.
    fn message(&self) -> Option<String> {
        Some(match self.done.as_deref()? {
            "off" => "The autopilot is off, and all limits have ended.".to_owned(),
            "advise" => "The autopilot advises, and changes nothing.".to_owned(),
            "on" => "The autopilot is on.".to_owned(),
            "set" => "The value is set. The autopilot leaves it alone until it expires.".to_owned(),
            "end" => "The value that was set by hand has ended.".to_owned(),
            _ => return None,
        })
    }
}

impl AutopilotLive {
    fn new(request: &PageRequest, handle: &AutopilotHandle, status: &AutopilotStatus) -> Self {
        let now = request.console.deps.clock.now().as_secs_f64();
        let set_by = status.mode_set_by.as_ref().map(|by| {
            let at = figures::relative(now, status.mode_set_at.unwrap_or(now));
            format!("set by {} {at}; weir.toml has {}", visible(by), status.mode_in_settings)
        });
        let query = JournalQuery { before: None, limit: Some(ENTRIES) };
        Self {
            mode: status.mode.to_string(),
            set_by,
            lease: status.lease.as_ref().map(LeaseRow::new),
            problem: status.problem.clone(),
            facts: facts(status),
            limits: status.limits.iter().map(|limit| LimitRow::new(limit, now)).collect(),
            classes: status.classes.iter().map(ClassRow::new).collect(),
            entries: handle.journal(&query).iter().map(|it| EntryRow::new(it, now)).collect(),
            forms: request.visitor.forms(),
        }
    }
}

fn facts(status: &AutopilotStatus) -> Vec<(&'static str, String)> {
    if status.mode == Mode::Off {
        return Vec::new();
    }
    let mut facts = vec![
        ("Jobs in progress", format!("{} on {} workers", status.busy, status.workers)),
        ("Jobs waiting", figures::count(status.waiting)),
    ];
    if let Some((threads, limits)) = status.threads() {
        facts.push(("Threads", visible(&threads).into_owned()));
        facts.push(("Limits", visible(&limits).into_owned()));
    }
    if let Some(age) = status.data_age_seconds {
        facts.push(("Age of the data", format!("{age:.0} s")));
    }
    if let Some(database) = &status.database {
        let connections = format!("{} of {}", database.connections, database.connections_max);
        let method = database.attribution.text();
        facts.extend([
            ("Busy sessions", format!("{:.1}", database.sessions)),
            ("Sessions that wait for a lock", format!("{:.1}", database.lock_waits)),
            ("Connections", connections),
            ("Database time", format!("{:.1} times the normal time", database.slowdown)),
            ("Sessions by job type", format!("{method}, confidence {:.2}", database.confidence)),
        ]);
    }
    facts
}

impl LeaseRow {
    fn new(lease: &LeaseView) -> Self {
        let may_act = lease.state == LeaseState::Held;
        Self { may_act, text: visible(&lease.text).into_owned() }
    }
}

impl LimitRow {
    fn new(limit: &LimitView, now: f64) -> Self {
        Self {
            class: limit.class.clone().unwrap_or_default(),
            shown: visible(limit.what()).into_owned(),
            jobs: limit.jobs.to_string(),
            since: figures::relative(now, limit.since),
            until: figures::relative(now, limit.until),
            set_by: limit.set_by.as_deref().map(|by| visible(by).into_owned()),
        }
    }
}

impl ClassRow {
    fn new(class: &ClassView) -> Self {
        Self {
            name: visible(&class.name).into_owned(),
            in_flight: class.in_flight.to_string(),
            waiting: figures::count(class.waiting),
            sessions: format!("{:.1}", class.sessions),
            blocks: format!("{:.1}", class.blocks),
        }
    }
}

impl EntryRow {
    fn new(entry: &JournalEntry, now: f64) -> Self {
        let kind = entry.kind.name();
        let is_bad =
            entry.kind == EntryKind::Failure || entry.outcome == Some(EntryOutcome::DidNotHelp);
        let class = if is_bad { "warning" } else { "" };
        let text = visible(&entry.text).into_owned();
        Self { at: figures::relative(now, entry.at), kind, class, text }
    }
}
