//! `[gems.postgres]`, with the defaults. Field names are the settings' names.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use weir_base::secret::Secret;
use weir_net::http_client::Trust;
use weir_settings::{HOUR, Section, TableReader, WAIT};

use super::url::PostgresUrl;

/// Where Postgres is, and how much of it is used.
#[derive(Clone, Debug, Section)]
#[section(restart, path = "gems.postgres", check = Self::check_ca)]
pub struct PostgresSettings {
    #[setting(skip, default = PostgresUrl::nowhere())]
    pub url: PostgresUrl,
    /// The password, in place of one in the URL. None: Postgres asks for none, or it is in the URL.
    pub password: Option<Secret>,
    /// PEM file with certificate authorities of your own, believed besides the public ones.
    pub ca: Option<PathBuf>,
    /// The schema with Weir's tables; made when missing.
    #[setting(parsed, default = SchemaName("weir_gems".to_owned()))]
    pub schema: SchemaName,
    /// Gems that an import adds in one transaction. More is quicker; pushes wait that much longer
    /// meanwhile.
    #[setting(key = "import_batch_gems", range = 1..=1_000_000, default = 2_000)]
    pub import_batch: usize,
    #[setting(section)]
    pub limits: PostgresLimits,
}

/// `[gems.postgres.limits]`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart, path = "gems.postgres.limits")]
pub struct PostgresLimits {
    /// Connections of this process.
    // A read takes a fraction of a millisecond, and Postgres by default allows 100 connections for
    // all clients.
    #[setting(range = 1..=10_000, default = 16)]
    pub connections_max: usize,
    /// Requests that wait for a connection; one more gets 503 at once.
    #[setting(range = 0..=1_000_000, default = 256)]
    pub waiting_max: usize,
    /// How long a request waits for a connection; then it gets 503.
    #[setting(range = WAIT, default = Duration::from_secs(1))]
    pub acquire_timeout: Duration,
    /// Name look-up, TCP, TLS and sign-in together.
    #[setting(range = WAIT, default = Duration::from_secs(3))]
    pub connect_timeout: Duration,
    /// How long a read may take; then its request gets 503, and its connection is closed.
    #[setting(range = WAIT, default = Duration::from_secs(5))]
    pub query_timeout: Duration,
    /// How long reading the whole of /versions may take, which a process does once; also what a
    /// mirror has noted of an upstream, which each reconciliation reads.
    #[setting(range = WAIT, default = Duration::from_secs(30))]
    pub text_timeout: Duration,
    /// How long a push or a yank may take with its wait for others that write; also one batch of an
    /// import or of a mirror, and putting webhooks of upstreams into the inbox.
    #[setting(range = WAIT, default = Duration::from_secs(30))]
    pub write_timeout: Duration,
    /// How long a new baseline, a check of the whole store or a new format of its tables may take.
    #[setting(range = WAIT, default = HOUR)]
    pub maintenance_timeout: Duration,
}

impl PostgresSettings {
    fn check_ca(&mut self, table: &mut TableReader<'_>) {
        let check = |path: &PathBuf| Trust::with_ca(path, &Self::CA.to_string()).err();
        if let Some(error) = self.ca.as_ref().and_then(check) {
            table.named_error_at(Self::CA.name, error.to_string());
        }
    }

    /// Returns the default settings for the database at `url`.
    #[must_use]
    pub fn new(url: PostgresUrl) -> Self {
        Self { url, ..Self::default() }
    }
}

impl PostgresLimits {
    /// Returns the limits without values that would mean "never" or "nothing".
    pub(super) fn within_reason(&self) -> Self {
        const LEAST: Duration = Duration::from_millis(1);
        /// In milliseconds this fits the range of Postgres' timeouts.
        const MOST: Duration = Duration::from_secs(24 * 3_600);
        let within = |duration: Duration| duration.clamp(LEAST, MOST);
        Self {
            connections_max: self.connections_max.max(1),
            waiting_max: self.waiting_max,
            acquire_timeout: within(self.acquire_timeout),
            connect_timeout: within(self.connect_timeout),
            query_timeout: within(self.query_timeout),
            text_timeout: within(self.text_timeout),
            write_timeout: within(self.write_timeout),
            maintenance_timeout: within(self.maintenance_timeout),
        }
    }
}

/// Returns the server-side timeout for a limit in milliseconds. It is a second longer, so that this
/// side reaches the limit first, reports it and counts it. The server only ends statements that
/// this side has abandoned.
pub(super) fn for_server(limit: Duration) -> u128 {
    (limit + Duration::from_secs(1)).as_millis()
}

/// The name of a schema that needs no quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaName(String);

/// Error for a text that is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} can't be the schema; write at most 63 of a-z, 0-9 and _, not beginning with a digit or \
     pg_"
)]
pub struct SchemaNameError(pub String);

impl SchemaName {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for SchemaName {
    type Err = SchemaNameError;

    fn from_str(text: &str) -> Result<Self, SchemaNameError> {
        let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        let is_name = (1..=63).contains(&text.len())
            && text.bytes().all(is_allowed)
            && !text.starts_with(|first: char| first.is_ascii_digit())
            && !text.starts_with("pg_");
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => Err(SchemaNameError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_named_without_quotes() {
        for name in ["weir_gems", "a1", "_"] {
            assert!(name.parse::<SchemaName>().is_ok(), "{name}");
        }
        for name in ["", "Weir", "a-b", "1a", "pg_x", "a\"b", &"a".repeat(64)] {
            assert!(name.parse::<SchemaName>().is_err(), "{name}");
        }
    }
}
