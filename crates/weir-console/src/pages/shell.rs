//! What all pages have around their content.

use crate::assets::{self, Addresses};
use crate::console::Console;
use crate::figures;
use crate::guard::visitor::Visitor;
use crate::live::{Latest, Reading};
use crate::pages::theme::Theme;

/// Which entry of the navigation is the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Queues,
    Retries,
    Scheduled,
    Dead,
    Workers,
    Connections,
    Channels,
    Apps,
    Switches,
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
    pub(crate) entries: Vec<Entry>,
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
            entries: match section {
                Section::Login => Vec::new(),
                _ => entries(reading.as_deref(), console.deps.realtime.is_some()),
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

fn entries(reading: Option<&Reading>, has_realtime: bool) -> Vec<Entry> {
    let known = reading.map(|reading| &reading.overview);
    let entry = |section, address, name, count: Option<(&'static str, u64)>| Entry {
        section,
        address,
        name,
        count: count.map(|(key, number)| (key, figures::count(number))),
    };
    let mut entries = vec![
        entry(Section::Overview, "/", "Overview", None),
        entry(Section::Queues, "/queues", "Queues", known.map(|o| ("enqueued", o.enqueued))),
        entry(Section::Retries, "/retries", "Retries", known.map(|o| ("retries", o.retries))),
        entry(
            Section::Scheduled,
            "/scheduled",
            "Scheduled",
            known.map(|o| ("scheduled", o.scheduled)),
        ),
        entry(Section::Dead, "/dead", "Dead", known.map(|o| ("dead", o.dead))),
        entry(Section::Workers, "/workers", "Workers", known.map(|o| ("workers", o.workers))),
    ];
    if has_realtime {
        let open = reading.and_then(|reading| reading.realtime.as_ref());
        let open = open.map(|it| ("connections", it.overview.totals.connections));
        entries.push(entry(Section::Connections, "/connections", "Connections", open));
        for (section, address, name) in [
            (Section::Channels, "/channels", "Channels"),
            (Section::Apps, "/apps", "Apps"),
            (Section::Switches, "/switches", "Switches"),
        ] {
            entries.push(entry(section, address, name, None));
        }
    }
    entries
}
