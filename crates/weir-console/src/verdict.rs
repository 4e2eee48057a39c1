//! What an operator asks at 3 a.m.: what is wrong, how long until it is over, what to do.
//!
//! Each rule is a pure function from [`Facts`] to [`Finding`]s; the page shows the gravest first.

mod finding;
mod jobs_rules;
mod limit_rules;
mod queue_rules;
mod realtime_rules;
mod storage_rules;
mod worker_rules;

use weir_jobs::settings::Limits;
use weir_jobs::view;

use crate::realtime::Reading;

pub use self::finding::{Finding, Level, Verdict};
pub(crate) use self::worker_rules::SILENT_SECONDS;

/// All that the rules look at.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub overview: &'a view::Overview,
    pub queues: &'a [view::Queue],
    pub workers: &'a [view::Worker],
    pub trend: &'a Trend,
    pub limits: &'a Limits,
    /// Where clients reach the job server.
    pub jobs_url: &'a str,
    /// None: it is not served here.
    pub(crate) realtime: Option<&'a Reading>,
}

/// What changed lately.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trend {
    /// The retry set's size ten minutes ago; None: not known.
    pub retries_before: Option<f64>,
    /// Failures and ends (of either kind) per second over the last minute.
    pub failed_per_second: f64,
    pub processed_per_second: f64,
    /// Limits met within the last ten minutes and how often.
    pub limits_hit: Vec<view::LimitHit>,
    /// Why the history isn't on disk; None: it is.
    pub history_problem: Option<String>,
}

type Rule = fn(&Facts<'_>) -> Vec<Finding>;

const RULES: [Rule; 21] = [
    storage_rules::log_takes_no_jobs,
    storage_rules::log_is_damaged,
    storage_rules::history_is_in_memory,
    worker_rules::nobody_works,
    worker_rules::all_are_leaving,
    worker_rules::worker_is_silent,
    queue_rules::queue_is_not_fetched,
    queue_rules::queue_is_passed_over,
    queue_rules::queue_grows,
    queue_rules::queue_is_late,
    queue_rules::queue_is_paused,
    jobs_rules::retries_rise,
    jobs_rules::many_fail,
    limit_rules::limits_are_met,
    limit_rules::dead_set_is_nearly_full,
    realtime_rules::core_is_behind,
    realtime_rules::clients_are_slow,
    realtime_rules::app_is_full,
    realtime_rules::webhooks_fail,
    realtime_rules::realtime_limits_are_met,
    realtime_rules::something_is_switched_off,
];

/// The verdict on a server.
#[must_use]
pub fn judge(facts: &Facts<'_>) -> Verdict {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(facts)).collect();
    findings.sort_by(|one, other| other.level.cmp(&one.level).then(other.jobs.cmp(&one.jobs)));
    Verdict { findings, calm: calm(facts) }
}

/// What to say when there is nothing to say.
fn calm(facts: &Facts<'_>) -> String {
    let overview = facts.overview;
    let targets = facts.queues.iter().filter(|queue| queue.target_latency_seconds.is_some());
    let connections = facts.realtime.map_or(0, |realtime| realtime.overview.totals.connections);
    if overview.queues == 0 && overview.pushed_total == 0 && connections > 0 {
        format!("Realtime is well: {}", crate::figures::counted(connections, "connection"))
    } else if overview.queues == 0 && overview.pushed_total == 0 {
        "Ready: no jobs yet".to_owned()
    } else if overview.enqueued == 0 {
        "All done: nothing waits in any queue".to_owned()
    } else if targets.count() > 0 {
        "All queues within target".to_owned()
    } else {
        let longest = crate::figures::duration(overview.latency_seconds_max);
        format!("No queue is behind: the longest wait is {longest}")
    }
}

#[cfg(test)]
mod tests;
