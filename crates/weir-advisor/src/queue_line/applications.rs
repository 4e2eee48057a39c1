//! Tells the applications apart whose processes share a Redis. A process runs only the jobs whose
//! classes its application has.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::observation::SidekiqObservation;
use crate::wording;

/// Maximum number of applications that are named.
const NAMED_MAX: usize = 5;
const WITHOUT_TAG: &str = "none";

/// Returns the applications of the running processes, by their tags, if there are several.
pub(super) fn several(jobs: &SidekiqObservation) -> Vec<&str> {
    let running = jobs.processes.iter().filter(|process| process.is_alive());
    let tags: BTreeSet<&str> = running.map(|it| it.tag.as_deref().unwrap_or_default()).collect();
    if tags.len() < 2 {
        return Vec::new();
    }
    let (unnamed, named): (Vec<&str>, Vec<&str>) = tags.into_iter().partition(|it| it.is_empty());
    named.into_iter().chain(unnamed.into_iter().map(|_| WITHOUT_TAG)).collect()
}

/// Says that the operator must choose the application whose process is to serve a queue.
pub(super) fn ask_which(finding: Finding, applications: &[&str]) -> Finding {
    finding.adding(format_args!(
        "No change is suggested: {}, and it is unknown which of them the jobs belong to. A process of \
         another application fails on jobs whose class it does not have: after their retries they are \
         in the dead set, and without retries they are lost. Add the queue to a process of the \
         application that pushes to it.",
        several_words(applications)
    ))
}

/// Says that processes of several applications may serve the scheduler's queue on purpose.
pub(super) fn share_scheduler(finding: Finding, applications: &[&str]) -> Finding {
    finding.adding(format_args!(
        "No change is suggested: {}, and it is unknown whose periodic jobs are in the queue. \
         Applications that share a Redis need queues with different names.",
        several_words(applications)
    ))
}

fn several_words(applications: &[&str]) -> String {
    let named = applications.iter().take(NAMED_MAX).copied();
    let more = applications.len().saturating_sub(NAMED_MAX);
    let more = (more > 0).then(|| format!("{more} more"));
    let names = wording::list(named.chain(more.as_deref()));
    format!(
        "the running processes have different tags ({names}), so they may be of several applications"
    )
}
