//! Sessions that hold a transaction open and do nothing.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{Observation, SessionState, Sessions};
use crate::wording;

pub(crate) const NAME: &str = "idle-in-transaction";

/// Longer than any call to another service that an application makes in a transaction should take.
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let connections = observation.postgres.known().and_then(|it| it.connections.known());
    let sessions = connections.map(|it| it.sessions.as_slice()).unwrap_or_default();
    let stuck =
        |it: &&Sessions| it.state == SessionState::IdleInTransaction && it.longest >= LONGEST;
    sessions.iter().filter(stuck).map(found).collect()
}

fn found(sessions: &Sessions) -> Finding {
    let longest = wording::duration(sessions.longest);
    let evidence =
        format!("{} sessions are idle in transaction, the oldest since {longest}", sessions.count);
    Finding::new(NAME, Severity::Warning, sessions.service.as_str(), evidence)
        .leads_to("They keep their locks and slots, and VACUUM from removing dead rows.")
        .change("postgresql.conf", "idle_in_transaction_session_timeout = '5min'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn a_minute_is_too_long() {
        for (state, seconds, findings) in [
            (SessionState::IdleInTransaction, 60, 1),
            (SessionState::IdleInTransaction, 59, 0),
            (SessionState::Idle, 6_000, 0),
        ] {
            let mut observation = healthy::observation();
            let sessions = &mut observation.postgres.known_mut().connections.known_mut().sessions;
            (sessions[0].state, sessions[0].longest) = (state, Duration::from_secs(seconds));
            assert_eq!(check(&observation).len(), findings, "{state:?} {seconds}");
        }
    }
}
