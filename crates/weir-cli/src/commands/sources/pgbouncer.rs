//! Where PgBouncer speaks of itself, and how to get in.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use weir_observe::{PgBouncerSource, PostgresLimits, pgbouncer_endpoint};

use super::{read_password, to_arguments};
use crate::exit::WrongUsage;

/// The options to connect to the pooler of the database.
#[derive(Debug, Args)]
#[command(next_help_heading = "PgBouncer")]
pub(crate) struct PgBouncerArguments {
    /// PgBouncer's admin database, which shows waiting clients and open connections:
    /// postgres://USER@HOST:6432/pgbouncer[?sslmode=verify-full], USER being one of its stats_users
    #[arg(long, value_name = "URL", requires = "postgres")]
    pgbouncer_url: Option<String>,
    /// Environment variable with its password
    #[arg(long, value_name = "NAME", requires = "pgbouncer_url")]
    pgbouncer_password_env: Option<String>,
    /// File with its password
    #[arg(
        long,
        value_name = "FILE",
        requires = "pgbouncer_url",
        conflicts_with = "pgbouncer_password_env"
    )]
    pgbouncer_password_file: Option<PathBuf>,
    /// Certificate authorities for its certificate (PEM) [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "pgbouncer_url")]
    pgbouncer_ca: Option<PathBuf>,
}

impl PgBouncerArguments {
    /// Returns the options as given.
    pub(in crate::commands) fn to_arguments(&self) -> Vec<String> {
        let path = |path: &'_ PathBuf| path.display().to_string();
        let options = [
            ("--pgbouncer-url", self.pgbouncer_url.clone()),
            ("--pgbouncer-password-env", self.pgbouncer_password_env.clone()),
            ("--pgbouncer-password-file", self.pgbouncer_password_file.as_ref().map(path)),
            ("--pgbouncer-ca", self.pgbouncer_ca.as_ref().map(path)),
        ];
        to_arguments(options.iter().filter_map(|(name, it)| Some((*name, it.as_deref()?))))
    }

    /// Returns the source. `connections` is its given limit of connections.
    pub(in crate::commands) fn source(
        &self,
        connections: Option<u32>,
    ) -> anyhow::Result<Option<PgBouncerSource>> {
        let Some(url) = &self.pgbouncer_url else { return Ok(None) };
        if connections == Some(0) {
            let problem = "--pgbouncer 0 means that there is no pooler, and contradicts --pgbouncer-url; leave one of them out";
            bail!(WrongUsage::new(problem));
        }
        let mut endpoint = pgbouncer_endpoint(url).map_err(WrongUsage::new)?;
        let (name, path) =
            (self.pgbouncer_password_env.as_deref(), self.pgbouncer_password_file.as_deref());
        endpoint.password = read_password(name, path)?;
        endpoint.authority.clone_from(&self.pgbouncer_ca);
        if endpoint.authority.is_some() {
            endpoint.require_tls().map_err(WrongUsage::new)?;
        }
        Ok(Some(PgBouncerSource { endpoint, limits: PostgresLimits::default() }))
    }
}
