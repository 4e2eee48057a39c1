//! The list of all findings and a one-line summary of them.

use std::time::Duration;

use serde::Serialize;

use crate::finding::{self, Finding, Severity};
use crate::flow::Drain;
use crate::forecast::{self, Between, Forecast};
use crate::observation::{Fact, Observation, ObservedQueue, RedisServer, SidekiqObservation};
use crate::rules::{self, retry_flood};
use crate::{alternatives, contradictions, wording};

/// Maximum number of growing queues that are named.
const GROWING_MAX: usize = 3;

/// The output of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The summary, which is displayed as one line.
    pub verdict: Summary,
    /// Sorted by severity, worst first. Among equals, causes come before their effects.
    pub findings: Vec<Finding>,
}

/// The cause, the time to drain and the next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The worst severity, or `None` when nothing is wrong.
    pub severity: Option<Severity>,
    /// Subject and evidence of the worst finding.
    pub cause: String,
    /// When all served queues will be empty, or `None` if that was not measured.
    pub drain: Option<Drain>,
    /// The range that contains `drain` in about 9 of 10 cases.
    pub between: Option<Between>,
    /// Queues with jobs that no process serves. They never drain.
    pub unserved: Vec<String>,
    /// What is growing, the largest first: "queue pull (194,000 jobs)", "the retry set".
    pub growing: Vec<String>,
    /// The next step, from the first finding's [`Finding::to_do`].
    pub next: Option<String>,
}

impl Summary {
    /// Returns the time until every queue is empty, or `None` if it is unknown or infinite.
    #[must_use]
    pub fn until_all_is_empty(&self) -> Option<Duration> {
        match self.drain? {
            Drain::After(left) if self.unserved.is_empty() => Some(left),
            Drain::Empty => Some(Duration::ZERO),
            Drain::After(_) | Drain::Stands | Drain::Grows => None,
        }
    }
}

/// Runs every rule and returns the findings with their summary.
#[must_use]
pub fn advise(observation: &Observation) -> Advice {
    let mut findings = rules::check(observation);
    // The sort is stable: among equals, the order of the rules (causes first) is preserved.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let findings = contradictions::without(findings).into_iter();
    let findings: Vec<_> = findings.map(|it| alternatives::with(observation, it)).collect();
    Advice { verdict: verdict(observation, &findings), findings }
}

fn verdict(observation: &Observation, findings: &[Finding]) -> Summary {
    let (drain, between, unserved) = drain(observation);
    let growing = growing(observation);
    let Some(worst) = findings.first() else {
        let cause = "nothing is wrong".to_owned();
        return Summary { severity: None, cause, drain, between, unserved, growing, next: None };
    };
    let cause = format!("{}: {}", worst.subject, worst.evidence);
    let (severity, next) = (Some(worst.severity), worst.to_do());
    Summary { severity, cause, drain, between, unserved, growing, next }
}

/// Returns the queues that are growing, and the retry set if it is.
fn growing(observation: &Observation) -> Vec<String> {
    let mut queues = Vec::new();
    let mut sets = Vec::new();
    for (shard, jobs) in observation.each_jobs() {
        let Some(jobs) = jobs.known() else { continue };
        let on = shard.map(finding::on).unwrap_or_default();
        let forecast = Forecast::of(jobs);
        let grows = |queue: &&ObservedQueue| forecast.queue(&queue.name) == Some(Drain::Grows);
        queues.extend(
            jobs.queues.iter().filter(grows).map(|it| (it.length, it.name.clone(), on.clone())),
        );
        sets.extend(retry_flood::is_growing(&jobs.retries).then(|| format!("the retry set{on}")));
    }
    queues.sort_by_key(|(length, ..)| std::cmp::Reverse(*length));
    let words = |(length, name, on): (u64, String, String)| {
        format!("queue {name}{on} ({})", wording::number(length, "job", "jobs"))
    };
    queues.into_iter().take(GROWING_MAX).map(words).chain(sets).collect()
}

