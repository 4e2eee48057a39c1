//! The same load on several servers.

use std::str::FromStr;

use anyhow::{Context, Result};
use clap::Args;

use super::settings::LoadFlags;
use super::{report, scenario};
use crate::http::{Target, table_of};
use crate::output::Output;
use crate::rounds::{ComparedLoad, RoundFlags};

#[derive(Debug, Args)]
#[command(mut_arg("scenario", |scenario| scenario.required(true)))]
pub(crate) struct CompareFlags {
    /// A server: NAME=http://host:port[/path][,PID..]. The first is the one the others are compared with.
    #[arg(long = "peer", required = true)]
    peers: Vec<Peer>,
    /// Numbers of connections, each a table of its own; as many as usual by default.
    #[arg(long, value_delimiter = ',')]
    connections: Vec<usize>,
    #[command(flatten)]
    rounds: RoundFlags,
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
    let names: Vec<&str> = flags.peers.iter().map(|peer| peer.name.as_str()).collect();
    flags.rounds.validate(&names)?;
    let default = [None];
    let given: Vec<Option<usize>> = flags.connections.iter().copied().map(Some).collect();
    let connections = if given.is_empty() { &default[..] } else { &given };
    let mut errors = 0;
    for connections in connections {
        let settings = flags.load.validate(*connections)?;
        let (scenario, profile) = (settings.scenario.name(), settings.profile());
        let label = profile.label(scenario);
        let load = ComparedLoad { label: &label, judged_by: profile.judged_by(), names: &names };
        let runs = flags.rounds.run(&load, output, |index| {
            let target = &flags.peers[index].target;
            Ok(report::envelope(&scenario::run(target, &settings)?, target, &settings))
        })?;
        if !flags.rounds.json {
            output.print(&table_of(scenario, &profile, &names, &runs))?;
        }
        errors += runs.iter().flatten().map(|envelope| envelope.errors).sum::<u64>();
    }
    Ok(errors == 0)
}
