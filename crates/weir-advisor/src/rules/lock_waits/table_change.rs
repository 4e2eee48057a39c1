//! A change of a table waits for the lock of another session, and other sessions wait behind it.
//!
//! Postgres grants locks in order: a query that would get its weak lock at once waits behind a change
//! that waits for a strong one. To cancel the change frees the queries, and ends no other work.

use std::collections::BTreeSet;

use super::{AUTOVACUUM, NAME, RIGHT, SYNC_REP, WAIT_MIN, WAIT_START, doing, waiting};
use crate::finding::{Finding, Severity};
use crate::observation::{LockWait, Observation, SessionState, TableLockRequest};
use crate::wording;

/// A change that waits for a session, with the sessions that wait behind it.
pub(super) struct TableChange<'a> {
    request: &'a TableLockRequest,
    /// Its wait for the session that holds the lock.
    wait: &'a LockWait,
    /// Sessions that wait for nothing else.
    behind: Vec<&'a LockWait>,
    /// Sessions that the holder of the lock blocks in any case.
    pub(super) others: Vec<&'a LockWait>,
}

impl<'a> TableChange<'a> {
    /// Returns the change that most of `victims` wait behind, if it waits for `holder`. A vacuum, a
    /// prepared transaction or a commit that waits for a standby has its own remedy.
    pub(super) fn find(
        observation: &'a Observation,
        waits: &'a [LockWait],
        holder: u32,
        victims: &[&'a LockWait],
    ) -> Option<Self> {
        let requests = &observation.postgres.known()?.table_lock_requests;
        let of = |request| Self::of(request, waits, holder, victims);
        let changes = requests.iter().filter_map(of).filter(|it| !it.behind.is_empty());
        changes.max_by_key(|change| change.behind.len())
    }

    fn of(
        request: &'a TableLockRequest,
        waits: &'a [LockWait],
        holder: u32,
        victims: &[&'a LockWait],
    ) -> Option<Self> {
        let is_it = |it: &&LockWait| it.waiting_pid == request.pid && it.blocking_pid == holder;
        let wait = waits.iter().find(is_it)?;
        let has_own_remedy = holder == 0
            || wait.blocking_event.as_deref() == Some(SYNC_REP)
            || wait.blocking_service == AUTOVACUUM;
        if has_own_remedy || wait.waited < WAIT_MIN {
            return None;
        }
        let freed = freed(waits, request.pid);
        let other_sessions = victims.iter().copied().filter(|it| it.waiting_pid != request.pid);
        let (behind, others) = other_sessions.partition(|it| freed.contains(&it.waiting_pid));
        Some(Self { request, wait, behind, others })
    }

    pub(super) fn finding(&self, observation: &Observation) -> Finding {
        let Self { request, wait, behind, .. } = self;
        let (pid, holder) = (request.pid, wait.blocking_pid);
        let statement = request.statement.as_deref().unwrap_or("a change of a table");
        let longest = behind.iter().map(|it| it.waited).max().unwrap_or_default();
        let evidence = format!(
            "{statement} of {} waits for the lock {}{}: {} behind it, the longest for {}; it waits \
             itself for session {holder}, of {}{}",
            wait.waiting_service,
            request.mode,
            wait.relation.as_deref().map(|it| format!(" on {it}")).unwrap_or_default(),
            waiting(behind),
            wording::duration(longest),
            wait.blocking_service,
            doing(wait.blocking_state)
        );
        let consequence = format!(
            "Those behind it do nothing, and hold their connections. Cancel the change first: the \
             sessions behind it go on at once, and nothing is lost but what its own transaction has \
             done before. Repeat it with a lock_timeout once the transactions that it waits \
             for have ended{}. {RIGHT}",
            self.way_to_end_holder()
        );
        Finding::new(NAME, Severity::Critical, format!("session {pid}"), evidence)
            .since(wait.waited, WAIT_START)
            .leads_to(consequence)
            .next(observation.psql(&format!("SELECT pg_cancel_backend({pid})")))
    }

    /// Says how to end the holder of the lock if it does no work.
    fn way_to_end_holder(&self) -> String {
        match self.wait.blocking_state {
            Some((SessionState::IdleInTransaction, _)) => format!(
                "; pg_terminate_backend({}) rolls back that of its holder if nothing needs it",
                self.wait.blocking_pid
            ),
            _ => String::new(),
        }
    }
}

/// Returns the sessions that wait for nothing but the session `pid`, directly or behind each other.
fn freed(waits: &[LockWait], pid: u32) -> BTreeSet<u32> {
    let mut freed = BTreeSet::from([pid]);
    // Each round adds a session, of which there are at most as many as waits.
    for _ in 0..waits.len() {
        let is_blocked = |it: &LockWait| {
            let mut own = waits.iter().filter(|other| other.waiting_pid == it.waiting_pid);
            own.any(|other| !freed.contains(&other.blocking_pid))
        };
        let next = waits.iter().find(|it| !freed.contains(&it.waiting_pid) && !is_blocked(it));
        let Some(next) = next.map(|it| it.waiting_pid) else { break };
        freed.insert(next);
    }
    freed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::healthy;

    const ACTIVE: Option<(SessionState, Duration)> =
        Some((SessionState::Active, Duration::from_secs(33)));

    fn wait(waiting_pid: u32, blocking_pid: u32, service: &str) -> LockWait {
        LockWait {
            waiting_pid,
            waiting_service: service.to_owned(),
            blocking_service: "psql".to_owned(),
            blocking_pid,
            blocking_state: ACTIVE,
            relation: Some("statuses".to_owned()),
            waited: Duration::from_secs(u64::from(waiting_pid)),
            ..LockWait::default()
        }
    }

    /// Runs the rule on waits, of which session 33 asks for the lock of a whole table.
    fn findings(waits: Vec<LockWait>) -> Vec<Finding> {
        let mut observation = healthy::observation();
        let postgres = observation.postgres.known_mut();
        *postgres.lock_waits.known_mut() = waits;
        postgres.table_lock_requests = vec![TableLockRequest {
            pid: 33,
            mode: "ACCESS EXCLUSIVE".to_owned(),
            statement: Some("ALTER TABLE".to_owned()),
        }];
        super::super::check(&observation)
    }

    #[test]
    fn a_change_that_others_wait_behind_is_named_and_to_be_cancelled() {
        let waits = vec![wait(33, 9, "psql"), wait(20, 33, "sidekiq"), wait(21, 33, "sidekiq")];
        let finding = findings(waits).remove(0);
        assert_eq!(finding.subject, "session 33");
        let expected = "ALTER TABLE of psql waits for the lock ACCESS EXCLUSIVE on statuses: 2 \
                        sessions of sidekiq wait behind it, the longest for 21 s; it waits itself \
                        for session 9, of psql, active for 33 s";
        assert_eq!(finding.evidence, expected);
        assert_eq!(finding.next_step(), Some("psql -c 'SELECT pg_cancel_backend(33)'"));
        assert!(!finding.consequence.contains("terminate"), "{}", finding.consequence);
        assert!(finding.consequence.contains("lock_timeout"), "{}", finding.consequence);
    }

    #[test]
    fn sessions_that_the_holder_blocks_itself_are_reported_with_it() {
        let waits = vec![wait(33, 9, "psql"), wait(20, 33, "sidekiq"), wait(40, 9, "web")];
        let findings = findings(waits);
        let subjects: Vec<_> = findings.iter().map(|it| it.subject.as_str()).collect();
        assert_eq!(subjects, ["session 33", "session 9"]);
        assert!(findings[0].evidence.contains("1 session of sidekiq waits behind it"));
        let expected = "1 session of web waits for its lock on statuses, the longest for 40 s";
        assert!(findings[1].evidence.ends_with(expected), "{}", findings[1].evidence);
    }

    #[test]
    fn a_holder_that_is_idle_in_transaction_is_the_second_step() {
        let idle = Some((SessionState::IdleInTransaction, Duration::from_secs(300)));
        let change = LockWait { blocking_state: idle, ..wait(33, 9, "rails") };
        let finding = findings(vec![change, wait(20, 33, "sidekiq")]).remove(0);
        assert!(finding.next_step().unwrap().contains("pg_cancel_backend(33)"));
        assert!(finding.consequence.contains("pg_terminate_backend(9)"), "{}", finding.consequence);
    }

    #[test]
    fn a_change_that_nothing_waits_behind_is_a_victim_like_others() {
        let waits = vec![wait(33, 9, "psql"), wait(20, 9, "sidekiq")];
        let findings = findings(waits);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].subject, "session 9");
        assert!(freed(&[wait(1, 2, "a"), wait(2, 1, "a")], 3).contains(&3), "a cycle ends");
    }
}
