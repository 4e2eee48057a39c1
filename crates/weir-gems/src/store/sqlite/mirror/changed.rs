//! Changes rows of releases to match an upstream.

use rusqlite::{Connection, params};

use crate::name::GemName;
use crate::release::{Identity, Release, RequirementLine};
use crate::store::StoreError;
use crate::store::cuts::cuts;
use crate::store::mirror::StoredRelease;
use crate::store::sqlite::locate::exists;
use crate::store::sqlite::rows::{self, RELEASE, Time};
pub(super) use crate::store::statements::releases::key;

pub(super) fn stored(connection: &Connection, gem: i64) -> rusqlite::Result<Vec<StoredRelease>> {
    let sql = format!("SELECT {RELEASE}, yanked_at IS NOT NULL FROM releases WHERE gem = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([gem], |row| {
        Ok(StoredRelease { release: rows::release(row, 0)?, is_yanked: row.get(7)? })
    })?;
    let mut all = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    all.sort_by(|one, other| one.release.order(&other.release));
    Ok(all)
}

pub(in crate::store::sqlite) fn clashes(
    connection: &Connection,
    name: &GemName,
    identity: &Identity,
) -> Result<bool, StoreError> {
    let full_name = format!("{name}-{identity}");
    for cut in cuts(&full_name).filter(|cut| cut.name != name.as_str()) {
        if exists(connection, &cut)? {
            return Ok(true);
        }
    }
    Ok(false)
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
            Time(release.created_at),
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
