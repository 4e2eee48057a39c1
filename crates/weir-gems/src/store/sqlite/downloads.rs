//! Download counts by full name.

use rusqlite::{Connection, OptionalExtension, params};

use crate::store::StoreError;
use crate::store::column::signed;

pub(super) const TABLES: &str = "
CREATE TABLE downloads (
    full_name TEXT PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

pub(super) fn add(connection: &Connection, counts: &[(String, u64)]) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO downloads VALUES (?1, ?2)
         ON CONFLICT (full_name) DO UPDATE SET count = count + excluded.count",
    )?;
    for (full_name, count) in counts {
        statement.execute(params![full_name, signed(*count)])?;
    }
    Ok(())
}

pub(super) fn of(connection: &Connection, full_names: &[String]) -> Result<Vec<u64>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT count FROM downloads WHERE full_name = ?1")?;
    let mut counts = Vec::with_capacity(full_names.len());
    for full_name in full_names {
        let count: Option<i64> = statement.query_row([full_name], |row| row.get(0)).optional()?;
        counts.push(count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default());
    }
    Ok(counts)
}
