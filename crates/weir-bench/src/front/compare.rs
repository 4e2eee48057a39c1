//! The same load on several servers.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

use super::hosted::Hosted;
use super::hosting::Hosting;
use super::settings::{LoadFlags, LoadSettings};
use super::{report, scenario};
use crate::envelope::Envelope;
use crate::http::{Target, table_of};
use crate::output::Output;
use crate::rounds::{ComparedLoad, RoundFlags};

#[derive(Debug, Args)]
pub(crate) struct CompareFlags {
    /// A server: NAME=http://host:port[/path][,PID..]; or NAME=self:proxy and
    /// NAME=self:sockets[:SELECTION[:QUEUES[:QUEUES_PER_WORKER]]], as --self-hosted. The first is the one the others
    /// are compared with.
    #[arg(long = "peer", required = true)]
    peers: Vec<Peer>,
    /// Numbers of connections, each a table of its own; as many as usual by default.
    #[arg(long, value_delimiter = ',')]
    connections: Vec<usize>,
    /// Weir's program for peers that are self-hosted.
    #[arg(long)]
    weir: Option<PathBuf>,
    /// Print under each table how many requests each worker had in the last round.
    #[arg(long)]
    by_worker: bool,
    #[command(flatten)]
    rounds: RoundFlags,
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
        match &self.source {
            PeerSource::Remote(target) => Ok(Server { target: target.clone(), _hosted: None }),
            PeerSource::SelfHosted(hosting) => {
                let workers = workers.context("a peer that is self-hosted wants --workers")?;
                let hosted = Hosted::start(hosting, workers, weir)?;
                Ok(Server { target: hosted.target(), _hosted: Some(hosted) })
            }
        }
    }
}

/// Returns whether all runs were without errors.
pub(crate) fn run(flags: &CompareFlags, output: &mut Output) -> Result<bool> {
    let names: Vec<&str> = flags.peers.iter().map(|peer| peer.name.as_str()).collect();
    flags.rounds.validate(&names)?;
    let all_settings = load_settings(flags)?;
    let start = |peer: &Peer| peer.start(flags.load.workers, flags.weir.as_deref());
    let servers: Vec<Server> = flags.peers.iter().map(start).collect::<Result<_>>()?;
    let mut errors = 0;
    for settings in &all_settings {
        let (scenario, profile) = (settings.scenario.name(), settings.profile());
        let label = profile.label(scenario);
        let load = ComparedLoad { label: &label, judged_by: profile.judged_by(), names: &names };
        let runs = flags.rounds.run(&load, output, |index| {
            let target = &servers[index].target;
            Ok(report::envelope(&scenario::run(target, settings)?, target, settings))
        })?;
        if !flags.rounds.json {
            output.print(&table_of(scenario, &profile, &names, &runs))?;
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
