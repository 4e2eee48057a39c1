//! The frame of all pages: head, navigation, title, the flash message and the footer.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use weir_access::{Role, rules};
use weir_jobs::view;

use crate::assets::{self, AssetAddresses};
use crate::console::Console;
use crate::figures;
use crate::front;
use crate::guard::form_access::FormAccess;
use crate::guard::visitor::Visitor;
use crate::jobs;
use crate::live::{ConsoleSnapshot, Latest};
use crate::realtime;
use crate::theme::Theme;
use crate::verdict;

/// Renders a page.
pub(crate) fn html(page: &impl Template) -> Response {
    html_response(page.render())
}

/// A template that cannot be rendered is a bug.
fn html_response(rendered: askama::Result<String>) -> Response {
    match rendered {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::error!(%error, "console: a page could not be rendered");
            (StatusCode::INTERNAL_SERVER_ERROR, "the page could not be rendered\n").into_response()
        }
    }
}

/// The page's entry in the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Nodes,
    Queues,
    Retries,
    Scheduled,
    Dead,
    Types,
    Limits,
    Autopilot,
    Cron,
    Batches,
    Tasks,
    Workers,
    Store,
    Front,
    Connections,
    Channels,
    Apps,
    Switches,
    Gems,
    Doctor,
    Plan,
    Postgres,
    Redis,
    Users,
    Audit,
    Docs,
    Login,
    None,
}

/// The frame of a page.
#[derive(Clone, Debug)]
pub(crate) struct PageFrame {
    pub(crate) title: String,
    pub(crate) section: Section,
    pub(crate) theme: Theme,
    pub(crate) csrf: String,
    pub(crate) forms: FormAccess,
    /// Whether the visitor has a session, and thus a logout button.
    pub(crate) has_session: bool,
    pub(crate) assets: &'static AssetAddresses,
    pub(crate) groups: Vec<NavigationGroup>,
    pub(crate) version: &'static str,
    /// The worst finding, shown on every page; None: there is none, or this is the login page.
    pub(crate) alarm: Option<Alarm>,
    /// The message about the visitor's last action.
    pub(crate) flash: Option<String>,
    /// The interval of reloads without scripts; 0: none.
    pub(crate) refresh_seconds: u32,
}

/// The page up to its content. The frame is rendered as two separate templates, so that its code is
/// not repeated in each page's template.
#[derive(Template)]
#[template(path = "frame_top.html")]
struct FrameTop<'a> {
    frame: &'a PageFrame,
}

/// The page from the end of its content.
#[derive(Template)]
#[template(path = "frame_bottom.html")]
struct FrameBottom<'a> {
    frame: &'a PageFrame,
}

/// The verdict in a word, shown on every page.
#[derive(Clone, Debug)]
pub(crate) struct Alarm {
    pub(crate) class: &'static str,
    pub(crate) label: &'static str,
    pub(crate) headline: String,
}

/// The pages of one part, in the navigation.
#[derive(Clone, Debug)]
pub(crate) struct NavigationGroup {
    /// The part; None: the page about all parts.
    pub(crate) name: Option<&'static str>,
    pub(crate) entries: Vec<NavigationEntry>,
}

/// An entry of the navigation.
#[derive(Clone, Debug)]
pub(crate) struct NavigationEntry {
    pub(crate) section: Section,
    pub(crate) address: &'static str,
    pub(crate) name: &'static str,
    /// The number of items, and the name under which the script updates it.
    pub(crate) count: Option<(&'static str, String)>,
}

impl PageFrame {
    pub(crate) fn new(
        console: &Console,
        visitor: &Visitor,
        section: Section,
        title: String,
    ) -> Self {
        let reading = match console.deps.live.latest() {
            Latest::Snapshot(reading) if section != Section::Login => Some(reading),
            _ => None,
        };
        Self {
            title,
            section,
            theme: visitor.theme,
            csrf: visitor.csrf.clone(),
            forms: visitor.forms(),
            has_session: visitor.session.is_some(),
            assets: assets::addresses(),
            groups: match section {
                Section::Login => Vec::new(),
                _ => groups(console, reading.as_deref(), visitor.identity.role),
            },
            alarm: reading.as_deref().and_then(Alarm::new),
            version: env!("CARGO_PKG_VERSION"),
            flash: None,
            refresh_seconds: 0,
        }
    }

    /// Sets the message about the visitor's last action.
    pub(crate) fn with_flash(mut self, flash: Option<String>) -> Self {
        self.flash = flash;
        self
    }

    /// Returns whether the visitor may send the form to this path.
    pub(crate) fn may(&self, path: &str) -> bool {
        self.forms.may(path)
    }

    /// Returns why the visitor may not send the form to this path. None: they may.
    pub(crate) fn missing(&self, path: &str) -> Option<String> {
        self.forms.missing(path)
    }

    /// Reloads the page every few seconds in browsers without scripts.
    pub(crate) fn refreshed(mut self) -> Self {
        const WITHOUT_SCRIPT_SECONDS: u32 = 10;
        self.refresh_seconds = WITHOUT_SCRIPT_SECONDS;
        self
    }

    pub(crate) fn top(&self) -> askama::Result<String> {
        FrameTop { frame: self }.render()
    }

