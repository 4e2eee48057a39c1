//! Rules about failing jobs.

use weir_advisor::{Finding, Severity, VerdictFinding};

use super::job_facts::JobFacts;
use crate::figures::{as_float, count, counted, percent, rate, round};

/// Retries are increasing if there are this many times more than ten minutes ago ..
const RISE_FACTOR: f64 = 1.5;
/// .. and at least this many more.
const RISE_JOBS_MIN: f64 = 50.0;

/// Finds an increase of the retry set over ten minutes.
pub(super) fn retries_rise(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    let Some(before) = facts.trend.retries_before else {
        return Vec::new();
    };
    let now = as_float(facts.overview.retries);
    if now < before * RISE_FACTOR || now - before < RISE_JOBS_MIN {
        return Vec::new();
    }
    let problem = format!(
        "Retries are rising: {} waiting for a retry, {} more than ten minutes ago",
        counted(facts.overview.retries, "job"),
        count(round(now - before)),
    );
    let finding = Finding::new("retries-rise", Severity::Warning, "the retry set", problem);
    let found = VerdictFinding::new(finding, "Check what their errors have in common.", "/retries");
    vec![found.affecting(facts.overview.retries)]
}

/// The share of failures from which there is a finding ..
const FAILED_SHARE: f64 = 0.25;
/// .. at this rate of failures or more.
const FAILED_PER_SECOND_MIN: f64 = 0.2;

/// Finds a high share of failing jobs.
pub(super) fn many_fail(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    let (failed, processed) = (facts.trend.failed_per_second, facts.trend.processed_per_second);
    if failed < FAILED_PER_SECOND_MIN || failed < processed * FAILED_SHARE {
        return Vec::new();
    }
    let share = percent((failed / processed.max(failed)).min(1.0));
    let problem = format!("{share} of the jobs fail, {}", rate(failed));
    let finding = Finding::new("many-failures", Severity::Warning, "jobs", problem);
    let remedy = "Check what their errors have in common: often one service is down.";
    vec![VerdictFinding::new(finding, remedy, "/retries").affecting(facts.overview.retries)]
}
