//! All connection slots of the database are in use, even for the observer.

use crate::finding::{Finding, Severity};
use crate::observation::{ConnectionPools, MissingReason, Observation};

pub(crate) const NAME: &str = "slots-exhausted";

/// Precedes the list of sessions in the reason, if there is one.
const HELD_BY: &str = "; held by ";

const REFUSED: &str = "Every new connection is rejected: requests and jobs that need one fail.";
const LIMIT: &str = "SHOW max_connections";
/// Postgres' message when the reserved slots are in use as well (`proc.c`).
const NONE_RESERVED: &str = "too many clients already";
/// Its message when only reserved slots are left (`postinit.c`; the rest differs by version).
const SOME_RESERVED: &str = "remaining connection slots are reserved";
/// Lists the backends on the database's machine, without a connection.
const BACKENDS: &str = "ps -C postgres -o pid,args";

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
    match largest
        .filter(is_to_shrink)
        .and_then(|it| Some((it, smaller_pool(services, it, reason)?)))
    {
        Some((largest, pool)) => {
            finding.change_and_restart(largest.place(), largest.pool_line(pool))
        }
        // The limit is unknown, because the database rejected the observer.
        None => without_line(observation, finding, reason),
    }
}

/// Says how to get a connection, which depends on whether slots for superusers are left.
fn without_line(observation: &Observation, finding: Finding, reason: &str) -> Finding {
    const END: &str = "restart the clients that hold the most, or end a session on the database's \
                       machine with kill -TERM and the process ID of its backend (never -KILL, \
                       which restarts all of Postgres)";
    if reason.contains(NONE_RESERVED) {
        return finding
            .leads_to(format!(
                "{REFUSED} Superusers are rejected as well, because the slots that Postgres \
                 reserves for them are in use: {END}. The command lists the backends."
            ))
            .next(BACKENDS);
    }
    if reason.contains(SOME_RESERVED) {
        return finding
            .leads_to(format!(
                "{REFUSED} Postgres reserves some slots for superusers, who can still query its \
                 limit; weir plan --max-connections calculates pools that fit."
            ))
            .next(observation.psql_as_superuser(LIMIT));
    }
    finding
        .leads_to(format!(
            "{REFUSED} It is unknown whether a slot that Postgres reserves for superusers is free. \
             If the command is rejected as well, {END}."
        ))
        .next(observation.psql_as_superuser(LIMIT))
}

/// Returns half of a service's pool, or of the sessions that each of its processes holds at least
/// if those are fewer: a pool above them would exhaust the slots just the same. `None` if it is
/// unknown how many it holds, or if a single connection per process would be too many.
fn smaller_pool(
    services: &[ConnectionPools],
    largest: &ConnectionPools,
    reason: &str,
) -> Option<u32> {
    // The list has one figure for all services of a kind.
    let others = same_kind(services, largest).map(ConnectionPools::connections);
    let others = others.fold(0, u32::saturating_add).saturating_sub(largest.connections());
    let own = held(reason)?.saturating_sub(others);
    let pool = largest.pool.min(own / largest.processes.max(1)) / 2;
    (pool > 0).then_some(pool)
}

/// Returns the services whose sessions have the same name in the list of sessions.
fn same_kind<'a>(
    services: &'a [ConnectionPools],
    service: &'a ConnectionPools,
) -> impl Iterator<Item = &'a ConnectionPools> {
    let family = |service: &ConnectionPools| service.name.split(' ').next().map(str::to_owned);
    services.iter().filter(move |it| family(it) == family(service))
}

/// Returns the number of sessions of the largest holder, which is the first in the list.
fn held(reason: &str) -> Option<u32> {
    let (_, ledger) = reason.split_once(HELD_BY)?;
    ledger.split(' ').find_map(|word| word.trim_end_matches(',').parse().ok())
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
    let pools = same_kind(services, largest).map(ConnectionPools::connections);
    let pools = pools.fold(0, u32::saturating_add);
    held(reason).is_some_and(|held| held > pools)
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
            reason: "remaining connection slots are reserved (SQLSTATE 53300); held by sidekiq 30"
                .to_owned(),
            remedy: None,
        });
        let findings = check(&observation);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].evidence.contains("53300"));
        let change = findings[0].line_change().cloned().unwrap();
        assert_eq!(
            (change.place.as_str(), change.line.as_str()),
            ("the command line of sidekiq", "-c 12")
        );
        observation.services = Fact::NotAsked;
        let next = check(&observation).remove(0).next_step().map(str::to_owned);
        assert_eq!(next.as_deref(), Some("sudo -u postgres psql -c 'SHOW max_connections'"));
    }

    fn rejected(reason: &str, services: Vec<ConnectionPools>) -> Finding {
        let mut observation = healthy::observation();
        observation.services = Fact::Known(services);
        observation.postgres = Fact::Unknown(Missing {
            what: "the database".to_owned(),
            obstacle: MissingReason::SlotsExhausted,
            reason: reason.to_owned(),
            remedy: None,
        });
        check(&observation).remove(0)
    }

    #[test]
    fn a_pool_is_halved_from_what_is_held_and_not_from_what_it_may_hold() {
        let sidekiq = || vec![healthy::service("sidekiq", 1, 100, "DB_POOL=")];
        let line = |reason: &str, services| {
            rejected(reason, services).line_change().map(|change| change.line.clone())
        };
        let reason = "none (SQLSTATE 53300); held by sidekiq 17";
        assert_eq!(line(reason, sidekiq()).unwrap(), "DB_POOL=8");
        let unknown = "none (SQLSTATE 53300)";
        assert_eq!(line(unknown, sidekiq()), None, "it is unknown how many it holds");
        let many = vec![healthy::service("sidekiq", 20, 100, "DB_POOL=")];
        assert_eq!(line(reason, many), None, "one each is too many");
    }

    #[test]
    fn where_superusers_are_rejected_too_no_psql_is_suggested() {
        let reason = |message: &str| format!("FATAL: {message} (SQLSTATE 53300)");
        let none = rejected(&reason("sorry, too many clients already"), Vec::new());
        assert_eq!(none.next_step(), Some(BACKENDS));
        assert!(none.consequence.contains("Superusers are rejected as well"), "{none:?}");
        let some = rejected(
            &reason(
                "remaining connection slots are reserved for roles with the SUPERUSER attribute",
            ),
            Vec::new(),
        );
        assert!(some.next_step().unwrap().contains("psql"));
        let other = rejected(&reason("Verbindungen erschöpft"), Vec::new());
        assert!(other.consequence.contains("It is unknown whether a slot"), "{other:?}");
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
            let line = finding.line_change().map(|it| it.line.clone());
            (line, finding.next_step().map(str::to_owned))
        };
        let command = Some(Observation::default().psql_as_superuser(LIMIT));
        assert_eq!(next("import.rb 192 (146 idle), sidekiq 5"), (None, command.clone()));
        assert_eq!(next("sidekiqs 192"), (None, command.clone()));
        assert_eq!(next("sidekiq 30 (20 idle), web 10"), (Some("-c 12".to_owned()), None));
        assert_eq!(next("sidekiq 31 (20 idle), web 10"), (None, command), "its pools hold 30");
    }
}
