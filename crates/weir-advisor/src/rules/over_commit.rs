//! The sum of all pools exceeds the database's limit of connections.
//!
//! Behind a pooler, the application's pools do not determine the connections to the database. What
//! counts is the pooler's limit, plus the pools of services with direct sessions.

use crate::finding::{Finding, Severity};
use crate::observation::{
    ConnectionLimit, ConnectionPools, Fact, Observation, PgBouncer, Pooler, limit_for,
};

pub(crate) const NAME: &str = "over-commit";

const SUBJECT: &str = "connection pools";
const CONSEQUENCE: &str =
    "If all pools are full at once, the database rejects connections (SQLSTATE 53300).";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let settings = observation.postgres.known().and_then(|it| it.settings.known());
    let (Some(settings), Some(services)) = (settings, observation.services.known()) else {
        return Vec::new();
    };
    let usable = settings.usable_connections();
    let (direct, pooled): (Vec<&ConnectionPools>, Vec<&ConnectionPools>) =
        services.iter().partition(|service| observation.is_direct(service));
    let direct_sum = sum(&direct);
    let finding = match &observation.pooler {
        _ if direct_sum > usable => Some(too_many(&direct, usable)),
        Some(pooler) => behind(pooler, &direct, &pooled, usable)
            .map(|it| with_remedy(it, &observation.pgbouncer)),
        None => None,
    };
    let finding = finding.or_else(|| {
        let opened = match observation.pooler.as_ref().map(|pooler| pooler.connections) {
            None => services.iter().map(ConnectionPools::connections).fold(0, u32::saturating_add),
            Some(pooler) => direct_sum.saturating_add(pooler?),
        };
        over_limit(database_limit(observation)?, opened, usable)
    });
    finding.into_iter().collect()
}

/// Returns the connection limit of the application's database, if there is one.
fn database_limit(observation: &Observation) -> Option<&ConnectionLimit> {
    let exceptions = observation.postgres.known()?.exceptions.known()?;
    exceptions.limits.iter().find(|limit| limit.holder.database.is_some())
}

/// Reports connections that fit the server but exceed the limit of a role or database.
fn over_limit(limit: &ConnectionLimit, opened: u32, usable: u32) -> Option<Finding> {
    let ConnectionLimit { holder, connections, .. } = limit;
    (opened > *connections).then(|| {
        let evidence = format!(
            "{opened} connections may be open, {} allows {connections} (CONNECTION LIMIT)",
            holder.words()
        );
        Finding::new(NAME, Severity::Warning, SUBJECT, evidence)
            .leads_to(CONSEQUENCE)
            .change("psql, as a superuser", limit.line(limit_for(opened).min(usable)))
    })
}

fn sum(services: &[&ConnectionPools]) -> u32 {
    services.iter().map(|it| it.connections()).fold(0, u32::saturating_add)
}

fn too_many(services: &[&ConnectionPools], usable: u32) -> Finding {
    let sum = sum(services);
    let evidence = format!("pools sum to {sum}, {usable} slots are usable: {}", words(services));
    let finding = Finding::new(NAME, Severity::Warning, SUBJECT, evidence).leads_to(CONSEQUENCE);
    let Some(largest) = services.iter().max_by_key(|it| it.connections()) else { return finding };
    // The pool size left for the largest service when all others use theirs fully.
    let left = usable.saturating_sub(sum - largest.connections()) / largest.processes.max(1);
    match left {
        0 => finding.next("weir plan"),
        pool => finding.change_and_restart(largest.place(), largest.pool_line(pool)),
    }
}

/// Checks the pooler's connections together with the direct ones, which fit by themselves.
fn behind(
    pooler: &Pooler,
    direct: &[&ConnectionPools],
    pooled: &[&ConnectionPools],
    usable: u32,
) -> Option<Finding> {
    let Pooler { name, shown_by, connections, .. } = pooler;
    let own = sum(direct);
    let Some(most) = *connections else {
        let all = own.saturating_add(sum(pooled));
        let evidence = format!(
            "unknown: pools sum to {all}, {usable} slots are usable, and {name} is in between \
             ({shown_by}): the most connections that it opens is unknown"
        );
        return (all > usable).then(|| Finding::new(NAME, Severity::Unknown, SUBJECT, evidence));
    };
    let all = own.saturating_add(most);
    if all <= usable {
        return None;
    }
    let others = if direct.is_empty() { String::new() } else { format!(", {}", words(direct)) };
    let evidence =
        format!("{all} connections may be open, {usable} slots are usable: {name} {most}{others}");
    let finding = Finding::new(NAME, Severity::Warning, SUBJECT, evidence).leads_to(CONSEQUENCE);
    Some(match usable.saturating_sub(own) {
        0 => finding.next("weir plan"),
        left => {
            finding.change(format!("{name}'s settings"), format!("max_db_connections = {left}"))
        }
    })
}

/// Says how to give the number of a pooler's connections if it is unknown.
fn with_remedy(finding: Finding, pgbouncer: &Fact<PgBouncer>) -> Finding {
    if finding.severity != Severity::Unknown {
        return finding;
    }
    let why = match pgbouncer {
        Fact::NotAsked => "`--pgbouncer-url` queries PgBouncer;",
        Fact::Known(_) => {
            "PgBouncer reports no number for this database, for example because it has no pool for \
             it yet;"
        }
        Fact::Unknown(_) => "PgBouncer could not be queried;",
    };
    finding.leads_to(format!(
        "It is unknown whether the database will reject connections. {why} `--pgbouncer NUMBER` \
         gives the number: max_db_connections in pgbouncer.ini, or default_pool_size for each user \
         and database; 0 if there is no pooler."
    ))
}

