//! Pushes and yanks.

use weir_base::clock::Timestamp;

use super::gems::{add_gem, add_release, clash, gem, make_local};
use super::releases::key;
use super::upstreams::origin_of;
use super::{index, webhooks};
use crate::index::versions::Change;
use crate::name::GemName;
use crate::release::{Identity, Release};
use crate::store::column::signed;
use crate::store::database::{Database, Row, WritableDatabase, micros, query_one};
use crate::store::{
    Conflict, LOOKALIKES_MAX, NewRelease, PushError, Pushed, StoreError, YankError,
};

/// Adds a release, with everything derived from it and the event for webhooks.
pub(in crate::store) async fn push(
    database: &impl WritableDatabase,
    new: &NewRelease,
    now: Timestamp,
) -> Result<Pushed, PushError> {
    let NewRelease { name, release, bytes, gemspec_rz, about } = new;
    let full_name = format!("{name}-{}", release.identity);
    if let Some(other) = clash(database, name, &release.identity).await? {
        return Err(Conflict::FullName { full_name, other }.into());
    }
    if let Some(upstream) = origin_of(database, name.as_str()).await? {
        let is_same_file = is_stored(database, new).await?;
        return Err(Conflict::Mirrored { name: name.to_string(), upstream, is_same_file }.into());
    }
    let (gem, lookalikes) = match gem(database, name.as_str()).await? {
        Some(gem) => {
            make_local(database, gem.id).await?;
            (gem, Vec::new())
        }
        None => {
            let lookalikes = lookalikes(database, name).await?;
            (add_gem(database, name, now).await?, lookalikes)
        }
    };
    if !add_release(database, gem.id, release, Some(*bytes)).await? {
        return Err(conflict(database, gem.id, release, full_name).await?.into());
    }
    let (number, platform) = key(&release.identity);
    let sql = "INSERT INTO specifications VALUES ($1, $2, $3, $4, $5)";
    database.execute(sql, &[&gem.id, &number, &platform, gemspec_rz, about]).await?;
    index::apply(database, gem, name.as_str(), Change::Pushed, &release.identity).await?;
    webhooks::enqueue(database, Change::Pushed, name, release, Some(about), now).await?;
    Ok(Pushed { lookalikes })
}

/// Removes a release from all lists.
pub(in crate::store) async fn yank(
    database: &impl WritableDatabase,
    name: &GemName,
    identity: &Identity,
    now: Timestamp,
) -> Result<(), YankError> {
    let gem = gem(database, name.as_str()).await?.ok_or(YankError::UnknownGem)?;
    let found = found(database, gem.id, identity).await?;
    match found.map(|(_, is_yanked)| is_yanked) {
        None => return Err(YankError::UnknownRelease(identity.to_string())),
        Some(true) => return Err(YankError::AlreadyYanked(identity.to_string())),
        Some(false) => {}
    }
    let (number, platform) = key(identity);
    let sql = "UPDATE releases SET yanked_at = $4 WHERE gem = $1 AND number = $2 AND platform = $3";
    database.execute(sql, &[&gem.id, &number, &platform, &micros(now)]).await?;
    index::apply(database, gem, name.as_str(), Change::Yanked, identity).await?;
    webhooks::enqueue_yanked(database, gem.id, name, identity, now).await?;
    Ok(())
}

/// Returns whether a release is stored, with the same file.
pub(in crate::store) async fn is_stored(
    database: &impl Database,
    new: &NewRelease,
) -> Result<bool, StoreError> {
    let Some(gem) = gem(database, new.name.as_str()).await? else { return Ok(false) };
    let found = found(database, gem.id, &new.release.identity).await?;
    Ok(found.is_some_and(|(sha256, _)| sha256 == new.release.checksum.0))
}

/// Returns whether a release is stored and yanked.
pub(in crate::store) async fn is_yanked(
    database: &impl Database,
    name: &GemName,
    identity: &Identity,
) -> Result<bool, StoreError> {
    let Some(gem) = gem(database, name.as_str()).await? else { return Ok(false) };
    let found = found(database, gem.id, identity).await?;
    Ok(found.is_some_and(|(_, is_yanked)| is_yanked))
}

async fn lookalikes(database: &impl Database, name: &GemName) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT name FROM gems WHERE skeleton = $1 ORDER BY id LIMIT $2";
    let rows = database.query(sql, &[&name.skeleton(), &signed(LOOKALIKES_MAX)]).await?;
    rows.iter().map(|row| row.get(0)).collect()
}

/// Returns the checksum of a release and whether it is yanked, if it exists.
async fn found(
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
async fn conflict(
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
