//! What an operator asks at 3 a.m.: what is wrong, how long until it is over, what to do.
//!
//! Each rule is a pure function from facts to [`Finding`]s; the page shows the gravest first.

mod finding;
mod front_rules;
mod jobs_rules;
mod limit_rules;
mod observed_rules;
mod queue_rules;
mod realtime_rules;
mod storage_rules;
mod worker_rules;

use weir_jobs::settings::JobServerLimits;
use weir_jobs::view;

pub(crate) use self::finding::{Finding, Level, Verdict};
pub(crate) use self::worker_rules::SILENT_SECONDS;
use crate::figures::{counted, duration};
use crate::front;
use crate::jobs::{self, Jobs};
use crate::observed;
use crate::realtime::Reading;

/// All that the rules look at. None: it is not served here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) jobs: Option<JobFacts<'a>>,
    pub(crate) realtime: Option<&'a Reading>,
    pub(crate) front: Option<&'a front::Reading>,
    pub(crate) observed: Option<&'a observed::Reading>,
}

/// What the rules about jobs look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobFacts<'a> {
    pub(crate) overview: &'a view::JobServerOverview,
    pub(crate) queues: &'a [view::QueueView],
    pub(crate) workers: &'a [view::JobWorkerView],
    pub(crate) trend: &'a Trend,
    pub(crate) limits: &'a JobServerLimits,
    /// Where clients reach the job server.
    pub(crate) jobs_url: &'a str,
}

/// What changed lately.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Trend {
    /// The retry set's size ten minutes ago; None: not known.
    pub(crate) retries_before: Option<f64>,
    /// Failures and ends (of either kind) per second over the last minute.
    pub(crate) failed_per_second: f64,
    pub(crate) processed_per_second: f64,
    /// Limits met within the last ten minutes and how often.
    pub(crate) limits_hit: Vec<view::LimitHit>,
    /// Why the history isn't on disk; None: it is.
    pub(crate) history_problem: Option<String>,
}

const JOB_RULES: [fn(&JobFacts<'_>) -> Vec<Finding>; 15] = [
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
];

const REALTIME_RULES: [fn(&Reading) -> Vec<Finding>; 6] = [
    realtime_rules::core_is_behind,
    realtime_rules::clients_are_slow,
    realtime_rules::app_is_full,
    realtime_rules::webhooks_fail,
    realtime_rules::realtime_limits_are_met,
    realtime_rules::something_is_switched_off,
];

const FRONT_RULES: [fn(&front::Reading) -> Vec<Finding>; 7] = [
    front_rules::nobody_serves,
    front_rules::workers_do_not_start,
    front_rules::app_is_overloaded,
    front_rules::workers_are_evicted,
    front_rules::app_is_in_maintenance,
    front_rules::app_sheds,
    front_rules::app_is_paused,
];

impl<'a> JobFacts<'a> {
    pub(crate) fn of(served: &'a Jobs, reading: &'a jobs::Reading) -> Self {
        Self {
            overview: &reading.overview,
            queues: &reading.queues,
            workers: &reading.workers,
            trend: &reading.trend,
            limits: &served.limits,
            jobs_url: &served.url,
        }
    }
}

/// The verdict on a server.
#[must_use]
pub(crate) fn judge(facts: &Facts<'_>) -> Verdict {
    let of_jobs = facts.jobs.iter().flat_map(|jobs| JOB_RULES.iter().flat_map(|rule| rule(jobs)));
    let of_realtime = facts
        .realtime
        .iter()
        .flat_map(|realtime| REALTIME_RULES.iter().flat_map(|rule| rule(realtime)));
    let of_front =
        facts.front.iter().flat_map(|front| FRONT_RULES.iter().flat_map(|rule| rule(front)));
    let of_observed = facts.observed.iter().flat_map(|it| observed_rules::doctor_finds(it));
    let all = of_jobs.chain(of_realtime).chain(of_front).chain(of_observed);
    let mut findings: Vec<Finding> = all.collect();
    findings.sort_by(|one, other| other.level.cmp(&one.level).then(other.jobs.cmp(&one.jobs)));
    Verdict { findings, calm: calm(facts) }
}

/// What to say when there is nothing to say.
fn calm(facts: &Facts<'_>) -> String {
    let connections = facts.realtime.map(|realtime| realtime.overview.totals.connections);
    let realtime_is_well =
        |connections| format!("Realtime is well: {}", counted(connections, "connection"));
    let Some(jobs) = facts.jobs else {
        let workers = facts.front.map_or(0, front::Reading::serving) as u64;
        let front = || match workers {
            0 if facts.observed.is_some_and(|it| it.looked.is_some()) => {
                "Doctor finds nothing wrong".to_owned()
            }
            0 => "Nothing is served here but this console".to_owned(),
            workers => format!("The front is well: {}", counted(workers, "worker")),
        };
        return connections.map_or_else(front, realtime_is_well);
    };
    let overview = jobs.overview;
    let mut targets = jobs.queues.iter().filter(|queue| queue.target_latency_seconds.is_some());
    match connections {
        _ if overview.queues > 0 || overview.pushed_total > 0 => {}
        Some(connections @ 1..) => return realtime_is_well(connections),
        _ => return "Ready: no jobs yet".to_owned(),
    }
    if overview.enqueued == 0 {
        "All done: nothing waits in any queue".to_owned()
    } else if targets.next().is_some() {
        "All queues within target".to_owned()
    } else {
        format!(
            "No queue is behind: the longest wait is {}",
            duration(overview.latency_seconds_max)
        )
    }
}

#[cfg(test)]
mod tests;
