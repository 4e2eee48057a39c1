//! Describes why Postgres, or a part of its data, could not be read, with remedies.

use std::time::Duration;

use weir_advisor::observation::{Missing, MissingReason};
use weir_advisor::sql::identifier;
use weir_sidekiq::{NetworkErrorKind, TlsErrorKind};

use super::endpoint::PostgresEndpoint;
use super::error::PostgresError;
use super::error_kind::PostgresErrorKind;

/// Placeholder for an unknown user.
const USER: &str = "USER";

/// Returns why nothing is known of a Postgres.
pub(super) fn unreachable(endpoint: &PostgresEndpoint, error: &PostgresError) -> Missing {
    let missing = missing(&format!("Postgres {endpoint}"), endpoint.user(), error);
    match PostgresErrorKind::of(error) {
        PostgresErrorKind::NoPrivilege => {
            let database = identifier(endpoint.database().unwrap_or("postgres"));
            let user = identifier(endpoint.user().unwrap_or(USER));
            let remedy = Some(format!("GRANT CONNECT ON DATABASE {database} TO {user};"));
            Missing { remedy, ..missing }
        }
        kind => match connecting(&kind, endpoint.is_tls()) {
            Some((obstacle, remedy)) => {
                Missing { obstacle, remedy: Some(remedy.to_owned()), ..missing }
            }
            None => missing,
        },
    }
}

/// Returns the reason for a server that accepts clients but does not respond.
pub(super) fn silent(endpoint: &PostgresEndpoint, after: Duration) -> Missing {
    let remedy = "if a pooler is in between, its clients wait for one of its connections \
                  (cl_waiting of SHOW POOLS in PgBouncer's own database): use the address of the \
                  database to see which processes hold them, or raise default_pool_size; \
                  --pgbouncer-url shows the waiting clients; otherwise it is overloaded";
    Missing {
        what: format!("Postgres {endpoint}"),
        obstacle: MissingReason::Unreachable,
        reason: format!("it accepts clients but sends no response within {after:?}"),
        remedy: Some(remedy.to_owned()),
    }
}

/// Returns why `user` could not read the data that `what` describes.
pub(crate) fn missing(what: &str, user: Option<&str>, error: &PostgresError) -> Missing {
    let reason = match error.code() {
        Some(code) => format!("{error} (SQLSTATE {})", code.code()),
        None => error.to_string(),
    };
    let (obstacle, remedy) = rejected(&PostgresErrorKind::of(error), user);
    Missing { what: what.to_owned(), obstacle, reason, remedy }
}

/// Explains an error that the server reported.
fn rejected(kind: &PostgresErrorKind, user: Option<&str>) -> (MissingReason, Option<String>) {
    let quoted = || identifier(user.unwrap_or(USER));
    let (obstacle, remedy) = match kind {
        PostgresErrorKind::SlotsExhausted => return (MissingReason::SlotsExhausted, None),
        PostgresErrorKind::NotSupported => return (MissingReason::NotSupported, None),
        PostgresErrorKind::LimitReached(holder) => {
            // The server does not report the limit, and no limit at all would let the role or the
            // database take every slot.
            let line = format!("{} CONNECTION LIMIT NUMBER;", holder.alter());
            return (MissingReason::LimitReached, Some(line));
        }
        PostgresErrorKind::NoPrivilege => {
            let line = format!("GRANT pg_monitor TO {};", quoted());
            return (MissingReason::NotAllowed, Some(line));
        }
        PostgresErrorKind::NoSuchRole if user.is_some() => {
            let user = quoted();
            let line = format!("CREATE ROLE {user} LOGIN; GRANT pg_monitor TO {user};");
            return (MissingReason::NotAllowed, Some(line));
        }
        // Without a user name, libpq uses the operating system's.
        PostgresErrorKind::NoSuchRole => {
            (MissingReason::Login, "put the user in the address: postgres://weir@..")
        }
        PostgresErrorKind::NotInHba => (
            MissingReason::NotAllowed,
            "a line in pg_hba.conf for this user and address; with TLS: ?sslmode=verify-full",
        ),
        PostgresErrorKind::WrongPassword => (
            MissingReason::Login,
            "check the user in the address, and the password (--postgres-password-env, \
             --postgres-password-file)",
        ),
        PostgresErrorKind::NoSuchDatabase => {
            (MissingReason::Login, "use the application's database in the address")
        }
        PostgresErrorKind::NotAccepting => {
            (MissingReason::Unreachable, "wait until it accepts connections: see its log")
        }
        _ => return (MissingReason::Unreachable, None),
    };
    (obstacle, Some(remedy.to_owned()))
}

