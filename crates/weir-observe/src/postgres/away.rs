//! Explains why no connection to Postgres could be made, unless Postgres itself reported the error.

use weir_advisor::observation::MissingReason;

use super::error::PostgresError;

const WAYS: [(&str, MissingReason, &str); 10] = [
    (
        "password missing",
        MissingReason::Login,
        "pass it with --postgres-password-env or --postgres-password-file (in [observe.postgres]: \
         password = { env = \"NAME\" } or { file = \"PATH\" })",
    ),
    (
        "UnknownIssuer",
        MissingReason::Login,
        "pass the file of the authority that signed its certificate with --postgres-ca (ca in \
         [observe.postgres])",
    ),
    (
        "NotValidForName",
        MissingReason::Login,
        "use the host name of its certificate in the address",
    ),
    (
        "Expired",
        MissingReason::Login,
        "check the dates of its certificate, and this machine's clock",
    ),
    (
        "CertificateRequired",
        MissingReason::Login,
        "pass a certificate with --postgres-cert and --postgres-key",
    ),
    (
        // The server responds, and may accept connections without TLS.
        "does not support TLS",
        MissingReason::Login,
        "turn it on (ssl = on in postgresql.conf), or remove sslmode from the address",
    ),
    (
        "Connection refused",
        MissingReason::Unreachable,
        "check that it is running (systemctl status 'postgresql*'), and the host and port in the \
         address",
    ),
    (
        "No such file",
        MissingReason::Unreachable,
        "check that it is running (systemctl status 'postgresql*'), and the folder of its socket \
         (unix_socket_directories in postgresql.conf)",
    ),
    ("lookup", MissingReason::Unreachable, "check the host name in the address"),
    (
        "timed out",
        MissingReason::Unreachable,
        "check the host and port in the address, and firewalls",
    ),
];
const LATE: &str =
    "check the host and port in the address, firewalls, and whether it is overloaded";
const FILES: &str = "check the paths of --postgres-ca, --postgres-cert and --postgres-key (ca, \
                     cert and key in \
                     [observe.postgres])";
const BROKEN: &str = "check the host and port in the address, and its log";
const BROKEN_TLS: &str = "check the host and port in the address, whether it has TLS (ssl in \
                          postgresql.conf), and its log";

/// Returns `None` for invalid addresses, whose error already contains the remedy.
pub(super) fn of(error: &PostgresError, tls: bool) -> Option<(MissingReason, &'static str)> {
    let said = match error {
        PostgresError::Address { .. } => return None,
        // A local error: Postgres was not contacted.
        PostgresError::Certificate { .. } => return Some((MissingReason::Login, FILES)),
        PostgresError::Deadline(_) => return Some((MissingReason::Unreachable, LATE)),
        PostgresError::Refused(_) => error.to_string(),
    };
    Some(classify(&said, tls))
}

fn classify(said: &str, tls: bool) -> (MissingReason, &'static str) {
    let known = WAYS.iter().find(|(sign, ..)| said.contains(sign));
    let broken = if tls { BROKEN_TLS } else { BROKEN };
    known.map_or((MissingReason::Unreachable, broken), |(_, obstacle, remedy)| (*obstacle, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_that_fails_says_what_to_do() {
        for (said, obstacle, remedy) in [
            (
                "invalid configuration: password missing",
                MissingReason::Login,
                "--postgres-password-env",
            ),
            (
                "error performing TLS handshake: invalid peer certificate: UnknownIssuer",
                MissingReason::Login,
                "--postgres-ca",
            ),
            (
                "error connecting to server: Connection refused (os error 111)",
                MissingReason::Unreachable,
                "that it is running",
            ),
            ("error communicating with the server: reset", MissingReason::Unreachable, "its log"),
            (
                "error performing TLS handshake: server does not support TLS",
                MissingReason::Login,
                "remove sslmode from the address",
            ),
        ] {
            let told = classify(said, false);
            assert_eq!(told.0, obstacle, "{said}");
            assert!(told.1.contains(remedy), "{said}: {}", told.1);
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_no_outage() {
        let (path, problem) = ("/ca.pem".to_owned(), "No such file".to_owned());
        let (obstacle, remedy) = of(&PostgresError::Certificate { path, problem }, true).unwrap();
        assert_eq!(obstacle, MissingReason::Login);
        assert!(remedy.contains("--postgres-ca"), "{remedy}");
    }
}
