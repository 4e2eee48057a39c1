//! `[observe.postgres]`: the application's database.

use std::path::PathBuf;

use weir_base::secret::Secret;
use weir_observe::{PostgresEndpoint, PostgresError};
use weir_settings::{Section, TableReader};

#[derive(Clone, Debug, Section)]
#[section(restart, path = "observe.postgres", check = Self::finish)]
pub(super) struct Postgres {
    /// The application's database: postgres://[USER@]HOST[:PORT]/DATABASE[?sslmode=verify-full], or
    /// postgres:///DATABASE?host=/run/postgresql for a socket; without a password.
    url: Option<String>,
    /// Its password. None: it needs none.
    password: Option<Secret>,
    /// PEM file: certificate authorities for its certificate. None: those that the system trusts.
    ca: Option<PathBuf>,
    /// PEM file: the certificate to present to it, with key.
    cert: Option<PathBuf>,
    /// PEM file: the key of cert.
    key: Option<PathBuf>,
    /// Memory that it may use, if it runs on another machine or shares this one. None: this
    /// machine's memory less that of other programs, if it runs here.
    #[setting(optional_size, key = "memory", range = 1 << 20..=1 << 50)]
    pub(super) memory_bytes: Option<u64>,
    /// Parsed `url`. None: it is not set, or an error was reported.
    #[setting(skip)]
    pub(super) endpoint: Option<PostgresEndpoint>,
}

impl Postgres {
    fn finish(&mut self, table: &mut TableReader<'_>) {
        let Some(url) = &self.url else { return };
        if self.cert.is_some() != self.key.is_some() {
            let lacks = if self.cert.is_some() { "key" } else { "cert" };
            table.error_at(lacks, "cert and key go together");
        }
        match self.parse(url) {
            Ok(endpoint) => self.endpoint = Some(endpoint),
            Err(error) => table.error_at("url", &error.to_string()),
        }
    }

    fn parse(&self, url: &str) -> Result<PostgresEndpoint, PostgresError> {
        let mut endpoint = PostgresEndpoint::parse(url)?;
        (endpoint.password, endpoint.authority) = (self.password.clone(), self.ca.clone());
        endpoint.client = self.cert.clone().zip(self.key.clone());
        if endpoint.authority.is_some() || endpoint.client.is_some() {
            endpoint.require_tls()?;
        }
        Ok(endpoint)
    }
}