fn words(services: &[&ConnectionPools]) -> String {
    let line = |it: &&ConnectionPools| format!("{} {} x {}", it.name, it.processes, it.pool);
    services.iter().map(line).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy::{self, service, sessions};
    use crate::observation::{Holder, SessionState};

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
        assert_eq!(finding.line_change().unwrap().line, "MAX_THREADS=4");
    }

    #[test]
    fn when_no_pool_can_make_room_a_plan_must() {
        let mut observation = healthy::observation();
        observation
            .services
            .known_mut()
            .extend([service("a", 190, 1, "DB_POOL="), service("b", 150, 1, "DB_POOL=")]);
        assert_eq!(check(&observation)[0].next_step(), Some("weir plan"));
    }

    /// Returns pools of 290 connections for a database with 197 slots.
    fn behind_pgbouncer(connections: Option<u32>) -> Observation {
        let mut observation = healthy::observation();
        observation.services.known_mut()[0] = service("web", 50, 5, "DB_POOL=");
        let connections_of = &mut observation.postgres.known_mut().connections;
        connections_of.known_mut().sessions = vec![
            sessions("pgbouncer", SessionState::Idle, 20),
            sessions("streaming", SessionState::Idle, 3),
        ];
        observation.pooler = Some(Pooler {
            name: "pgbouncer".to_owned(),
            shown_by: "it holds 20 connections".to_owned(),
            connections,
            ..Pooler::default()
        });
        observation
    }

    #[test]
    fn pools_behind_a_pooler_are_no_over_commit() {
        assert_eq!(check(&behind_pgbouncer(Some(187))), [], "streaming has 10 of its own");
        let finding = check(&behind_pgbouncer(Some(188))).remove(0);
        let expected =
            "198 connections may be open, 197 slots are usable: pgbouncer 188, streaming 1 x 10";
        assert_eq!((finding.severity, finding.evidence.as_str()), (Severity::Warning, expected));
        let change = finding.line_change().cloned().unwrap();
        assert_eq!(
            (change.place.as_str(), change.line.as_str()),
            ("pgbouncer's settings", "max_db_connections = 187")
        );
    }

    #[test]
    fn what_a_pooler_opens_is_unknown_until_somebody_says_it() {
        let mut observation = behind_pgbouncer(None);
        let finding = check(&observation).remove(0);
        assert_eq!(finding.severity, Severity::Unknown);
        assert!(
            finding.evidence.starts_with("unknown: pools sum to 290, 197 slots"),
            "{finding:?}"
        );
        assert!(finding.consequence.contains("`--pgbouncer NUMBER`"), "{finding:?}");
        assert!(finding.consequence.contains("`--pgbouncer-url` queries"), "{finding:?}");
        // It was given.
        observation.pgbouncer = Fact::Known(PgBouncer::default());
        let consequence = check(&observation).remove(0).consequence;
        assert!(consequence.contains("PgBouncer reports no number"), "{consequence}");
        assert!(!consequence.contains("--pgbouncer-url"), "{consequence}");
        observation.services.known_mut()[0].processes = 31;
        assert_eq!(check(&observation), [], "they fit in any case");
    }

    #[test]
    fn a_database_may_allow_less_than_the_server() {
        let with = |mut observation: Observation, connections| {
            let holder = Holder { role: None, database: Some("app".to_owned()) };
            let limit = ConnectionLimit { holder, connections, open: 3 };
            observation.postgres.known_mut().exceptions.known_mut().limits = vec![limit];
            check(&observation)
                .pop()
                .map(|it| (it.evidence.clone(), it.line_change().unwrap().line.clone()))
        };
        // Pools of 10, 10, 25 and 5 connections.
        assert_eq!(with(healthy::observation(), 50), None);
        let (evidence, line) = with(healthy::observation(), 49).unwrap();
        let expected = "50 connections may be open, database app allows 49 (CONNECTION LIMIT)";
        assert_eq!(evidence, expected);
        assert_eq!(line, r#"ALTER DATABASE "app" CONNECTION LIMIT 56;"#);
        // The pooler's 20 connections, and 10 of a service with direct sessions.
        assert_eq!(with(behind_pgbouncer(Some(20)), 30), None);
        let (_, line) = with(behind_pgbouncer(Some(20)), 29).unwrap();
        assert_eq!(line, r#"ALTER DATABASE "app" CONNECTION LIMIT 34;"#);
    }

    #[test]
    fn who_does_without_the_pooler_counts_in_full() {
        let mut observation = behind_pgbouncer(Some(20));
        let own = sessions("web", SessionState::Idle, 1);
        observation.postgres.known_mut().connections.known_mut().sessions.push(own);
        let finding = check(&observation).remove(0);
        assert!(finding.evidence.starts_with("pools sum to 260, 197 slots"), "{finding:?}");
        assert_eq!(finding.line_change().unwrap().place, "the environment of web alone");
    }
}
