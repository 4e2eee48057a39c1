//! Parses the address of PgBouncer's admin database.

use crate::postgres::{PostgresEndpoint, PostgresError};

/// The name of the admin database.
const DATABASE: &str = "pgbouncer";
const PORT: u16 = 6432;

/// Parses `postgres://[USER@]HOST[:PORT][/pgbouncer][?sslmode=..]`, or
/// `postgres:///pgbouncer?host=/FOLDER` for a socket.
///
/// # Errors
/// As for [`PostgresEndpoint::parse`], and if the URL names another database, which has no
/// statistics of pools.
pub fn pgbouncer_endpoint(url: &str) -> Result<PostgresEndpoint, PostgresError> {
    let endpoint = PostgresEndpoint::parse(&complete(url))?;
    if endpoint.database() == Some(DATABASE) {
        return Ok(endpoint);
    }
    let problem =
        format!("PgBouncer's own figures are in its database {DATABASE}: use /{DATABASE}");
    Err(PostgresError::Address { address: endpoint.to_string(), problem })
}

/// Adds PgBouncer's default port and database if they are missing.
fn complete(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    let (head, rest) = url.split_at(end);
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    // IPv6 addresses contain colons inside their brackets.
    let host = head[start..].rsplit('@').next().unwrap_or_default();
    let has_port = host.rsplit(']').next().unwrap_or_default().contains(':');
    let port = if host.is_empty() || has_port { String::new() } else { format!(":{PORT}") };
    let path = if path.len() > 1 { path.to_owned() } else { format!("/{DATABASE}") };
    let of_socket = (host.is_empty() && !query.contains("port=")).then(|| format!("port={PORT}"));
    let query: Vec<&str> = [query, of_socket.as_deref().unwrap_or_default()]
        .into_iter()
        .filter(|it| !it.is_empty())
        .collect();
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{head}{port}{path}{mark}{}", query.join("&"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_has_a_port_and_a_database_of_its_own() {
        for (url, expected) in [
            ("postgres://stats@db", "postgres://stats@db:6432/pgbouncer"),
            ("postgres://[::1]/", "postgres://[::1]:6432/pgbouncer"),
            ("postgres://db:6000/x?sslmode=require", "postgres://db:6000/x?sslmode=require"),
            ("postgres:///?host=/run", "postgres:///pgbouncer?host=/run&port=6432"),
        ] {
            assert_eq!(complete(url), expected);
        }
        let name = |url| {
            pgbouncer_endpoint(url).map_or_else(|error| error.to_string(), |it| it.to_string())
        };
        assert_eq!(name("postgres://stats@db"), "db:6432/pgbouncer");
        assert_eq!(name("postgres:///?host=/run"), "/run/pgbouncer");
        assert!(name("postgres://stats@db:6432/app").ends_with("use /pgbouncer"));
        assert!(name("db:6432").contains("must begin with"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = pgbouncer_endpoint(&text);
            let _ = pgbouncer_endpoint(&format!("postgres://{text}"));
        }
    }
}
