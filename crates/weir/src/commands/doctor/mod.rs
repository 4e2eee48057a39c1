//! `weir doctor`: what is wrong with a job system, how long until it is over, which line to change.
//!
//! It looks twice at what it is pointed at, asks the advisor, and prints. It writes nowhere.

mod arguments;
mod nagios;
mod report;
mod watch;

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use weir_advisor::{Advice, Observation, Severity, advise};
use weir_observe::{Sources, observe};

pub(crate) use self::arguments::DoctorArguments;
use crate::admin_client::block_on;
use crate::exit::Exit;
use crate::output;

/// Steps of the bar that is shown between the two looks.
const PROGRESS_STEP: Duration = Duration::from_millis(200);

pub(super) fn run(arguments: &DoctorArguments) -> anyhow::Result<Exit> {
    match examine(arguments) {
        Err(error) if arguments.nagios => {
            output::line(&nagios::failed(&error));
            Ok(Exit::Monitored(nagios::UNKNOWN))
        }
        result => result,
    }
}

fn examine(arguments: &DoctorArguments) -> anyhow::Result<Exit> {
    let sources = arguments.sources()?;
    block_on(async {
        if arguments.watch {
            return Box::pin(watch::run(&sources)).await;
        }
        let observation = look(&sources).await;
        let advice = advise(&observation);
        if arguments.json {
            output::json(&as_json(&observation, &advice))?;
        } else if arguments.nagios {
            output::raw(&nagios::lines(&observation, &advice));
            return Ok(Exit::Monitored(nagios::state(&advice)));
        } else {
            print(&advice);
        }
        Ok(exit(&advice))
    })
}

/// Both looks, with a bar on a terminal: they take longer than people wait without one.
async fn look(sources: &Sources) -> Observation {
    let steps = sources.window.as_millis() / PROGRESS_STEP.as_millis();
    let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX));
    if let Ok(style) = ProgressStyle::with_template("looking twice {wide_bar} {eta}") {
        bar.set_style(style);
    }
    let mut looking = Box::pin(observe(sources));
    let mut step = tokio::time::interval(PROGRESS_STEP);
    let observation = loop {
        tokio::select! {
            observation = &mut looking => break observation,
            _ = step.tick() => bar.inc(1),
        }
    };
    bar.finish_and_clear();
    observation
}

fn print(advice: &Advice) {
    if advice.findings.is_empty() {
        // Silence is what scripts and cron take for health; a person likes to be told.
        if output::is_coloured(&std::io::stderr()) {
            output::note(&advice.verdict.to_string());
        }
        return;
    }
    output::raw(&report::text(advice, output::is_coloured(&std::io::stdout())));
}

fn as_json(observation: &Observation, advice: &Advice) -> serde_json::Value {
    let drain_seconds = advice.verdict.until_all_is_empty().map(|left| left.as_secs());
    json!({
        "line": advice.verdict.to_string(),
        "verdict": advice.verdict,
        "drain_seconds": drain_seconds,
        "findings": advice.findings,
        "observation": observation,
    })
}

/// A warning is a problem, a notice is none; what could not be seen is neither.
fn exit(advice: &Advice) -> Exit {
    let any = |severity| advice.findings.iter().any(|finding| finding.severity == severity);
    if any(Severity::Critical) || any(Severity::Warning) {
        Exit::FoundProblem
    } else if any(Severity::Unknown) {
        Exit::Failed
    } else {
        Exit::Fine
    }
}
