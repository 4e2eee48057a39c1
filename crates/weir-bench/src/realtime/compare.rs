//! The same load on several realtime servers.

use std::fmt::Write;
use std::str::FromStr;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use super::settings::{LoadFlags, LoadSettings, Scenario};
use super::target::{Protocol, Target};
use super::{report, scenario};
use crate::comparison::median;
use crate::envelope::Envelope;
use crate::output::Output;
use crate::rounds::{ComparedLoad, RoundFlags};

const FLOOR: &str = "floor";
const MEMORY_GROWTH: &str = "rss_bytes_per_connection";

/// Figures in the order of the table. Those that a scenario does not have are omitted.
const FIGURES: [&str; 47] = [
    "operations_per_second",
    "p50_us",
    "p99_us",
    "last_client_p50_us",
    "last_client_p99_us",
    "publish_p50_us",
    "publish_p99_us",
    "publisher_nice",
    "server_cpu_us_per_operation",
    "server_cpu_seconds",
    "client_cpu_seconds",
    "server_rss_bytes",
    "server_peak_rss_bytes",
    "server_rss_bytes_max",
    MEMORY_GROWTH,
    "connects_per_second",
    "connect_server_cpu_us",
    "all_back_s",
    "back",
    "never_back",
    "count_all_s",
    "lists_exact_s",
    "members_cpu_seconds",
    "members_bytes_received",
    "wrong_counts",
    "wrong_lists",
    "leave_count_all_s",
    "leave_lists_exact_s",
    "leave_members_cpu_seconds",
    "leave_members_bytes_received",
    "leave_wrong_counts",
    "leave_wrong_lists",
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
    /// Numbers of clients, each a table of its own.
    #[arg(long, value_delimiter = ',', default_value = "1000")]
    clients: Vec<usize>,
    #[command(flatten)]
    rounds: RoundFlags,
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

/// Returns whether all runs were without errors.
pub(crate) fn run(flags: &CompareFlags, output: &mut Output) -> Result<bool> {
    let peers = peers(flags)?;
    let names: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
    flags.rounds.validate(&names)?;
    let mut errors = 0;
    for clients in &flags.clients {
        let settings = flags.load.validate(*clients)?;
        let label = settings.label();
        let load = ComparedLoad { label: &label, judged_by: settings.judged_by(), names: &names };
        let runs = flags.rounds.run(&load, output, |index| measure(&peers[index], &settings))?;
        if !flags.rounds.json {
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
    Ok(peers)
}

fn measure(peer: &Peer, settings: &LoadSettings) -> Result<Envelope> {
    let scenario = if peer.is_floor { Scenario::Floor } else { settings.scenario };
    let settings = LoadSettings { scenario, ..settings.clone() };
    let outcome = scenario::run(&peer.target, &settings)?;
    Ok(report::envelope(&outcome, &peer.target, &settings))
}

/// Returns a line per figure: each peer's median, and its ratio to the first peer (the median of the rounds' ratios).
fn table(settings: &LoadSettings, names: &[&str], runs: &[Vec<Envelope>]) -> String {
    let mut text = format!("| {} |", settings.label());
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
        let _ = write!(text, " {} |", format_value(summary(figure, own), 1));
        if index > 0 {
            let ratio = match figure {
                MEMORY_GROWTH => summary(figure, &values[0]) / summary(figure, own),
                _ => {
                    let ratios = values[0].iter().zip(own).map(|(first, own)| first / own);
                    median(ratios.collect())
                }
            };
            let _ = write!(text, " {} |", format_value(ratio, 2));
        }
    }
    text + "\n"
}

/// Returns the maximum for the memory per connection, because a server keeps the memory of the first round and later
/// rounds seem to cost nothing. All other figures are medians.
fn summary(figure: &str, values: &[f64]) -> f64 {
    match figure {
        MEMORY_GROWTH => values.iter().copied().fold(f64::NAN, f64::max),
        _ => median(values.to_vec()),
    }
}

fn value(run: &Envelope, figure: &str) -> Option<f64> {
    // Scenario floor does not measure single deliveries.
    if run.scenario == Scenario::Floor.name() && ["p50_us", "p99_us"].contains(&figure) {
        return None;
    }
    let json = serde_json::to_value(run).ok()?;
    json.get(figure)?.as_f64()
}

fn format_value(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_medians_and_the_median_ratio() {
        let values = [vec![2.0, 9.0, 4.0], vec![1.0, 3.0, 8.0]];
        assert_eq!(line("p99_us", &values), "| p99_us | 4.0 | 3.0 | 2.00 |\n");
    }

    #[test]
    fn memory_per_connection_is_the_maximum_of_the_rounds() {
        let values = [vec![1000.0, 0.0, 10.0], vec![4000.0, 0.0, 0.0]];
        let expected = "| rss_bytes_per_connection | 1000.0 | 4000.0 | 0.25 |\n";
        assert_eq!(line(MEMORY_GROWTH, &values), expected);
    }

    #[test]
    fn peers_are_parsed_from_name_protocol_and_url() {
        let peer: Peer = "a=centrifugo,ws://127.0.0.1:1,x:y:z,7,8".parse().expect("valid");
        let Target { protocol, pids, .. } = peer.target;
        assert_eq!((peer.name.as_str(), protocol, pids), ("a", Protocol::Centrifugo, vec![7, 8]));
        for text in ["a", "a=pusher", "a=pusher,ws://127.0.0.1:1", "a=sse,ws://127.0.0.1:1,x:y:z"] {
            assert!(text.parse::<Peer>().is_err(), "{text}");
        }
    }
}
