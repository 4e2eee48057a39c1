//! The same load on several servers.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;

use super::hosted::Hosted;
use super::hosting::Hosting;
use super::settings::{LoadFlags, LoadSettings};
use super::{report, scenario};
use crate::checks::ROUNDS_MAX;
use crate::envelope::Envelope;
use crate::http::{Round, Target, run_rounds, table_of};
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
    /// Print under each table how many requests each worker had in the last round.
    #[arg(long)]
    by_worker: bool,
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
            None => Place::There(there(rest)?),
        };
        Ok(Self { name: name.to_owned(), place })
    }
}

fn there(text: &str) -> Result<Target> {
    let Target { url, pids } = text.parse()?;
    Ok(Target { url: url.or_path(scenario::PATH), pids })
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
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let round = Round { names: &names, rounds: flags.rounds, json: flags.json };
    let mut errors = 0;
    for settings in &loads {
        let runs = run_rounds(round, output, |index| {
            let target = &servers[index].target;
            Ok(report::envelope(&scenario::run(target, settings)?, target, settings))
        })?;
        if !flags.json {
            let scenario = settings.scenario.name();
            output.print(&table_of(scenario, &settings.extent(), &names, &runs))?;
            if flags.by_worker {
                output.print(&counts_by_worker(&names, &runs))?;
            }
        }
        errors += runs.iter().flatten().map(|envelope| envelope.errors).sum::<u64>();
    }
    Ok(errors == 0)
}

/// Of the last round, the most first.
fn counts_by_worker(names: &[&str], runs: &[Vec<Envelope>]) -> String {
    let mut text = "| requests of each worker, last round | |\n| --- | --- |\n".to_owned();
    for (name, runs) in names.iter().zip(runs) {
        let counts = runs.last().and_then(|run| run.extra["requests_by_worker"].as_array());
        let counts: Vec<String> = counts.into_iter().flatten().map(Value::to_string).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {name} | {} |", counts.join(" "));
    }
    text + "\n"
}

fn loads(flags: &CompareFlags) -> Result<Vec<LoadSettings>> {
    if flags.connections.is_empty() {
        return Ok(vec![flags.load.checked(None)?]);
    }
    flags.connections.iter().map(|connections| flags.load.checked(Some(*connections))).collect()
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
