//! `weir doctor`: finds problems of a job system, estimates the time to drain, and suggests
//! changes.
//!
//! It takes two samples of each source, runs the advisor, and prints. It changes nothing.

mod arguments;
mod doctor_sources;
mod follow_up;
mod nagios;
mod report;
mod watch;
mod weir;

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use weir_advisor::{Advice, Observation};

pub(crate) use self::arguments::DoctorArguments;
use self::arguments::EXAMPLES;
use self::doctor_sources::{DoctorSources, exit};
use crate::admin_client::block_on;
use crate::exit::{Exit, WrongUsage};
use crate::output;
use weir_admin::observed::json::document;

const NO_SOURCE: &str =
    "name what to diagnose: --redis URL, --postgres URL, --weir URL, or several of them\n\n";
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
    let doctor_sources = DoctorSources {
        sources: arguments.sources()?,
        weir: arguments.weir()?,
        passed: arguments.given_options(),
    };
    let DoctorSources { sources, weir, .. } = &doctor_sources;
    if sources.redis.is_empty() && sources.postgres.is_none() && weir.is_none() {
        return Err(WrongUsage::new(NO_SOURCE.to_owned() + EXAMPLES).into());
    }
    block_on(async {
        if arguments.watch {
            return Box::pin(watch::run(&doctor_sources)).await;
        }
        let observation = observe(&doctor_sources).await;
        let advice = doctor_sources.advise(&observation);
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
async fn observe(doctor_sources: &DoctorSources) -> Observation {
    let steps = doctor_sources.sources.window.as_millis() / PROGRESS_STEP.as_millis();
    let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX));
    if let Ok(style) = ProgressStyle::with_template("measuring {wide_bar} {eta}") {
        bar.set_style(style);
    }
    let mut looking = Box::pin(doctor_sources.observe());
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
    output::raw(&report::text(advice, &report::now(), output::is_coloured(&std::io::stdout())));
}
