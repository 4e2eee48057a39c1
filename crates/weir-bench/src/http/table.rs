//! Medians of interleaved runs as a markdown table, a line for each server.

use std::fmt::Write;

use serde_json::Value;

use super::LoadProfile;
use crate::comparison::median;
use crate::envelope::Envelope;

/// A column: its heading, the envelope's figure, its scale and decimals.
struct Column {
    heading: &'static str,
    figure: &'static str,
    scale: f64,
    decimals: usize,
}

const fn column(
    heading: &'static str,
    figure: &'static str,
    scale: f64,
    decimals: usize,
) -> Column {
    Column { heading, figure, scale, decimals }
}

/// Columns after names and rates. Columns without a value in any run are omitted.
const COLUMNS: [Column; 21] = [
    column("of the ceiling", "of_ceiling", 1.0, 3),
    column("offered load", "offered_load", 1.0, 2),
    column("p50 us", "p50_us", 1.0, 0),
    column("p95 us", "p95_us", 1.0, 0),
    column("p99 us", "p99_us", 1.0, 0),
    column("MB/s", "bytes_per_second", 1e-6, 1),
    column("visible p50 ms", "visible_p50_us", 1e-3, 1),
    column("visible max ms", "visible_max_us", 1e-3, 1),
    column("Jain", "jain", 1.0, 3),
    column("least", "min", 1.0, 0),
    column("most", "max", 1.0, 0),
    column("idle", "idle_workers", 1.0, 0),
    column("timeouts", "timeouts", 1.0, 0),
    column("waited here", "waited_for_connection", 1.0, 0),
    column("client CPU s", "client_cpu_seconds", 1.0, 2),
    column("server CPU s", "server_cpu_seconds", 1.0, 2),
    column("server CPU us/request", "server_cpu_us_per_operation", 1.0, 1),
    column("user", "server_user_cpu_us_per_operation", 1.0, 1),
    column("system", "server_system_cpu_us_per_operation", 1.0, 1),
    column("RSS MB", "server_rss_bytes", 1e-6, 1),
    column("errors", "errors", 1.0, 0),
];

/// Figures that are 0 in a normal run, and then omitted.
const USUALLY_ZERO: [&str; 2] = ["timeouts", "waited_for_connection"];

impl Column {
    fn is_relevant(&self, run: &Value) -> bool {
        let value = run[self.figure].as_f64();
        value.is_some_and(|value| value > 0.0 || !USUALLY_ZERO.contains(&self.figure))
    }
}

/// `runs[server][round]`.
pub(crate) fn to_markdown(
    scenario: &str,
    profile: &LoadProfile,
    names: &[&str],
    runs: &[Vec<Envelope>],
) -> String {
    let json: Vec<Vec<Value>> =
        runs.iter().map(|runs| runs.iter().map(as_json).collect()).collect();
    let has = |column: &&Column| json.iter().flatten().any(|run| column.is_relevant(run));
    let columns: Vec<&Column> = COLUMNS.iter().filter(has).collect();
    let mut text = heading(scenario, profile, names);
    let headings: Vec<&str> = columns.iter().map(|column| column.heading).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(text, " {} |", headings.join(" | "));
    let _ = writeln!(text, "| --- | ---: | ---: |{}", " ---: |".repeat(columns.len()));
    for (index, name) in names.iter().enumerate() {
        text.push_str(&line(name, &json[index], &json[0], &columns));
    }
    text + "\n"
}

fn as_json(run: &Envelope) -> Value {
    serde_json::to_value(run).expect("an envelope has only string keys and finite numbers")
}

fn heading(scenario: &str, profile: &LoadProfile, names: &[&str]) -> String {
    let load = profile.label(scenario);
    let first = names.first().copied().unwrap_or_default();
    format!("| {load} | requests/s (lowest - highest) | {first} is |")
}

/// Returns a server's line. `first is`: the first server's rate divided by this one's, the median of the ratios
/// within each round.
fn line(name: &str, runs: &[Value], first: &[Value], columns: &[&Column]) -> String {
    let rates = values(runs, "operations_per_second");
    let ratios = values(first, "operations_per_second").into_iter().zip(&rates);
    let ratio = median(ratios.map(|(first, this)| first / this).collect());
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let rate = median(rates);
    let mut text = format!("| {name} | {rate:.0} ({lowest:.0} - {highest:.0}) | {ratio:.2}x |");
    for Column { figure, scale, decimals, .. } in columns {
        let value = median(values(runs, figure)) * scale;
        // Writing to a String cannot fail.
        let _ = match value.is_finite() {
            true => write!(text, " {value:.decimals$} |"),
            false => write!(text, " - |"),
        };
    }
    text + "\n"
}

fn values(runs: &[Value], figure: &str) -> Vec<f64> {
    runs.iter().filter_map(|run| run[figure].as_f64()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Map;

    use super::*;

    fn run(rate: f64, jain: Option<f64>) -> Envelope {
        let mut extra = Map::new();
        extra.insert("jain".to_owned(), jain.into());
        extra.insert("timeouts".to_owned(), 0.into());
        Envelope {
            bench: "front",
            scenario: "noop",
            settings: Value::Null,
            seconds: 1.0,
            operations_per_second: rate,
            p50_us: 1.0,
            p95_us: 2.0,
            p99_us: 3.0,
            errors: 0,
            client_cpu_seconds: 0.2,
            server_cpu_seconds: None,
            server_cpu_us_per_operation: None,
            server_rss_bytes: None,
            extra,
        }
    }

    #[test]
    fn line_has_medians_of_reported_figures_only() {
        let one = [100.0, 300.0, 200.0].map(|rate| run(rate, Some(0.5))).to_vec();
        let other = [100.0, 100.0, 100.0].map(|rate| run(rate, None)).to_vec();
        let profile = LoadProfile {
            connections: 4,
            duration: Duration::from_secs(1),
            keep_alive: true,
            requests_per_second: None,
            seed: 1,
            timeout: Duration::from_secs(1),
        };
        let table = to_markdown("noop", &profile, &["a", "b"], &[one, other]);
        let expected = "\
| noop, 4 connections | requests/s (lowest - highest) | a is | p50 us | p95 us | p99 us | Jain | client CPU s | errors |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| a | 200 (100 - 300) | 1.00x | 1 | 2 | 3 | 0.500 | 0.20 | 0 |
| b | 100 (100 - 100) | 2.00x | 1 | 2 | 3 | - | 0.20 | 0 |

";
        assert_eq!(table, expected);
    }
}
