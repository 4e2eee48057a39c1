//! Reads settings and connection limits of single roles and databases.

use tokio_postgres::SimpleQueryRow;
use weir_advisor::observation::{ConnectionLimit, Exceptions, Fact, Holder, SettingException};

use super::session::PostgresSession;

const WHAT: &str = "settings of roles and databases that override Postgres' settings";

/// Selects limits of roles that they apply to: superusers are exempt, and background processes do
/// not count. Selects the settings that apply to this database. Every role may read both.
const QUESTION: &str = "SELECT 'limit' AS kind, rolname::text AS role, NULL::text AS database, NULL::text AS name, \
    rolconnlimit::text AS value, (SELECT count(*) FROM pg_stat_activity WHERE usesysid = pg_roles.oid \
    AND coalesce(backend_type, 'client backend') = 'client backend' AND pid <> pg_backend_pid()) AS open \
    FROM pg_roles WHERE rolconnlimit >= 0 AND rolcanlogin AND NOT rolsuper \
    UNION ALL SELECT 'limit', NULL, datname::text, NULL, datconnlimit::text, (SELECT count(*) FROM pg_stat_activity \
    WHERE datid = pg_database.oid AND coalesce(backend_type, 'client backend') = 'client backend' \
    AND pid <> pg_backend_pid()) FROM pg_database WHERE datconnlimit >= 0 AND datname = current_database() \
    UNION ALL SELECT 'setting', pg_roles.rolname::text, pg_database.datname::text, split_part(line, '=', 1), \
    substr(line, strpos(line, '=') + 1), NULL FROM pg_db_role_setting CROSS JOIN LATERAL unnest(setconfig) AS line \
    LEFT JOIN pg_roles ON pg_roles.oid = setrole LEFT JOIN pg_database ON pg_database.oid = setdatabase \
    WHERE setdatabase = 0 OR pg_database.datname = current_database() LIMIT 1000";

pub(super) async fn exceptions(session: &mut PostgresSession) -> Fact<Exceptions> {
    match session.query(QUESTION).await {
        Ok(rows) => Fact::Known(Exceptions {
            limits: rows.iter().filter_map(limit).collect(),
            settings: rows.iter().filter_map(setting).collect(),
        }),
        Err(error) => Fact::Unknown(session.missing(WHAT, &error)),
    }
}

fn limit(row: &SimpleQueryRow) -> Option<ConnectionLimit> {
    let number = |column| row.get(column)?.parse().ok();
    let limit = || {
        let (connections, open) = (number("value")?, number("open")?);
        Some(ConnectionLimit { holder: holder(row), connections, open })
    };
    (row.get("kind") == Some("limit")).then(limit).flatten()
}

fn setting(row: &SimpleQueryRow) -> Option<SettingException> {
    let setting = || {
        let (name, value) = (row.get("name")?.to_owned(), row.get("value")?.to_owned());
        Some(SettingException { holder: holder(row), name, value })
    };
    (row.get("kind") == Some("setting")).then(setting).flatten()
}

fn holder(row: &SimpleQueryRow) -> Holder {
    let name = |column| row.get(column).map(str::to_owned);
    Holder { role: name("role"), database: name("database") }
}