    pub(crate) fn bottom(&self) -> askama::Result<String> {
        FrameBottom { frame: self }.render()
    }

    fn is_current(&self, entry: &NavigationEntry) -> bool {
        entry.section == self.section
    }

    fn is_login(&self) -> bool {
        self.section == Section::Login
    }

    const fn themes(&self) -> &'static [Theme] {
        &Theme::ALL
    }
}

impl Alarm {
    fn new(reading: &ConsoleSnapshot) -> Option<Self> {
        let worst = reading.verdict.worst()?;
        let (class, label) = verdict::style(Some(worst.finding.severity));
        Some(Self { class, label, headline: worst.problem.clone() })
    }
}

fn groups(
    console: &Console,
    reading: Option<&ConsoleSnapshot>,
    role: Role,
) -> Vec<NavigationGroup> {
    let mut groups = vec![group(
        None,
        [
            entry(Section::Overview, "/", "Overview", None),
            entry(Section::Nodes, "/nodes", "Nodes", None),
        ],
    )];
    if console.deps.jobs.is_some() {
        let entries = job_entries(reading.and_then(|reading| reading.jobs.as_ref()));
        let mut jobs = group(Some("Jobs"), entries);
        if console.deps.autopilot.is_some() {
            jobs.entries.push(entry(Section::Autopilot, "/autopilot", "Autopilot", None));
        }
        groups.push(jobs);
    }
    if console.deps.front.is_some() {
        let waiting =
            reading.and_then(|reading| reading.front.as_ref()).map(front::FrontSnapshot::waiting);
        let waiting = waiting.map(|waiting| ("front_waiting", waiting as u64));
        groups.push(group(Some("Web"), [entry(Section::Front, "/front", "Front", waiting)]));
    }
    if console.deps.realtime.is_some() {
        let entries = realtime_entries(reading.and_then(|reading| reading.realtime.as_ref()));
        groups.push(group(Some("Realtime"), entries));
    }
    if console.deps.gems.is_some() {
        groups.push(group(Some("Packages"), [entry(Section::Gems, "/gems", "Gems", None)]));
    }
    if console.deps.observed.is_some() {
        let found = reading.and_then(|reading| reading.observed.as_ref()?.findings());
        groups.push(group(Some("Observed"), observed_entries(found)));
    }
    let of_admins = [
        entry(Section::Users, "/users", "Users", None),
        entry(Section::Audit, "/audit", "Audit log", None),
    ];
    let mut access = group(Some("Access"), of_admins);
    access.entries.retain(|entry| role >= rules::role_to_read(entry.address));
    groups.extend(Some(access).filter(|access| !access.entries.is_empty()));
    groups.push(group(Some("Help"), [entry(Section::Docs, "/docs", "Docs", None)]));
    groups
}

fn group<const N: usize>(
    name: Option<&'static str>,
    entries: [NavigationEntry; N],
) -> NavigationGroup {
    NavigationGroup { name, entries: entries.into() }
}

fn job_entries(reading: Option<&jobs::JobsSnapshot>) -> [NavigationEntry; 11] {
    let count = |key, of: fn(&view::JobServerOverview) -> u64| Some((key, of(&reading?.overview)));
    [
        entry(
            Section::Queues,
            "/queues",
            "Queues",
            count("enqueued", |overview| overview.enqueued),
        ),
        entry(
            Section::Retries,
            "/retries",
            "Retries",
            count("retries", |overview| overview.retries),
        ),
        entry(
            Section::Scheduled,
            "/scheduled",
            "Scheduled",
            count("scheduled", |overview| overview.scheduled),
        ),
        entry(Section::Dead, "/dead", "Dead", count("dead", |overview| overview.dead)),
        entry(Section::Types, "/types", "Types", None),
        entry(Section::Limits, "/limits", "Limits", None),
        entry(Section::Cron, "/cron", "Cron", None),
        entry(Section::Batches, "/batches", "Batches", None),
        entry(Section::Tasks, "/tasks", "Tasks", None),
        entry(
            Section::Workers,
            "/workers",
            "Workers",
            count("workers", |overview| overview.workers),
        ),
        entry(Section::Store, "/store", "Store", None),
    ]
}

fn realtime_entries(reading: Option<&realtime::RealtimeSnapshot>) -> [NavigationEntry; 4] {
    let open = reading.map(|reading| ("connections", reading.overview.totals.connections));
    [
        entry(Section::Connections, "/connections", "Connections", open),
        entry(Section::Channels, "/channels", "Channels", None),
        entry(Section::Apps, "/apps", "Apps", None),
        entry(Section::Switches, "/switches", "Switches", None),
    ]
}

fn observed_entries(findings: Option<u64>) -> [NavigationEntry; 4] {
    let findings = findings.map(|findings| ("doctor_findings", findings));
    [
        entry(Section::Doctor, "/doctor", "Doctor", findings),
        entry(Section::Plan, "/plan", "Plan", None),
        entry(Section::Postgres, "/postgres", "Postgres", None),
        entry(Section::Redis, "/redis", "Redis", None),
    ]
}

fn entry(
    section: Section,
    address: &'static str,
    name: &'static str,
    count: Option<(&'static str, u64)>,
) -> NavigationEntry {
    let count = count.map(|(key, number)| (key, figures::count(number)));
    NavigationEntry { section, address, name, count }
}
