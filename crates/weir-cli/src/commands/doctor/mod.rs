//! `weir doctor`: finds problems of a job system, estimates the time to drain, and suggests
//! changes.
//!
//! It takes two samples of each source, runs the advisor, and prints. It changes nothing.

mod again;
mod arguments;
mod nagios;
mod places;
mod report;
mod watch;
mod weir;

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use weir_advisor::{Advice, Observation};

pub(crate) use self::arguments::DoctorArguments;
use self::places::{Places, exit};
use crate::admin_client::block_on;
use crate::exit::Exit;
use crate::output;
use weir_admin::observed::json::document;

/// Step of the progress bar between the two samples.
const PROGRESS_STEP: Duration = Duration::from_millis(200);

pub(crate) fn run(arguments: &DoctorArguments) -> anyhow::Result<Exit> {
    match examine(arguments) {
        Err(error) if arguments.nagios => {
            output::line(&nagios::failed(&error));
            Ok(Exit::Monitored(nagios::UNKNOWN))
        }
        result => result,
    }
}

fn examine(arguments: &DoctorArguments) -> anyhow::Result<Exit> {
    let places =
        Places { sources: arguments.sources()?, weir: arguments.weir()?, given: arguments.given() };
    block_on(async {
        if arguments.watch {
            return Box::pin(watch::run(&places)).await;
        }
        let observation = look(&places).await;
        let advice = places.advise(&observation);
        if arguments.json {
            output::json(&document(&observation, &advice))?;
        } else if arguments.nagios {
            output::raw(&nagios::lines(&observation, &advice));
            return Ok(Exit::Monitored(nagios::state(&advice)));
        } else {
            print(&advice);
        }
        Ok(exit(&advice))
    })
}

/// Takes both samples, with a progress bar on a terminal.
async fn look(places: &Places) -> Observation {
    let steps = places.sources.window.as_millis() / PROGRESS_STEP.as_millis();
    let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX));
    if let Ok(style) = ProgressStyle::with_template("measuring {wide_bar} {eta}") {
        bar.set_style(style);
    }
    let mut looking = Box::pin(places.look());
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
        // Scripts and cron take silence for health; people get a line.
        if output::is_coloured(&std::io::stderr()) {
            output::note(&advice.verdict.to_string());
        }
        return;
    }
    output::raw(&report::text(advice, output::is_coloured(&std::io::stdout())));
}
