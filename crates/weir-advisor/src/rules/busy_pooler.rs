//! All connections of a pooler are busy, so its clients wait, even if the database accepts more
//! connections.
//!
//! If PgBouncer is queried, it reports its waiting clients (`waiting`). The database cannot show
//! them: it only shows that the pooler has opened all connections it may and that none is idle.
//! That is a snapshot, and for small pools it may be chance.

mod waiting;

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{Observation, SessionState};

pub(crate) const NAME: &str = "busy-pooler";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    match observation.pgbouncer.known() {
        Some(pgbouncer) => waiting::found(observation, pgbouncer),
        None => found(observation).into_iter().collect(),
    }
}

/// Reports whether clients wait for a pooler that an operator has paused.
pub(super) fn is_paused(observation: &Observation) -> bool {
    observation.pgbouncer.known().is_some_and(waiting::is_paused)
}

fn found(observation: &Observation) -> Option<Finding> {
    let pooler = observation.pooler.as_ref()?;
    let most = pooler.connections.filter(|most| *most > 0)?;
    let postgres = observation.postgres.known()?;
    let connections = postgres.connections.known()?;
    let in_state = |state| connections.of(&pooler.name, state);
    let (active, stuck) =
        (in_state(SessionState::Active), in_state(SessionState::IdleInTransaction));
    // A session with hidden state may be idle.
    if active.saturating_add(stuck) < most {
        return None;
    }
    let all = match most {
        1 => "the only connection that it may open is busy".to_owned(),
        _ => format!("all {most} connections that it may open are busy"),
    };
    let run = if active == 1 { "runs" } else { "run" };
    let are = if stuck == 1 { "is" } else { "are" };
    let evidence =
        format!("{all}: {active} {run} a statement, {stuck} {are} idle in a transaction");
    let finding = Finding::new(NAME, Severity::Notice, pooler.name.as_str(), evidence)
        .with_confidence(Confidence::Possible);
    if are_mostly_idle(active, stuck) {
        return Some(held_by_transactions(observation, finding, &pooler.name));
    }
    let finding = finding.leads_to(
        "Meanwhile its clients wait for a connection, and fail after query_wait_timeout. PgBouncer \
         reports how many wait: --pgbouncer-url.",
    );
    // Connections of other clients are not available to the pooler.
    let Some(free) = observation.free_slots() else { return Some(finding.next("weir plan")) };
    let enough = most.saturating_add(most.min(free));
    Some(if enough > most { room_for(finding, enough) } else { without_free_slots(finding) })
}

/// Says how many connections the database has room for. Without PgBouncer's own figures it is unknown how
/// many pools share them, so that no size of a pool can be given.
fn room_for(finding: Finding, enough: u32) -> Finding {
    finding.adding(format_args!(
        "The database has room for {enough} of its connections in all: max_db_connections limits \
         them, and default_pool_size those of each user and database."
    ))
}

/// Reports whether nearly all sessions that are in a transaction or run a statement are idle. Of five
/// connections, one may run a statement just now.
const fn are_mostly_idle(active: u32, idle_in_transaction: u32) -> bool {
    idle_in_transaction > 0 && idle_in_transaction >= active.saturating_mul(4)
}

/// Reports that open transactions hold the connections. More connections would be held as well, so
/// that no size is suggested.
fn held_by_transactions(observation: &Observation, finding: Finding, service: &str) -> Finding {
    let finding = finding.adding(format_args!(
        "The application holds them: it has a transaction open and does something else, such as \
         a call over the network. Move that out of the transactions; more connections \
         (default_pool_size) would be held as well. The command lists the sessions of {service}, \
         longest transaction first, with the last statement of each."
    ));
    finding.next(observation.psql(
        "SELECT pid, now() - xact_start AS open, query FROM pg_stat_activity \
         WHERE state LIKE 'idle in transaction%' ORDER BY xact_start LIMIT 20",
    ))
}

/// Says that the pooler cannot open more connections.
fn without_free_slots(finding: Finding) -> Finding {
    finding
        .adding(
            "The database has no connection slots for more: the others are in use, or are needed \
         for other services, psql and deploys.",
        )
        .next("weir plan")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy::{self, sessions};
    use crate::observation::Pooler;

    fn with(active: u32, idle: u32, most: Option<u32>) -> Option<Finding> {
        let mut observation = healthy::observation();
        observation.pooler = Some(Pooler {
            name: "pgbouncer".to_owned(),
            shown_by: "it holds 20 connections".to_owned(),
            connections: most,
            ..Pooler::default()
        });
        observation.postgres.known_mut().connections.known_mut().sessions = vec![
            sessions("pgbouncer", SessionState::Active, active),
            sessions("pgbouncer", SessionState::IdleInTransaction, 5),
            sessions("pgbouncer", SessionState::Idle, idle),
            sessions("streaming", SessionState::Idle, 10),
        ];
        check(&observation).pop()
    }

    #[test]
    fn one_without_a_free_connection_is_told_with_what_the_database_has_room_for() {
        let finding = with(15, 0, Some(20)).unwrap();
        let expected = "all 20 connections that it may open are busy: 15 run a statement, 5 are \
                        idle in \
                        a transaction";
        assert_eq!((finding.subject.as_str(), finding.evidence.as_str()), ("pgbouncer", expected));
        assert_eq!(finding.severity, Severity::Notice, "it is so at one moment");
        assert_eq!(finding.confidence, Confidence::Possible);
        assert_eq!(finding.line_change(), None, "several pools may share the connections");
        assert!(finding.consequence.contains("room for 40 of its connections"), "{finding:?}");
        let finding = with(105, 0, Some(110)).unwrap();
        let expected = "room for 175 of its connections";
        let why = "of 197, streaming has 10, and 12 stay free";
        assert!(finding.consequence.contains(expected), "{why}: {finding:?}");
        let finding = with(170, 0, Some(175)).unwrap();
        assert_eq!((finding.line_change(), finding.next_step()), (None, Some("weir plan")));
        assert!(finding.consequence.contains("has no connection slots for more"), "{finding:?}");
    }

    #[test]
    fn one_whose_connections_are_idle_in_transaction_is_not_too_small() {
        for (active, is_too_small) in [(0, false), (1, false), (2, true)] {
            let finding = with(active, 0, Some(active + 5)).unwrap();
            assert_eq!(finding.consequence.contains("room for"), is_too_small, "{finding:?}");
            let is_held = finding.consequence.starts_with("The application holds them");
            assert_eq!(is_held, !is_too_small, "{finding:?}");
        }
    }

    #[test]
    fn one_with_a_free_connection_or_of_which_nobody_has_said_how_many_it_opens_is_none() {
        assert_eq!(with(14, 1, Some(20)), None);
        assert_eq!(with(15, 0, None), None);
        assert_eq!(check(&healthy::observation()), []);
    }
}
