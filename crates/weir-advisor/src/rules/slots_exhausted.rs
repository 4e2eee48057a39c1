//! The database has no slot left, not even to look at it.

use crate::finding::{Finding, Severity};
use crate::observation::{Observation, Obstacle};

pub(crate) const NAME: &str = "slots-exhausted";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let exhausted = observation.missing().find(|it| it.obstacle == Obstacle::SlotsExhausted);
    exhausted.map(|missing| found(observation, &missing.reason)).into_iter().collect()
}

fn found(observation: &Observation, reason: &str) -> Finding {
    let evidence = format!("no connection slot is left: {reason}");
    let finding = Finding::new(NAME, Severity::Critical, "Postgres", evidence)
        .leads_to("Every new connection is refused: requests and jobs fail at random.");
    // Behind a pooler it is not the application's pools that fill the slots.
    let services = observation.services.known().filter(|_| observation.pooler.is_none());
    let services = services.map(Vec::as_slice).unwrap_or_default();
    match services.iter().max_by_key(|service| service.connections()) {
        // It could not ask the database for its ceiling either.
        None => finding.next("weir plan --max-connections NUMBER"),
        Some(largest) => {
            let line = largest.pool_line((largest.pool / 2).max(1));
            finding.change_and_restart(largest.place(), line)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{Fact, Missing};

    #[test]
    fn a_refused_look_is_the_finding_and_names_who_holds_most() {
        let mut observation = healthy::observation();
        observation.postgres = Fact::Unknown(Missing {
            what: "the database".to_owned(),
            obstacle: Obstacle::SlotsExhausted,
            reason: "remaining connection slots are reserved (SQLSTATE 53300)".to_owned(),
            remedy: None,
        });
        let findings = check(&observation);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].evidence.contains("53300"));
        let change = findings[0].change.clone().unwrap();
        assert_eq!(
            (change.place.as_str(), change.line.as_str()),
            ("the command line of sidekiq", "-c 12")
        );
        observation.services = Fact::NotAsked;
        let next = check(&observation).remove(0).next;
        assert_eq!(next.as_deref(), Some("weir plan --max-connections NUMBER"));
    }
}
