//! Open sessions against the ceiling, with a ledger of who holds them.

use crate::finding::{Finding, Severity};
use crate::observation::Observation;

pub(crate) const NAME: &str = "connection-slots";

/// Of what is not reserved: a deploy starts new processes before it ends the old ones.
const OPEN_SHARE: f64 = 0.9;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let (Some(settings), Some(connections)) =
        (postgres.settings.known(), postgres.connections.known())
    else {
        return Vec::new();
    };
    let usable = settings.max_connections.saturating_sub(settings.superuser_reserved_connections);
    let open = connections.open();
    if f64::from(open) < OPEN_SHARE * f64::from(usable) {
        return Vec::new();
    }
    let severity = if open >= usable { Severity::Critical } else { Severity::Warning };
    let evidence = format!("{open} of {usable} usable slots are taken: {}", connections.ledger());
    let finding = Finding::new(NAME, severity, "Postgres connections", evidence)
        .leads_to("When the last is taken, new connections are refused (SQLSTATE 53300).");
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
            sessions("sidekiq", SessionState::Active, 60),
            sessions("web", SessionState::Idle, 110),
            sessions("web", SessionState::Active, 10),
        ]);
        assert_eq!(findings[0].severity, Severity::Warning);
        let expected = "180 of 197 usable slots are taken: web 120 (110 idle), sidekiq 60";
        assert_eq!(findings[0].evidence, expected);
    }

    #[test]
    fn full_is_critical_and_three_quarters_is_fine() {
        let full = with(vec![sessions("web", SessionState::Active, 197)]);
        assert_eq!(full[0].severity, Severity::Critical);
        assert_eq!(with(vec![sessions("web", SessionState::Active, 150)]), []);
    }
}
