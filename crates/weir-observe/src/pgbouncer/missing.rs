//! Describes why PgBouncer could not be queried, with remedies.

use weir_advisor::observation::{Missing, MissingReason};
use weir_sidekiq::{NetworkErrorKind, TlsErrorKind};

use crate::postgres::{
    PostgresEndpoint, PostgresError, PostgresErrorKind, connecting, missing as of_postgres,
};

const BROKEN: &str = "check the host and port in the address, and its log";

pub(super) fn missing(endpoint: &PostgresEndpoint, error: &PostgresError) -> Missing {
    let user = endpoint.user().unwrap_or("USER");
    let missing = of_postgres(&format!("PgBouncer {endpoint}"), Some(user), error);
    let (obstacle, remedy) = explain(&PostgresErrorKind::of(error), user);
    Missing { obstacle, remedy: Some(remedy), ..missing }
}

fn explain(kind: &PostgresErrorKind, user: &str) -> (MissingReason, String) {
    let of_user = match kind {
        PostgresErrorKind::NotAdmin => Some((
            MissingReason::NotAllowed,
            format!(
                "stats_users = {user} in pgbouncer.ini (in addition to the existing users), then \
                 RELOAD"
            ),
        )),
        PostgresErrorKind::WrongPassword => Some((
            MissingReason::Login,
            format!(
                "{user} must be in PgBouncer's auth_file (userlist.txt) with the password that is \
                 given here (--pgbouncer-password-env, --pgbouncer-password-file)"
            ),
        )),
        _ => None,
    };
    of_user.unwrap_or_else(|| {
        let (obstacle, remedy) = own(kind)
            .or_else(|| connecting(kind, false))
            .unwrap_or((MissingReason::Unreachable, BROKEN));
        (obstacle, remedy.to_owned())
    })
}

/// Explains errors that have another remedy than those of Postgres.
const fn own(kind: &PostgresErrorKind) -> Option<(MissingReason, &'static str)> {
    use NetworkErrorKind::{NotFound, Refused, Tls};
    Some(match kind {
        PostgresErrorKind::PasswordMissing => (
            MissingReason::Login,
            "pass it with --pgbouncer-password-env or --pgbouncer-password-file (in [observe]: \
             pgbouncer_password = { env = \"NAME\" } or { file = \"PATH\" })",
        ),
        // A local error: PgBouncer was not contacted.
        PostgresErrorKind::CertificateFile => {
            (MissingReason::Login, "check the path of --pgbouncer-ca (pgbouncer_ca in [observe])")
        }
        PostgresErrorKind::Network(Tls(TlsErrorKind::UnknownIssuer)) => (
            MissingReason::Login,
            "pass the file of the authority that signed its certificate with --pgbouncer-ca \
             (pgbouncer_ca in [observe])",
        ),
        PostgresErrorKind::Network(Tls(TlsErrorKind::ClientCertificate)) => {
            (MissingReason::Unreachable, BROKEN)
        }
        PostgresErrorKind::NoTls => (
            MissingReason::Login,
            "turn it on (client_tls_sslmode in pgbouncer.ini), or remove sslmode from the address",
        ),
        PostgresErrorKind::TlsRequired => {
            (MissingReason::Login, "add ?sslmode=verify-full to the address")
        }
        PostgresErrorKind::Network(Refused | NotFound) => (
            MissingReason::Unreachable,
            "check that it is running (systemctl status pgbouncer), and the host and port in the \
             address",
        ),
        // PgBouncer always has this database, so the server is another program.
        PostgresErrorKind::NoSuchDatabase => {
            (MissingReason::Login, "use the address of PgBouncer, not of the database behind it")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_a_remedy() {
        let (login, unreachable) = (MissingReason::Login, MissingReason::Unreachable);
        let network = PostgresErrorKind::Network;
        for (kind, obstacle, remedy) in [
            (PostgresErrorKind::NotAdmin, MissingReason::NotAllowed, "stats_users = weir in "),
            (PostgresErrorKind::PasswordMissing, login, "--pgbouncer-password-env"),
            (PostgresErrorKind::WrongPassword, login, "auth_file"),
            (PostgresErrorKind::PoolerFull, unreachable, "raise"),
            (network(NetworkErrorKind::Refused), unreachable, "is running"),
            (network(NetworkErrorKind::Closed), unreachable, "its log"),
        ] {
            let explained = explain(&kind, "weir");
            assert_eq!(explained.0, obstacle, "{kind:?}");
            assert!(explained.1.contains(remedy), "{kind:?}: {}", explained.1);
        }
    }
}
