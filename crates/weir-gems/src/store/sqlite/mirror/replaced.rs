//! Stores the first checksum of each release, and releases whose file the upstream has replaced.

use hashbrown::HashMap;
use rusqlite::{Connection, params};
use weir_base::clock::Timestamp;

use super::changed::key;
use super::origins::mark_pending;
use crate::name::GemName;
use crate::release::{Checksum, Identity};
use crate::store::StoreError;
use crate::store::database::{Database, Row, Values, at_once, micros, query_one};
use crate::store::mirror::{Pins, Replaced, ReplacedRelease};
use crate::store::sqlite::database::{Sqlite, SqliteRow};
use crate::store::statements::replaced::{COLUMNS, read};

pub(super) fn pins(connection: &Connection, gem: i64) -> Result<Pins, StoreError> {
    let sql = "SELECT number, platform, sha256 FROM pins WHERE gem = $1";
    let rows = at_once(Sqlite(connection).query(sql, &[&gem]))?;
    rows.iter().map(|row| Ok((row.identity(0)?, Checksum(row.digest(2)?)))).collect()
}

pub(super) fn pin(
    connection: &Connection,
    gem: i64,
    identity: &Identity,
    checksum: Checksum,
) -> rusqlite::Result<()> {
    let (number, platform) = key(identity);
    connection
        .prepare_cached("INSERT OR REPLACE INTO pins VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![gem, number, platform, checksum.0])?;
    Ok(())
}

/// Stores the checksums of all releases of a gem before they are removed.
pub(super) fn pin_all(connection: &Connection, gem: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO pins SELECT gem, number, platform, sha256 FROM releases
             WHERE gem = ?1 AND yanked_at IS NULL",
        )?
        .execute([gem])?;
    Ok(())
}

/// Stores the rejected releases of a gem. A release that was already rejected for the same file
/// keeps its time.
pub(super) fn keep_out(
    connection: &Connection,
    gem: i64,
    kept_out: &[Replaced],
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "SELECT number, platform, offered, since FROM replaced_releases WHERE gem = $1";
    let rows = at_once(Sqlite(connection).query(sql, &[&gem]))?;
    let key_and_time =
        |row: &SqliteRow| Ok(((row.identity(0)?, Checksum(row.digest(2)?)), row.get::<i64>(3)?));
    let before = rows.iter().map(key_and_time).collect::<Result<HashMap<_, _>, StoreError>>()?;
    if before.is_empty() && kept_out.is_empty() {
        return Ok(());
    }
    connection.prepare_cached("DELETE FROM replaced_releases WHERE gem = ?1")?.execute([gem])?;
    let mut insert = connection
        .prepare_cached("INSERT INTO replaced_releases VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for Replaced { identity, pinned, offered } in kept_out {
        let since =
            before.get(&(identity.clone(), *offered)).copied().unwrap_or_else(|| micros(now));
        let (number, platform) = key(identity);
        insert.execute(params![gem, number, platform, pinned.0, offered.0, since])?;
    }
    Ok(())
}

pub(super) fn accept(
    connection: &Connection,
    gem_name: &GemName,
    identity: &Identity,
) -> Result<Option<ReplacedRelease>, StoreError> {
    let (number, platform) = key(identity);
    let sql = format!(
        "SELECT {COLUMNS}, gems.id FROM replaced_releases
         JOIN gems ON gems.id = replaced_releases.gem JOIN origins ON origins.gem = gems.id
         WHERE gems.name = $1 AND number = $2 AND platform = $3"
    );
    let values: Values<'_> = &[&gem_name.as_str(), &number, &platform];
    let Some(row) = at_once(query_one(&Sqlite(connection), &sql, values))? else { return Ok(None) };
    let (release, gem): (_, i64) = (read(&row)?, row.get(6)?);
    pin(connection, gem, identity, release.offered)?;
    connection
        .prepare_cached(
            "DELETE FROM replaced_releases WHERE (gem, number, platform) = (?1, ?2, ?3)",
        )?
        .execute(params![gem, number, platform])?;
    mark_pending(connection, gem_name.as_str())?;
    Ok(Some(release))
}
