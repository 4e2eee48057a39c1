//! Switches: what is not sent at the moment.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use weir_base::switch::Pattern;
use weir_base::switchboard::{SwitchError, SwitchView, Switchboard};

use super::super::shell::{Section, Shell};
use super::super::theme::Theme;
use super::super::{PageError, html};
use crate::console::Console;
use crate::figures;
use crate::guard::form::CheckedForm;
use crate::guard::visitor::Visitor;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "switches.html")]
struct SwitchesPage {
    shell: Shell,
    live: LivePart,
    done: Option<String>,
    times: &'static [Time],
}

#[derive(Template)]
#[template(path = "switches_live.html")]
struct LivePart {
    rows: Vec<Row>,
    csrf: String,
}

struct Row {
    /// As the form sends it back.
    pattern: String,
    shown: String,
    since: String,
    until: String,
}

/// For how long something is turned off.
struct Time {
    word: &'static str,
    name: &'static str,
    time: Option<Duration>,
}

const TIMES: [Time; 5] = [
    Time { word: "10m", name: "for 10 minutes", time: Some(Duration::from_secs(600)) },
    Time { word: "1h", name: "for an hour", time: Some(Duration::from_secs(3_600)) },
    Time { word: "6h", name: "for 6 hours", time: Some(Duration::from_secs(6 * 3_600)) },
    Time { word: "1d", name: "for a day", time: Some(Duration::from_secs(86_400)) },
    Time { word: "", name: "until it is turned on", time: None },
];

#[derive(Debug, Deserialize)]
pub(crate) struct Done {
    done: Option<String>,
    pattern: Option<String>,
}

/// `GET /switches`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(done): Query<Done>,
) -> Result<Response, PageError> {
    let live = LivePart::read(&console, &visitor)?;
    let shell = Shell::new(&console, &visitor, Section::Switches, "Switches");
    Ok(html(&SwitchesPage { shell, live, done: done.sentence(), times: &TIMES }))
}

/// `GET /live/switches`
pub(crate) async fn fragment(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
) -> Result<Response, PageError> {
    Ok(html(&LivePart::read(&console, &visitor)?))
}

/// `POST /switches/act`
pub(crate) async fn act(
    State(console): State<Arc<Console>>,
    form: CheckedForm,
) -> Result<Response, PageError> {
    let pattern = form.get("pattern").unwrap_or_default().trim();
    let pattern: Pattern =
        pattern.parse().map_err(|error| PageError::Invalid(format!("{error}")))?;
    let wish = Wish::of(&form)?;
    tracing::info!(%pattern, ?wish, "console: flips a switch");
    let (switches, shown) = (super::of(&console)?.switches.clone(), pattern.to_string());
    // The file is synced, which may take a while.
    let flipped = tokio::task::spawn_blocking(move || wish.carry_out(&switches, pattern)).await;
    flipped
        .map_err(|error| PageError::Unavailable(error.to_string()))?
        .map_err(|error| PageError::Unavailable(error.to_string()))?;
    let done = [("done", wish.word()), ("pattern", &shown)];
    Ok(Redirect::to(&crate::address::address("/switches", &done)).into_response())
}

/// What is to become of a pattern.
#[derive(Clone, Copy, Debug)]
enum Wish {
    On,
    Off(Option<Duration>),
}

impl Wish {
    fn of(form: &CheckedForm) -> Result<Self, PageError> {
        let word = form.get("for").unwrap_or_default();
        match form.get("action") {
            Some("on") => Ok(Self::On),
            Some("off") => {
                let time = TIMES.iter().find(|time| time.word == word);
                let time = time.ok_or_else(|| PageError::Invalid(format!("how long is {word:?}?")));
                Ok(Self::Off(time?.time))
            }
            _ => Err(PageError::Invalid("a switch is turned on or off".to_owned())),
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off(_) => "off",
        }
    }

    fn carry_out(self, switches: &Switchboard, pattern: Pattern) -> Result<(), SwitchError> {
        match self {
            Self::Off(time) => switches.turn_off(pattern, time),
            // One that was on already is as it should be.
            Self::On => switches.turn_on(&pattern).map(|_| ()),
        }
    }
}

impl Done {
    /// What was done, from fixed words: the address can't put others into our mouth.
    fn sentence(&self) -> Option<String> {
        let pattern = self.pattern.as_deref().unwrap_or("?");
        let pattern = visible(&figures::shortened(pattern, 80)).into_owned();
        match self.done.as_deref()? {
            "off" => Some(format!("Events named {pattern} are not sent now.")),
            "on" => Some(format!("Events named {pattern} are sent again.")),
            _ => None,
        }
    }
}

impl LivePart {
    fn read(console: &Console, visitor: &Visitor) -> Result<Self, PageError> {
        let now = console.deps.clock.now().as_secs_f64();
        let switches = super::of(console)?.switches.list();
        Ok(Self {
            rows: switches.into_iter().map(|switch| Row::of(switch, now)).collect(),
            csrf: visitor.csrf.clone(),
        })
    }
}

impl Row {
    fn of(switch: SwitchView, now: f64) -> Self {
        Self {
            shown: visible(&switch.pattern).into_owned(),
            since: figures::relative(now, switch.since),
            until: switch
                .until
                .map_or_else(|| "when it is turned on".to_owned(), |at| figures::relative(now, at)),
            pattern: switch.pattern,
        }
    }
}
