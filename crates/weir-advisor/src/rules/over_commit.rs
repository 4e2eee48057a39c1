//! The sum of all pools against the database's ceiling.

use crate::finding::{Finding, Severity};
use crate::observation::{Observation, Service};

pub(crate) const NAME: &str = "over-commit";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let settings = observation.postgres.known().and_then(|it| it.settings.known());
    let (Some(settings), Some(services)) = (settings, observation.services.known()) else {
        return Vec::new();
    };
    let usable = settings.max_connections.saturating_sub(settings.superuser_reserved_connections);
    let sum = services.iter().map(Service::connections).fold(0, u32::saturating_add);
    let largest = services.iter().max_by_key(|service| service.connections());
    largest
        .filter(|_| sum > usable)
        .map(|largest| found(services, largest, sum, usable))
        .into_iter()
        .collect()
}

fn found(services: &[Service], largest: &Service, sum: u32, usable: u32) -> Finding {
    let line = |it: &Service| format!("{} {} x {}", it.name, it.processes, it.pool);
    let parts: Vec<_> = services.iter().map(line).collect();
    let evidence = format!("pools sum to {sum}, {usable} slots are usable: {}", parts.join(", "));
    let finding = Finding::new(NAME, Severity::Warning, "connection pools", evidence)
        .leads_to("Under load the database refuses connections (SQLSTATE 53300).");
    // What the largest may keep when all others have theirs.
    let left = usable.saturating_sub(sum - largest.connections()) / largest.processes.max(1);
    match left {
        0 => finding.next("weir plan"),
        pool => finding.change_and_restart(
            format!("the environment of {}", largest.name),
            largest.pool_line(pool),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy::{self, service};

    #[test]
    fn pools_must_fit_below_the_ceiling() {
        let mut observation = healthy::observation();
        observation.services.known_mut()[0] = service("web", 30, 5, "MAX_THREADS=");
        assert_eq!(check(&observation), []);
        observation.services.known_mut()[0] = service("web", 32, 5, "MAX_THREADS=");
        let finding = check(&observation).remove(0);
        assert!(
            finding.evidence.starts_with("pools sum to 200, 197 slots are usable: web 32 x 5,")
        );
        assert_eq!(finding.change.unwrap().line, "MAX_THREADS=4");
    }

    #[test]
    fn when_no_pool_can_make_room_a_plan_must() {
        let mut observation = healthy::observation();
        observation
            .services
            .known_mut()
            .extend([service("a", 190, 1, "DB_POOL="), service("b", 150, 1, "DB_POOL=")]);
        assert_eq!(check(&observation)[0].next.as_deref(), Some("weir plan"));
    }
}
