//! The database accepts no writes, because it is a standby or because of a setting.

use crate::database_settings;
use crate::finding::{Finding, Severity};
use crate::observation::{Observation, ReadOnly};

pub(crate) const NAME: &str = "read-only-database";

const WRITES_FAIL: &str = "Each job and request that writes fails (PG::ReadOnlySqlTransaction). If it was set \
                           for maintenance, wait until that ends.";
/// Sessions take values of their role or database when they start only.
const RECONNECT: &str = "Open connections keep the old value: after the change, restart all processes of \
                         the application, and with PgBouncer run RECONNECT in its console.";
const SETTING: &str = "default_transaction_read_only";
/// Shows the primary; any role with `pg_monitor` may execute it.
const PRIMARY: &str = "SELECT sender_host, sender_port, status FROM pg_stat_wal_receiver";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let finding = match postgres.read_only {
        None => return Vec::new(),
        // Only a notice, because applications may use standbys for reads.
        Some(ReadOnly::Standby) => found(Severity::Notice, "it is a standby and rejects writes")
            .leads_to(
                "Reads work. If the application writes here, each write fails \
                 (PG::ReadOnlySqlTransaction): DATABASE_URL or DB_HOST must name the primary.",
            )
            .next(observation.psql(PRIMARY)),
        Some(ReadOnly::Setting) => {
            let finding = found(Severity::Critical, &format!("{SETTING} is on: it rejects writes"))
                .leads_to(WRITES_FAIL);
            in_session_that_writes(database_settings::change(
                finding,
                postgres,
                (SETTING, "off"),
                false,
            ))
        }
    };
    vec![finding]
}

/// Makes the command work in the session that it is typed in: Postgres rejects `ALTER DATABASE` and
/// `ALTER ROLE` in a read-only transaction. Also says which sessions it does not change.
fn in_session_that_writes(mut finding: Finding) -> Finding {
    let of_one = |line: &str| line.starts_with("ALTER DATABASE") || line.starts_with("ALTER ROLE");
    if let Some(change) = finding.line_change_mut().filter(|it| of_one(&it.line)) {
        change.line.insert_str(0, &format!("SET {SETTING} = off; "));
        return finding.adding(RECONNECT);
    }
    finding
}

fn found(severity: Severity, evidence: &str) -> Finding {
    Finding::new(NAME, severity, "Postgres", evidence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn of(read_only: ReadOnly) -> Finding {
        let mut observation = healthy::observation();
        observation.postgres.known_mut().read_only = Some(read_only);
        check(&observation).remove(0)
    }

    #[test]
    fn a_standby_names_its_primary_and_a_switch_the_line() {
        let standby = of(ReadOnly::Standby);
        assert_eq!((standby.severity, standby.line_change()), (Severity::Notice, None));
        assert!(standby.next_step().unwrap().contains("pg_stat_wal_receiver"));
        let switched = of(ReadOnly::Setting);
        assert_eq!(switched.severity, Severity::Critical);
        assert!(!switched.consequence.contains(RECONNECT), "a reload reaches open sessions");
        assert!(switched.line_change().unwrap().line.contains(SETTING));
    }

    #[test]
    fn a_command_works_in_the_session_that_it_is_typed_in() {
        let of = |line: &str| {
            let finding = found(Severity::Critical, "").change("psql", line);
            in_session_that_writes(finding).line_change().unwrap().line.clone()
        };
        let altered = "ALTER DATABASE \"app\" SET default_transaction_read_only = 'off'";
        assert_eq!(of(altered), format!("SET default_transaction_read_only = off; {altered}"));
        assert_eq!(
            of("default_transaction_read_only = off"),
            "default_transaction_read_only = off"
        );
    }

    #[test]
    fn sessions_that_keep_the_value_are_to_be_restarted() {
        let finding = found(Severity::Critical, "").leads_to(WRITES_FAIL);
        let altered = in_session_that_writes(finding.change("psql", "ALTER ROLE \"shop\" SET"));
        assert_eq!(altered.consequence, format!("{WRITES_FAIL} {RECONNECT}"));
    }
}
