//! How the observer got into the database: a command that is to be pasted takes the same.

use super::Observation;
use crate::shell::{self, word};

/// Without a password, which is not here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostgresAccess {
    /// A name, an address or the folder of its socket; several are parted by commas.
    pub host: String,
    /// The same of its ports.
    pub port: String,
    /// Who asks, if the address says so.
    pub user: Option<String>,
    /// The database, if the address says so.
    pub database: Option<String>,
    /// Over TLS, with its certificate verified.
    pub tls: bool,
    /// File of who may have signed that, where one was given.
    pub authority: Option<String>,
    /// Files of a certificate to show it, and of its key.
    pub client: Option<(String, String)>,
    /// The environment variable that holds the password, where one was named.
    pub password_variable: Option<String>,
}

impl PostgresAccess {
    /// What libpq reads from the environment, and stands before the command.
    fn environment(&self) -> String {
        let mut environment = String::new();
        // Without it psql takes PGPASSWORD, or asks.
        if let Some(name) = self.password_variable.as_deref().filter(|it| is_variable(it)) {
            environment.push_str(&format!("PGPASSWORD=\"${name}\" "));
        }
        if !self.tls {
            return environment;
        }
        let (certificate, key) = self.client.as_ref().map(|it| (&*it.0, &*it.1)).unzip();
        let authority = Some(self.authority.as_deref().unwrap_or("system"));
        for (name, value) in [
            ("PGSSLMODE", Some("verify-full")),
            ("PGSSLROOTCERT", authority),
            ("PGSSLCERT", certificate),
            ("PGSSLKEY", key),
        ] {
            let Some(value) = value else { continue };
            environment.push_str(&format!("{name}={} ", word(value)));
        }
        environment
    }
}

impl Observation {
    /// A statement as a command for a shell, which talks to the database as the observer did.
    pub(crate) fn psql(&self, statement: &str) -> String {
        let statement = shell::statement(statement);
        let Some(access) = &self.postgres_access else { return format!("psql -c {statement}") };
        let seen = self.postgres.known().and_then(|postgres| postgres.user.as_deref());
        let mut options = String::new();
        for (name, value) in [
            ("-h", Some(access.host.as_str())),
            ("-p", Some(access.port.as_str())),
            ("-U", access.user.as_deref().or(seen)),
            ("-d", access.database.as_deref()),
        ] {
            let Some(value) = value else { continue };
            options.push_str(&format!(" {name} {}", word(value)));
        }
        format!("{}psql{options} -c {statement}", access.environment())
    }
}

/// As a shell reads the name of one.
fn is_variable(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_letter) && !name.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn psql(access: PostgresAccess) -> String {
        let access = PostgresAccess { host: "db".to_owned(), port: "5432".to_owned(), ..access };
        Observation { postgres_access: Some(access), ..Observation::default() }.psql("SELECT 1")
    }

    #[test]
    fn a_statement_gets_in_as_the_observer_did() {
        let plain = PostgresAccess {
            user: Some("o'x".to_owned()),
            database: Some("my app".to_owned()),
            ..PostgresAccess::default()
        };
        let expected = r"psql -h db -p 5432 -U 'o'\''x' -d 'my app' -c 'SELECT 1'";
        assert_eq!(psql(plain), expected);
        assert_eq!(Observation::default().psql("SELECT 1"), "psql -c 'SELECT 1'");
    }

    #[test]
    fn certificates_and_the_variable_of_the_password_go_before_it() {
        let tls = PostgresAccess {
            tls: true,
            authority: Some("/etc/my ca.pem".to_owned()),
            client: Some(("/c.pem".to_owned(), "/c.key".to_owned())),
            password_variable: Some("DB_PASSWORD".to_owned()),
            ..PostgresAccess::default()
        };
        let expected = "PGPASSWORD=\"$DB_PASSWORD\" PGSSLMODE=verify-full PGSSLROOTCERT='/etc/my ca.pem' \
                        PGSSLCERT=/c.pem PGSSLKEY=/c.key psql -h db -p 5432 -c 'SELECT 1'";
        assert_eq!(psql(tls), expected);
        let odd = PostgresAccess {
            tls: true,
            password_variable: Some("a;b".to_owned()),
            ..PostgresAccess::default()
        };
        assert!(psql(odd).starts_with("PGSSLMODE=verify-full PGSSLROOTCERT=system psql "));
    }
}
