//! A release comes.

use std::sync::Arc;

use deadpool_postgres::Transaction;
use weir_base::clock::Timestamp;

use super::metrics::Limit;
use super::rows::digest;
use super::{Inner, index, locate, mirror, rows, webhook_rows};
use crate::index::versions::Change;
use crate::name::GemName;
use crate::release::Release;
use crate::store::column::signed;
use crate::store::{Conflict, LOOKALIKES_MAX, NewRelease, PushError, Pushed, StoreError};

pub(super) async fn push(
    inner: &Arc<Inner>,
    new: NewRelease,
    now: Timestamp,
) -> Result<Pushed, PushError> {
    let new = Arc::new(new);
    let pushed = Arc::clone(&new);
    let done = inner
        .write(Limit::Write, move |transaction| {
            Box::pin(async move { add(transaction, &pushed, now).await })
        })
        .await;
    match done {
        Err(PushError::Store(StoreError::Unanswered(lost))) => {
            let is_there = inner.what_became(lost, move |transaction| {
                let new = Arc::clone(&new);
                Box::pin(async move { is_there(transaction, &new).await })
            });
            is_there.await?;
            Ok(Pushed { lookalikes: Vec::new() })
        }
        done => done,
    }
}

async fn add(
    transaction: &Transaction<'_>,
    new: &NewRelease,
    now: Timestamp,
) -> Result<Pushed, PushError> {
    let NewRelease { name, release, bytes, gemspec_rz, about } = new;
    let full_name = format!("{name}-{}", release.identity);
    if let Some(other) = locate::other(transaction, name.as_str(), &full_name).await? {
        return Err(Conflict::FullName { full_name, other }.into());
    }
    if let Some(upstream) = mirror::origin_of(transaction, name.as_str()).await? {
        let is_same_file = is_there(transaction, new).await?;
        return Err(Conflict::Mirrored { name: name.to_string(), upstream, is_same_file }.into());
    }
    let (gem, lookalikes) = match rows::gem(transaction, name.as_str()).await? {
        Some(gem) => {
            mirror::make_local(transaction, &[gem.id]).await?;
            (gem, Vec::new())
        }
        None => {
            let lookalikes = lookalikes(transaction, name).await?;
            (rows::add_gem(transaction, name, now).await?, lookalikes)
        }
    };
    if !rows::add_release(transaction, gem.id, release, *bytes).await? {
        return Err(conflict(transaction, gem.id, release, full_name).await?.into());
    }
    let (number, platform) = (release.identity.number.as_str(), release.identity.platform.as_str());
    let statement = transaction
        .prepare_cached("INSERT INTO specifications VALUES ($1, $2, $3, $4, $5)")
        .await?;
    transaction.execute(&statement, &[&gem.id, &number, &platform, gemspec_rz, about]).await?;
    index::apply(transaction, gem, name.as_str(), Change::Pushed, &release.identity).await?;
    webhook_rows::tell(transaction, Change::Pushed, name, release, Some(about), now).await?;
    Ok(Pushed { lookalikes })
}

async fn lookalikes(
    transaction: &Transaction<'_>,
    name: &GemName,
) -> Result<Vec<String>, StoreError> {
    let statement = transaction
        .prepare_cached("SELECT name FROM gems WHERE skeleton = $1 ORDER BY id LIMIT $2")
        .await?;
    let limit = signed(LOOKALIKES_MAX);
    let rows = transaction.query(&statement, &[&name.skeleton(), &limit]).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// What there is of a release: its checksum, and whether it was yanked.
async fn found(
    transaction: &Transaction<'_>,
    gem: i64,
    release: &Release,
) -> Result<Option<([u8; 32], bool)>, StoreError> {
    let (number, platform) = (release.identity.number.as_str(), release.identity.platform.as_str());
    let statement = transaction
        .prepare_cached(
            "SELECT sha256, yanked_at IS NOT NULL FROM releases
             WHERE gem = $1 AND number = $2 AND platform = $3",
        )
        .await?;
    let row = transaction.query_opt(&statement, &[&gem, &number, &platform]).await?;
    row.map(|row| Ok((digest(&row, 0)?, row.try_get(1)?))).transpose()
}

/// What is in the place of a release that could not be added.
async fn conflict(
    transaction: &Transaction<'_>,
    gem: i64,
    release: &Release,
    full_name: String,
) -> Result<Conflict, StoreError> {
    Ok(match found(transaction, gem, release).await? {
        Some((_, true)) => Conflict::Yanked { full_name },
        Some((sha256, _)) if sha256 == release.checksum.0 => Conflict::SameContents { full_name },
        _ => Conflict::Exists { full_name },
    })
}

/// Whether the release is in its place, with these contents.
async fn is_there(transaction: &Transaction<'_>, new: &NewRelease) -> Result<bool, StoreError> {
    let Some(gem) = rows::gem(transaction, new.name.as_str()).await? else { return Ok(false) };
    let found = found(transaction, gem.id, &new.release).await?;
    Ok(found.is_some_and(|(sha256, _)| sha256 == new.release.checksum.0))
}
