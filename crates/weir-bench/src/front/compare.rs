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
use crate::http::{RoundOptions, Target, run_rounds, table_of};
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
    source: PeerSource,
}

#[derive(Debug, Clone)]
enum PeerSource {
    Remote(Target),
    SelfHosted(Hosting),
}

/// A running peer.
struct Server {
    name: String,
    target: Target,
    /// Stopped when this is dropped.
    _hosted: Option<Hosted>,
}

impl FromStr for Peer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, rest) = text.split_once('=').context("a peer is NAME=URL[,PID..]")?;
        let source = match rest.strip_prefix("self:") {
            Some(hosting) => PeerSource::SelfHosted(hosting.parse()?),
            None => PeerSource::Remote(parse_remote(rest)?),
        };
        Ok(Self { name: name.to_owned(), source })
    }
}

fn parse_remote(text: &str) -> Result<Target> {
    let Target { url, pids } = text.parse()?;
    Ok(Target { url: url.with_default_path(scenario::PATH), pids })
}

impl Peer {
    fn start(&self, workers: Option<usize>, weir: Option<&Path>) -> Result<Server> {
        let name = self.name.clone();
        match &self.source {
            PeerSource::Remote(target) => {
                Ok(Server { name, target: target.clone(), _hosted: None })
            }
            PeerSource::SelfHosted(hosting) => {
                let workers = workers.context("a peer that is self-hosted wants --workers")?;
                let hosted = Hosted::start(hosting, workers, weir)?;
                Ok(Server { name, target: hosted.target(), _hosted: Some(hosted) })
            }
        }
    }
}

/// Returns whether all runs were without errors.
pub(crate) fn run(flags: &CompareFlags, output: &mut Output) -> Result<bool> {
    ensure!((1..=ROUNDS_MAX).contains(&flags.rounds), "--rounds: between 1 and {ROUNDS_MAX}");
    for (index, peer) in flags.peers.iter().enumerate() {
        if flags.peers[..index].iter().any(|other| other.name == peer.name) {
            bail!("--peer {} is given twice", peer.name);
        }
    }
    let all_settings = load_settings(flags)?;
    let start = |peer: &Peer| peer.start(flags.load.workers, flags.weir.as_deref());
    let servers: Vec<Server> = flags.peers.iter().map(start).collect::<Result<_>>()?;
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let round = RoundOptions { names: &names, rounds: flags.rounds, json: flags.json };
    let mut errors = 0;
    for settings in &all_settings {
        let runs = run_rounds(round, output, |index| {
            let target = &servers[index].target;
            Ok(report::envelope(&scenario::run(target, settings)?, target, settings))
        })?;
        if !flags.json {
            let scenario = settings.scenario.name();
            output.print(&table_of(scenario, &settings.profile(), &names, &runs))?;
            if flags.by_worker {
                output.print(&counts_by_worker(&names, &runs))?;
            }
        }
        errors += runs.iter().flatten().map(|envelope| envelope.errors).sum::<u64>();
    }
    Ok(errors == 0)
}

/// Returns the requests per worker in the last round, in descending order.
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

fn load_settings(flags: &CompareFlags) -> Result<Vec<LoadSettings>> {
    if flags.connections.is_empty() {
        return Ok(vec![flags.load.validate(None)?]);
    }
    flags.connections.iter().map(|connections| flags.load.validate(Some(*connections))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_parsed_from_name_and_url() {
        let peer: Peer = "a=http://127.0.0.1:1/x,7,8".parse().expect("valid");
        let PeerSource::Remote(target) = peer.source else {
            panic!("it runs elsewhere");
        };
        assert_eq!((peer.name.as_str(), target.pids), ("a", vec![7, 8]));
        let hosted: Peer = "b=self:sockets:random".parse().expect("valid");
        assert!(matches!(hosted.source, PeerSource::SelfHosted(_)));
        for text in ["a", "a=127.0.0.1:1", "a=http://127.0.0.1:1,x", "a=self:tunnel"] {
            assert!(text.parse::<Peer>().is_err(), "{text}");
        }
    }
}
