//! The URL of a database: `postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?..]`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// The URL of a database. It is shown without its password.
#[derive(Clone)]
pub struct PostgresUrl {
    pub(super) config: Config,
}

/// Reasons why a text is not a valid URL. The messages don't repeat it, since it may contain a
/// password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostgresUrlError {
    /// The scheme is missing or not `postgres`.
    #[error(
        "the address of the database does not begin with postgres:// or postgresql://; write for \
         example \"postgres://weir@db.example.org/weir\" or \
         \"postgres:///weir?host=/run/postgresql\""
    )]
    Scheme,
    /// A mode that would allow an attacker to force an unencrypted connection.
    #[error(
        "sslmode={0:?} can't be used; sslmode=require checks the server's certificate and its name, \
         sslmode=disable sends everything in the clear"
    )]
    SslMode(String),
    /// Another error.
    #[error("the address of the database can't be read: {0}")]
    Malformed(String),
    /// The host is missing.
    #[error("the address of the database names no host; for a socket write ?host=/run/postgresql")]
    Host,
}

impl PostgresUrl {
    /// Returns a placeholder for settings without a URL, to which no store connects.
    pub(super) fn nowhere() -> Self {
        "postgres://weir@127.0.0.1/weir".parse().expect("a sound address")
    }

    /// Returns whether the URL contains a password, which should not be in a settings file.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }
}

impl FromStr for PostgresUrl {
    type Err = PostgresUrlError;

    fn from_str(text: &str) -> Result<Self, PostgresUrlError> {
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(PostgresUrlError::Scheme);
        }
        let (rest, mode) = without_ssl_mode(text);
        let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            PostgresUrlError::Malformed(super::failure::sentence(&error))
        })?;
        if config.get_hosts().is_empty() {
            return Err(PostgresUrlError::Host);
        }
        let is_tls = match mode {
            None => !config.get_hosts().iter().all(is_local),
            Some("disable") => false,
            Some("require" | "verify-ca" | "verify-full") => true,
            Some(other) => return Err(PostgresUrlError::SslMode(other.to_owned())),
        };
        config.ssl_mode(if is_tls { SslMode::Require } else { SslMode::Disable });
        Ok(Self { config })
    }
}

/// Removes `sslmode=..` from the text, because the library does not know all its values.
fn without_ssl_mode(text: &str) -> (String, Option<&str>) {
    let Some((start, query)) = text.split_once('?') else { return (text.to_owned(), None) };
    let mode = query.split('&').filter_map(|pair| pair.strip_prefix("sslmode=")).next_back();
    let others: Vec<_> = query.split('&').filter(|pair| !pair.starts_with("sslmode=")).collect();
    (format!("{start}?{}", others.join("&")), mode)
}

/// Returns whether the connection stays on this machine.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(formatter, "{user}@")?;
        }
        let ports = self.config.get_ports();
        for (index, host) in self.config.get_hosts().iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            match host {
                Host::Tcp(name) => write!(formatter, "{separator}{name}")?,
                Host::Unix(path) => write!(formatter, "{separator}{}", path.display())?,
            }
            if let Some(port) = ports.get(index).or(ports.first()) {
                write!(formatter, ":{port}")?;
            }
        }
        write!(formatter, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_it_is_said_not_to_be() {
        for (text, is_tls) in [
            ("postgres://weir@db.example.org/weir", true),
            ("postgresql://weir@10.0.0.1:6432/weir", true),
            ("postgres://weir@127.0.0.1/weir", false),
            ("postgres://localhost/weir", false),
            ("postgres:///weir?host=/run/postgresql", false),
            ("postgres://a,localhost/weir", true),
            ("postgres://127.0.0.1/weir?sslmode=require", true),
            ("postgres://a/weir?connect_timeout=3&sslmode=verify-full", true),
            ("postgres://a/weir?sslmode=disable", false),
        ] {
            let url: PostgresUrl = text.parse().unwrap();
            assert_eq!(url.config.get_ssl_mode() == SslMode::Require, is_tls, "{text}");
        }
    }

    #[test]
    fn a_mistake_says_what_to_write_and_no_password() {
        for (text, expected) in [
            ("mysql://a:hunter2@b/c", "begin with postgres://"),
            ("host=a password=hunter2", "begin with postgres://"),
            ("postgres://u:hunter2@a/b?sslmode=prefer", "sslmode=disable"),
            ("postgres:///b", "no host"),
            ("postgres://u:hunter2@a/b?what=1", "what"),
            ("postgres://u:hunter2@a:port/b", "can't be read"),
        ] {
            let error = text.parse::<PostgresUrl>().unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
        let url: PostgresUrl = "postgres://u:hunter2@a:1,b:2/c".parse().unwrap();
        assert!(url.has_password());
        assert_eq!(format!("{url} {url:?}"), "postgres://u@a:1,b:2/c postgres://u@a:1,b:2/c");
    }
}
