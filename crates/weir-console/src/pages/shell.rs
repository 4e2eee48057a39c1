//! What all pages have around their content.

use weir_jobs::view;

use crate::assets::{self, Addresses};
use crate::console::Console;
use crate::figures;
use crate::front;
use crate::guard::visitor::Visitor;
use crate::jobs;
use crate::live::{Latest, Reading};
use crate::pages::theme::Theme;
use crate::realtime;

/// Which entry of the navigation is the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Queues,
    Retries,
    Scheduled,
    Dead,
    Workers,
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
    Login,
    None,
}

/// The frame of a page.
#[derive(Clone, Debug)]
pub(crate) struct Shell {
    pub(crate) title: String,
    pub(crate) section: Section,
    pub(crate) theme: Theme,
    pub(crate) csrf: String,
    /// Whether there is a session to end.
    pub(crate) has_session: bool,
    pub(crate) assets: &'static Addresses,
    pub(crate) groups: Vec<Group>,
    pub(crate) version: &'static str,
    /// What is wrong, on every page; None: nothing, or nobody is logged in.
    pub(crate) alarm: Option<Alarm>,
    /// Read again after so many seconds where there is no script; 0: not.
    pub(crate) refresh_seconds: u32,
}

/// The verdict in a word, above every page.
#[derive(Clone, Debug)]
pub(crate) struct Alarm {
    pub(crate) class: &'static str,
    pub(crate) word: &'static str,
    pub(crate) headline: String,
}

/// The pages of one part, in the navigation.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The part; None: the page of all parts.
    pub(crate) name: Option<&'static str>,
    pub(crate) entries: Vec<Entry>,
}

/// An entry of the navigation.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) section: Section,
    pub(crate) address: &'static str,
    pub(crate) name: &'static str,
    /// How many there are, and the name under which the script keeps it fresh.
    pub(crate) count: Option<(&'static str, String)>,
}

impl Shell {
    pub(crate) fn new(
        console: &Console,
        visitor: &Visitor,
        section: Section,
        title: impl Into<String>,
    ) -> Self {
        let reading = match console.deps.live.latest() {
            Latest::Reading(reading) if section != Section::Login => Some(reading),
            _ => None,
        };
        Self {
            title: title.into(),
            section,
            theme: visitor.theme,
            csrf: visitor.csrf.clone(),
            has_session: visitor.session.is_some(),
            assets: assets::addresses(),
            groups: match section {
                Section::Login => Vec::new(),
                _ => groups(console, reading.as_deref()),
            },
            alarm: reading.as_deref().and_then(Alarm::of),
            version: env!("CARGO_PKG_VERSION"),
            refresh_seconds: 0,
        }
    }

    /// Read again every few seconds where there is no script.
    pub(crate) fn refreshed(mut self) -> Self {
        const WITHOUT_SCRIPT_SECONDS: u32 = 10;
        self.refresh_seconds = WITHOUT_SCRIPT_SECONDS;
        self
    }

    pub(crate) fn is_now(&self, entry: &Entry) -> bool {
        entry.section == self.section
    }
}

impl Alarm {
    fn of(reading: &Reading) -> Option<Self> {
        let verdict = &reading.verdict;
        verdict.worst().map(|worst| Self {
            class: verdict.class(),
            word: verdict.word(),
            headline: worst.what.clone(),
        })
    }
}

fn groups(console: &Console, reading: Option<&Reading>) -> Vec<Group> {
    let mut groups = vec![group(None, [entry(Section::Overview, "/", "Overview", None)])];
    if console.deps.jobs.is_some() {
        let entries = job_entries(reading.and_then(|reading| reading.jobs.as_ref()));
        groups.push(group(Some("Jobs"), entries));
    }
    if console.deps.front.is_some() {
        let waiting =
            reading.and_then(|reading| reading.front.as_ref()).map(front::Reading::waiting);
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
    groups
}

fn group<const N: usize>(name: Option<&'static str>, entries: [Entry; N]) -> Group {
    Group { name, entries: entries.into() }
}

fn job_entries(reading: Option<&jobs::Reading>) -> [Entry; 5] {
    let count = |key, of: fn(&view::JobServerOverview) -> u64| Some((key, of(&reading?.overview)));
    [
        entry(Section::Queues, "/queues", "Queues", count("enqueued", |it| it.enqueued)),
        entry(Section::Retries, "/retries", "Retries", count("retries", |it| it.retries)),
        entry(Section::Scheduled, "/scheduled", "Scheduled", count("scheduled", |it| it.scheduled)),
        entry(Section::Dead, "/dead", "Dead", count("dead", |it| it.dead)),
        entry(Section::Workers, "/workers", "Workers", count("workers", |it| it.workers)),
    ]
}

fn realtime_entries(reading: Option<&realtime::Reading>) -> [Entry; 4] {
    let open = reading.map(|reading| ("connections", reading.overview.totals.connections));
    [
        entry(Section::Connections, "/connections", "Connections", open),
        entry(Section::Channels, "/channels", "Channels", None),
        entry(Section::Apps, "/apps", "Apps", None),
        entry(Section::Switches, "/switches", "Switches", None),
    ]
}

fn observed_entries(findings: Option<u64>) -> [Entry; 4] {
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
) -> Entry {
    let count = count.map(|(key, number)| (key, figures::count(number)));
    Entry { section, address, name, count }
}
