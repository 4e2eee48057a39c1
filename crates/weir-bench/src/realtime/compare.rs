//! The same load on several servers, interleaved, because only figures of the same minutes compare: in each
//! round every server runs once, and the order rotates from round to round.

use std::fmt::Write;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};

use super::settings::{LoadFlags, LoadSettings, Scenario};
use super::target::{Protocol, Target};
use super::{report, scenario};
use crate::comparison::median;
use crate::envelope::Envelope;
use crate::output::Output;

const ROUNDS_MAX: usize = 100;
const FLOOR: &str = "floor";

/// Figures of the table, in its order; those that a scenario does not have are left out.
const FIGURES: [&str; 33] = [
    "operations_per_second",
    "p50_us",
    "p99_us",
    "last_client_p50_us",
    "last_client_p99_us",
    "publish_p50_us",
    "publish_p99_us",
    "server_cpu_us_per_operation",
    "server_cpu_seconds",
    "client_cpu_seconds",
    "server_rss_bytes",
    "server_peak_rss_bytes",
    "server_rss_bytes_max",
    "rss_bytes_per_connection",
    "connects_per_second",
    "connect_server_cpu_us",
    "all_back_s",
    "all_know_s",
    "p99_ratio",
    "slow_closed",
    "recovered",
    "gaps",
    "offset_jumps",
    "refused",
    "refused_for_good",
    "lost",
    "reordered",
    "duplicated",
    "bytes_received",
    "cpu_us_per_write_of_1_frame",
    "cpu_us_per_write_of_8_frames",
    "cpu_us_per_frame_of_8",
    "errors",
];

#[derive(Debug, Args)]
pub(crate) struct CompareFlags {
    /// A server: NAME=PROTOCOL,URL,APP[,PID..]; the first is the one the others are compared with.
    #[arg(long = "peer", required = true)]
    peers: Vec<Peer>,
    /// Also measure the plain write loop in every round, on the CPUs of the first server.
    #[arg(long)]
    floor: bool,
    /// Runs per server; the table shows medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Numbers of clients, each a table of its own.
    #[arg(long, value_delimiter = ',', default_value = "1000")]
    clients: Vec<usize>,
    /// Print one JSON object per run instead of the tables.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadFlags,
}

#[derive(Debug, Clone)]
pub(crate) struct Peer {
    name: String,
    target: Target,
    is_floor: bool,
}

impl FromStr for Peer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let shape = "a peer is NAME=PROTOCOL,ws://host:port,id:key:secret[,PID..]";
        let (name, rest) = text.split_once('=').context(shape)?;
        let mut parts = rest.split(',');
        let mut part = || parts.next().context(shape);
        let protocol = Protocol::from_str(part()?, false).map_err(anyhow::Error::msg)?;
        let (url, app) = (part()?.parse()?, part()?.parse()?);
        let pids = parts.map(|pid| pid.parse::<u32>().with_context(|| format!("PID {pid}")));
        let target = Target { url, app, protocol, pids: pids.collect::<Result<_>>()? };
        Ok(Self { name: name.to_owned(), target, is_floor: false })
    }
}

/// Whether all runs were without errors.
pub(crate) fn run(flags: &CompareFlags, output: &mut Output) -> Result<bool> {
    ensure!((1..=ROUNDS_MAX).contains(&flags.rounds), "--rounds: between 1 and {ROUNDS_MAX}");
    let peers = peers(flags)?;
    let mut errors = 0;
    for clients in &flags.clients {
        let settings = flags.load.checked(*clients)?;
        let runs = run_rounds(flags, &peers, &settings, output)?;
        if !flags.json {
            let names: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
            output.print(&table(&settings, &names, &runs))?;
        }
        errors += runs.iter().flatten().map(|envelope| envelope.errors).sum::<u64>();
    }
    Ok(errors == 0)
}

fn peers(flags: &CompareFlags) -> Result<Vec<Peer>> {
    let mut peers = flags.peers.clone();
    let first = peers.first().context("--peer is missing")?.target.clone();
    if flags.floor {
        peers.push(Peer { name: FLOOR.to_owned(), target: first, is_floor: true });
    }
    for (index, peer) in peers.iter().enumerate() {
        if peers[..index].iter().any(|other| other.name == peer.name) {
            bail!("--peer {} is given twice", peer.name);
        }
    }
    Ok(peers)
}

/// The runs of every peer, one per round.
fn run_rounds(
    flags: &CompareFlags,
    peers: &[Peer],
    settings: &LoadSettings,
    output: &mut Output,
) -> Result<Vec<Vec<Envelope>>> {
    let mut runs: Vec<Vec<Envelope>> = vec![Vec::new(); peers.len()];
    for round in 0..flags.rounds {
        for turn in 0..peers.len() {
            let index = (turn + round) % peers.len();
            let mut envelope = measure(&peers[index], settings)?;
            envelope.extra.insert("round".to_owned(), (round + 1).into());
            let (name, rate) = (&peers[index].name, envelope.operations_per_second);
            output.note(&format!("round {}: {name} {rate:.0} operations/s", round + 1))?;
            if flags.json {
                output.print(&(envelope.to_json_line() + "\n"))?;
            }
            runs[index].push(envelope);
        }
    }
    Ok(runs)
}

fn measure(peer: &Peer, settings: &LoadSettings) -> Result<Envelope> {
    let scenario = if peer.is_floor { Scenario::Floor } else { settings.scenario };
    let settings = LoadSettings { scenario, ..settings.clone() };
    let outcome = scenario::run(&peer.target, &settings).with_context(|| peer.name.clone())?;
    let mut envelope = report::envelope(&outcome, &peer.target, &settings);
    envelope.extra.insert("peer".to_owned(), peer.name.clone().into());
    Ok(envelope)
}

/// A line per figure: each peer's median, and how it compares with the first's (the median of the rounds' ratios).
fn table(settings: &LoadSettings, names: &[&str], runs: &[Vec<Envelope>]) -> String {
    let (scenario, clients) = (settings.scenario.name(), settings.clients);
    let mut text = format!("| {scenario}, {clients} clients |");
    // Writing to a String cannot fail.
    for (index, name) in names.iter().enumerate() {
        let _ = write!(text, " {name} |");
        if index > 0 {
            let _ = write!(text, " {}/{name} |", names[0]);
        }
    }
    let _ = writeln!(text, "\n| --- |{}", " ---: |".repeat(2 * names.len() - 1));
    for figure in FIGURES {
        let values: Vec<Vec<f64>> = runs
            .iter()
            .map(|runs| runs.iter().filter_map(|run| value(run, figure)).collect())
            .collect();
        if values.iter().any(|values| !values.is_empty()) {
            text.push_str(&line(figure, &values));
        }
    }
    text + "\n"
}

fn line(figure: &str, values: &[Vec<f64>]) -> String {
    let mut text = format!("| {figure} |");
    for (index, own) in values.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(text, " {} |", shown(median(own.clone()), 1));
        if index > 0 {
            let ratios = values[0].iter().zip(own).map(|(first, own)| first / own);
            let _ = write!(text, " {} |", shown(median(ratios.collect()), 2));
        }
    }
    text + "\n"
}

fn value(run: &Envelope, figure: &str) -> Option<f64> {
    let json = serde_json::to_value(run).ok()?;
    json.get(figure)?.as_f64()
}

fn shown(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { "-".to_owned() }
}
