//! Rules about the disk, or what is in its place.

use weir_advisor::{Finding, Severity, VerdictFinding};

use super::job_facts::JobFacts;
use crate::figures::counted;

const STORE: &str = "the job store";

/// Finds a log that rejects pushes or acknowledges nothing.
pub(super) fn log_takes_no_jobs(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    let log = &facts.overview.log;
    let problem = log.problem.as_deref().unwrap_or("no reason known");
    let severity = if log.state == "degraded" { Severity::Warning } else { Severity::Critical };
    let (problem, remedy) = match log.state.as_str() {
        "low" => (
            "The disk is nearly full: new jobs are rejected, workers continue".to_owned(),
            "Free space in data_dir, or let the workers drain: pushes resume by themselves.",
        ),
        "full" => (
            "The disk is full: nothing can be written".to_owned(),
            "Free space in data_dir; Weir resumes by itself.",
        ),
        "unavailable" => (
            format!("The job store can't be reached: {problem}"),
            "Pushes and fetches fail until it is back, and then resume by themselves.",
        ),
        "degraded" => (
            format!("A part of the job store can't be reached: {problem}"),
            "Its jobs wait until it is back; others are pushed and fetched meanwhile. Check that Redis.",
        ),
        "failed" => (
            format!("Storage failed ({problem}): nothing is acknowledged"),
            "Check the disk, then restart Weir: everything acknowledged before is safe.",
        ),
        _ => return Vec::new(),
    };
    let finding = Finding::new("job-store", severity, STORE, problem);
    vec![VerdictFinding::new(finding, remedy, "/").affecting(u64::MAX)]
}

/// Finds damage to the log that no operator has acknowledged.
pub(super) fn log_is_damaged(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    let damaged = facts.overview.log.damages;
    if damaged == 0 {
        return Vec::new();
    }
    let problem = format!("The job store is damaged: {}", counted(damaged, "place"));
    let finding = Finding::new("job-store-damage", Severity::Critical, STORE, problem);
    let remedy = "Check the disk (SMART, dmesg), save the jobs that were set aside, then acknowledge the damage.";
    vec![VerdictFinding::new(finding, remedy, "/damage").affecting(damaged)]
}

/// Finds nodes that stopped reporting without being stopped.
pub(super) fn nodes_are_away(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    let nodes = &facts.overview.log.nodes;
    let away = nodes.iter().filter(|node| node.state == "away").count() as u64;
    if away == 0 {
        return Vec::new();
    }
    let problem = format!("{} of the job store stopped reporting", counted(away, "node"));
    let finding = Finding::new("nodes-away", Severity::Warning, STORE, problem);
    let remedy = "Their jobs in progress return to their queues by themselves. Check the machines, and their \
                  connections to the shards. They are listed for an hour.";
    vec![VerdictFinding::new(finding, remedy, "/nodes")]
}

/// Finds a history that is not on disk: charts will have a gap.
pub(super) fn history_is_in_memory(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    let Some(problem) = &facts.trend.history_problem else {
        return Vec::new();
    };
    let problem = format!("Charts are kept in memory only: {problem}");
    let finding = Finding::new("charts-in-memory", Severity::Notice, "charts", problem);
    let remedy = "Free space or make the folder writable. Weir retries every minute.";
    vec![VerdictFinding::new(finding, remedy, "/")]
}
