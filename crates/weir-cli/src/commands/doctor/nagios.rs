//! Output for Nagios and compatible monitors: a status line, figures after a bar, an exit code.

use std::fmt::Write;

use weir_advisor::{Advice, Observation, Severity};

use super::report;
use crate::output;

pub(super) const UNKNOWN: u8 = 3;

/// Returns the state: 0 OK, 1 warning, 2 critical, 3 unknown. Notices are OK.
pub(super) fn state(advice: &Advice) -> u8 {
    match worst(advice) {
        Some(Severity::Critical) => 2,
        Some(Severity::Warning) => 1,
        Some(Severity::Unknown) => UNKNOWN,
        Some(Severity::Notice) | None => 0,
    }
}

/// Returns the worst severity. Unavailable facts rank above notices.
fn worst(advice: &Advice) -> Option<Severity> {
    let weight = |severity: &Severity| match severity {
        Severity::Notice => 0,
        Severity::Unknown => 1,
        Severity::Warning => 2,
        Severity::Critical => 3,
    };
    advice.findings.iter().map(|finding| finding.severity).max_by_key(weight)
}

/// Returns the status line with its figures, then a line for each finding.
pub(super) fn lines(observation: &Observation, advice: &Advice) -> String {
    let word = match state(advice) {
        0 => "OK",
        1 => "WARNING",
        2 => "CRITICAL",
        _ => "UNKNOWN",
    };
    let line = plain(&advice.verdict.to_string());
    let mut text = format!("WEIR {word} - {line} |{}\n", figures(observation, advice));
    for finding in &advice.findings {
        let label = report::label(finding.severity, false);
        let line = format!("{label} {}: {}", finding.subject, finding.evidence);
        let _ = writeln!(text, "{}", plain(&line));
    }
    text
}

/// Returns the status line when no source could be observed.
pub(super) fn failed(error: &anyhow::Error) -> String {
    format!("WEIR UNKNOWN - {}", plain(&format!("{error:#}")))
}

fn figures(observation: &Observation, advice: &Advice) -> String {
    let mut text = format!(" findings={}", advice.findings.len());
    if let Some(jobs) = observation.jobs.known() {
        let latency = jobs.queues.iter().map(|queue| queue.latency).max().unwrap_or_default();
        let (backlog, retries) = (jobs.backlog(), jobs.retries.size);
        let seconds = latency.as_secs();
        let _ = write!(text, " backlog={backlog} latency={seconds}s retries={retries}");
    }
    if let Some(left) = advice.verdict.until_all_is_empty() {
        let _ = write!(text, " drain={}s", left.as_secs());
    }
    let postgres = observation.postgres.known();
    if let Some(connections) = postgres.and_then(|postgres| postgres.connections.known()) {
        let _ = write!(text, " connections={}", connections.open());
    }
    text
}

/// Replaces bars, which separate the text from the figures.
fn plain(text: &str) -> String {
    output::printable(&text.replace('|', "/"))
}
