//! Writes the derived data of gems, and the texts that list all gems.

use rusqlite::{Connection, params};
use weir_base::clock::Timestamp;

use super::rows;
use super::text_rows::Writing;
use crate::dependency_api::Fragment;
use crate::index::digest::Digests;
use crate::index::versions::Change;
use crate::index::{names, versions};
use crate::release::Identity;
use crate::store::column::signed;
use crate::store::derived::Derived;
use crate::store::{StoreError, TextKind};

impl Derived {
    /// Replaces the stored derived data.
    pub(super) fn store(
        &self,
        connection: &Connection,
        gem: i64,
        live: usize,
    ) -> Result<(), StoreError> {
        let Digests { md5, sha256 } = self.digests;
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO infos (gem, md5, sha256, content) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![gem, md5, sha256, self.info.as_bytes()])?;
        connection
            .prepare_cached("INSERT OR REPLACE INTO fragments (gem, content) VALUES (?1, ?2)")?
            .execute(params![gem, self.fragment])?;
        connection
            .prepare_cached("UPDATE gems SET live = ?2 WHERE id = ?1")?
            .execute(params![gem, signed(live)])?;
        Ok(())
    }
}

/// Writes all derived data after a change of one release, within the transaction of the change.
pub(super) fn apply(
    connection: &Connection,
    gem: rows::Gem,
    name: &str,
    change: Change,
    identity: &Identity,
) -> Result<(), StoreError> {
    let releases = rows::releases(connection, gem.id)?;
    let derived = Derived::of(&releases);
    derived.store(connection, gem.id, releases.len())?;
    let mut text = go_on(connection, TextKind::Versions)?;
    text.append(|text| versions::write_change(text, name, change, identity, derived.digests.md5))?;
    text.finish()?;
    match (gem.live, releases.len()) {
        (0, 1..) => {
            let mut text = go_on(connection, TextKind::Names)?;
            text.append(|text| names::write_line(text, name))?;
            text.finish()
        }
        // The gem lost its last release, so its name must be removed from the middle of the text.
        (1.., 0) => write_names(connection),
        _ => Ok(()),
    }
}

pub(super) fn go_on(connection: &Connection, kind: TextKind) -> Result<Writing<'_>, StoreError> {
    Writing::go_on(connection, kind)?
        .ok_or_else(|| StoreError::Damaged(format!("{kind:?} is missing")))
}

/// Creates the texts of a new store, without gems.
pub(super) fn begin_if_missing(connection: &Connection, now: Timestamp) -> Result<(), StoreError> {
    let count: i64 = connection.query_row("SELECT count(*) FROM texts", [], |row| row.get(0))?;
    match count {
        2 => Ok(()),
        _ => rebaseline(connection, now),
    }
}

/// Rewrites both texts from the stored data of each gem.
pub(super) fn rebaseline(connection: &Connection, now: Timestamp) -> Result<(), StoreError> {
    let mut text = Writing::begin(connection, TextKind::Versions)?;
    text.append(|text| text.push_str(&versions::header(now)))?;
    let mut statement = connection.prepare(
        "SELECT name, md5, fragments.content FROM gems
         JOIN infos ON infos.gem = gems.id JOIN fragments ON fragments.gem = gems.id
         WHERE live > 0 ORDER BY gems.id",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let bytes = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let fragment = Fragment::read(bytes)?;
        let md5 = row.get(1)?;
        text.append(|text| {
            let releases = fragment.releases().map(|release| release.full());
            versions::write_gem(text, &name, releases, md5);
        })?;
    }
    text.finish()?;
    write_names(connection)
}

pub(super) fn write_names(connection: &Connection) -> Result<(), StoreError> {
    let mut text = Writing::begin(connection, TextKind::Names)?;
    text.append(|text| text.push_str(names::HEADER))?;
    let mut statement = connection.prepare("SELECT name FROM gems WHERE live > 0 ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        text.append(|text| names::write_line(text, &name))?;
    }
    text.finish()
}
