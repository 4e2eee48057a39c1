//! A role or a database has a lower limit of sessions than the server: `CONNECTION LIMIT`.

use crate::finding::{Finding, Severity};
use crate::observation::{
    ConnectionLimit, ConnectionPools, Missing, MissingReason, Observation, is_nearly_full,
};
use crate::wording;

pub(crate) const NAME: &str = "connection-limit";

const PLACE: &str = "psql, as a superuser";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let refused = observation.missing().find(|it| it.obstacle == MissingReason::LimitReached);
    refused.map(met).into_iter().chain(nearly_met(observation)).collect()
}

/// Reports a limit that rejected the observer itself, and therefore everyone with that role or
/// database.
fn met(missing: &Missing) -> Finding {
    let finding = Finding::new(
        NAME,
        Severity::Critical,
        missing.what.as_str(),
        missing.reason.as_str(),
    )
    .leads_to(
        "New connections as that role, or to that database, are rejected even if the server \
             has free slots; this includes the application's requests and jobs if they use it.",
    );
    match &missing.remedy {
        Some(line) => finding.change(PLACE, line.as_str()),
        None => finding,
    }
}

fn nearly_met(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let (Some(settings), Some(exceptions)) =
        (postgres.settings.known(), postgres.exceptions.known())
    else {
        return Vec::new();
    };
    let usable = settings.usable_connections();
    let services = observation.services.known().map(Vec::as_slice).unwrap_or_default();
    let limits = exceptions.limits.iter();
    let short =
        limits.filter(|it| it.connections < usable && is_nearly_full(it.open, it.connections));
    short.map(|limit| found(limit, services, usable)).collect()
}

fn found(limit: &ConnectionLimit, services: &[ConnectionPools], usable: u32) -> Finding {
    let ConnectionLimit { holder, connections, open } = limit;
    let severity = if open >= connections { Severity::Critical } else { Severity::Warning };
    let evidence = format!(
        "{} open, of at most {connections} (CONNECTION LIMIT); the server has {}",
        wording::number(*open, "connection is", "connections are"),
        wording::number(usable, "usable slot", "usable slots")
    );
    // As many as the pools may open, if the server has that many.
    let pools = services.iter().map(ConnectionPools::connections).fold(0, u32::saturating_add);
    let enough = if pools > *connections { pools.min(usable) } else { usable };
    Finding::new(NAME, severity, holder.words(), evidence)
        .leads_to("The next one is rejected (SQLSTATE 53300), even if the server has free slots.")
        .change(PLACE, limit.line(enough))
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
        assert_eq!((finding.severity, finding.subject.as_str()), (Severity::Critical, "role shop"));
        assert!(
            finding.evidence.starts_with("20 connections are open, of at most 20 "),
            "{finding:?}"
        );
        // Pools of 10, 10, 25 and 5 connections.
        assert_eq!(finding.change.unwrap().line, r#"ALTER ROLE "shop" CONNECTION LIMIT 50;"#);
        assert_eq!(with(20, 19)[0].severity, Severity::Warning);
        let finding = with(60, 60).remove(0);
        assert_eq!(finding.change.unwrap().line, r#"ALTER ROLE "shop" CONNECTION LIMIT 197;"#);
    }

    #[test]
    fn who_is_refused_by_it_is_told_with_the_line_that_ends_it_and_once() {
        let mut observation = healthy::observation();
        let line = r#"ALTER ROLE "weir" CONNECTION LIMIT -1;"#;
        observation.postgres = Fact::Unknown(Missing {
            what: "Postgres db:5432/app".to_owned(),
            obstacle: MissingReason::LimitReached,
            reason: "too many connections for role \"weir\" (SQLSTATE 53300)".to_owned(),
            remedy: Some(line.to_owned()),
        });
        let findings = crate::advise(&observation).findings;
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!((findings[0].rule, findings[0].severity), (NAME, Severity::Critical));
        assert_eq!(findings[0].change.as_ref().unwrap().line, line);
    }

    #[test]
    fn one_with_room_or_beyond_the_servers_own_is_none() {
        assert_eq!(with(20, 10), []);
        assert_eq!(with(300, 300), [], "the server's own is met first");
    }
}
