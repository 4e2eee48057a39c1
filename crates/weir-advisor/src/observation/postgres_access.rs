//! How to connect to the database as the observer did, for commands that can be pasted.

use super::Observation;
use crate::shell::{self, word};

/// Connection parameters of the database, without the password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostgresAccess {
    /// Host name, address or socket directory. Several are separated by commas.
    pub host: String,
    /// Port. Several are separated by commas.
    pub port: String,
    /// User name, if configured.
    pub user: Option<String>,
    /// Database name, if configured.
    pub database: Option<String>,
    /// Whether TLS with certificate verification is used.
    pub tls: bool,
    /// File with the trusted CA certificates, if one was configured.
    pub authority: Option<String>,
    /// Files of the client certificate and its key.
    pub client: Option<(String, String)>,
    /// The environment variable with the password, if one was configured.
    pub password_variable: Option<String>,
}

impl PostgresAccess {
    /// Returns the variables for libpq, to be put before a command.
    fn environment(&self) -> String {
        let mut environment = String::new();
        // Without it, psql uses PGPASSWORD or prompts.
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
    /// Returns a shell command that executes `statement` with the observer's connection parameters.
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

    /// Reports whether the database was reached under the name of another machine, which may be a managed
    /// service without a shell.
    pub(crate) fn is_database_elsewhere(&self) -> bool {
        let is_here = |host: &str| {
            host.is_empty()
                || host.starts_with(['/', '@'])
                || ["localhost", "::1"].contains(&host)
                || host.starts_with("127.")
        };
        let hosts = self.postgres_access.as_ref().map(|access| access.host.split(','));
        hosts.is_some_and(|mut hosts| hosts.any(|host| !is_here(host.trim())))
    }

    /// Returns a shell command for the database server's machine that executes `statement` as a
    /// superuser, for whom Postgres reserves connections. It uses the observed port: another cluster
    /// may have the default one. It names the folder of the socket, because psql searches only that
    /// which it was compiled with.
    pub(crate) fn psql_as_superuser(&self, statement: &str) -> String {
        let port = self.postgres_access.as_ref().map(|access| access.port.as_str());
        let port = port.map_or_else(String::new, |port| format!(" -p {}", word(port)));
        let folder = self.postgres.known().and_then(|postgres| postgres.socket_folder.as_deref());
        let host = folder.map_or_else(String::new, |folder| format!(" -h {}", word(folder)));
        format!("sudo -u postgres psql{host}{port} -c {}", shell::statement(statement))
    }
}

/// Reports whether `name` is a valid name of a shell variable.
fn is_variable(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_letter) && !name.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{DatabaseObservation, Fact};

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
        let postgres_access =
            PostgresAccess { port: "5433".to_owned(), ..PostgresAccess::default() };
        let observed =
            Observation { postgres_access: Some(postgres_access), ..Observation::default() };
        let expected = "sudo -u postgres psql -p 5433 -c 'SELECT 1'";
        assert_eq!(observed.psql_as_superuser("SELECT 1"), expected);
        let socket_folder = Some("/srv/my pg".to_owned());
        let postgres =
            Fact::Known(DatabaseObservation { socket_folder, ..DatabaseObservation::default() });
        let observed = Observation { postgres, ..observed };
        let expected = "sudo -u postgres psql -h '/srv/my pg' -p 5433 -c 'SELECT 1'";
        assert_eq!(observed.psql_as_superuser("SELECT 1"), expected);
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
