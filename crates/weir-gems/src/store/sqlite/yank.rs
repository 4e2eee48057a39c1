//! A release goes.

use rusqlite::{Connection, OptionalExtension, params};
use weir_base::clock::Timestamp;

use super::rows::Time;
use super::{index, rows, webhook_rows};
use crate::index::versions::Change;
use crate::name::GemName;
use crate::release::Identity;
use crate::store::YankError;

pub(super) fn yank(
    connection: &Connection,
    name: &GemName,
    identity: &Identity,
    now: Timestamp,
) -> Result<(), YankError> {
    let gem = rows::gem(connection, name.as_str())?.ok_or(YankError::UnknownGem)?;
    let (number, platform) = (identity.number.as_str(), identity.platform.as_str());
    let is_yanked: Option<bool> = connection
        .prepare_cached(
            "SELECT yanked_at IS NOT NULL FROM releases
             WHERE gem = ?1 AND number = ?2 AND platform = ?3",
        )?
        .query_row(params![gem.id, number, platform], |row| row.get(0))
        .optional()?;
    match is_yanked {
        None => return Err(YankError::UnknownRelease(identity.to_string())),
        Some(true) => return Err(YankError::AlreadyYanked(identity.to_string())),
        Some(false) => {}
    }
    connection
        .prepare_cached(
            "UPDATE releases SET yanked_at = ?4 WHERE gem = ?1 AND number = ?2 AND platform = ?3",
        )?
        .execute(params![gem.id, number, platform, Time(now)])?;
    index::apply(connection, gem, name.as_str(), Change::Yanked, identity)?;
    webhook_rows::tell_of_yank(connection, gem.id, name, identity, now)?;
    Ok(())
}
