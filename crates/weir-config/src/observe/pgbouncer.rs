//! `observe.pgbouncer..`: what stands before the application's database.

use std::path::PathBuf;

use weir_base::secret::Secret;
use weir_observe::{
    PgBouncerSource, PostgresEndpoint, PostgresError, PostgresLimits, pgbouncer_endpoint,
};

use weir_settings::{Section, TableReader};

#[derive(Clone, Debug, Section)]
#[section(restart, path = "observe", check = Self::finish)]
pub(super) struct PgBouncer {
    /// The most connections to the database that a connection pooler opens (max_db_connections, or
    /// default_pool_size for each user and database); 0: there is no pooler. None: pgbouncer_url is
    /// queried; without that, one is searched for.
    #[setting(key = "pgbouncer", range = 0..=100_000)]
    pub(super) connections: Option<u32>,
    /// PgBouncer's own database, which shows waiting clients and open connections:
    /// postgres://USER@HOST:6432/pgbouncer[?sslmode=verify-full], USER being one of its stats_users;
    /// without a password.
    #[setting(key = "pgbouncer_url")]
    url: Option<String>,
    /// Its password. None: it needs none.
    #[setting(key = "pgbouncer_password")]
    password: Option<Secret>,
    /// PEM file: certificate authorities for its certificate. None: those that the system trusts.
    #[setting(key = "pgbouncer_ca")]
    ca: Option<PathBuf>,
    /// Parsed `url`. None: it is not set, or an error was reported.
    #[setting(skip)]
    endpoint: Option<PostgresEndpoint>,
}

impl PgBouncer {
    fn finish(&mut self, table: &mut TableReader<'_>) {
        let Some(url) = &self.url else { return };
        if self.connections == Some(0) {
            table.error_at("pgbouncer_url", "contradicts pgbouncer = 0, which means that there is no pooler; remove one of them");
        }
        if !table.is_set("postgres") {
            table.error_at(
                "pgbouncer_url",
                "it goes with [observe.postgres], the database behind it",
            );
        }
        match endpoint(url, self.password.clone(), self.ca.clone()) {
            Ok(endpoint) => self.endpoint = Some(endpoint),
            Err(error) => table.error_at("pgbouncer_url", &error.to_string()),
        }
    }

    pub(super) fn source(&self, limits: PostgresLimits) -> Option<PgBouncerSource> {
        self.endpoint.clone().map(|endpoint| PgBouncerSource { endpoint, limits })
    }

    pub(super) fn password(&self) -> Option<Secret> {
        self.endpoint.as_ref()?.password.clone()
    }
}

fn endpoint(
    url: &str,
    password: Option<Secret>,
    ca: Option<PathBuf>,
) -> Result<PostgresEndpoint, PostgresError> {
    let mut endpoint = pgbouncer_endpoint(url)?;
    (endpoint.password, endpoint.authority) = (password, ca);
    if endpoint.authority.is_some() {
        endpoint.require_tls()?;
    }
    Ok(endpoint)
}
