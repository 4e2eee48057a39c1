//! Returns why PgBouncer could not be queried, with remedies.

use weir_advisor::observation::{Missing, MissingReason};

use crate::postgres::{MAX_CLIENT_CONN, PostgresEndpoint, PostgresError, missing as of_postgres};

const PASSWORD: &str = "pass it with --pgbouncer-password-env or --pgbouncer-password-file (in \
                        [observe]: \
                        pgbouncer_password = { env = \"NAME\" } or { file = \"PATH\" })";
const RUNS: &str =
    "check that it is running (systemctl status pgbouncer), and the host and port in the address";
const REACHED: &str = "check the host and port in the address, and firewalls";
const BROKEN: &str = "check the host and port in the address, and its log";

const WAYS: [(&str, MissingReason, &str); 11] = [
    ("password missing", MissingReason::Login, PASSWORD),
    ("(max_client_conn)", MissingReason::Unreachable, MAX_CLIENT_CONN),
    (
        "UnknownIssuer",
        MissingReason::Login,
        "pass the file of the authority that signed its certificate with --pgbouncer-ca \
         (pgbouncer_ca in [observe])",
    ),
    (
        "NotValidForName",
        MissingReason::Login,
        "use the host name of its certificate in the address",
    ),
    (
        "does not support TLS",
        MissingReason::Login,
        "turn it on (client_tls_sslmode in pgbouncer.ini), or remove sslmode from the address",
    ),
    ("SSL required", MissingReason::Login, "add ?sslmode=verify-full to the address"),
    ("Connection refused", MissingReason::Unreachable, RUNS),
    ("No such file", MissingReason::Unreachable, RUNS),
    ("lookup", MissingReason::Unreachable, "check the host name in the address"),
    ("timed out", MissingReason::Unreachable, REACHED),
    // PgBouncer always has this database, so the server is another program.
    (
        "database \"pgbouncer\" does not exist",
        MissingReason::Login,
        "use the address of PgBouncer, not of the database behind it",
    ),
];
/// Messages for unknown users.
const STRANGERS: [&str; 4] = ["authentication failed", "no such user", "SASL", "28P01"];

pub(super) fn missing(endpoint: &PostgresEndpoint, error: &PostgresError) -> Missing {
    let user = endpoint.user().unwrap_or("USER");
    let missing = of_postgres(&format!("PgBouncer {endpoint}"), Some(user), error);
    if let PostgresError::Certificate { .. } = error {
        // A local error: PgBouncer was not contacted.
        let remedy =
            Some("check the path of --pgbouncer-ca (pgbouncer_ca in [observe])".to_owned());
        return Missing { obstacle: MissingReason::Login, remedy, ..missing };
    }
    let (obstacle, remedy) = match error {
        PostgresError::Deadline(_) => (MissingReason::Unreachable, REACHED.to_owned()),
        _ => way(&missing.reason, user),
    };
    Missing { obstacle, remedy: Some(remedy), ..missing }
}

fn way(reason: &str, user: &str) -> (MissingReason, String) {
    if reason.contains("not allowed") {
        let line = format!(
            "stats_users = {user} in pgbouncer.ini (in addition to the existing users), then RELOAD"
        );
        return (MissingReason::NotAllowed, line);
    }
    if let Some((_, obstacle, remedy)) = WAYS.iter().find(|(sign, ..)| reason.contains(sign)) {
        return (*obstacle, (*remedy).to_owned());
    }
    if STRANGERS.iter().any(|sign| reason.contains(sign)) {
        let remedy = format!(
            "{user} must be in PgBouncer's auth_file (userlist.txt) with the password that is \
             given here \
             (--pgbouncer-password-env, --pgbouncer-password-file)"
        );
        return (MissingReason::Login, remedy);
    }
    (MissingReason::Unreachable, BROKEN.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_that_fails_says_what_to_do() {
        for (reason, obstacle, remedy) in [
            (
                "FATAL: not allowed (SQLSTATE 08P01)",
                MissingReason::NotAllowed,
                "stats_users = weir in ",
            ),
            (
                "invalid configuration: password missing",
                MissingReason::Login,
                "--pgbouncer-password-env",
            ),
            (
                "FATAL: password authentication failed (SQLSTATE 28P01)",
                MissingReason::Login,
                "auth_file",
            ),
            (
                "FATAL: no more connections allowed (max_client_conn)",
                MissingReason::Unreachable,
                "raise",
            ),
            (
                "error connecting: Connection refused (os error 111)",
                MissingReason::Unreachable,
                "is running",
            ),
            ("connection closed", MissingReason::Unreachable, "its log"),
        ] {
            let told = way(reason, "weir");
            assert_eq!(told.0, obstacle, "{reason}");
            assert!(told.1.contains(remedy), "{reason}: {}", told.1);
        }
    }
}
