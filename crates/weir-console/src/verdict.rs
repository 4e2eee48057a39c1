//! The verdict: problems, the time until they end, and remedies.
//!
//! Each rule is a pure function from facts to findings; the page shows the most severe first.

mod front_rules;
mod job_facts;
mod jobs_rules;
mod limit_rules;
mod observed_rules;
mod queue_rules;
mod realtime_rules;
mod storage_rules;
mod worker_rules;

use weir_advisor::{Finding, Severity, Verdict, VerdictFinding};

pub(crate) use self::job_facts::JobFacts;
pub(crate) use self::worker_rules::SILENT_SECONDS;
use crate::figures::{counted, duration};
use crate::front;
use crate::observed;
use crate::realtime::RealtimeSnapshot;

/// The input of the rules. None: the part is not served by this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VerdictInput<'a> {
    pub(crate) jobs: Option<JobFacts<'a>>,
    pub(crate) realtime: Option<&'a RealtimeSnapshot>,
    pub(crate) front: Option<&'a front::FrontSnapshot>,
    pub(crate) observed: Option<&'a observed::ObservedSample>,
}

const JOB_RULES: &[fn(&JobFacts<'_>) -> Vec<VerdictFinding>] = &[
    storage_rules::log_takes_no_jobs,
    storage_rules::log_is_damaged,
    storage_rules::nodes_are_away,
    storage_rules::history_is_in_memory,
    worker_rules::no_worker_is_connected,
    worker_rules::all_are_leaving,
    worker_rules::worker_is_silent,
    queue_rules::queue_is_not_fetched,
    queue_rules::queue_is_passed_over,
    queue_rules::backlog_is_late,
    queue_rules::queue_grows,
    queue_rules::queue_is_late,
    queue_rules::queue_is_paused,
    jobs_rules::retries_rise,
    jobs_rules::many_fail,
    limit_rules::limits_are_met,
    limit_rules::dead_set_is_nearly_full,
];

const REALTIME_RULES: &[fn(&RealtimeSnapshot) -> Vec<VerdictFinding>] = &[
    realtime_rules::core_is_behind,
    realtime_rules::clients_are_slow,
    realtime_rules::app_is_full,
    realtime_rules::webhooks_fail,
    realtime_rules::realtime_limits_are_met,
    realtime_rules::something_is_switched_off,
];

const FRONT_RULES: &[fn(&front::FrontSnapshot) -> Vec<VerdictFinding>] = &[
    front_rules::no_worker_serves,
    front_rules::workers_do_not_start,
    front_rules::app_is_overloaded,
    front_rules::workers_are_evicted,
    front_rules::app_is_in_maintenance,
    front_rules::app_sheds,
    front_rules::app_cannot_shed,
    front_rules::app_is_paused,
];

/// Applies all rules.
#[must_use]
pub(crate) fn evaluate(facts: &VerdictInput<'_>) -> Verdict {
    let job_findings =
        facts.jobs.iter().flat_map(|jobs| JOB_RULES.iter().flat_map(|rule| rule(jobs)));
    let realtime_findings = facts
        .realtime
        .iter()
        .flat_map(|realtime| REALTIME_RULES.iter().flat_map(|rule| rule(realtime)));
    let front_findings =
        facts.front.iter().flat_map(|front| FRONT_RULES.iter().flat_map(|rule| rule(front)));
    let observed_findings =
        facts.observed.iter().flat_map(|observed| observed_rules::doctor_finds(observed));
    let all = job_findings.chain(realtime_findings).chain(front_findings).chain(observed_findings);
    Verdict::new(all.collect(), healthy_headline(facts))
}

/// Returns the verdict while the job server does not reply; `problem` is its error.
pub(crate) fn of_unresponsive_jobs(problem: &str) -> Verdict {
    let problem = format!("The job server does not respond: {problem}");
    let finding = Finding::new("job-server", Severity::Critical, "job server", problem);
    let remedy = "It is starting or stopping, or its thread is stuck: the log says which.";
    Verdict::new(vec![VerdictFinding::new(finding, remedy, "/")], String::new())
}

/// Returns the style's class and the word of a verdict: colour is never the only mark.
pub(crate) fn style(severity: Option<Severity>) -> (&'static str, &'static str) {
    severity.map_or(("calm", "All well"), |severity| (severity.name(), severity.label()))
}

/// Returns the headline when there are no findings.
fn healthy_headline(facts: &VerdictInput<'_>) -> String {
    let connections = facts.realtime.map(|realtime| realtime.overview.totals.connections);
    let realtime_is_well =
        |connections| format!("Realtime is well: {}", counted(connections, "connection"));
    let Some(jobs) = facts.jobs else {
        let workers = facts.front.map_or(0, front::FrontSnapshot::serving) as u64;
        let front = || match workers {
            0 if facts.observed.is_some_and(|observed| observed.latest.is_some()) => {
                "Doctor has no findings".to_owned()
            }
            0 => "Only the console is served here".to_owned(),
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
        "All queues are empty".to_owned()
    } else if targets.next().is_some() {
        "All queues within target".to_owned()
    } else {
        format!(
            "No queue is behind: the highest latency is {}",
            duration(overview.latency_seconds_max)
        )
    }
}

#[cfg(test)]
mod tests;
