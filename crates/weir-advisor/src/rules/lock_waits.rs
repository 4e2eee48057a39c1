//! Sessions that wait for others.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{LockWait, Observation};
use crate::wording;

pub(crate) const NAME: &str = "lock-waits";

/// A wait of this length is no longer two transactions in each other's way.
const WAIT_MIN: Duration = Duration::from_secs(10);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let waits = observation.postgres.known().and_then(|postgres| postgres.lock_waits.known());
    let long = |wait: &&LockWait| wait.waited >= WAIT_MIN;
    let mut long: Vec<_> = waits.into_iter().flatten().filter(long).collect();
    long.sort_by_key(|wait| (wait.blocking_pid, std::cmp::Reverse(wait.waited)));
    // One finding for each session that others wait for: it is what to end.
    long.chunk_by(|one, other| one.blocking_pid == other.blocking_pid).map(found).collect()
}

fn found(waits: &[&LockWait]) -> Finding {
    let longest = waits[0];
    let relation = longest.relation.as_deref().map(|it| format!(" on {it}")).unwrap_or_default();
    let evidence = format!(
        "{} of {} wait{relation} for a session of {}, the longest since {}",
        waits.len(),
        longest.waiting_service,
        longest.blocking_service,
        wording::duration(longest.waited)
    );
    let subject = format!("session {}", longest.blocking_pid);
    Finding::new(NAME, Severity::Critical, subject, evidence)
        .leads_to("Threads that wait work nothing off, and hold their connections.")
        .next(format!("psql -c 'SELECT pg_terminate_backend({})'", longest.blocking_pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn wait(blocking_pid: u32, seconds: u64) -> LockWait {
        LockWait {
            waiting_service: "sidekiq".to_owned(),
            blocking_service: "psql".to_owned(),
            blocking_pid,
            relation: Some("statuses".to_owned()),
            waited: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn each_blocking_session_is_one_finding() {
        let mut observation = healthy::observation();
        let waits = observation.postgres.known_mut().lock_waits.known_mut();
        waits.extend([wait(7, 20), wait(8, 9), wait(9, 11), wait(7, 95)]);
        let findings = check(&observation);
        assert_eq!(findings.len(), 2);
        let expected =
            "2 of sidekiq wait on statuses for a session of psql, the longest since 1 min 35 s";
        assert_eq!(findings[0].evidence, expected);
        assert_eq!(findings[1].subject, "session 9");
    }
}
