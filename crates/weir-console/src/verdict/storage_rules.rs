//! Rules about the disk, or what is in its place.

use super::finding::{Finding, Level};
use super::job_facts::JobFacts;
use crate::figures::counted;

/// Finds a log that rejects pushes or acknowledges nothing.
pub(super) fn log_takes_no_jobs(facts: &JobFacts<'_>) -> Vec<Finding> {
    let log = &facts.overview.log;
    let problem = log.problem.as_deref().unwrap_or("no reason known");
    let level = if log.state == "degraded" { Level::Warning } else { Level::Critical };
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
    vec![Finding {
        rule: "job-store",
        level,
        problem,
        remedy: remedy.to_owned(),
        link: "/".to_owned(),
        jobs: u64::MAX,
    }]
}

/// Finds damage to the log that no operator has acknowledged.
pub(super) fn log_is_damaged(facts: &JobFacts<'_>) -> Vec<Finding> {
    let damaged = facts.overview.log.damages;
    if damaged == 0 {
        return Vec::new();
    }
    vec![Finding {
        rule: "job-store-damage",
        level: Level::Critical,
        problem: format!("The job store is damaged: {}", counted(damaged, "place")),
        remedy:
            "Check the disk (SMART, dmesg), save the jobs that were set aside, then acknowledge the damage."
                .to_owned(),
        link: "/damage".to_owned(),
        jobs: damaged,
    }]
}

/// Finds nodes that stopped reporting without being stopped.
pub(super) fn nodes_are_away(facts: &JobFacts<'_>) -> Vec<Finding> {
    let nodes = &facts.overview.log.nodes;
    let away = nodes.iter().filter(|node| node.state == "away").count() as u64;
    if away == 0 {
        return Vec::new();
    }
    vec![Finding {
        rule: "nodes-away",
        level: Level::Warning,
        problem: format!("{} of the job store stopped reporting", counted(away, "node")),
        remedy: "Their jobs in progress return to their queues by themselves. Check the machines, and their \
                 connections to the shards. They are listed for an hour."
            .to_owned(),
        link: "/nodes".to_owned(),
        jobs: 0,
    }]
}

/// Finds a history that is not on disk: charts will have a gap.
pub(super) fn history_is_in_memory(facts: &JobFacts<'_>) -> Vec<Finding> {
    let Some(problem) = &facts.trend.history_problem else {
        return Vec::new();
    };
    vec![Finding {
        rule: "charts-in-memory",
        level: Level::Notice,
        problem: format!("Charts are kept in memory only: {problem}"),
        remedy: "Free space or make the folder writable. Weir retries every minute.".to_owned(),
        link: "/".to_owned(),
        jobs: 0,
    }]
}
