//! Rules about limits that were reached recently.

use weir_jobs::metrics::JobServerLimit;
use weir_jobs::settings::JobServerLimits;
use weir_jobs::view::LimitHit;

use super::finding::{Finding, Level};
use super::job_facts::JobFacts;
use crate::figures::{as_float, count, counted};

/// The meaning of a reached limit.
struct Meaning {
    limit: &'static str,
    level: Level,
    what: &'static str,
    todo: &'static str,
}

/// Limits with a more specific meaning than high demand. Limits that are reached because of other
/// programs (a scanner that never sends HELLO, a worker that was killed) are only notices.
const MEANINGS: &[Meaning] = &[
    Meaning {
        limit: JobServerLimits::HEARTBEAT_TIMEOUT.name,
        level: Level::Notice,
        what: "A worker stopped sending heartbeats",
        todo: "Its jobs returned to their queues. Check why its process ended.",
    },
    Meaning {
        limit: JobServerLimits::RETURNS_MAX.name,
        level: Level::Warning,
        what: "A job repeatedly crashed its worker and counts as failed",
        todo: "Find it among the retries: it may use too much memory.",
    },
    Meaning {
        limit: "open_files",
        level: Level::Warning,
        what: "The system's limit of open files was reached and connections were rejected",
        todo: "Raise it (LimitNOFILE= of the unit, ulimit -n) or lower jobs.limits.connections_max.",
    },
    Meaning {
        limit: JobServerLimits::WRONG_PASSWORDS_MAX.name,
        level: Level::Warning,
        what: "An address tries wrong passwords at the job server",
        todo: "A client with an old password, or an attacker. The log names the address.",
    },
    Meaning {
        limit: JobServerLimits::DEAD_JOBS_MAX.name,
        level: Level::Warning,
        what: "The dead set is full: its oldest jobs are deleted",
        todo: "Requeue or delete what you can, or raise jobs.limits.dead_jobs_max.",
    },
    Meaning {
        limit: JobServerLimits::HELLO_TIMEOUT.name,
        level: Level::Notice,
        what: "A connection never said HELLO",
        todo: "The usual cause is a port scan or a TCP health check, not a client.",
    },
    Meaning {
        limit: JobServerLimits::LINE_TIMEOUT.name,
        level: Level::Notice,
        what: "A client sent an unfinished line",
        todo: "The client hangs, or the network is very slow.",
    },
    Meaning {
        limit: JobServerLimits::WRITE_TIMEOUT.name,
        level: Level::Notice,
        what: "A client did not read its replies and was disconnected",
        todo: "The client hangs, or the network is very slow.",
    },
];

/// Finds limits that were reached within the last ten minutes.
pub(super) fn limits_are_met(facts: &JobFacts<'_>) -> Vec<Finding> {
    facts.trend.limits_hit.iter().map(finding).collect()
}

fn finding(hit: &LimitHit) -> Finding {
    let times = format!("{} in the last ten minutes", counted(hit.hits, "time"));
    let known = MEANINGS.iter().find(|meaning| meaning.limit == hit.limit);
    let (level, what, todo) = match known {
        Some(meaning) => {
            (meaning.level, format!("{} ({times})", meaning.what), meaning.todo.to_owned())
        }
        None => (
            Level::Warning,
            format!("The limit {} was reached {times}", hit.limit),
            format!("Find the clients that need so much, or raise {} in weir.toml.", setting(hit)),
        ),
    };
    Finding { level, what, todo, link: "/".to_owned(), jobs: 0 }
}

/// Returns the full name of a limit's setting.
fn setting(hit: &LimitHit) -> String {
    let limit = JobServerLimit::named(&hit.limit);
    limit.map_or_else(|| hit.limit.clone(), |limit| limit.to_string())
}

/// The share of the dead set's limit from which there is a finding.
const DEAD_SHARE: f64 = 0.9;

/// Finds a nearly full dead set, which drops its oldest jobs once it is full.
pub(super) fn dead_set_is_nearly_full(facts: &JobFacts<'_>) -> Vec<Finding> {
    let (dead, max) = (facts.overview.dead, facts.limits.dead_jobs_max as u64);
    if as_float(dead) < as_float(max.max(1)) * DEAD_SHARE {
        return Vec::new();
    }
    vec![Finding {
        level: Level::Warning,
        what: format!("The dead set holds {} of at most {} jobs", count(dead), count(max)),
        todo: "Requeue or delete what you can: beyond the limit the oldest jobs are deleted \
               (jobs.limits.dead_jobs_max)."
            .to_owned(),
        link: "/dead".to_owned(),
        jobs: dead,
    }]
}
