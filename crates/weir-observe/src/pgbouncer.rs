//! Queries PgBouncer's admin database, which is named `pgbouncer`.
//!
//! It supports only the simple protocol and no transactions, so each query is a `SHOW` command.

mod address;
mod missing;

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;
use weir_advisor::observation::{
    ConnectionPool, Fact, Missing, PgBouncer, PgBouncerSettings, PooledDatabase,
};

pub use self::address::pgbouncer_endpoint;
use crate::postgres::{PostgresConnection, PostgresEndpoint, PostgresError, PostgresLimits};

/// Maximum number of pools. Those without waiting clients are dropped first.
const POOLS_MAX: usize = 1_000;
/// The admin database, which has no server connections.
const OWN: &str = "pgbouncer";

/// A PgBouncer to query.
#[derive(Clone, Debug)]
pub struct PgBouncerSource {
    /// Its address: [`pgbouncer_endpoint`].
    pub endpoint: PostgresEndpoint,
    /// Timeouts.
    pub limits: PostgresLimits,
}

/// Number of queries per sample.
pub(crate) const QUESTIONS: u64 = 3;

/// Samples PgBouncer over the connection of the previous sample, if given. Returns the connection
/// for the next one, unless it failed.
pub(crate) async fn sample(
    source: &PgBouncerSource,
    connection: Option<PostgresConnection>,
) -> (Option<PostgresConnection>, Fact<PgBouncer>) {
    match try_sample(source, connection).await {
        Ok((connection, snapshot)) => (Some(connection), Fact::Known(snapshot)),
        Err(error) => (None, Fact::Unknown(missing::missing(&source.endpoint, &error))),
    }
}

/// Returns the reason for a timeout.
pub(crate) fn late(source: &PgBouncerSource, after: Duration) -> Missing {
    missing::missing(&source.endpoint, &PostgresError::Deadline(after))
}

async fn try_sample(
    source: &PgBouncerSource,
    connection: Option<PostgresConnection>,
) -> Result<(PostgresConnection, PgBouncer), PostgresError> {
    let PostgresLimits { connect_timeout, statement_timeout, .. } = source.limits;
    let connection = match connection {
        Some(connection) => connection,
        None => PostgresConnection::open(&source.endpoint, connect_timeout).await?,
    };
    let databases = connection.query("SHOW DATABASES", statement_timeout).await?;
    let settings = connection.query("SHOW CONFIG", statement_timeout).await?;
    let pools = connection.query("SHOW POOLS", statement_timeout).await?;
    let mut pools: Vec<_> = pools.iter().map(pool).filter(|it| it.database != OWN).collect();
    pools.sort_by_key(|it| std::cmp::Reverse((it.longest_wait, it.clients_waiting)));
    let has_more_pools = pools.len() > POOLS_MAX;
    pools.truncate(POOLS_MAX);
    let databases = databases.iter().map(database).filter(|it| it.name != OWN).collect();
    let settings = self::settings(&settings);
    Ok((connection, PgBouncer { pools, has_more_pools, databases, settings }))
}

/// Returns a column whose name depends on the version.
fn text(row: &SimpleQueryRow, names: &[&str]) -> String {
    let at = row.columns().iter().position(|column| names.contains(&column.name()));
    at.and_then(|at| row.get(at)).unwrap_or_default().to_owned()
}

fn number(row: &SimpleQueryRow, names: &[&str]) -> u32 {
    text(row, names).parse().unwrap_or_default()
}

fn pool(row: &SimpleQueryRow) -> ConnectionPool {
    let seconds = Duration::from_secs(number(row, &["maxwait"]).into());
    let columns = row.columns().iter().map(tokio_postgres::SimpleColumn::name);
    let states = columns.filter(|name| name.starts_with("sv_"));
    ConnectionPool {
        database: text(row, &["database"]),
        user: text(row, &["user"]),
        mode: text(row, &["pool_mode"]),
        clients_active: number(row, &["cl_active"]),
        clients_waiting: number(row, &["cl_waiting"]),
        longest_wait: seconds + Duration::from_micros(number(row, &["maxwait_us"]).into()),
        connections_active: number(row, &["sv_active"]),
        connections_idle: number(row, &["sv_idle"]),
        connections: states.map(|state| number(row, &[state])).fold(0, u32::saturating_add),
    }
}

fn database(row: &SimpleQueryRow) -> PooledDatabase {
    PooledDatabase {
        name: text(row, &["name"]),
        host: text(row, &["host"]),
        port: text(row, &["port"]),
        database: text(row, &["database"]),
        pool_size: number(row, &["pool_size"]),
        reserve_pool_size: number(row, &["reserve_pool_size", "reserve_pool"]),
        connections_max: number(row, &["max_connections"]),
        connections: number(row, &["current_connections"]),
        is_paused: number(row, &["paused"]) > 0,
    }
}

fn settings(rows: &[SimpleQueryRow]) -> PgBouncerSettings {
    let of = |name: &str| {
        let row = rows.iter().find(|row| row.get("key") == Some(name));
        row.and_then(|row| row.get("value")).unwrap_or_default()
    };
    let count = |name| of(name).parse().unwrap_or_default();
    let seconds = of("query_wait_timeout").parse().unwrap_or_default();
    PgBouncerSettings {
        default_pool_size: count("default_pool_size"),
        max_user_connections: count("max_user_connections"),
        query_wait_timeout: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
    }
}
