//! Address and credentials of a Postgres server.

use std::fmt;
use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use weir_advisor::observation::PostgresAccess;
use weir_base::secret::Secret;

use super::error::PostgresError;

const PORT: u16 = 5432;
const SSL_MODE: &str = "sslmode=";

/// A Postgres server.
#[derive(Clone)]
pub struct PostgresEndpoint {
    config: Config,
    tls: bool,
    /// The password, from the environment or a file, never from the URL.
    pub password: Option<Secret>,
    /// The environment variable with the password, if one was configured.
    pub password_variable: Option<String>,
    /// CA certificates for verifying the server, or `None` for the system's.
    pub authority: Option<PathBuf>,
    /// The client's certificate and key, if the server requires them.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl PostgresEndpoint {
    /// Parses `postgres://[USER@]HOST[:PORT]/DATABASE[?sslmode=..]`; `?host=/FOLDER` is a socket.
    ///
    /// `sslmode` is `disable` (the default), `require`, `verify-ca` or `verify-full`. All except
    /// `disable` verify the certificate, because an unverified one proves nothing.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid or contains a password, which would be visible in
    /// process lists.
    pub fn parse(url: &str) -> Result<Self, PostgresError> {
        parse(url).map_err(|problem| PostgresError::Address { address: redacted(url), problem })
    }

    /// Checks that TLS is enabled, for use with configured certificates.
    ///
    /// # Errors
    /// Returns an error if TLS is disabled in the URL.
    pub fn require_tls(&self) -> Result<(), PostgresError> {
        if self.tls {
            return Ok(());
        }
        let problem = "certificates are given but TLS is off; add ?sslmode=verify-full".to_owned();
        Err(PostgresError::Address { address: self.to_string(), problem })
    }

    /// Returns the complete configuration of a connection.
    pub(super) fn config(&self) -> Config {
        let mut config = self.config.clone();
        if let Some(password) = &self.password {
            config.password(password.expose());
        }
        config.application_name("weir doctor");
        config.ssl_mode(if self.tls { SslMode::Require } else { SslMode::Disable });
        config
    }

    /// Returns the user name in the URL.
    pub(crate) fn user(&self) -> Option<&str> {
        self.config.get_user()
    }

    pub(crate) fn database(&self) -> Option<&str> {
        self.config.get_dbname()
    }

    pub(super) const fn is_tls(&self) -> bool {
        self.tls
    }

    /// Reports whether the server is addressed on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let here = |host: &Host| match host {
            Host::Tcp(name) => {
                let address = name.parse::<std::net::IpAddr>();
                name == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
            Host::Unix(_) => true,
        };
        self.config.get_hosts().iter().all(here)
    }

    /// Returns the connection parameters for commands that can be pasted.
    pub(crate) fn access(&self) -> PostgresAccess {
        let path = |path: &Path| path.display().to_string();
        let host = |host: &Host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => path(folder),
        };
        let hosts: Vec<_> = self.config.get_hosts().iter().map(host).collect();
        let ports: Vec<_> = self.config.get_ports().iter().map(u16::to_string).collect();
        PostgresAccess {
            host: hosts.join(","),
            port: if ports.is_empty() { PORT.to_string() } else { ports.join(",") },
            user: self.user().map(str::to_owned),
            database: self.database().map(str::to_owned),
            tls: self.tls,
            authority: self.authority.as_deref().map(path),
            client: self.client.as_ref().map(|(shown, key)| (path(shown), path(key))),
            password_variable: self.password_variable.clone(),
        }
    }

    /// Returns the port that clients connect to.
    pub(super) fn port(&self) -> u16 {
        self.config.get_ports().first().copied().unwrap_or(PORT)
    }
}

fn parse(url: &str) -> Result<PostgresEndpoint, String> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err("it must begin with postgres://".to_owned());
    }
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let parameters = query.split('&').filter(|it| !it.is_empty());
    let (modes, others): (Vec<_>, Vec<_>) = parameters.partition(|it| it.starts_with(SSL_MODE));
    let tls = match modes.last().map(|mode| &mode[SSL_MODE.len()..]) {
        None | Some("disable") => false,
        Some("require" | "verify-ca" | "verify-full") => true,
        Some(_) => {
            return Err("sslmode must be disable, require, verify-ca or \
                               verify-full"
                .to_owned());
        }
    };
    let rest = format!("{address}?{}", others.join("&"));
    let config: Config = rest.trim_end_matches('?').parse().map_err(|error| chain(&error))?;
    if config.get_password().is_some() {
        return Err("it contains a password; pass that in the environment or a file".to_owned());
    }
    if config.get_hosts().is_empty() {
        return Err("the host is missing; for a socket, use ?host=/run/postgresql".to_owned());
    }
    Ok(PostgresEndpoint {
        config,
        tls,
        password: None,
        password_variable: None,
        authority: None,
        client: None,
    })
}

