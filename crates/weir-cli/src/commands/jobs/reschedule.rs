//! `weir jobs reschedule`: changes when scheduled jobs and retries are due.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use weir_base::clock::Clock;
use weir_config::units;

use super::act::{self, JobsActArgs, Verb};
use crate::exit::Exit;

/// `weir jobs reschedule`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("when").required(true).args(["at", "after"]))]
pub(crate) struct JobsRescheduleArgs {
    #[command(flatten)]
    act: JobsActArgs,
    /// The time at which the jobs are due, for example 2026-12-01T10:00:00Z; they are spread over that second
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at: Option<String>,
    /// They are due after this long, for example 5m
    #[arg(long = "in", value_name = "DURATION", value_parser = units::parse_duration)]
    after: Option<Duration>,
}

pub(super) async fn run(arguments: &JobsRescheduleArgs) -> anyhow::Result<Exit> {
    let time = match (&arguments.at, arguments.after) {
        (Some(time), _) => time.clone(),
        (None, after) => due_time(after.unwrap_or_default())?,
    };
    act::run(&arguments.act, &Verb::Reschedule(time)).await
}

fn parse_time(text: &str) -> Result<String, String> {
    let time = weir_jobs::handle::parse_time(text).map_err(|error| error.to_string())?;
    Ok(weir_jobs::stamp::rfc3339(time))
}

/// Returns the time after `wait`.
pub(super) fn due_time(wait: Duration) -> anyhow::Result<String> {
    let due = Clock::system().now() + wait;
    let due = jiff::Timestamp::from_microsecond(i64::try_from(due.as_micros())?)
        .context("--in: the duration is too long")?;
    Ok(due.to_string())
}
