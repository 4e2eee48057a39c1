//! Existing releases that a push or a yank finds.

use super::releases::key;
use crate::name::GemName;
use crate::release::{Identity, Release};
use crate::store::column::signed;
use crate::store::database::{Database, Row, query_one};
use crate::store::{Conflict, LOOKALIKES_MAX, StoreError};

pub(in crate::store) async fn lookalikes(
    database: &impl Database,
    name: &GemName,
) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT name FROM gems WHERE skeleton = $1 ORDER BY id LIMIT $2";
    let rows = database.query(sql, &[&name.skeleton(), &signed(LOOKALIKES_MAX)]).await?;
    rows.iter().map(|row| row.get(0)).collect()
}

/// Returns the checksum of a release and whether it is yanked, if it exists.
pub(in crate::store) async fn found(
    database: &impl Database,
    gem: i64,
    identity: &Identity,
) -> Result<Option<([u8; 32], bool)>, StoreError> {
    let (number, platform) = key(identity);
    let sql = "SELECT sha256, yanked_at IS NOT NULL FROM releases
         WHERE gem = $1 AND number = $2 AND platform = $3";
    let row = query_one(database, sql, &[&gem, &number, &platform]).await?;
    row.map(|row| Ok((row.digest(0)?, row.get(1)?))).transpose()
}

/// Returns what conflicts with a release that could not be added.
pub(in crate::store) async fn conflict(
    database: &impl Database,
    gem: i64,
    release: &Release,
    full_name: String,
) -> Result<Conflict, StoreError> {
    Ok(match found(database, gem, &release.identity).await? {
        Some((_, true)) => Conflict::Yanked { full_name },
        Some((sha256, _)) if sha256 == release.checksum.0 => Conflict::SameContents { full_name },
        _ => Conflict::Exists { full_name },
    })
}
