//! Reads `pg_settings`.

use std::collections::BTreeMap;

use tokio_postgres::SimpleQueryRow;
use weir_advisor::observation::{
    Fact, Missing, MissingReason, PostgresSettings, ReadOnly, SettingOrigin,
};

use super::session::PostgresSession;

const WHAT: &str = "Postgres' settings";
/// Selects the required settings, those that need a restart, and those that differ from the
/// defaults.
const QUESTION: &str = "SELECT name, setting, unit, source, sourcefile, pending_restart FROM pg_settings \
    WHERE pending_restart OR source NOT IN ('default', 'override', 'client', 'session') OR name IN ('max_connections', 'superuser_reserved_connections', \
    'reserved_connections', 'shared_buffers', 'effective_cache_size', 'work_mem', \
    'random_page_cost', 'in_hot_standby') ORDER BY name LIMIT 500";

/// The parsed settings.
#[derive(Debug)]
pub(super) struct ReportedSettings {
    pub(super) settings: Fact<PostgresSettings>,
    /// Names of settings that need a restart.
    pub(super) pending_restart: Vec<String>,
    pub(super) origins: Vec<SettingOrigin>,
    pub(super) read_only: Option<ReadOnly>,
    pub(super) socket_folder: Option<String>,
}

pub(super) async fn settings(session: &mut PostgresSession) -> ReportedSettings {
    match session.query(QUESTION).await {
        Ok(rows) => {
            let pending = rows.iter().filter(|row| row.get("pending_restart") == Some("t"));
            ReportedSettings {
                settings: read(&values(&rows)).map_or_else(unreadable, Fact::Known),
                pending_restart: pending
                    .filter_map(|row| row.get("name"))
                    .map(str::to_owned)
                    .collect(),
                origins: rows.iter().filter_map(origin).collect(),
                read_only: read_only(&rows),
                socket_folder: socket_folder(&rows),
            }
        }
        Err(error) => ReportedSettings {
            settings: Fact::Unknown(session.missing(WHAT, &error)),
            pending_restart: Vec::new(),
            origins: Vec::new(),
            read_only: None,
            socket_folder: None,
        },
    }
}

/// Returns the source of a value, or `None` for a default.
fn origin(row: &SimpleQueryRow) -> Option<SettingOrigin> {
    let source = row.get("source").filter(|source| *source != "default")?.to_owned();
    let file = row.get("sourcefile").filter(|file| !file.is_empty()).map(str::to_owned);
    Some(SettingOrigin { name: row.get("name")?.to_owned(), source, file })
}

/// Returns the first folder for Unix sockets. Roles without `pg_read_all_settings` do not see it.
fn socket_folder(rows: &[SimpleQueryRow]) -> Option<String> {
    let row = rows.iter().find(|row| row.get("name") == Some("unix_socket_directories"))?;
    let first = row.get("setting")?.split(',').next()?.trim().trim_matches('"');
    first.starts_with('/').then(|| first.to_owned())
}

/// Ignores a value that applies only to one role, possibly the observer's.
fn read_only(rows: &[SimpleQueryRow]) -> Option<ReadOnly> {
    let is_on = |row: &&SimpleQueryRow| row.get("setting") == Some("on");
    let is_of_all = |row: &SimpleQueryRow| {
        !matches!(row.get("source"), Some("user" | "database user" | "client" | "session"))
    };
    let on = |name: &str| rows.iter().filter(is_on).find(|row| row.get("name") == Some(name));
    if on("in_hot_standby").is_some() {
        return Some(ReadOnly::Standby);
    }
    on("default_transaction_read_only").is_some_and(is_of_all).then_some(ReadOnly::Setting)
}

/// Numbers by name. Sizes are in bytes.
type Values = BTreeMap<String, f64>;

fn values(rows: &[SimpleQueryRow]) -> Values {
    let value = |row: &SimpleQueryRow| {
        let number: f64 = row.get("setting")?.parse().ok()?;
        Some((row.get("name")?.to_owned(), number * unit(row.get("unit"))))
    };
    rows.iter().filter_map(value).collect()
}

/// Returns the number of bytes in a unit of `pg_settings`, such as "8kB" for blocks; 1 if it is not
/// a size.
fn unit(unit: Option<&str>) -> f64 {
    let Some(unit) = unit else { return 1.0 };
    let digits = unit.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(unit.len());
    let (number, name) = unit.split_at(digits);
    let size = match name {
        "kB" => 1024.0,
        "MB" => 1024.0 * 1024.0,
        "GB" => 1024.0 * 1024.0 * 1024.0,
        _ => 1.0,
    };
    number.parse::<f64>().unwrap_or(1.0) * size
}

fn read(values: &Values) -> Option<PostgresSettings> {
    let of = |name: &str| values.get(name).copied();
    // Since version 16, `reserved_connections` reserves slots for the role
    // `pg_use_reserved_connections`.
    let reserved =
        of("superuser_reserved_connections")? + of("reserved_connections").unwrap_or_default();
    Some(PostgresSettings {
        max_connections: count(of("max_connections")?),
        superuser_reserved_connections: count(reserved),
        shared_buffers_bytes: bytes(of("shared_buffers")?),
        effective_cache_size_bytes: bytes(of("effective_cache_size")?),
        work_mem_bytes: bytes(of("work_mem")?),
        random_page_cost: of("random_page_cost")?,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what 32 bits hold"
)]
fn count(number: f64) -> u32 {
    number.clamp(0.0, f64::from(u32::MAX)) as u32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a float stays within what 64 bits hold; no size is negative"
)]
fn bytes(number: f64) -> u64 {
    number.max(0.0) as u64
}

fn unreadable() -> Fact<PostgresSettings> {
    Fact::Unknown(Missing {
        what: WHAT.to_owned(),
        obstacle: MissingReason::NotSupported,
        reason: "pg_settings does not have them all; is this Postgres?".to_owned(),
        remedy: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_their_own() {
        assert_eq!(unit(Some("8kB")), 8192.0);
        assert_eq!(unit(Some("kB")), 1024.0);
        assert_eq!(unit(Some("16MB")), 16.0 * 1024.0 * 1024.0);
        assert_eq!((unit(None), unit(Some("ms"))), (1.0, 1.0));
    }

    #[test]
    fn what_is_kept_for_roles_is_kept_as_well() {
        let mut values: Values = [
            ("max_connections", 100.0),
            ("superuser_reserved_connections", 3.0),
            ("shared_buffers", 134_217_728.0),
            ("effective_cache_size", 4e9),
            ("work_mem", 4_194_304.0),
            ("random_page_cost", 1.1),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        assert_eq!(read(&values).unwrap().superuser_reserved_connections, 3);
        values.insert("reserved_connections".to_owned(), 5.0);
        let settings = read(&values).unwrap();
        assert_eq!(settings.superuser_reserved_connections, 8);
        assert_eq!((settings.max_connections, settings.shared_buffers_bytes), (100, 128 << 20));
        values.remove("work_mem");
        assert_eq!(read(&values), None);
    }
}
