//! `weir switch ..`: events or endpoints that are switched off, by name.

use std::time::Duration;

use clap::{Args, Subcommand};
use weir_base::clock::Clock;
use weir_base::switch::Pattern;

use super::realtime::shards::{self, where_a_switch_holds};
use crate::admin_client::{self, AdminClient};
use crate::exit::Exit;
use crate::output;
use crate::output::seconds;
use crate::target::Target;
use weir_admin::switches::{ListedSwitch, Position, SwitchChange, SwitchPart};
use weir_config::units;

/// The verbs of `weir switch`.
#[derive(Debug, Subcommand)]
pub(crate) enum SwitchCommand {
    /// List what is switched off
    List(ListArguments),
    /// Switch off realtime events, or endpoints of the gem index; they stay off after a restart
    Off(OffArguments),
    /// Switch realtime events or endpoints of the gem index on again
    On(OnArguments),
}

/// `weir switch list`.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weir switch off`.
#[derive(Debug, Args)]
pub(crate) struct OffArguments {
    #[command(flatten)]
    target: Target,
    /// Names of events; `*` stands for any text
    pattern: Pattern,
    /// PATTERN names endpoints of the gem index: root, names, versions, info, dependencies, specs,
    /// gemspec, file, push, yank
    #[arg(long)]
    gems: bool,
    /// Time until they are switched on again, for example 10m [default: until `weir switch on`]
    #[arg(long = "for", value_name = "DURATION", value_parser = units::parse_duration)]
    time: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weir switch on`.
#[derive(Debug, Args)]
pub(crate) struct OnArguments {
    #[command(flatten)]
    target: Target,
    /// The pattern, as in `weir switch list`
    pattern: Pattern,
    /// PATTERN names endpoints of the gem index
    #[arg(long)]
    gems: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const PATH: &str = "/v1/switches";

pub(crate) fn run(command: SwitchCommand) -> anyhow::Result<Exit> {
    admin_client::block_on(async {
        match command {
            SwitchCommand::List(arguments) => list(&arguments).await,
            SwitchCommand::Off(OffArguments { target, pattern, gems, time, json }) => {
                // Rounded up: a fraction of a second must not become zero.
                let for_seconds = time.map(|time| time.as_millis().div_ceil(1_000));
                let for_seconds = for_seconds.map(u64::try_from).transpose()?;
                let done = format!("{pattern} is switched off");
                let flip = SwitchChange {
                    of: part_flag(gems),
                    pattern,
                    position: Position::Off,
                    for_seconds,
                };
                change_switch(&target, &flip, &done, json).await
            }
            SwitchCommand::On(OnArguments { target, pattern, gems, json }) => {
                let done = format!("{pattern} is switched on");
                let flip = SwitchChange {
                    of: part_flag(gems),
                    pattern,
                    position: Position::On,
                    for_seconds: None,
                };
                change_switch(&target, &flip, &done, json).await
            }
        }
    })
}

const fn part_flag(gems: bool) -> SwitchPart {
    if gems { SwitchPart::Gems } else { SwitchPart::Realtime }
}

async fn list(arguments: &ListArguments) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let switches: Vec<ListedSwitch> = client.get(PATH).await?;
    if arguments.json {
        output::json(&switches)?;
    } else if switches.is_empty() {
        output::line("nothing is switched off");
    } else {
        let now = Clock::system().now().as_secs_f64();
        let rows: Vec<Vec<String>> = switches.iter().map(|switch| row(switch, now)).collect();
        output::table(&["OF", "PATTERN", "OFF FOR", "ON AGAIN"], &rows);
    }
    Ok(Exit::Fine)
}

fn row(ListedSwitch { of, switch }: &ListedSwitch, now: f64) -> Vec<String> {
    let until = switch.until.map(|until| format!("in {}", seconds((until - now).max(0.0))));
    vec![
        of.to_string(),
        switch.pattern.clone(),
        seconds((now - switch.since).max(0.0)),
        until.unwrap_or_else(|| "manually".to_owned()),
    ]
}

async fn change_switch(
    target: &Target,
    flip: &SwitchChange,
    done: &str,
    json: bool,
) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(target).await?;
    let switches: Vec<ListedSwitch> = client.post(PATH, flip).await?;
    if json {
        output::json(&switches)?;
    } else {
        let where_it_holds = match flip.of {
            SwitchPart::Realtime => where_a_switch_holds(&shards::of(&mut client).await),
            SwitchPart::Gems => String::new(),
        };
        output::line(&format!("{done}{where_it_holds}"));
    }
    Ok(Exit::Fine)
}
