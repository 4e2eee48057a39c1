//! Detects a connection pooler between the application and its database, unless it is configured.
//!
//! Signs of a pooler are sessions of the database that it holds, a configured address that leads to
//! another port than the database's own, and a running process on this machine. A pooler on another
//! machine cannot be detected unless it is queried.

use std::path::Path;

use weir_advisor::observation::{DatabaseObservation, Fact, Observation, PgBouncer, Pooler};
use weir_advisor::wording;

use crate::observe::Sources;
use crate::{commands, memory};

/// Name of a pooler of unknown kind.
const UNNAMED: &str = "a pooler";
/// Name of a configured pooler.
const CONFIGURED: &str = "pgbouncer";

/// Returns the pooler. Configured values take precedence: its maximum of connections, or 0 for no
/// pooler.
pub(crate) fn pooler(sources: &Sources, observation: &Observation) -> Option<Pooler> {
    let Observation { postgres, pgbouncer, .. } = observation;
    let endpoint = sources.postgres.as_ref().map(|source| &source.endpoint);
    let most = |pooler: &PgBouncer| pooler.connections_max(endpoint.and_then(|it| it.database()));
    let connections = sources.pooler.or_else(|| pgbouncer.known().and_then(most));
    let is_said = sources.pooler.is_some() || sources.pgbouncer.is_some();
    found(connections, is_said, postgres, sources.proc.as_deref())
}

fn found(
    connections: Option<u32>,
    is_said: bool,
    postgres: &Fact<DatabaseObservation>,
    proc: Option<&Path>,
) -> Option<Pooler> {
    if connections == Some(0) {
        return None;
    }
    let of = |(name, shown_by): (String, String)| Pooler {
        name,
        shown_by,
        connections,
        may_serve_another: false,
    };
    let configured = || (CONFIGURED.to_owned(), "as configured".to_owned());
    // A running one says nothing of the database that it serves.
    let on_machine = || {
        let (name, shown_by) = proc.and_then(running)?;
        Some(Pooler { may_serve_another: !is_said, ..of((name, shown_by)) })
    };
    let seen = seen(postgres, proc).map(of);
    seen.or_else(on_machine).or_else(|| is_said.then(|| of(configured())))
}

/// Returns the name of a pooler that the database shows, and the evidence.
fn seen(postgres: &Fact<DatabaseObservation>, proc: Option<&Path>) -> Option<(String, String)> {
    let postgres = postgres.known();
    let holder = postgres.and_then(holder);
    let running = || proc.and_then(running);
    let other_port = || {
        let port = postgres?.other_port?;
        let shown = format!("the configured address leads to its port {port}");
        Some((running().map_or_else(|| UNNAMED.to_owned(), |(name, _)| name), shown))
    };
    holder.or_else(other_port)
}

fn holder(postgres: &DatabaseObservation) -> Option<(String, String)> {
    let connections = postgres.connections.known()?;
    let services = connections.services();
    let name = services.into_iter().find(|service| commands::is_pooler(service))?;
    let sessions = connections.sessions.iter().filter(|it| it.service == name);
    let held: u32 = sessions.map(|it| it.count).sum();
    let held = wording::number(held, "connection", "connections");
    Some((name.to_owned(), format!("it holds {held}")))
}

fn running(proc: &Path) -> Option<(String, String)> {
    let services = memory::processes(proc).filter_map(|pid| commands::service_of(proc, pid));
    let name = services.into_iter().find(|service| commands::is_pooler(service))?;
    Some((name, "it runs on this machine".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_advisor::observation::{DatabaseConnections, SessionState, Sessions};

    use super::*;

    fn held_by(service: &str) -> Fact<DatabaseObservation> {
        let sessions = vec![Sessions {
            service: service.to_owned(),
            state: SessionState::Idle,
            count: 20,
            longest: Duration::ZERO,
        }];
        let connections = Fact::Known(DatabaseConnections { sessions });
        Fact::Known(DatabaseObservation { connections, ..DatabaseObservation::default() })
    }

    #[test]
    fn who_holds_the_sessions_shows_it() {
        let pooler = found(Some(30), true, &held_by("pgbouncer"), None).unwrap();
        assert_eq!((pooler.name.as_str(), pooler.connections), ("pgbouncer", Some(30)));
        assert_eq!(pooler.shown_by, "it holds 20 connections");
        assert_eq!(found(None, false, &held_by("web"), None), None);
        assert_eq!(found(Some(0), true, &held_by("pgbouncer"), None), None, "somebody knows");
    }

    #[test]
    fn an_address_that_leads_to_another_port_shows_it_and_so_does_a_process() {
        let through = Fact::Known(DatabaseObservation {
            other_port: Some(5432),
            ..DatabaseObservation::default()
        });
        let shown = found(None, false, &through, None).unwrap();
        assert_eq!(shown.name, "a pooler");
        assert_eq!(shown.shown_by, "the configured address leads to its port 5432");
        let proc = tempfile::tempdir().unwrap();
        std::fs::create_dir(proc.path().join("7")).unwrap();
        let line = "/usr/sbin/pgbouncer\0/etc/pgbouncer/pgbouncer.ini\0";
        std::fs::write(proc.path().join("7/cmdline"), line).unwrap();
        let running = found(None, false, &Fact::NotAsked, Some(proc.path())).unwrap();
        assert_eq!(running.shown_by, "it runs on this machine");
        assert!(running.may_serve_another && !shown.may_serve_another);
        let said = found(Some(20), true, &Fact::NotAsked, Some(proc.path())).unwrap();
        assert!(!said.may_serve_another, "it was configured for this database");
        assert_eq!(found(None, false, &through, Some(proc.path())).unwrap().name, "pgbouncer");
    }

    #[test]
    fn one_that_nobody_sees_is_there_because_somebody_says_so() {
        let pooler = found(Some(40), true, &Fact::NotAsked, None).unwrap();
        assert_eq!(
            (pooler.name.as_str(), pooler.shown_by.as_str()),
            ("pgbouncer", "as configured")
        );
        assert_eq!(found(None, true, &Fact::NotAsked, None).unwrap().connections, None);
        assert_eq!(found(None, false, &Fact::NotAsked, None), None);
    }
}
