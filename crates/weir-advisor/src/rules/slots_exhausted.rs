//! All connection slots of the database are in use, even for the observer.

use crate::finding::{Finding, Severity};
use crate::observation::{ConnectionPools, MissingReason, Observation};

pub(crate) const NAME: &str = "slots-exhausted";

/// Precedes the list of sessions in the reason, if there is one.
const HELD_BY: &str = "; held by ";

const REFUSED: &str = "Every new connection is rejected: requests and jobs fail at random.";
const LIMIT: &str = "SHOW max_connections";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let exhausted = observation.missing().find(|it| it.obstacle == MissingReason::SlotsExhausted);
    exhausted.map(|missing| found(observation, &missing.reason)).into_iter().collect()
}

fn found(observation: &Observation, reason: &str) -> Finding {
    let evidence = format!("no connection slot is free: {reason}");
    let finding = Finding::new(NAME, Severity::Critical, "Postgres", evidence).leads_to(REFUSED);
    // Behind a pooler, the application's pools do not determine the used slots.
    let services = observation.services.known().filter(|_| observation.pooler.is_none());
    let services = services.map(Vec::as_slice).unwrap_or_default();
    let largest = services.iter().max_by_key(|service| service.connections());
    let is_to_shrink = |service: &&ConnectionPools| {
        may_hold_most(&service.name, reason) && !holds_more_than_pools(services, service, reason)
    };
    match largest.filter(is_to_shrink) {
        // The limit is unknown, because the database rejected the observer.
        None => finding
            .leads_to(format!(
                "{REFUSED} Postgres reserves some slots for superusers, who can still query its \
                 limit; weir plan --max-connections calculates pools that fit."
            ))
            .next(observation.psql_as_superuser(LIMIT)),
        Some(largest) => {
            let line = largest.pool_line((largest.pool / 2).max(1));
            finding.change_and_restart(largest.place(), line)
        }
    }
}

/// Reports whether a service may hold the most slots. Not all pools are known, so if the titles of
/// Postgres' processes name the largest holder, reducing another service's pool would not help.
fn may_hold_most(service: &str, reason: &str) -> bool {
    let Some((_, ledger)) = reason.split_once(HELD_BY) else { return true };
    let holds = |service: &str| {
        let rest = ledger.strip_prefix(service);
        rest.is_some_and(|it| it.trim_start().starts_with(|first: char| first.is_ascii_digit()))
    };
    // Sidekiq's services include the name of a queue, which a process title does not.
    holds(service) || service.split_once(' ').is_some_and(|(family, _)| holds(family))
}

/// Reports whether the largest holder has more sessions than all pools of its kind allow. It then
/// opens other connections or does not close them, and smaller pools would not help.
fn holds_more_than_pools(
    services: &[ConnectionPools],
    largest: &ConnectionPools,
    reason: &str,
) -> bool {
    let family = |service: &ConnectionPools| service.name.split(' ').next().map(str::to_owned);
    let same = services.iter().filter(|it| family(it) == family(largest));
    let pools = same.map(ConnectionPools::connections).fold(0, u32::saturating_add);
    let ledger = reason.split_once(HELD_BY).map_or("", |(_, ledger)| ledger);
    let held = ledger.split(' ').find_map(|word| word.trim_end_matches(',').parse::<u32>().ok());
    held.is_some_and(|held| held > pools)
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
            obstacle: MissingReason::SlotsExhausted,
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
        assert_eq!(next.as_deref(), Some("sudo -u postgres psql -c 'SHOW max_connections'"));
    }

    #[test]
    fn who_holds_few_slots_is_not_told_to_open_fewer() {
        let next = |held: &str| {
            let mut observation = healthy::observation();
            observation.postgres = Fact::Unknown(Missing {
                what: "the database".to_owned(),
                obstacle: MissingReason::SlotsExhausted,
                reason: format!("none (SQLSTATE 53300){HELD_BY}{held}"),
                remedy: None,
            });
            let finding = check(&observation).remove(0);
            (finding.change.map(|it| it.line), finding.next)
        };
        let command = Some(Observation::default().psql_as_superuser(LIMIT));
        assert_eq!(next("import.rb 192 (146 idle), sidekiq 5"), (None, command.clone()));
        assert_eq!(next("sidekiqs 192"), (None, command.clone()));
        assert_eq!(next("sidekiq 30 (20 idle), web 10"), (Some("-c 12".to_owned()), None));
        assert_eq!(next("sidekiq 31 (20 idle), web 10"), (None, command), "its pools hold 30");
    }
}