/// The time to drain of the served queues, its range, and the names of the unserved queues.
pub(crate) type Ends = (Option<Drain>, Option<Between>, Vec<String>);

/// Combines the shards: the slowest one determines the time to drain, and if one is unknown, so is
/// the total.
fn drain(observation: &Observation) -> Ends {
    let mut unserved = Vec::new();
    let mut ends = Vec::new();
    for (place, (shard, jobs)) in observation.each_jobs().enumerate() {
        let (drain, between, left) = jobs.known().map(drain_of).unwrap_or_default();
        // The rates are those from before Redis began to reject writes.
        let redis = observation.redis.get(place).and_then(Fact::known);
        let is_held = || jobs.known().is_some_and(|jobs| redis.is_some_and(|it| holds(it, jobs)));
        let drain = drain.filter(|drain| !(matches!(drain, Drain::After(_)) && is_held()));
        let on = shard.map(finding::on).unwrap_or_default();
        unserved.extend(left.into_iter().map(|queue| format!("{queue}{on}")));
        ends.push(drain.map(|drain| (drain, between)));
    }
    let ends: Option<Vec<_>> = ends.into_iter().collect();
    let last = ends.and_then(|ends| ends.into_iter().max_by_key(|it| forecast::rank(it.0)));
    (last.map(|it| it.0), last.and_then(|it| it.1), unserved)
}

fn holds(redis: &RedisServer, jobs: &SidekiqObservation) -> bool {
    redis.refuses_writes_of(jobs).is_some()
}

/// Returns the same for one shard.
pub(crate) fn drain_of(jobs: &SidekiqObservation) -> Ends {
    let waiting = jobs.queues.iter().filter(|queue| queue.length > 0 && !queue.paused);
    let (served, unserved): (Vec<&ObservedQueue>, Vec<&ObservedQueue>) =
        waiting.partition(|queue| !jobs.nobody_serves(&queue.name));
    let unserved: Vec<_> = unserved.into_iter().map(|queue| queue.name.clone()).collect();
    if served.is_empty() {
        let drain = if unserved.is_empty() { Drain::Empty } else { Drain::Stands };
        return (Some(drain), None, unserved);
    }
    let forecast = Forecast::of(jobs);
    (forecast.all, forecast.between, unserved)
}

