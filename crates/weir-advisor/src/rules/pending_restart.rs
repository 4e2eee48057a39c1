//! Settings were changed but need a restart to take effect.

use crate::finding::{Finding, Severity};
use crate::observation::{DatabaseConnections, DatabaseObservation, Observation};
use crate::wording;

pub(crate) const NAME: &str = "pending-restart";

/// Settings that decide how many connections there are.
const LIMITS: [&str; 3] =
    ["max_connections", "superuser_reserved_connections", "reserved_connections"];
/// Lists what the files set, with the file. The last one of several lines counts.
const VALUES: &str = "SELECT name, setting, sourcefile FROM pg_file_settings \
                      WHERE name LIKE '%connections' ORDER BY seqno";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let waiting: Vec<&str> = postgres.waiting_for_restart().collect();
    let wait = match waiting.len() {
        0 => return Vec::new(),
        1 => "was changed and takes effect",
        _ => "were changed and take effect",
    };
    let limits = waiting.iter().any(|name| LIMITS.contains(name));
    let names = wording::list(waiting);
    let evidence = format!("{names} {wait} after a restart");
    let finding = Finding::new(NAME, Severity::Warning, "Postgres", evidence);
    vec![match limits {
        true => fewer_connections(observation, postgres, finding),
        false => {
            let finding = finding.leads_to(
                "The database still uses the old values. A restart ends all connections, with their \
                 transactions: choose a quiet time.",
            );
            // Another machine may have no such unit.
            match observation.is_database_elsewhere() {
                true => finding,
                false => finding.next("systemctl restart postgresql"),
            }
        }
    }]
}

/// Does not suggest a restart, because the new limit is unknown: only a superuser may read it.
fn fewer_connections(
    observation: &Observation,
    postgres: &DatabaseObservation,
    finding: Finding,
) -> Finding {
    let open = postgres.connections.known().map(DatabaseConnections::open);
    let open = open.map_or_else(String::new, |open| {
        let connections = wording::number(open, "connection is", "connections are");
        format!(" {connections} in use now.")
    });
    finding
        .leads_to(format!(
            "The database still uses the old values, and doctor does not know the new ones.{open} \
             After a restart with a limit below what the application uses, the database rejects \
             connections: look at the new values first, and restart Postgres only if there are \
             enough."
        ))
        .next(observation.psql_as_superuser(VALUES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{PostgresAccess, SettingOrigin};

    #[test]
    fn what_waits_for_a_restart_is_named() {
        let mut observation = healthy::observation();
        let pending = &mut observation.postgres.known_mut().pending_restart;
        *pending = ["shared_buffers", "max_connections"].map(str::to_owned).to_vec();
        let expected =
            "shared_buffers and max_connections were changed and take effect after a restart";
        assert_eq!(check(&observation)[0].evidence, expected);
    }

    #[test]
    fn a_restart_that_may_leave_too_few_connections_is_not_suggested() {
        let mut observation = healthy::observation();
        let pending = &mut observation.postgres.known_mut().pending_restart;
        *pending = vec!["shared_buffers".to_owned()];
        let next = |it: &Observation| check(it).remove(0).next_step().unwrap().to_owned();
        assert_eq!(next(&observation), "systemctl restart postgresql");
        observation.postgres.known_mut().pending_restart.push("max_connections".to_owned());
        let finding = check(&observation).remove(0);
        assert!(finding.consequence.contains("20 connections are in use now."), "{finding:?}");
        assert!(finding.consequence.contains("look at the new values first"), "{finding:?}");
        assert!(next(&observation).contains("pg_file_settings"), "{}", next(&observation));
        assert!(!next(&observation).contains("systemctl"), "{}", next(&observation));
    }

    #[test]
    fn what_the_command_line_says_no_restart_changes() {
        let mut observation = healthy::observation();
        let postgres = observation.postgres.known_mut();
        postgres.pending_restart =
            ["max_connections", "shared_buffers"].map(str::to_owned).to_vec();
        let source = "command line".to_owned();
        let name = "max_connections".to_owned();
        postgres.origins.push(SettingOrigin { name, source, file: None });
        let expected = "shared_buffers was changed and takes effect after a restart";
        assert_eq!(check(&observation)[0].evidence, expected);
        observation.postgres.known_mut().pending_restart.pop();
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn no_unit_of_this_machine_is_restarted_for_a_database_on_another() {
        let mut observation = healthy::observation();
        observation.postgres.known_mut().pending_restart = vec!["shared_buffers".to_owned()];
        for (host, is_suggested) in
            [("127.0.0.1", true), ("/run/postgresql", true), ("db.internal", false)]
        {
            let host = host.to_owned();
            observation.postgres_access =
                Some(PostgresAccess { host, ..PostgresAccess::default() });
            assert_eq!(check(&observation)[0].next_step().is_some(), is_suggested);
        }
    }
}