/// Explains why no connection was made, unless Postgres reported it.
pub(crate) const fn connecting(
    kind: &PostgresErrorKind,
    is_tls: bool,
) -> Option<(MissingReason, &'static str)> {
    Some(match kind {
        PostgresErrorKind::CertificateFile => (
            MissingReason::Login,
            "check the paths of --postgres-ca, --postgres-cert and --postgres-key (ca, cert and \
             key in [observe.postgres])",
        ),
        PostgresErrorKind::Deadline => (
            MissingReason::Unreachable,
            "check the host and port in the address, firewalls, and whether it is overloaded",
        ),
        PostgresErrorKind::PasswordMissing => (
            MissingReason::Login,
            "pass it with --postgres-password-env or --postgres-password-file (in \
             [observe.postgres]: password = { env = \"NAME\" } or { file = \"PATH\" })",
        ),
        PostgresErrorKind::NoTls => (
            // The server responds, and may accept connections without TLS.
            MissingReason::Login,
            "turn it on (ssl = on in postgresql.conf), or remove sslmode from the address",
        ),
        PostgresErrorKind::Network(NetworkErrorKind::Tls(kind)) => match tls(*kind) {
            Some(remedy) => (MissingReason::Login, remedy),
            None => (MissingReason::Unreachable, broken(is_tls)),
        },
        PostgresErrorKind::Network(kind) => (MissingReason::Unreachable, network(*kind, is_tls)),
        PostgresErrorKind::Protocol => (MissingReason::Unreachable, broken(is_tls)),
        PostgresErrorKind::PoolerFull => (
            MissingReason::Unreachable,
            "raise max_client_conn in PgBouncer's settings, then RELOAD; SHOW CLIENTS there lists \
             the clients",
        ),
        _ => return None,
    })
}

const fn tls(kind: TlsErrorKind) -> Option<&'static str> {
    Some(match kind {
        TlsErrorKind::UnknownIssuer => {
            "pass the file of the authority that signed its certificate with --postgres-ca (ca in \
             [observe.postgres])"
        }
        TlsErrorKind::WrongName => "use the host name of its certificate in the address",
        TlsErrorKind::NotValidNow => "check the dates of its certificate, and this machine's clock",
        TlsErrorKind::ClientCertificate => {
            "pass a certificate with --postgres-cert and --postgres-key"
        }
        TlsErrorKind::Other => return None,
    })
}

const fn network(kind: NetworkErrorKind, is_tls: bool) -> &'static str {
    match kind {
        NetworkErrorKind::Refused => {
            "check that it is running (systemctl status 'postgresql*'), and the host and port in \
             the address"
        }
        NetworkErrorKind::NotFound => {
            "check that it is running (systemctl status 'postgresql*'), and the folder of its \
             socket (unix_socket_directories in postgresql.conf)"
        }
        NetworkErrorKind::HostNotFound => "check the host name in the address",
        NetworkErrorKind::TimedOut => "check the host and port in the address, and firewalls",
        _ => broken(is_tls),
    }
}

const fn broken(is_tls: bool) -> &'static str {
    match is_tls {
        true => {
            "check the host and port in the address, whether it has TLS (ssl in postgresql.conf), \
             and its log"
        }
        false => "check the host and port in the address, and its log",
    }
}

#[cfg(test)]
mod tests {
    use weir_advisor::observation::Holder;

    use super::*;

    #[test]
    fn a_grant_names_the_user_as_sql_reads_it() {
        let remedy = |kind, user| rejected(&kind, Some(user)).1.unwrap();
        let grant = |user| remedy(PostgresErrorKind::NoPrivilege, user);
        assert_eq!(grant("weir"), r#"GRANT pg_monitor TO "weir";"#);
        assert_eq!(grant("user"), r#"GRANT pg_monitor TO "user";"#, "a word of SQL");
        assert_eq!(grant("o\"x; DROP"), r#"GRANT pg_monitor TO "o""x; DROP";"#);
        let expected = r#"CREATE ROLE "weir" LOGIN; GRANT pg_monitor TO "weir";"#;
        assert_eq!(remedy(PostgresErrorKind::NoSuchRole, "weir"), expected);
        let (obstacle, remedy) = rejected(&PostgresErrorKind::NoSuchRole, None);
        assert!(obstacle == MissingReason::Login && remedy.unwrap().contains("postgres://weir@"));
    }

    #[test]
    fn a_limit_that_rejects_the_observer_is_raised_and_not_removed() {
        let holder = Holder { role: Some("weir".to_owned()), database: None };
        let (obstacle, line) = rejected(&PostgresErrorKind::LimitReached(holder), Some("weir"));
        assert_eq!(obstacle, MissingReason::LimitReached);
        assert_eq!(line.unwrap(), r#"ALTER ROLE "weir" CONNECTION LIMIT NUMBER;"#);
    }

    #[test]
    fn each_failed_connection_has_a_remedy() {
        let (login, unreachable) = (MissingReason::Login, MissingReason::Unreachable);
        let tls = |kind| PostgresErrorKind::Network(NetworkErrorKind::Tls(kind));
        let network = PostgresErrorKind::Network;
        for (kind, obstacle, remedy) in [
            (PostgresErrorKind::PasswordMissing, login, "--postgres-password-env"),
            (PostgresErrorKind::CertificateFile, login, "--postgres-ca"),
            (PostgresErrorKind::NoTls, login, "remove sslmode from the address"),
            (tls(TlsErrorKind::UnknownIssuer), login, "--postgres-ca"),
            (tls(TlsErrorKind::Other), unreachable, "its log"),
            (network(NetworkErrorKind::Refused), unreachable, "that it is running"),
            (network(NetworkErrorKind::Closed), unreachable, "its log"),
        ] {
            let explained = connecting(&kind, false).unwrap();
            assert_eq!(explained.0, obstacle, "{kind:?}");
            assert!(explained.1.contains(remedy), "{kind:?}: {}", explained.1);
        }
    }
}
