//! The report: one JSON object, or Markdown for the docs.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::flags::SoakFlags;
use super::outcome::Outcome;
use super::samples::Sample;
use super::window::Window;
use crate::clock::own_cpu_time;
use crate::envelope::Envelope;

/// Rows of the table of samples of each node.
const SAMPLE_ROWS: usize = 12;

/// The latencies are those of requests through the front.
pub(super) fn envelope(flags: &SoakFlags, outcome: &Outcome) -> Envelope {
    let seconds = outcome.load.as_secs_f64();
    let violations = outcome.violations();
    Envelope {
        bench: "soak",
        scenario: flags.shape.name(),
        settings: serde_json::to_value(flags).unwrap_or_default(),
        seconds,
        operations_per_second: to_f64(outcome.operations()) / seconds,
        p50_us: outcome.latencies.quantile_us(0.5),
        p95_us: outcome.latencies.quantile_us(0.95),
        p99_us: outcome.latencies.quantile_us(0.99),
        errors: violations.iter().map(|(_, count)| count).sum(),
        client_cpu_seconds: own_cpu_time().as_secs_f64(),
        server_cpu_seconds: None,
        server_cpu_us_per_operation: None,
        server_rss_bytes: rss_bytes_max(outcome),
        extra: extra(outcome),
    }
}

fn rss_bytes_max(outcome: &Outcome) -> Option<u64> {
    outcome.samples.iter().flatten().map(|sample| sample.rss_bytes).max()
}

fn extra(outcome: &Outcome) -> Map<String, Value> {
    let faults: Vec<Value> = outcome.windows.all().iter().map(|it| fault(it, outcome)).collect();
    let skipped = outcome.skipped.iter().map(|(fault, reason)| (fault.name(), reason.clone()));
    let facts = json!({
        "seed": outcome.seed,
        "drain_s": outcome.drain.as_secs_f64(),
        "violations": outcome.violations().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "faults": faults,
        "skipped": skipped.collect::<std::collections::BTreeMap<_, _>>(),
        "jobs": outcome.jobs,
        "realtime": outcome.realtime,
        "requests": outcome.requests,
        "client_errors": outcome.errors.parts,
        "unexplained_examples": outcome.errors.examples,
        "incidents": outcome.incidents,
        "growth": outcome.growth,
        "samples": outcome.samples,
    });
    facts.as_object().cloned().unwrap_or_default()
}

fn fault(window: &Window, outcome: &Outcome) -> Value {
    json!({
        "fault": window.fault,
        "detail": window.detail,
        "at_s": window.began.saturating_sub(outcome.start).as_secs_f64(),
        "lasted_s": (window.undone - window.began).as_secs_f64(),
        "recovery_s": window.recovery().map(|recovery| recovery.as_secs_f64()),
    })
}

/// Returns the report for people.
pub(super) fn markdown(flags: &SoakFlags, outcome: &Outcome) -> String {
    let mut text = String::new();
    append_head(flags, outcome, &mut text);
    append_faults(outcome, &mut text);
    append_counts(outcome, &mut text);
    append_errors(outcome, &mut text);
    append_growth(outcome, &mut text);
    append_samples(outcome, &mut text);
    text
}

fn append_head(flags: &SoakFlags, outcome: &Outcome, text: &mut String) {
    let (shape, seed) = (flags.shape.name(), outcome.seed);
    let (load, drain) = (minutes(outcome.load), outcome.drain.as_secs_f64());
    // Writing to a String cannot fail.
    let _ = writeln!(text, "### Shape `{shape}`, {load}, seed {seed}\n");
    let violations = outcome.violations();
    if violations.is_empty() {
        let _ =
            writeln!(text, "**Passed.** Everything was done {drain:.0} s after the load ended.");
    } else {
        let _ = writeln!(text, "**Failed:**\n");
        for (name, count) in violations {
            let _ = writeln!(text, "- {count} {name}");
        }
    }
    let examples = [&outcome.incidents, &outcome.jobs.examples, &outcome.realtime.examples];
    for example in examples.into_iter().flatten().chain(&outcome.errors.examples) {
        let _ = writeln!(text, "- `{}`", example.replace('`', "'"));
    }
    text.push('\n');
}

fn append_faults(outcome: &Outcome, text: &mut String) {
    text.push_str("| at | fault | whom, how long | recovered after |\n| --- | --- | --- | --- |\n");
    for window in outcome.windows.all() {
        let at = window.began.saturating_sub(outcome.start).as_secs();
        let (fault, detail) = (window.fault.description(), &window.detail);
        let recovery = window.recovery();
        let recovery = recovery.map_or("not".to_owned(), |it| format!("{:.1} s", it.as_secs_f64()));
        let _ = writeln!(text, "| {at} s | {fault} | {detail} | {recovery} |");
    }
    text.push('\n');
    for (fault, reason) in &outcome.skipped {
        let _ = writeln!(text, "Skipped: `{}`: {reason}.\n", fault.name());
    }
}

