//! Pushes a release.

use std::sync::Arc;

use deadpool_postgres::Transaction;
use weir_base::clock::Timestamp;

use super::metrics::Limit;
use super::{Inner, index, locate, mirror, rows};
use crate::index::versions::Change;
use crate::store::statements::{pushes, upstreams, webhooks};
use crate::store::{Conflict, NewRelease, PushError, Pushed, StoreError};

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
    if let Some(upstream) = upstreams::origin_of(transaction, name.as_str()).await? {
        let is_same_file = is_there(transaction, new).await?;
        return Err(Conflict::Mirrored { name: name.to_string(), upstream, is_same_file }.into());
    }
    let (gem, lookalikes) = match rows::gem(transaction, name.as_str()).await? {
        Some(gem) => {
            mirror::make_local(transaction, &[gem.id]).await?;
            (gem, Vec::new())
        }
        None => {
            let lookalikes = pushes::lookalikes(transaction, name).await?;
            (rows::add_gem(transaction, name, now).await?, lookalikes)
        }
    };
    if !rows::add_release(transaction, gem.id, release, *bytes).await? {
        return Err(pushes::conflict(transaction, gem.id, release, full_name).await?.into());
    }
    let (number, platform) = (release.identity.number.as_str(), release.identity.platform.as_str());
    let statement = transaction
        .prepare_cached("INSERT INTO specifications VALUES ($1, $2, $3, $4, $5)")
        .await?;
    transaction.execute(&statement, &[&gem.id, &number, &platform, gemspec_rz, about]).await?;
    index::apply(transaction, gem, name.as_str(), Change::Pushed, &release.identity).await?;
    webhooks::tell(transaction, Change::Pushed, name, release, Some(about), now).await?;
    Ok(Pushed { lookalikes })
}

/// Returns whether the release exists with these contents.
async fn is_there(transaction: &Transaction<'_>, new: &NewRelease) -> Result<bool, StoreError> {
    let Some(gem) = rows::gem(transaction, new.name.as_str()).await? else { return Ok(false) };
    let found = pushes::found(transaction, gem.id, &new.release.identity).await?;
    Ok(found.is_some_and(|(sha256, _)| sha256 == new.release.checksum.0))
}
