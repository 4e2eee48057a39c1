//! A role or a database has a lower limit of sessions than the server: `CONNECTION LIMIT`.

use crate::finding::{Finding, Severity};
use crate::observation::{
    ConnectionLimit, ConnectionPools, Missing, MissingReason, Observation, is_nearly_full,
    limit_for,
};
use crate::wording;

pub(crate) const NAME: &str = "connection-limit";

const PLACE: &str = "psql, as a superuser";

const NEXT: &str = "Connections beyond the limit are rejected (SQLSTATE 53300), even if the server has \
                    free slots.";
const POOLS_FIT: &str = "The pools of the application fit, and nothing else does: a migration, psql or \
                         a deploy that starts new processes first may be rejected (SQLSTATE 53300).";

/// Lists all limits with the open sessions. They apply to no superuser.
const LIMITS: &str = "SELECT rolname, rolconnlimit, (SELECT count(*) FROM pg_stat_activity WHERE usesysid = pg_roles.oid) \
    AS open FROM pg_roles WHERE rolconnlimit >= 0 UNION ALL SELECT datname, datconnlimit, (SELECT count(*) \
    FROM pg_stat_activity WHERE datid = pg_database.oid) FROM pg_database WHERE datconnlimit >= 0";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let refused = observation.missing().find(|it| it.obstacle == MissingReason::LimitReached);
    refused.map(|it| met(observation, it)).into_iter().chain(nearly_met(observation)).collect()
}

/// Reports a limit that rejected the observer itself, and therefore everyone with that role or
/// database. The limit is unknown, because it was not let in.
fn met(observation: &Observation, missing: &Missing) -> Finding {
    let finding = Finding::new(
        NAME,
        Severity::Critical,
        missing.what.as_str(),
        missing.reason.as_str(),
    )
    .leads_to(
        "New connections as that role, or to that database, are rejected even if the server \
             has free slots; this includes the application's requests and jobs if they use it. The \
             limit is unknown: the command shows each limit with its open sessions. Choose a number \
             above it for which the server has free slots, or end sessions that are not needed.",
    );
    let finding = match &missing.remedy {
        Some(line) => finding.adding(format_args!("As a superuser: {line}")),
        None => finding,
    };
    finding.next(observation.psql_as_superuser(LIMITS))
}

fn nearly_met(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let (Some(settings), Some(exceptions)) =
        (postgres.settings.known(), postgres.exceptions.known())
    else {
        return Vec::new();
    };
    let usable = settings.usable_connections();
    // Behind a pooler, the application's pools do not determine the connections.
    let services = observation.services.known().filter(|_| observation.pooler.is_none());
    let pools = services.map(|all| all.iter().map(ConnectionPools::connections));
    let pools = pools.map(|pools| pools.fold(0, u32::saturating_add));
    let limits = exceptions.limits.iter();
    let short =
        limits.filter(|it| it.connections < usable && is_nearly_full(it.open, it.connections));
    short.map(|limit| found(limit, pools, usable)).collect()
}

/// A limit that is reached rejects nobody by itself: the server does not tell whom it rejected.
fn found(limit: &ConnectionLimit, pools: Option<u32>, usable: u32) -> Finding {
    let ConnectionLimit { holder, connections, open } = limit;
    let evidence = format!(
        "{} open, of at most {connections} (CONNECTION LIMIT); the server has {}",
        wording::number(*open, "connection is", "connections are"),
        wording::number(usable, "usable slot", "usable slots")
    );
    // The pools may open the rest, and a deploy or psql some more. Without them, the need is unknown.
    let needed = pools.map_or(open.saturating_mul(2), |pools| pools.max(*open));
    let is_explained = pools.is_some_and(|pools| (*open..=*connections).contains(&pools));
    let (severity, consequence) = match is_explained {
        true => (Severity::Notice, POOLS_FIT),
        false => (Severity::Warning, NEXT),
    };
    Finding::new(NAME, severity, holder.words(), evidence)
        .leads_to(consequence)
        .change(PLACE, limit.line(limit_for(needed).min(usable)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{Fact, Holder};

    fn with(connections: u32, open: u32) -> Vec<Finding> {
        let mut observation = healthy::observation();
        let holder = Holder { role: Some("shop".to_owned()), database: None };
        let limit = ConnectionLimit { holder, connections, open };
        observation.postgres.known_mut().exceptions.known_mut().limits = vec![limit];
        check(&observation)
    }

    #[test]
    fn a_role_at_its_own_limit_is_told_with_the_line_that_raises_it() {
        let finding = with(20, 20).remove(0);
        assert_eq!((finding.severity, finding.subject.as_str()), (Severity::Warning, "role shop"));
        assert!(
            finding.evidence.starts_with("20 connections are open, of at most 20 "),
            "{finding:?}"
        );
        // Pools of 10, 10, 25 and 5 connections, and some for psql and a deploy.
        assert_eq!(
            finding.line_change().unwrap().line,
            r#"ALTER ROLE "shop" CONNECTION LIMIT 56;"#
        );
        assert_eq!(with(20, 19)[0].severity, Severity::Warning);
        let finding = with(60, 60).remove(0);
        assert_eq!(
            finding.line_change().unwrap().line,
            r#"ALTER ROLE "shop" CONNECTION LIMIT 67;"#
        );
    }

    #[test]
    fn a_limit_that_the_pools_fill_is_a_notice_and_its_line_ends_it() {
        let finding = with(50, 50).remove(0);
        assert_eq!(finding.severity, Severity::Notice, "{finding:?}");
        assert!(finding.consequence.starts_with("The pools of the application fit"));
        assert_eq!(
            finding.line_change().unwrap().line,
            r#"ALTER ROLE "shop" CONNECTION LIMIT 56;"#
        );
        assert_eq!(with(56, 50), [], "after the change");
    }

    #[test]
    fn who_is_refused_by_it_is_told_with_the_line_that_ends_it_and_once() {
        let mut observation = healthy::observation();
        let line = r#"ALTER ROLE "weir" CONNECTION LIMIT NUMBER;"#;
        observation.postgres = Fact::Unknown(Missing {
            what: "Postgres db:5432/app".to_owned(),
            obstacle: MissingReason::LimitReached,
            reason: "too many connections for role \"weir\" (SQLSTATE 53300)".to_owned(),
            remedy: Some(line.to_owned()),
        });
        let findings = crate::advise(&observation).findings;
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!((&*findings[0].rule, findings[0].severity), (NAME, Severity::Critical));
        assert_eq!(findings[0].line_change(), None, "the number is the operator's to choose");
        assert!(findings[0].consequence.ends_with(line), "{findings:?}");
        assert!(findings[0].consequence.contains("The limit is unknown"), "{findings:?}");
        let next = findings[0].next_step().unwrap();
        assert!(
            next.starts_with("sudo -u postgres psql -c 'SELECT rolname, rolconnlimit"),
            "{next}"
        );
    }

    #[test]
    fn one_with_room_or_beyond_the_servers_own_is_none() {
        assert_eq!(with(20, 10), []);
        assert_eq!(with(300, 300), [], "the server's own is met first");
    }
}
