//! Processes of several applications take jobs from one queue, or processes with different code. A job
//! fails in a process that does not have its class.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{FailingClass, JobProcess, Observation, SidekiqObservation};
use crate::wording;

pub(crate) const NAME: &str = "shared-queue";

/// During a deployment, processes of two releases run for some minutes.
const TOGETHER_MIN: Duration = Duration::from_secs(600);
/// Jobs of the sample whose class is missing in the process that took them. Fewer may be of an earlier
/// deployment.
const FAILED_MIN: u64 = 5;
/// Jobs that failed earlier show nothing of the present processes.
const RECENT: Duration = Duration::from_secs(1_800);
/// Names in a list.
const NAMES_MAX: usize = 4;
/// The tag of Weir's own workers, which share queues with Sidekiq on purpose.
const WEIR: &str = "weir";
/// The error of Ruby where a class does not exist, and how its message begins.
const UNKNOWN: &str = "NameError";
const MESSAGE: &str = "uninitialized constant ";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    // The rule `failing-jobs` reports that most fail, with the class that is missing.
    if jobs.most_fail() {
        return Vec::new();
    }
    let unknown = unknown_classes(jobs);
    found(jobs, unknown.as_ref()).into_iter().collect()
}

/// Failed jobs whose class is missing in the process that took them.
struct UnknownClasses<'a> {
    classes: Vec<&'a str>,
    jobs: u64,
    sampled: u64,
}

fn unknown_classes(jobs: &SidekiqObservation) -> Option<UnknownClasses<'_>> {
    let sample = jobs.retries.sample.known().filter(|_| jobs.retries.size > 0)?;
    let missing = sample.error_messages.get(UNKNOWN)?.strip_prefix(MESSAGE)?;
    let missing = missing.split_whitespace().next()?;
    // "uninitialized constant Import" of a job of Import or Import::Row.
    let is_of = |class: &str| {
        class.strip_prefix(missing).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let is_unknown = |it: &&FailingClass| it.error == UNKNOWN && it.last_before <= RECENT;
    let failing: Vec<_> = sample.failing.iter().filter(is_unknown).collect();
    // The sample keeps the message of the most frequent one only.
    if !failing.iter().any(|it| is_of(&it.class)) {
        return None;
    }
    let count = failing.iter().map(|it| it.count).sum();
    let classes = failing.iter().map(|it| it.class.as_str()).collect();
    (count >= FAILED_MIN).then_some(UnknownClasses { classes, jobs: count, sampled: sample.size })
}

fn found(jobs: &SidekiqObservation, unknown: Option<&UnknownClasses<'_>>) -> Option<Finding> {
    let shared = shared_by_tags(jobs);
    let evidence = unknown.map(|it| {
        format!(
            "{} of {} of the retry set failed because the process does not know their class ({})",
            wording::count(it.jobs),
            wording::number(it.sampled, "sampled job", "sampled jobs"),
            wording::list(it.classes.iter().copied().take(NAMES_MAX))
        )
    });
    match (shared, evidence) {
        (Some((queues, tags)), Some(evidence)) => {
            let both = format!("processes with the tags {} serve it; {evidence}", named(&tags));
            Some(of_tags(Severity::Warning, &queues, both).with_confidence(Confidence::Likely))
        }
        (Some((queues, tags)), None) if have_run_together(jobs, &tags) => {
            let evidence = format!("processes with the tags {} serve it", named(&tags));
            Some(of_tags(Severity::Notice, &queues, evidence).with_confidence(Confidence::Possible))
        }
        (None, Some(evidence)) => of_hosts(jobs, evidence),
        _ => None,
    }
}

/// Returns the queues that processes with different tags serve, and the tags.
fn shared_by_tags(jobs: &SidekiqObservation) -> Option<(Vec<&str>, BTreeSet<&str>)> {
    let mut tags_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for process in jobs.serving() {
        let Some(tag) = process.tag.as_deref().filter(|tag| !["", WEIR].contains(tag)) else {
            continue;
        };
        for queue in process.capsules.iter().flat_map(|it| &it.queues) {
            tags_of.entry(&queue.name).or_default().insert(tag);
        }
    }
    tags_of.retain(|_, tags| tags.len() > 1);
    let tags: BTreeSet<&str> = tags_of.values().flatten().copied().collect();
    (!tags.is_empty()).then(|| (tags_of.into_keys().collect(), tags))
}

/// Reports whether a process of each tag has been running for longer than a deployment takes.
fn have_run_together(jobs: &SidekiqObservation, tags: &BTreeSet<&str>) -> bool {
    let is_old = |it: &&JobProcess| it.running_for.is_some_and(|age| age >= TOGETHER_MIN);
    let old: BTreeSet<&str> =
        jobs.serving().filter(is_old).filter_map(|it| it.tag.as_deref()).collect();
    tags.iter().all(|tag| old.contains(tag))
}