/// Formats an error with its causes, which `tokio_postgres` does not include.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts = causes.map(ToString::to_string);
    // The library's prefix for errors from the server adds nothing.
    let message = texts.filter(|text| text != "db error").collect::<Vec<_>>().join(": ");
    // The library adds DETAIL and HINT as separate lines.
    message.lines().collect::<Vec<_>>().join("; ")
}

/// Removes the parameters and everything before the last `@`, which may contain a password.
fn redacted(url: &str) -> String {
    let address = url.split('?').next().unwrap_or_default();
    let hidden = address.len() < url.len() && url.contains("password");
    match (address.split_once("://"), url.rsplit_once('@')) {
        _ if hidden => "***".to_owned(),
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        (None, Some((_, rest))) => format!("***@{rest}"),
        _ => address.to_owned(),
    }
}

/// Formats the address for errors and reports.
impl fmt::Display for PostgresEndpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => write!(formatter, "{host}:{}", self.port())?,
            Some(Host::Unix(folder)) => write!(formatter, "{}", folder.display())?,
            None => formatter.write_str("Postgres")?,
        }
        write!(formatter, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for PostgresEndpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PostgresEndpoint({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(url: &str) -> String {
        PostgresEndpoint::parse(url).map_or_else(|error| error.to_string(), |it| it.to_string())
    }

    #[test]
    fn addresses_are_read() {
        for (url, expected) in [
            ("postgres://weir@10.0.0.1:5433/mastodon", "10.0.0.1:5433/mastodon"),
            ("postgresql://localhost/app?sslmode=verify-full", "localhost:5432/app"),
            ("postgres:///app?host=/run/postgresql", "/run/postgresql/app"),
        ] {
            assert_eq!(name(url), expected, "{url}");
        }
        let tls = |url| PostgresEndpoint::parse(url).unwrap().is_tls();
        assert!(tls("postgres://db/app?connect_timeout=3&sslmode=require"));
        assert!(!tls("postgres://db/app?sslmode=disable") && !tls("postgres://db/app"));
    }

    #[test]
    fn commands_get_in_as_the_address_does() {
        let access = |url| {
            let PostgresAccess { host, port, user, database, tls, .. } =
                PostgresEndpoint::parse(url).unwrap().access();
            let or_none = |it: Option<String>| it.unwrap_or_else(|| "-".to_owned());
            format!("{host} {port} {} {} {tls}", or_none(user), or_none(database))
        };
        let tcp = access("postgres://weir@10.0.0.1:5433/mastodon?sslmode=require");
        assert_eq!(tcp, "10.0.0.1 5433 weir mastodon true");
        assert_eq!(access("postgres:///app?host=/run/pg"), "/run/pg 5432 - app false");
        assert_eq!(access("postgres://a:1,b:2"), "a,b 1,2 - - false");
    }

    #[test]
    fn mistakes_say_what_is_wrong() {
        for (url, problem) in [
            ("db/app", "must begin with"),
            ("postgres:///app", "host is missing"),
            ("postgres://db/app?sslmode=prefer", "sslmode must be"),
            ("postgres://db/app?sslmod=require", "sslmod"),
            ("postgres://db:port/app", "port"),
        ] {
            assert!(name(url).contains(problem), "{url}: {}", name(url));
        }
        let plain = PostgresEndpoint::parse("postgres://db/app").unwrap();
        assert!(plain.require_tls().unwrap_err().to_string().contains("add ?sslmode=verify-full"));
    }

    #[test]
    fn a_password_is_refused_and_not_repeated() {
        for url in ["postgres://u:hunter2@db/app", "postgres://db/app?password=hunter2"] {
            let error = name(url);
            assert!(error.contains("contains a password"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let endpoint = PostgresEndpoint {
            password: Some(Secret::new("hunter2")),
            ..PostgresEndpoint::parse("postgres://u@db/app").unwrap()
        };
        assert!(!format!("{endpoint:?} {endpoint}").contains("hunter2"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = PostgresEndpoint::parse(&text);
            let _ = PostgresEndpoint::parse(&format!("postgres://{text}"));
        }
    }

    #[test]
    fn a_reason_is_one_line() {
        let message = std::io::Error::other("permission denied\nDETAIL: no CONNECT privilege");
        assert_eq!(chain(&message), "permission denied; DETAIL: no CONNECT privilege");
    }
}
