//! The same load on several servers, interleaved, because only figures of the same minutes compare: in each
//! round every server runs once, and the order rotates from round to round.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::hosted::Hosted;
use super::hosting::Hosting;
use super::scenario::Target;
use super::settings::{LoadFlags, LoadSettings};
use super::{report, scenario, table};
use crate::checks::ROUNDS_MAX;
use crate::envelope::Envelope;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct CompareFlags {
    /// A server: NAME=http://host:port[/path][,PID..]; or NAME=self:proxy and
    /// NAME=self:sockets[:SELECTION[:QUEUES[:QUEUES_PER_WORKER]]], as --self-hosted. The first is the one the others
    /// are compared with.
    #[arg(long = "peer", required = true)]
    peers: Vec<Peer>,
    /// Runs per server; the table shows medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Numbers of connections, each a table of its own; as many as usual by default.
    #[arg(long, value_delimiter = ',')]
    connections: Vec<usize>,
    /// Weir's program for peers that are self-hosted.
    #[arg(long)]
    weir: Option<PathBuf>,
    /// Print one JSON object per run instead of the tables.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadFlags,
}

#[derive(Debug, Clone)]
pub(crate) struct Peer {
    name: String,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    There(Target),
    Own(Hosting),
}

/// A peer that runs.
struct Server {
    name: String,
    target: Target,
    /// Ends with it.
    _own: Option<Hosted>,
}

impl FromStr for Peer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, rest) = text.split_once('=').context("a peer is NAME=URL[,PID..]")?;
        let place = match rest.strip_prefix("self:") {
            Some(hosting) => Place::Own(hosting.parse()?),
            None => Place::There(target(rest)?),
        };
        Ok(Self { name: name.to_owned(), place })
    }
}

fn target(text: &str) -> Result<Target> {
    let mut parts = text.split(',');
    let url = parts.next().unwrap_or_default().parse()?;
    let pids = parts.map(|pid| pid.parse::<u32>().with_context(|| format!("PID {pid}")));
    Ok(Target { url, pids: pids.collect::<Result<_>>()? })
}

impl Peer {
    fn start(&self, workers: Option<usize>, weir: Option<&Path>) -> Result<Server> {
        let name = self.name.clone();
        match &self.place {
            Place::There(target) => Ok(Server { name, target: target.clone(), _own: None }),
            Place::Own(hosting) => {
                let workers = workers.context("a peer that is self-hosted wants --workers")?;
                let own = Hosted::start(hosting, workers, weir)?;
                Ok(Server { name, target: own.target(), _own: Some(own) })
            }
        }
    }
}

/// Whether all runs were without errors.
pub(crate) fn run(flags: &CompareFlags, output: &mut Output) -> Result<bool> {
    ensure!((1..=ROUNDS_MAX).contains(&flags.rounds), "--rounds: between 1 and {ROUNDS_MAX}");
    for (index, peer) in flags.peers.iter().enumerate() {
        if flags.peers[..index].iter().any(|other| other.name == peer.name) {
            bail!("--peer {} is given twice", peer.name);
        }
    }
    let loads = loads(flags)?;
    let start = |peer: &Peer| peer.start(flags.load.workers, flags.weir.as_deref());
    let servers: Vec<Server> = flags.peers.iter().map(start).collect::<Result<_>>()?;
    let mut errors = 0;
    for settings in &loads {
        let runs = run_rounds(flags, &servers, settings, output)?;
        if !flags.json {
            let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
            output.print(&table::of(settings, &names, &runs))?;
        }
        errors += runs.iter().flatten().map(|envelope| envelope.errors).sum::<u64>();
    }
    Ok(errors == 0)
}

fn loads(flags: &CompareFlags) -> Result<Vec<LoadSettings>> {
    if flags.connections.is_empty() {
        return Ok(vec![flags.load.checked(None)?]);
    }
    flags.connections.iter().map(|connections| flags.load.checked(Some(*connections))).collect()
}

/// The runs of every server, one per round.
fn run_rounds(
    flags: &CompareFlags,
    servers: &[Server],
    settings: &LoadSettings,
    output: &mut Output,
) -> Result<Vec<Vec<Envelope>>> {
    let mut runs: Vec<Vec<Envelope>> = vec![Vec::new(); servers.len()];
    for round in 0..flags.rounds {
        for turn in 0..servers.len() {
            let index = (turn + round) % servers.len();
            let Server { name, target, .. } = &servers[index];
            let outcome = scenario::run(target, settings).with_context(|| name.clone())?;
            let mut envelope = report::envelope(&outcome, target, settings);
            envelope.extra.insert("peer".to_owned(), name.clone().into());
            envelope.extra.insert("round".to_owned(), (round + 1).into());
            let rate = envelope.operations_per_second;
            output.note(&format!("round {}: {name} {rate:.0} requests/s", round + 1))?;
            if flags.json {
                output.print(&(envelope.to_json_line() + "\n"))?;
            }
            runs[index].push(envelope);
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_name_and_a_place() {
        let peer: Peer = "a=http://127.0.0.1:1/x,7,8".parse().expect("valid");
        let Place::There(target) = peer.place else {
            panic!("it runs elsewhere");
        };
        assert_eq!((peer.name.as_str(), target.pids), ("a", vec![7, 8]));
        let own: Peer = "b=self:sockets:random".parse().expect("valid");
        assert!(matches!(own.place, Place::Own(_)));
        for text in ["a", "a=127.0.0.1:1", "a=http://127.0.0.1:1,x", "a=self:tunnel"] {
            assert!(text.parse::<Peer>().is_err(), "{text}");
        }
    }
}
