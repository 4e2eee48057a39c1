//! Open sessions approach the server's limit; lists them by service.

use crate::finding::{Finding, Severity};
use crate::observation::{Observation, is_nearly_full};

pub(crate) const NAME: &str = "connection-slots";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let (Some(settings), Some(connections)) =
        (postgres.settings.known(), postgres.connections.known())
    else {
        return Vec::new();
    };
    let (usable, open) = (settings.usable_connections(), connections.open());
    if !is_nearly_full(open, usable) {
        return Vec::new();
    }
    let severity = if open >= usable { Severity::Critical } else { Severity::Warning };
    let are = if open == 1 { "is" } else { "are" };
    let evidence = format!("{open} of {usable} usable slots {are} taken: {}", connections.ledger());
    let finding = Finding::new(NAME, severity, "Postgres connections", evidence)
        .leads_to("When the last slot is taken, new connections are rejected (SQLSTATE 53300).");
    vec![finding.next("weir plan")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy::{self, sessions};
    use crate::observation::SessionState;

    fn with(sessions: Vec<crate::observation::Sessions>) -> Vec<Finding> {
        let mut observation = healthy::observation();
        observation.postgres.known_mut().connections.known_mut().sessions = sessions;
        check(&observation)
    }

    #[test]
    fn the_ledger_says_who_holds_what() {
        let findings = with(vec![
            sessions("sidekiq", SessionState::Active, 66),
            sessions("web", SessionState::Idle, 110),
            sessions("web", SessionState::Active, 10),
        ]);
        assert_eq!(findings[0].severity, Severity::Warning);
        let expected = "186 of 197 usable slots are taken: web 120 (110 idle), sidekiq 66";
        assert_eq!(findings[0].evidence, expected);
    }

    #[test]
    fn full_is_critical_and_what_a_plan_opens_is_fine() {
        let full = with(vec![sessions("web", SessionState::Active, 197)]);
        assert_eq!(full[0].severity, Severity::Critical);
        assert_eq!(with(vec![sessions("web", SessionState::Active, 185)]), []);
        assert!(
            is_nearly_full(16, 17) && !is_nearly_full(15, 17),
            "a small server has less to spare"
        );
    }
}
