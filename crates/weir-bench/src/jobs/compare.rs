//! The same load on several job servers.

use std::str::FromStr;

use anyhow::{Context, Result};
use clap::Args;

use super::phase::Target;
use super::settings::{LoadFlags, LoadSettings};
use super::{report, scenario};
use crate::comparison::{Comparison, Row};
use crate::output::Output;
use crate::rounds::{ComparedLoad, JudgedBy, RoundFlags};

#[derive(Debug, Args)]
pub(crate) struct CompareFlags {
    /// A server: NAME=tcp://[:password@]host:port[,PID..]; the first is the one the others are compared with.
    #[arg(long = "peer", required = true)]
    peers: Vec<Peer>,
    /// Numbers of connections, each a row of its own.
    #[arg(long, value_delimiter = ',', default_value = "10")]
    connections: Vec<usize>,
    #[command(flatten)]
    rounds: RoundFlags,
    #[command(flatten)]
    load: LoadFlags,
}

#[derive(Debug, Clone)]
pub(crate) struct Peer {
    name: String,
    target: Target,
}

impl FromStr for Peer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, rest) = text.split_once('=').context("a peer is NAME=URL[,PID..]")?;
        let mut parts = rest.split(',');
        let url = parts.next().unwrap_or_default().parse()?;
        let pids = parts.map(|pid| pid.parse::<u32>().with_context(|| format!("PID {pid}")));
        Ok(Self {
            name: name.to_owned(),
            target: Target { url, pids: pids.collect::<Result<_>>()? },
        })
    }
}

/// Returns whether all runs were without errors.
pub(crate) fn run(flags: &CompareFlags, output: &mut Output) -> Result<bool> {
    let names: Vec<&str> = flags.peers.iter().map(|peer| peer.name.as_str()).collect();
    flags.rounds.validate(&names)?;
    let mut rows = Vec::new();
    for connections in &flags.connections {
        let settings = flags.load.validate(*connections)?;
        rows.push(compare(flags, &names, &settings, output)?);
    }
    if !flags.rounds.json {
        output.print(&Comparison { peers: &names, rows: &rows }.to_markdown())?;
    }
    Ok(rows.iter().all(|row| row.runs.iter().flatten().all(|envelope| envelope.errors == 0)))
}

fn compare(
    flags: &CompareFlags,
    names: &[&str],
    settings: &LoadSettings,
    output: &mut Output,
) -> Result<Row> {
    let connections = settings.connections;
    let mut label = format!("{}, {connections} connections", settings.scenario.name());
    if let Some(batch) = settings.drain_batch {
        label += &format!(", batches of {batch}");
    }
    let load = ComparedLoad { label: &label, judged_by: JudgedBy::Rate, names };
    let runs = flags.rounds.run(&load, output, |index| {
        let target = &flags.peers[index].target;
        Ok(report::envelope(&scenario::run(target, settings)?, target, settings))
    })?;
    Ok(Row { label, runs })
}
