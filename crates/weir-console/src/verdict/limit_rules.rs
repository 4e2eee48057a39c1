//! Rules about limits that were reached recently.

use weir_advisor::{Finding, Severity, VerdictFinding};
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::settings::JobServerLimits;
use weir_jobs::view::LimitHit;

use super::job_facts::JobFacts;
use crate::figures::{as_float, count, counted};

/// The meaning of a reached limit.
struct LimitMeaning {
    limit: &'static str,
    /// The name of the rule: `job-limit`, unless an operator would not call it a limit.
    rule: &'static str,
    severity: Severity,
    problem: &'static str,
    remedy: &'static str,
}

/// The rule of a limit that was reached because of high demand.
const JOB_LIMIT: &str = "job-limit";

/// Limits with a more specific meaning than high demand. Limits that are reached because of other
/// programs (a scanner that never sends HELLO, a worker that was killed) are only notices.
const LIMIT_MEANINGS: &[LimitMeaning] = &[
    LimitMeaning {
        limit: JobServerLimits::HEARTBEAT_TIMEOUT.name,
        rule: "worker-lost",
        severity: Severity::Notice,
        problem: "A worker stopped sending heartbeats",
        remedy: "Its jobs returned to their queues. Check why its process ended.",
    },
    LimitMeaning {
        limit: JobServerLimits::RETURNS_MAX.name,
        rule: "job-crashes-worker",
        severity: Severity::Warning,
        problem: "A job repeatedly crashed its worker and counts as failed",
        remedy: "Find it among the retries: it may use too much memory.",
    },
    LimitMeaning {
        limit: JobServerLimits::RESERVE_BYTES.name,
        rule: "disk-full",
        severity: Severity::Warning,
        problem: "Pushes were rejected because the disk was full",
        remedy: "Free space in data_dir: pushes resume by themselves.",
    },
    LimitMeaning {
        limit: "open_files",
        rule: JOB_LIMIT,
        severity: Severity::Warning,
        problem: "The system's limit of open files was reached and connections were rejected",
        remedy: "Raise it (LimitNOFILE= of the unit, ulimit -n) or lower jobs.limits.connections_max.",
    },
    LimitMeaning {
        limit: JobServerLimits::WRONG_PASSWORDS_MAX.name,
        rule: "wrong-passwords",
        severity: Severity::Warning,
        problem: "An address tries wrong passwords at the job server",
        remedy: "A client with an old password, or an attacker. The log names the address.",
    },
    LimitMeaning {
        limit: JobServerLimits::DEAD_JOBS_MAX.name,
        rule: JOB_LIMIT,
        severity: Severity::Warning,
        problem: "The dead set is full: its oldest jobs are deleted",
        remedy: "Requeue or delete what you can, or raise jobs.limits.dead_jobs_max.",
    },
    LimitMeaning {
        limit: JobServerLimits::HELLO_TIMEOUT.name,
        rule: JOB_LIMIT,
        severity: Severity::Notice,
        problem: "A connection never said HELLO",
        remedy: "The usual cause is a port scan or a TCP health check, not a client.",
    },
    LimitMeaning {
        limit: JobServerLimits::LINE_TIMEOUT.name,
        rule: JOB_LIMIT,
        severity: Severity::Notice,
        problem: "A client sent an unfinished line",
        remedy: "The client hangs, or the network is very slow.",
    },
    LimitMeaning {
        limit: JobServerLimits::WRITE_TIMEOUT.name,
        rule: JOB_LIMIT,
        severity: Severity::Notice,
        problem: "A client did not read its replies and was disconnected",
        remedy: "The client hangs, or the network is very slow.",
    },
];

/// Finds limits that were reached within the last ten minutes.
pub(super) fn limits_are_met(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    facts.trend.limits_hit.iter().map(finding).collect()
}

fn finding(hit: &LimitHit) -> VerdictFinding {
    let times = format!("{} in the last ten minutes", counted(hit.hits, "time"));
    let known = LIMIT_MEANINGS.iter().find(|meaning| meaning.limit == hit.limit);
    let rule = known.map_or(JOB_LIMIT, |meaning| meaning.rule);
    let (severity, problem, remedy) = match known {
        Some(meaning) => {
            (meaning.severity, format!("{} ({times})", meaning.problem), meaning.remedy.to_owned())
        }
        None => (
            Severity::Warning,
            format!("The limit {} was reached {times}", hit.limit),
            format!("Find the clients that need so much, or raise {} in weir.toml.", setting(hit)),
        ),
    };
    VerdictFinding::new(Finding::new(rule, severity, setting(hit), problem), remedy, "/")
}

/// Returns the full name of a limit's setting.
fn setting(hit: &LimitHit) -> String {
    let limit = JobServerLimit::named(&hit.limit);
    limit.map_or_else(|| hit.limit.clone(), |limit| limit.to_string())
}

/// The share of the dead set's limit from which there is a finding.
const DEAD_SHARE: f64 = 0.9;

/// Finds a nearly full dead set, which drops its oldest jobs once it is full.
pub(super) fn dead_set_is_nearly_full(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    let (dead, max) = (facts.overview.dead, facts.limits.dead_jobs_max as u64);
    if as_float(dead) < as_float(max.max(1)) * DEAD_SHARE {
        return Vec::new();
    }
    let problem = format!("The dead set holds {} of at most {} jobs", count(dead), count(max));
    let finding = Finding::new("dead-set-full", Severity::Warning, "the dead set", problem);
    let remedy = "Requeue or delete what you can: beyond the limit the oldest jobs are deleted \
                  (jobs.limits.dead_jobs_max).";
    vec![VerdictFinding::new(finding, remedy, "/dead").affecting(dead)]
}
