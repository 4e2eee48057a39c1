//! Finds releases by their full names.

use rusqlite::{Connection, OptionalExtension, params};

use super::database::Sqlite;
use crate::release::Checksum;
use crate::store::column::unsigned;
use crate::store::cuts::cuts;
use crate::store::database::at_once;
use crate::store::statements::gems::gem;
use crate::store::{StoreError, StoredFile};

pub(super) fn file(
    connection: &Connection,
    full_name: &str,
) -> Result<Option<StoredFile>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT sha256, bytes FROM releases
         WHERE gem = ?1 AND number = ?2 AND platform = ?3
           AND yanked_at IS NULL AND bytes IS NOT NULL",
    )?;
    for cut in cuts(full_name) {
        let Some(gem) = at_once(gem(&Sqlite(connection), cut.name))? else { continue };
        let (number, platform) = (cut.identity.number.as_str(), cut.identity.platform.as_str());
        let found = statement.query_row(params![gem.id, number, platform], |row| {
            let bytes: i64 = row.get(1)?;
            let bytes = unsigned(bytes);
            Ok(StoredFile { checksum: Checksum(row.get(0)?), bytes })
        });
        if let Some(file) = found.optional()? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

pub(super) fn gemspec(
    connection: &Connection,
    full_name: &str,
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT gemspec_rz FROM specifications JOIN releases USING (gem, number, platform)
         WHERE gem = ?1 AND number = ?2 AND platform = ?3 AND yanked_at IS NULL",
    )?;
    for cut in cuts(full_name) {
        let Some(gem) = at_once(gem(&Sqlite(connection), cut.name))? else { continue };
        let (number, platform) = (cut.identity.number.as_str(), cut.identity.platform.as_str());
        let found = statement.query_row(params![gem.id, number, platform], |row| row.get(0));
        if let Some(gemspec) = found.optional()? {
            return Ok(Some(gemspec));
        }
    }
    Ok(None)
}
