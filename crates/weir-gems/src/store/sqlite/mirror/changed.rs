//! Changes rows of releases to match an upstream.

use rusqlite::{Connection, params};

use crate::release::{Identity, Release, RequirementLine};
use crate::store::StoreError;
use crate::store::database::{Database, Row, at_once, micros};
use crate::store::mirror::StoredRelease;
use crate::store::sqlite::database::{Sqlite, SqliteRow};
pub(super) use crate::store::statements::releases::key;
use crate::store::statements::releases::{RELEASE, release};

pub(super) fn stored(connection: &Connection, gem: i64) -> Result<Vec<StoredRelease>, StoreError> {
    let sql = format!("SELECT {RELEASE}, yanked_at IS NOT NULL FROM releases WHERE gem = $1");
    let rows = at_once(Sqlite(connection).query(&sql, &[&gem]))?;
    let stored =
        |row: &SqliteRow| Ok(StoredRelease { release: release(row, 0)?, is_yanked: row.get(7)? });
    let mut all = rows.iter().map(stored).collect::<Result<Vec<_>, StoreError>>()?;
    all.sort_by(|one, other| one.release.order(&other.release));
    Ok(all)
}

/// Updates a row to match `release`. A stored file is kept if its checksum is unchanged.
pub(super) fn replace(
    connection: &Connection,
    gem: i64,
    release: &Release,
) -> rusqlite::Result<()> {
    let (number, platform) = key(&release.identity);
    connection
        .prepare_cached(
            "DELETE FROM specifications WHERE (gem, number, platform) = (?1, ?2, ?3)
             AND NOT EXISTS (SELECT 1 FROM releases WHERE (gem, number, platform) = (?1, ?2, ?3)
                             AND sha256 = ?4)",
        )?
        .execute(params![gem, number, platform, release.checksum.0])?;
    connection
        .prepare_cached(
            "UPDATE releases SET dependencies = ?4, ruby = ?6, rubygems = ?7, created_at = ?8,
                 bytes = iif(sha256 = ?5, bytes, NULL), sha256 = ?5
             WHERE (gem, number, platform) = (?1, ?2, ?3)",
        )?
        .execute(params![
            gem,
            number,
            platform,
            release.dependencies.as_str(),
            release.checksum.0,
            release.ruby.as_ref().map(RequirementLine::as_str),
            release.rubygems.as_ref().map(RequirementLine::as_str),
            micros(release.created_at),
        ])?;
    Ok(())
}

pub(super) fn remove(
    connection: &Connection,
    gem: i64,
    identity: &Identity,
) -> rusqlite::Result<()> {
    let (number, platform) = key(identity);
    for sql in [
        "DELETE FROM releases WHERE (gem, number, platform) = (?1, ?2, ?3)",
        "DELETE FROM specifications WHERE (gem, number, platform) = (?1, ?2, ?3)",
    ] {
        connection.prepare_cached(sql)?.execute(params![gem, number, platform])?;
    }
    Ok(())
}
