//! Yanks a release.

use rusqlite::{Connection, params};
use weir_base::clock::Timestamp;

use super::database::Sqlite;
use super::rows::Time;
use super::{index, rows};
use crate::index::versions::Change;
use crate::name::GemName;
use crate::release::Identity;
use crate::store::YankError;
use crate::store::database::at_once;
use crate::store::statements::releases::key;
use crate::store::statements::{pushes, webhooks};

pub(super) fn yank(
    connection: &Connection,
    name: &GemName,
    identity: &Identity,
    now: Timestamp,
) -> Result<(), YankError> {
    let gem = rows::gem(connection, name.as_str())?.ok_or(YankError::UnknownGem)?;
    let database = Sqlite(connection);
    let found = at_once(pushes::found(&database, gem.id, identity))?;
    match found.map(|(_, is_yanked)| is_yanked) {
        None => return Err(YankError::UnknownRelease(identity.to_string())),
        Some(true) => return Err(YankError::AlreadyYanked(identity.to_string())),
        Some(false) => {}
    }
    let (number, platform) = key(identity);
    connection
        .prepare_cached(
            "UPDATE releases SET yanked_at = ?4 WHERE gem = ?1 AND number = ?2 AND platform = ?3",
        )?
        .execute(params![gem.id, number, platform, Time(now)])?;
    index::apply(connection, gem, name.as_str(), Change::Yanked, identity)?;
    at_once(webhooks::tell_of_yank(&database, gem.id, name, identity, now))?;
    Ok(())
}