fn of_tags(severity: Severity, queues: &[&str], evidence: String) -> Finding {
    let word = if queues.len() > 1 { "queues" } else { "queue" };
    let subject = format!("{word} {}", wording::list(queues.iter().copied().take(NAMES_MAX)));
    Finding::new(NAME, severity, subject, evidence)
        .leads_to(
            "If these are different applications, each takes jobs of the other, which fail there, and are \
             dead or lost after their retries. If they are the same application under two names, nothing \
             is wrong.",
        )
        .advise(
            "give each application a Redis of its own, another database number, or queues with other \
             names; a staging environment must not use the Redis of production",
        )
}

/// Reports that a process on one of several hosts may have other code, without tags that tell them apart.
fn of_hosts(jobs: &SidekiqObservation, evidence: String) -> Option<Finding> {
    let serving: Vec<&JobProcess> = jobs.serving().collect();
    // Processes of one host have most likely the same code, which then lacks the class everywhere.
    let hosts: BTreeSet<&str> = serving.iter().map(|it| it.hostname.as_str()).collect();
    if hosts.len() < 2 {
        return None;
    }
    let names = wording::list(serving.iter().take(NAMES_MAX).map(|it| it.identity.as_str()));
    let evidence = format!(
        "{evidence}; {} accept jobs: {names}",
        wording::number(serving.len() as u64, "process", "processes")
    );
    Some(
        Finding::new(NAME, Severity::Notice, "Sidekiq", evidence)
            .with_confidence(Confidence::Possible)
            .leads_to(
                "If other jobs of these classes succeed, one of the processes runs other code: another \
                 application, a staging environment on the Redis of production, or a release that was \
                 not restarted. The retries succeed once a process with the class takes them: do not \
                 delete them.",
            )
            .advise("see in the logs which process fails (NameError), then stop it or give it the present release"),
    )
}

/// Formats tags: "blog and shop".
fn named(tags: &BTreeSet<&str>) -> String {
    wording::list(tags.iter().copied().take(NAMES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{Fact, JobSample, Ordering};

    /// Returns two processes for `default`, with these tags.
    fn with(tags: [&str; 2], minutes: u64, failed: u64) -> Option<Finding> {
        on_hosts(["shop", "shop"], tags, minutes, failed)
    }

    fn on_hosts(hosts: [&str; 2], tags: [&str; 2], minutes: u64, failed: u64) -> Option<Finding> {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.processes.push(healthy::process(3, 5, Ordering::Strict, &[("default", 0)]));
        for (process, tag) in jobs.processes.iter_mut().zip([tags[0], tags[0], tags[1]]) {
            process.tag = Some(tag.to_owned());
            process.hostname = if process.pid == 3 { hosts[1] } else { hosts[0] }.to_owned();
            process.running_for = Some(Duration::from_secs(minutes * 60));
        }
        let failing = FailingClass {
            class: "Import".to_owned(),
            error: UNKNOWN.to_owned(),
            count: failed,
            first_before: Duration::from_secs(600),
            last_before: Duration::from_secs(60),
        };
        jobs.retries.size = 20;
        jobs.retries.sample = Fact::Known(JobSample {
            size: 20,
            failing: vec![failing],
            error_messages: [(UNKNOWN.to_owned(), format!("{MESSAGE}Import"))].into(),
            ..JobSample::default()
        });
        check(&observation).pop()
    }

    #[test]
    fn two_applications_on_one_queue_are_hedged_without_errors() {
        let finding = with(["shop", "blog"], 30, 0).unwrap();
        assert_eq!(finding.subject, "queue default");
        assert_eq!(finding.evidence, "processes with the tags blog and shop serve it");
        assert_eq!(
            (finding.severity, finding.confidence),
            (Severity::Notice, Confidence::Possible)
        );
        assert_eq!(with(["shop", "blog"], 5, 0), None, "a deployment");
        assert_eq!(with(["shop", "weir"], 30, 0), None, "workers of Weir share queues on purpose");
        assert_eq!(with(["shop", "shop"], 30, 0), None);
    }

    #[test]
    fn jobs_whose_class_is_missing_prove_it() {
        let finding = with(["shop", "blog"], 5, 8).unwrap();
        let expected = "processes with the tags blog and shop serve it; 8 of 20 sampled jobs of the retry \
                        set failed because the process does not know their class (Import)";
        assert_eq!(finding.evidence, expected);
        assert_eq!((finding.severity, finding.confidence), (Severity::Warning, Confidence::Likely));
        assert_eq!(with(["shop", "shop"], 30, 8), None, "most likely, no process has the class");
        let on_hosts = |failed| on_hosts(["web", "staging"], ["shop", "shop"], 30, failed);
        let finding = on_hosts(8).unwrap();
        let seen = (finding.subject.as_str(), finding.severity, finding.confidence);
        assert_eq!(seen, ("Sidekiq", Severity::Notice, Confidence::Possible));
        assert!(finding.evidence.contains("3 processes accept jobs: shop:1:"), "{finding:?}");
        assert_eq!(on_hosts(4), None, "a few");
    }
}
