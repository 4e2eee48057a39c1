//! Releases by their full names: `rack-3.0`, `nokogiri-1.15.0-x86_64-linux`.
//!
//! Names have dashes and digits too, so a full name can be cut at several places. All of them are
//! tried; a push makes sure that no two releases have one full name.

use rusqlite::{Connection, OptionalExtension, params};

use super::rows;
use crate::release::{Checksum, Identity};
use crate::store::{StoreError, StoredFile};

/// Cuts of one name; a longer one has none that is real.
const CUTS_MAX: usize = 20;

/// A name, and what it is a release of.
pub(super) struct Cut<'a> {
    pub(super) name: &'a str,
    pub(super) identity: Identity,
}

/// The ways in which a full name can be cut.
pub(super) fn cuts(full_name: &str) -> impl Iterator<Item = Cut<'_>> {
    let dashes = full_name.match_indices('-').map(|(at, _)| at);
    dashes.take(CUTS_MAX).filter_map(|at| {
        let (name, rest) = (&full_name[..at], &full_name[at + 1..]);
        let (number, platform) = rest.split_once('-').unwrap_or((rest, "ruby"));
        let (number, platform) = (number.parse().ok()?, platform.parse().ok()?);
        (!name.is_empty()).then_some(Cut { name, identity: Identity { number, platform } })
    })
}

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
        let Some(gem) = rows::gem(connection, cut.name)? else { continue };
        let (number, platform) = (cut.identity.number.as_str(), cut.identity.platform.as_str());
        let found = statement.query_row(params![gem.id, number, platform], |row| {
            let bytes: i64 = row.get(1)?;
            let bytes = u64::try_from(bytes).unwrap_or_default();
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
        let Some(gem) = rows::gem(connection, cut.name)? else { continue };
        let (number, platform) = (cut.identity.number.as_str(), cut.identity.platform.as_str());
        let found = statement.query_row(params![gem.id, number, platform], |row| row.get(0));
        if let Some(gemspec) = found.optional()? {
            return Ok(Some(gemspec));
        }
    }
    Ok(None)
}

/// Whether the gem has this release, yanked or not.
pub(super) fn exists(connection: &Connection, cut: &Cut<'_>) -> Result<bool, StoreError> {
    let Some(gem) = rows::gem(connection, cut.name)? else { return Ok(false) };
    let mut statement = connection.prepare_cached(
        "SELECT 1 FROM releases WHERE gem = ?1 AND number = ?2 AND platform = ?3",
    )?;
    let (number, platform) = (cut.identity.number.as_str(), cut.identity.platform.as_str());
    Ok(statement.exists(params![gem.id, number, platform])?)
}