impl std::fmt::Display for Summary {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.cause)?;
        match self.drain {
            Some(Drain::After(left)) if self.severity.is_some() => {
                let left = wording::about(left, self.between);
                if self.growing.iter().any(|it| it.starts_with("queue")) {
                    // All jobs together become fewer; the growing queues are named below.
                    write!(formatter, "; the backlog of all queues together lasts {left}")?;
                } else {
                    let which = if self.unserved.is_empty() { "all" } else { "the other" };
                    write!(formatter, "; {which} queues will be empty in {left}")?;
                }
            }
            _ => {}
        }
        // A cause that is about the retry set says so.
        let is_new = |it: &&str| !(it.starts_with("the retry set") && self.cause.starts_with(it));
        let growing: Vec<&str> = self.growing.iter().map(String::as_str).filter(is_new).collect();
        if self.severity.is_some() && !growing.is_empty() {
            let are = if growing.len() == 1 { "is" } else { "are" };
            write!(formatter, "; {} {are} growing", wording::list(growing))?;
        }
        match &self.next {
            Some(next) => write!(formatter, "; next: {next}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Flow;
    use crate::healthy;

    #[test]
    fn a_healthy_system_is_met_with_silence() {
        let advice = advise(&healthy::observation());
        assert_eq!(advice.findings, []);
        assert_eq!(advice.verdict.severity, None);
        assert_eq!(advice.verdict.to_string(), "nothing is wrong");
    }

    #[test]
    fn who_asked_nobody_says_nothing() {
        assert_eq!(advise(&Observation::default()).findings, []);
    }

    #[test]
    fn an_untuned_database_comes_first_while_jobs_are_behind() {
        let mut observation = healthy::observation();
        let settings = observation.postgres.known_mut().settings.known_mut();
        settings.shared_buffers_bytes = 128 << 20;
        *observation.postgres.known_mut().cache_hit_ratio.known_mut() = 0.6;
        let queue = observation.jobs.known_mut().queue_mut("push");
        queue.length = 194_000;
        queue.latency = Duration::from_secs(14 * 3_600);
        let window = Duration::from_secs(10);
        let flow = Flow {
            window,
            before: 193_000,
            after: 194_000,
            arrivals_per_second: 150.0,
            deviation: None,
        };
        queue.flow = Fact::Known(flow);
        let advice = advise(&observation);
        assert_eq!(advice.findings[0].rule, "untuned-database");
        assert!(advice.findings.iter().any(|finding| finding.rule == "backlog"));
        assert_eq!(advice.verdict.drain, Some(Drain::Grows));
        let line = advice.verdict.to_string();
        assert!(line.starts_with("shared_buffers: 128 MB"), "{line}");
        assert!(line.contains("; queue push (194,000 jobs) is growing; next: "), "{line}");
    }

    #[test]
    fn what_grows_is_named() {
        let mut observation = healthy::observation();
        let flow = |before, after| {
            let window = Duration::from_secs(10);
            Fact::Known(Flow { window, before, after, ..Flow::default() })
        };
        let jobs = observation.jobs.known_mut();
        (jobs.retries.size, jobs.retries.flow) = (2_000, flow(1_000, 2_000));
        let line = |observation: &Observation| advise(observation).verdict.to_string();
        assert_eq!(
            line(&observation),
            "the retry set: 2,000 failed jobs wait for a retry and the number is growing"
        );
        let jobs = observation.jobs.known_mut();
        (jobs.queue_mut("pull").length, jobs.queue_mut("pull").flow) = (60, flow(0, 60));
        assert!(line(&observation).ends_with("; queue pull (60 jobs) is growing"));
        jobs_without_server(&mut observation);
        let shown = line(&observation);
        assert!(shown.contains("; queue pull (60 jobs) and the retry set are growing"), "{shown}");
    }

    /// Makes something else the worst.
    fn jobs_without_server(observation: &mut Observation) {
        let jobs = observation.jobs.known_mut();
        jobs.processes[0].capsules[0].queues.retain(|it| it.name != "fasp");
    }

    #[test]
    fn the_worst_comes_first_and_what_is_unknown_last() {
        let mut observation = healthy::observation();
        observation.postgres.known_mut().cache_hit_ratio = Fact::Unknown(crate::Missing {
            what: "cache hits".to_owned(),
            obstacle: crate::observation::MissingReason::NotAllowed,
            reason: "permission denied".to_owned(),
            remedy: Some("GRANT pg_monitor TO weir_mon;".to_owned()),
        });
        observation.jobs.known_mut().processes.clear();
        let severities: Vec<_> =
            advise(&observation).findings.iter().map(|finding| finding.severity).collect();
        assert!(severities.is_sorted_by(|one, other| one >= other), "{severities:?}");
        assert_eq!(severities.first(), Some(&Severity::Critical));
        assert_eq!(severities.last(), Some(&Severity::Unknown));
    }

    #[test]
    fn what_nobody_serves_is_never_worked_off_and_hides_in_no_time() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.queues.clear();
        let window = Duration::from_secs(10);
        for (name, before, after) in [("push", 2_000, 1_000), ("nobodys", 300, 300)] {
            let flow = Flow { window, before, after, ..Flow::default() };
            let queue = ObservedQueue {
                name: name.to_owned(),
                length: after,
                flow: Fact::Known(flow),
                ..ObservedQueue::default()
            };
            jobs.queues.push(queue);
        }
        let verdict = advise(&observation).verdict;
        assert_eq!(verdict.drain, Some(Drain::After(Duration::from_secs(10))));
        assert_eq!(verdict.unserved, ["nobodys"]);
        assert_eq!(verdict.until_all_is_empty(), None);
        let line = verdict.to_string();
        assert!(line.contains("; the other queues will be empty in 10 s; next: "), "{line}");
        observation.jobs.known_mut().processes.clear();
        assert_eq!(advise(&observation).verdict.drain, Some(Drain::Stands));
    }

    #[test]
    fn a_growing_queue_is_not_said_to_be_empty_soon() {
        let growing = Summary {
            severity: Some(Severity::Warning),
            cause: "queue push: late".to_owned(),
            drain: Some(Drain::After(Duration::from_secs(349))),
            between: None,
            unserved: Vec::new(),
            growing: vec!["queue images (9 jobs)".to_owned()],
            next: None,
        };
        let line = growing.to_string();
        assert!(line.contains("; the backlog of all queues together lasts 5 min 49 s; "), "{line}");
        assert!(line.ends_with("; queue images (9 jobs) is growing"), "{line}");
        let shrinking = Summary { growing: Vec::new(), ..growing };
        assert!(shrinking.to_string().ends_with("; all queues will be empty in 5 min 49 s"));
    }

    #[test]
    fn the_time_to_drain_is_unknown_if_that_of_one_queue_is() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().queue_mut("pull").flow = Fact::NotAsked;
        assert_eq!(advise(&observation).verdict.drain, None);
    }

    #[test]
    fn no_end_is_told_where_processes_were_not_seen() {
        let mut observation = healthy::observation();
        let flow = Flow {
            window: Duration::from_secs(10),
            before: 2_000,
            after: 1_000,
            ..Flow::default()
        };
        let jobs = observation.jobs.known_mut();
        jobs.queue_mut("push").length = 1_000;
        jobs.queue_mut("push").flow = Fact::Known(flow);
        let drain = |observation: &Observation| advise(observation).verdict.drain;
        assert!(matches!(drain(&observation), Some(Drain::After(_))));
        observation.jobs.known_mut().has_more_processes = true;
        assert_eq!(drain(&observation), None);
        observation.cut = vec!["processes_max (1000)".to_owned()];
        let findings = advise(&observation).findings;
        let cut = findings.iter().find(|it| it.subject == "the rest of Sidekiq").unwrap();
        assert!(cut.consequence.ends_with("It is unknown whether every queue is served."));
    }

    #[test]
    fn advice_is_plain_json() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().ghosts = vec!["shop:9:x".to_owned()];
        let json = serde_json::to_value(advise(&observation)).unwrap();
        assert_eq!(json["verdict"]["severity"], "warning");
        let finding = &json["findings"][0];
        assert_eq!(
            (&finding["rule"], &finding["confidence"]),
            (&"ghost-process".into(), &"certain".into())
        );
        let action =
            serde_json::json!({"do": "run", "command": "journalctl -k --grep 'killed process'"});
        assert_eq!(finding["actions"], serde_json::json!([action]));
        let _ = serde_json::to_value(&observation).unwrap();
    }

    #[test]
    fn no_time_to_drain_is_given_while_redis_rejects_writes() {
        let mut observation = healthy::observation();
        let queue = observation.jobs.known_mut().queue_mut("push");
        (queue.length, queue.latency) = (5_000, Duration::from_secs(900));
        let window = Duration::from_secs(10);
        queue.flow = Fact::Known(Flow { window, before: 6_000, after: 5_000, ..Flow::default() });
        assert!(matches!(advise(&observation).verdict.drain, Some(Drain::After(_))));
        observation.redis[0].known_mut().info.persistence.last_append_ok = false;
        let verdict = advise(&observation).verdict;
        assert_eq!(verdict.drain, None);
        assert!(!verdict.to_string().contains("will be empty"), "{verdict}");
    }
}
