//! Tables: one row for each policy, and one for each queue under each policy.

use super::PolicyResult;
use super::units::duration;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The first row.
    pub head: Vec<&'static str>,
    /// The other rows.
    pub rows: Vec<Vec<String>>,
}

/// Returns a row for each policy.
#[must_use]
pub fn summary_table(results: &[PolicyResult]) -> Table {
    let head = vec![
        "POLICY",
        "DRAINED",
        "URGENT IN TARGET",
        "CONTAINED",
        "SLOWDOWN",
        "CONNECTIONS MAX",
        "DEAD",
        "DECISIONS",
    ];
    Table { head, rows: results.iter().map(summary).collect() }
}

fn summary(result: &PolicyResult) -> Vec<String> {
    let record = &result.record;
    let drained = match record.drain_seconds() {
        Some(seconds) => duration(seconds),
        None if record.has_cause => "no".to_owned(),
        None => "-".to_owned(),
    };
    let urgent = if record.is_urgent_in_target() { "yes" } else { "no" };
    let contained = match record.contained_after_seconds {
        Some(seconds) => duration(seconds),
        None => "no".to_owned(),
    };
    let dead: u64 = record.classes.iter().map(|class| class.dead).sum();
    vec![
        result.policy.clone(),
        drained,
        urgent.to_owned(),
        contained,
        format!("{:.1}x", record.slowdown()),
        record.connections_max.to_string(),
        dead.to_string(),
        record.decisions.len().to_string(),
    ]
}

/// Returns a row for each queue under each policy.
#[must_use]
pub fn queue_table(results: &[PolicyResult]) -> Table {
    let head = vec!["QUEUE", "TARGET", "POLICY", "P50", "P95", "P99", "IN TARGET", "JOBS"];
    let queues = results.first().map_or(0, |result| result.record.queues.len());
    let rows =
        (0..queues).flat_map(|queue| results.iter().map(move |result| of_queue(result, queue)));
    Table { head, rows: rows.collect() }
}

fn of_queue(result: &PolicyResult, queue: usize) -> Vec<String> {
    let queue = &result.record.queues[queue];
    let waits = &queue.waits;
    let share = 100.0 * waits.in_target as f64 / (waits.count as f64).max(1.0);
    vec![
        queue.name.clone(),
        duration(queue.target_seconds),
        result.policy.clone(),
        duration(waits.percentile(0.5)),
        duration(waits.percentile(0.95)),
        duration(waits.percentile(0.99)),
        format!("{share:.1} %"),
        waits.count.to_string(),
    ]
}
