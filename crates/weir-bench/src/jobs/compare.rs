//! The same load on several servers, interleaved, because only figures of the same minutes compare: in each
//! round every server runs once, and the order rotates from round to round.

use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::phase::Target;
use super::settings::{LoadFlags, LoadSettings};
use super::{report, scenario};
use crate::checks::ROUNDS_MAX;
use crate::comparison::{Comparison, Row};
use crate::envelope::Envelope;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct CompareFlags {
    /// A server: NAME=tcp://[:password@]host:port[,PID..]; the first is the one the others are compared with.
    #[arg(long = "peer", required = true)]
    peers: Vec<Peer>,
    /// Runs per server; the table shows medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Numbers of connections, each a row of its own.
    #[arg(long, value_delimiter = ',', default_value = "10")]
    connections: Vec<usize>,
    /// Print one JSON object per run instead of the table.
    #[arg(long)]
    json: bool,
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
    ensure!((1..=ROUNDS_MAX).contains(&flags.rounds), "--rounds: between 1 and {ROUNDS_MAX}");
    let names: Vec<&str> = flags.peers.iter().map(|peer| peer.name.as_str()).collect();
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            bail!("--peer {name} is given twice");
        }
    }
    let mut rows = Vec::new();
    for connections in &flags.connections {
        let settings = flags.load.validate(*connections)?;
        rows.push(compare(flags, &settings, output)?);
    }
    if !flags.json {
        output.print(&Comparison { peers: &names, rows: &rows }.to_markdown())?;
    }
    Ok(rows.iter().all(|row| row.runs.iter().flatten().all(|envelope| envelope.errors == 0)))
}

fn compare(flags: &CompareFlags, settings: &LoadSettings, output: &mut Output) -> Result<Row> {
    let mut runs: Vec<Vec<Envelope>> = vec![Vec::new(); flags.peers.len()];
    for round in 0..flags.rounds {
        for offset in 0..flags.peers.len() {
            let index = (offset + round) % flags.peers.len();
            let peer = &flags.peers[index];
            let outcome = scenario::run(&peer.target, settings).context(peer.name.clone())?;
            let mut envelope = report::envelope(&outcome, &peer.target, settings);
            envelope.extra.insert("peer".to_owned(), peer.name.clone().into());
            envelope.extra.insert("round".to_owned(), (round + 1).into());
            let rate = envelope.operations_per_second;
            output.note(&format!("round {}: {} {rate:.0} operations/s", round + 1, peer.name))?;
            if flags.json {
                output.print(&(envelope.to_json_line() + "\n"))?;
            }
            runs[index].push(envelope);
        }
    }
    let connections = settings.connections;
    let mut label = format!("{}, {connections} connections", settings.scenario.name());
    if let Some(batch) = settings.drain_batch {
        label += &format!(", batches of {batch}");
    }
    Ok(Row { label, runs })
}
