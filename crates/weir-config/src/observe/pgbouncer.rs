//! `observe.pgbouncer..`: what stands before the application's database.

use std::path::PathBuf;

use weir_base::secret::Secret;
use weir_observe::{
    PgBouncerSource, PostgresEndpoint, PostgresError, PostgresLimits, pgbouncer_endpoint,
};

use super::super::keys::{Key, Keys};

#[derive(Clone, Debug, Default)]
pub(super) struct PgBouncer {
    /// That it opens at most, as somebody says; 0: nothing stands between.
    pub(super) connections: Option<u32>,
    /// Where it speaks of itself; none: it is not asked, or there is a mistake, which is reported.
    endpoint: Option<PostgresEndpoint>,
}

impl PgBouncer {
    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        let (mut url, mut password, mut ca): (Option<String>, _, Option<PathBuf>) =
            (None, None, None);
        keys.optional_number(
            Key::fixed("pgbouncer", "Connections to the database that a pooler in between opens at most (max_db_connections, or default_pool_size for each user and database); 0: nothing stands between. Without it pgbouncer_url tells; without that, one is looked for."),
            0..=100_000,
            &mut self.connections,
        );
        keys.optional_text(
            Key::fixed("pgbouncer_url", "PgBouncer's own database, which tells who waits and how many connections it opens: postgres://USER@HOST:6432/pgbouncer[?sslmode=verify-full], USER being one of its stats_users; without a password."),
            &mut url,
        );
        keys.secret(
            Key::fixed("pgbouncer_password", "Its password. None: it asks for none."),
            &mut password,
        );
        keys.optional_path(
            Key::fixed("pgbouncer_ca", "PEM file: who may have signed its certificate. None: those that the system trusts."),
            &mut ca,
        );
        let Some(url) = url else { return };
        if self.connections == Some(0) {
            keys.error_at("pgbouncer_url", "pgbouncer = 0 says that nothing stands between");
        }
        if !keys.is_set("postgres") {
            keys.error_at(
                "pgbouncer_url",
                "it goes with [observe.postgres], the database behind it",
            );
        }
        match endpoint(&url, password, ca) {
            Ok(endpoint) => self.endpoint = Some(endpoint),
            Err(error) => keys.error_at("pgbouncer_url", &error.to_string()),
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
