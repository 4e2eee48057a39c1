//! Medians and ratios of interleaved runs as a markdown table; any bench can fill it.

use std::fmt::Write;

use crate::envelope::{Envelope, megabytes};

/// All runs of one load: `runs[peer][round]`.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) runs: Vec<Vec<Envelope>>,
}

#[derive(Debug)]
pub(crate) struct Comparison<'a> {
    pub(crate) peers: &'a [&'a str],
    pub(crate) rows: &'a [Row],
}

impl Comparison<'_> {
    /// Returns one line per load and peer. The ratio is the first peer's rate divided by this peer's: the median of
    /// the ratios within each round.
    pub(crate) fn to_markdown(&self) -> String {
        let first = self.peers.first().copied().unwrap_or_default();
        let mut text =
            format!("| load | server | operations/s (lowest - highest) | {first} is | p50 us | ");
        text.push_str(
            "p99 us | server CPU us/operation | client CPU us/operation | RSS MB | errors |\n",
        );
        text.push_str("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
        for row in self.rows {
            for (index, peer) in self.peers.iter().enumerate() {
                text.push_str(&line(&row.label, peer, &row.runs[index], &row.runs[0]));
            }
        }
        text
    }
}

fn line(label: &str, peer: &str, runs: &[Envelope], baseline: &[Envelope]) -> String {
    let rates: Vec<f64> = runs.iter().map(|run| run.operations_per_second).collect();
    let ratios = baseline.iter().zip(runs);
    let ratios = ratios.map(|(first, run)| first.operations_per_second / run.operations_per_second);
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let (rate, ratio) = (median(rates), median(ratios.collect()));
    let p50 = median(runs.iter().map(|run| run.p50_us).collect());
    let p99 = median(runs.iter().map(|run| run.p99_us).collect());
    let server_cpu = runs.iter().filter_map(|run| run.server_cpu_us_per_operation).collect();
    let client_cpu = runs.iter().map(Envelope::client_cpu_us_per_operation).collect();
    let rss = runs.iter().filter_map(|run| run.server_rss_bytes).map(megabytes).collect();
    let errors: u64 = runs.iter().map(|run| run.errors).sum();
    let mut text =
        format!("| {label} | {peer} | {rate:.0} ({lowest:.0} - {highest:.0}) | {ratio:.2}x ");
    // Writing to a String cannot fail.
    let _ = write!(text, "| {p50:.0} | {p99:.0} | {} ", format_figure(median(server_cpu)));
    let _ = writeln!(
        text,
        "| {} | {} | {errors} |",
        format_figure(median(client_cpu)),
        format_figure(median(rss))
    );
    text
}

fn format_figure(value: f64) -> String {
    if value.is_finite() { format!("{value:.1}") } else { "-".to_owned() }
}

/// Returns the median, or NaN if there are no values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;

    fn run(rate: f64) -> Envelope {
        Envelope {
            bench: "jobs",
            scenario: "push",
            settings: Value::Null,
            seconds: 2.0,
            operations_per_second: rate,
            p50_us: 1.0,
            p95_us: 2.0,
            p99_us: 3.0,
            errors: 1,
            client_cpu_seconds: 0.2,
            server_cpu_seconds: None,
            server_cpu_us_per_operation: None,
            server_rss_bytes: None,
            extra: Map::new(),
        }
    }

    #[test]
    fn ratio_is_the_median_of_rounds_and_errors_are_summed() {
        // Ratios per round are 2, 4, 3; the ratio of the medians would be 4.
        let fast = [200.0, 400.0, 900.0].map(run).to_vec();
        let slow = [100.0, 100.0, 300.0].map(run).to_vec();
        let rows = [Row { label: "push".to_owned(), runs: vec![fast, slow] }];
        let table = Comparison { peers: &["weir", "peer"], rows: &rows }.to_markdown();
        assert!(
            table
                .contains("| push | peer | 100 (100 - 300) | 3.00x | 1 | 3 | - | 1000.0 | - | 3 |"),
            "{table}"
        );
        assert!(table.contains("| push | weir | 400 (200 - 900) | 1.00x |"), "{table}");
    }

    #[test]
    fn median_of_an_even_count_is_the_mean_of_the_middle_two() {
        assert!((median(vec![4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < 1e-9);
        assert!(median(Vec::new()).is_nan());
    }
}
