//! The same load on several servers.

use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::settings::LoadFlags;
use super::{report, scenario};
use crate::checks::ROUNDS_MAX;
use crate::http::{RoundOptions, Target, run_rounds, table_of};
use crate::output::Output;

#[derive(Debug, Args)]
#[command(mut_arg("scenario", |scenario| scenario.required(true)))]
pub(crate) struct CompareFlags {
    /// A server: NAME=http://host:port[/path][,PID..]. The first is the one the others are compared with.
    #[arg(long = "peer", required = true)]
    peers: Vec<Peer>,
    /// Runs per server; the table shows medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Numbers of connections, each a table of its own; as many as usual by default.
    #[arg(long, value_delimiter = ',')]
    connections: Vec<usize>,
    /// Print one JSON object per run instead of the tables.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadFlags,
}

#[derive(Debug, Clone)]
struct Peer {
    name: String,
    target: Target,
}

impl FromStr for Peer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, target) = text.split_once('=').context("a peer is NAME=URL[,PID..]")?;
        Ok(Self { name: name.to_owned(), target: target.parse()? })
    }
}

/// Returns whether all runs were without errors.
pub(crate) fn run(flags: &CompareFlags, output: &mut Output) -> Result<bool> {
    ensure!((1..=ROUNDS_MAX).contains(&flags.rounds), "--rounds: between 1 and {ROUNDS_MAX}");
    let names: Vec<&str> = flags.peers.iter().map(|peer| peer.name.as_str()).collect();
    if let Some(duplicate) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name))
    {
        bail!("--peer {} is given twice", duplicate.1);
    }
    let default = [None];
    let given: Vec<Option<usize>> = flags.connections.iter().copied().map(Some).collect();
    let connections = if given.is_empty() { &default[..] } else { &given };
    let round = RoundOptions { names: &names, rounds: flags.rounds, json: flags.json };
    let mut errors = 0;
    for connections in connections {
        let settings = flags.load.validate(*connections)?;
        let runs = run_rounds(round, output, |index| {
            let target = &flags.peers[index].target;
            Ok(report::envelope(&scenario::run(target, &settings)?, target, &settings))
        })?;
        if !flags.json {
            let profile = settings.profile();
            output.print(&table_of(settings.scenario.name(), &profile, &names, &runs))?;
        }
        errors += runs.iter().flatten().map(|envelope| envelope.errors).sum::<u64>();
    }
    Ok(errors == 0)
}
