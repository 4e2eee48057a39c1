//! `weir autopilot ..`: what the autopilot sees and does, and what it may do.

mod journal;
mod show;

use std::time::Duration;

use clap::{Args, Subcommand};
use weir_autopilot::Mode;
use weir_autopilot::view::{AutopilotStatus, ModeChange, OverrideChange};
use weir_config::units;

use self::journal::JournalArguments;
use crate::admin_client::{self, AdminClient};
use crate::exit::Exit;
use crate::operator::operator;
use crate::output;
use crate::target::Target;

/// The verbs of `weir autopilot`.
#[derive(Debug, Subcommand)]
pub(crate) enum AutopilotCommand {
    /// Show the mode, what is in force and what decisions are based on
    Status(ShownArguments),
    /// List decisions with their outcomes, the newest last
    Journal(JournalArguments),
    /// End all limits, and do nothing; stays off after a restart
    Off(ShownArguments),
    /// Say what should change, in the log and in the journal, and change nothing
    Advise(ShownArguments),
    /// Change what autopilot.manage lists
    On(ShownArguments),
    /// Limit jobs by hand; the autopilot leaves such a value alone until it expires
    Override(OverrideArguments),
}

/// Arguments of a command that shows the autopilot.
#[derive(Debug, Args)]
pub(crate) struct ShownArguments {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weir autopilot override`.
#[derive(Debug, Args)]
pub(crate) struct OverrideArguments {
    #[command(flatten)]
    target: Target,
    /// The most jobs in progress
    #[arg(value_name = "JOBS", required_unless_present = "end", conflicts_with = "end")]
    jobs: Option<u32>,
    /// Only jobs of this type [default: all queues together]
    #[arg(long, value_name = "JOBTYPE")]
    class: Option<String>,
    /// Time until the value expires, for example 30m [default: 1h]
    #[arg(long = "for", value_name = "DURATION", value_parser = units::parse_duration)]
    time: Option<Duration>,
    /// End a value that was set by hand
    #[arg(long)]
    end: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const PATH: &str = "/v1/autopilot";
const MODE: &str = "/v1/autopilot/mode";
const OVERRIDE: &str = "/v1/autopilot/override";

pub(crate) fn run(command: AutopilotCommand) -> anyhow::Result<Exit> {
    admin_client::block_on(async {
        match command {
            AutopilotCommand::Status(arguments) => status(&arguments).await,
            AutopilotCommand::Journal(arguments) => journal::run(&arguments).await,
            AutopilotCommand::Off(arguments) => set_mode(&arguments, Mode::Off).await,
            AutopilotCommand::Advise(arguments) => set_mode(&arguments, Mode::Advise).await,
            AutopilotCommand::On(arguments) => set_mode(&arguments, Mode::On).await,
            AutopilotCommand::Override(arguments) => set_value(arguments).await,
        }
    })
}

async fn status(arguments: &ShownArguments) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let status: AutopilotStatus = client.get(PATH).await?;
    if arguments.json {
        output::json(&status)?
    } else {
        show::status(&status)
    }
    Ok(Exit::Fine)
}

async fn set_mode(arguments: &ShownArguments, mode: Mode) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let change = ModeChange { mode, by: operator() };
    let status: AutopilotStatus = client.post(MODE, &change).await?;
    if arguments.json {
        output::json(&status)?;
    } else {
        output::line(&format!("the autopilot's mode is {}", status.mode));
    }
    Ok(Exit::Fine)
}

async fn set_value(arguments: OverrideArguments) -> anyhow::Result<Exit> {
    let OverrideArguments { target, jobs, class, time, json, .. } = arguments;
    let mut client = AdminClient::connect(&target).await?;
    // Rounded up: a fraction of a second must not become zero.
    let for_seconds = time.map(|time| u64::try_from(time.as_millis().div_ceil(1_000)));
    let for_seconds = for_seconds.transpose()?;
    let change = OverrideChange { class, jobs, for_seconds, by: operator() };
    let status: AutopilotStatus = client.post(OVERRIDE, &change).await?;
    if json {
        output::json(&status)?;
    } else if status.limits.is_empty() {
        output::line("nothing is limited");
    } else {
        show::limits(&status);
    }
    Ok(Exit::Fine)
}