fn append_counts(outcome: &Outcome, text: &mut String) {
    let (jobs, realtime, requests) = (&outcome.jobs, &outcome.realtime, &outcome.requests);
    let rows = [
        ("jobs pushed and acknowledged", jobs.pushed),
        ("pushes without a positive reply", jobs.pushes_unknown),
        ("runs of jobs", jobs.runs),
        ("jobs lost", jobs.lost),
        ("jobs that ran again because of a fault", jobs.run_again - jobs.run_again_unexplained),
        ("of these after their ACK had its reply", jobs.run_again_after_ack),
        ("jobs of one queue in another order because of a fault", jobs.reordered_explained),
        ("unique jobs accepted", jobs.unique_pushed),
        ("batches with exactly one callback", jobs.batches - jobs.batches_without_callback),
        ("batches of which a reply was missing", jobs.batches_unknown),
        ("events published and acknowledged", realtime.published),
        ("publications without a positive response", realtime.publications_unknown),
        ("events delivered", realtime.delivered),
        ("reconnections of subscribers", realtime.reconnects),
        ("of these recovered without a gap", realtime.recovered),
        ("gaps reported because of a fault", realtime.gaps - realtime.gaps_unexplained),
        ("events lost without a gap", realtime.lost),
        ("events reordered or delivered twice", realtime.reordered + realtime.duplicated),
        ("slow clients closed with 4100", requests.slow_closed),
        ("requests served by the app", requests.requests),
        ("reads of the gem index", requests.gem_reads),
        ("gems pushed", requests.gem_pushes),
        ("reads of metrics", requests.page_reads),
        ("wrong responses", requests.wrong_responses),
    ];
    text.push_str("| count | |\n| --- | ---: |\n");
    for (name, count) in rows {
        let _ = writeln!(text, "| {name} | {} |", grouped(count));
    }
    let [p50, p99] = [0.5, 0.99].map(|it| outcome.latencies.quantile_us(it) / 1e3);
    let _ = writeln!(text, "| latency of requests, p50 and p99 | {p50:.1} ms, {p99:.1} ms |\n");
}

fn append_errors(outcome: &Outcome, text: &mut String) {
    text.push_str("| errors of clients | during a fault | at other times |\n");
    text.push_str("| --- | ---: | ---: |\n");
    for (part, counts) in &outcome.errors.parts {
        let part = format!("{part:?}").to_lowercase();
        let (explained, unexplained) = (grouped(counts.explained), counts.unexplained);
        let _ = writeln!(text, "| {part} | {explained} | {unexplained} |");
    }
    text.push('\n');
}

fn append_growth(outcome: &Outcome, text: &mut String) {
    if outcome.growth.is_empty() {
        text.push_str("The run was too short to compare its first and last quarter.\n\n");
        return;
    }
    text.push_str("| node | over | figure | first quarter | last quarter | at most |\n");
    text.push_str("| --- | --- | --- | ---: | ---: | ---: |\n");
    for growth in &outcome.growth {
        let show = |value: f64| match growth.figure {
            "memory" | "disk" => format!("{:.1} MB", value / 1e6),
            _ => format!("{value:.0}"),
        };
        let values = [growth.first_quarter, growth.last_quarter, growth.bound].map(show);
        let over = if growth.over == "life" { "longest life" } else { "run" };
        let row = [growth.node.to_string(), over.to_owned(), growth.figure.to_owned()];
        let _ = writeln!(text, "| {} | {} |", row.join(" | "), values.join(" | "));
    }
    text.push('\n');
}

fn append_samples(outcome: &Outcome, text: &mut String) {
    for (node, samples) in outcome.samples.iter().enumerate() {
        let _ = writeln!(text, "Node {node}:\n");
        text.push_str("| at | memory | | descriptors | threads | disk |\n");
        text.push_str("| ---: | ---: | --- | ---: | ---: | ---: |\n");
        let most = samples.iter().map(|sample| sample.rss_bytes).max().unwrap_or(1).max(1);
        let step = samples.len().div_ceil(SAMPLE_ROWS).max(1);
        for sample in samples.iter().step_by(step) {
            append_sample(sample, most, text);
        }
        text.push('\n');
    }
}

fn append_sample(sample: &Sample, rss_most: u64, text: &mut String) {
    let Sample { rss_bytes, descriptors, threads, disk_bytes, .. } = sample;
    let bar = "#".repeat(usize::try_from(rss_bytes * 20 / rss_most).unwrap_or(0));
    let (memory, disk) = (to_f64(*rss_bytes) / 1e6, to_f64(*disk_bytes) / 1e6);
    let at = sample.at.as_secs();
    let _ = writeln!(
        text,
        "| {at} s | {memory:.0} MB | `{bar}` | {descriptors} | {threads} | {disk:.1} MB |"
    );
}

fn minutes(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 120 { format!("{seconds} s") } else { format!("{} minutes", seconds / 60) }
}

/// Returns a number with a separator between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "counts and bytes below 2^53")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
