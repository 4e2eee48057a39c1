//! Switches: events that are not sent.

use std::time::Duration;

use askama::Template;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;
use weir_base::switch::Pattern;
use weir_base::switchboard::{SwitchError, SwitchView, Switchboard};

use super::super::frame::{PageFrame, Section, html};
use super::super::live_page::LiveSection;
use super::super::request::{FormRequest, PageRequest, PageResult};
use crate::address::address;
use crate::figures;
use crate::guard::form::CheckedForm;
use crate::guard::form_access::FormAccess;
use crate::page_error::PageError;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "switches.html")]
struct SwitchesPage {
    frame: PageFrame,
    live: LiveSection,
    times: &'static [SwitchDuration],
}

#[derive(Template)]
#[template(path = "switches_live.html")]
struct SwitchesLive {
    rows: Vec<SwitchRow>,
    forms: FormAccess,
}

struct SwitchRow {
    /// The value for the form.
    pattern: String,
    display_pattern: String,
    since: String,
    until: String,
}

/// A duration for which a switch is turned off.
struct SwitchDuration {
    value: &'static str,
    name: &'static str,
    time: Option<Duration>,
}

const TIMES: [SwitchDuration; 5] = [
    SwitchDuration { value: "10m", name: "for 10 minutes", time: Some(Duration::from_secs(600)) },
    SwitchDuration { value: "1h", name: "for an hour", time: Some(Duration::from_secs(3_600)) },
    SwitchDuration { value: "6h", name: "for 6 hours", time: Some(Duration::from_secs(6 * 3_600)) },
    SwitchDuration { value: "1d", name: "for a day", time: Some(Duration::from_secs(86_400)) },
    SwitchDuration { value: "", name: "until it is turned on", time: None },
];

#[derive(Debug, Deserialize)]
pub(crate) struct SwitchFlash {
    done: Option<String>,
    pattern: Option<String>,
}

/// `GET /switches`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let switches = SwitchesLive::read(&request)?;
    let flash: SwitchFlash = request.query()?;
    request.live_response(switches.render(), &[], |live| {
        let frame = request.frame(Section::Switches, "Switches").with_flash(flash.flash_message());
        Ok(html(&SwitchesPage { frame, live, times: &TIMES }))
    })
}

/// `POST /switches/act`
pub(crate) async fn act(FormRequest { console, form, .. }: FormRequest) -> PageResult {
    let pattern = form.get("pattern").unwrap_or_default().trim();
    let pattern: Pattern =
        pattern.parse().map_err(|error| PageError::Invalid(format!("{error}")))?;
    let action = SwitchAction::new(&form)?;
    tracing::info!(%pattern, ?action, "console: switching events");
    let (switches, text) = (console.realtime()?.switches.clone(), pattern.to_string());
    // Blocking: the file is synced.
    let switched = tokio::task::spawn_blocking(move || action.execute(&switches, pattern)).await;
    switched
        .map_err(|error| PageError::Unavailable(error.to_string()))?
        .map_err(|error| PageError::Unavailable(error.to_string()))?;
    let done = [("done", action.value()), ("pattern", &text)];
    Ok(Redirect::to(&address("/switches", &done)).into_response())
}

/// The action on a pattern.
#[derive(Clone, Copy, Debug)]
enum SwitchAction {
    On,
    Off(Option<Duration>),
}

impl SwitchAction {
    fn new(form: &CheckedForm) -> Result<Self, PageError> {
        let value = form.get("for").unwrap_or_default();
        match form.get("action") {
            Some("on") => Ok(Self::On),
            Some("off") => {
                let time = TIMES.iter().find(|time| time.value == value);
                let time = time
                    .ok_or_else(|| PageError::Invalid(format!("there is no duration {value:?}")));
                Ok(Self::Off(time?.time))
            }
            _ => Err(PageError::Invalid("the action must be on or off".to_owned())),
        }
    }

    const fn value(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off(_) => "off",
        }
    }

    fn execute(self, switches: &Switchboard, pattern: Pattern) -> Result<(), SwitchError> {
        match self {
            Self::Off(time) => switches.turn_off(pattern, time),
            // Turning on a switch that is on already is not an error.
            Self::On => switches.turn_on(&pattern).map(|_| ()),
        }
    }
}

impl SwitchFlash {
    /// Returns the flash message. The texts are fixed, so a forged address cannot inject others.
    fn flash_message(&self) -> Option<String> {
        let pattern = self.pattern.as_deref().unwrap_or("?");
        let pattern = visible(&figures::shortened(pattern, 80)).into_owned();
        match self.done.as_deref()? {
            "off" => Some(format!("Events named {pattern} are switched off.")),
            "on" => Some(format!("Events named {pattern} are switched on.")),
            _ => None,
        }
    }
}

impl SwitchesLive {
    fn read(request: &PageRequest) -> Result<Self, PageError> {
        let console = &request.console;
        let now = console.deps.clock.now().as_secs_f64();
        let switches = console.realtime()?.switches.list();
        Ok(Self {
            rows: switches.into_iter().map(|switch| SwitchRow::new(switch, now)).collect(),
            forms: request.visitor.forms(),
        })
    }
}

impl SwitchRow {
    fn new(switch: SwitchView, now: f64) -> Self {
        Self {
            display_pattern: visible(&switch.pattern).into_owned(),
            since: figures::relative(now, switch.since),
            until: switch
                .until
                .map_or_else(|| "switched on by hand".to_owned(), |at| figures::relative(now, at)),
            pattern: switch.pattern,
        }
    }
}
