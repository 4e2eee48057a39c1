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
    let services = observation.services.known().map(Vec::as_slice).unwrap_or_default();
    match services.iter().max_by_key(|service| service.connections()) {
        None => finding.next("weir plan"),
        Some(largest) => {
            let line = largest.pool_line((largest.pool / 2).max(1));
            finding.change_and_restart(format!("the environment of {}", largest.name), line)
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
            ("the environment of sidekiq", "-c 12")
        );
        observation.services = Fact::NotAsked;
        assert_eq!(check(&observation)[0].next.as_deref(), Some("weir plan"));
    }
}
