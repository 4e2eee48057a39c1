//! Yanks a release.

use std::sync::Arc;

use deadpool_postgres::Transaction;
use weir_base::clock::Timestamp;

use super::metrics::Limit;
use super::rows::micros;
use super::{Inner, index, rows};
use crate::index::versions::Change;
use crate::name::GemName;
use crate::release::Identity;
use crate::store::statements::{pushes, webhooks};
use crate::store::{StoreError, YankError};

pub(super) async fn yank(
    inner: &Arc<Inner>,
    name: &GemName,
    identity: &Identity,
    now: Timestamp,
) -> Result<(), YankError> {
    let which = Arc::new((name.clone(), identity.clone()));
    let yanked = Arc::clone(&which);
    let done = inner
        .write(Limit::Write, move |transaction| {
            Box::pin(async move { take_out(transaction, &yanked.0, &yanked.1, now).await })
        })
        .await;
    match done {
        Err(YankError::Store(StoreError::Unanswered(lost))) => {
            let became = inner.what_became(lost, move |transaction| {
                let which = Arc::clone(&which);
                Box::pin(async move {
                    let Some(gem) = rows::gem(transaction, which.0.as_str()).await? else {
                        return Ok(false);
                    };
                    let found = pushes::found(transaction, gem.id, &which.1).await?;
                    Ok(found.is_some_and(|(_, is_yanked)| is_yanked))
                })
            });
            Ok(became.await?)
        }
        done => done,
    }
}

async fn take_out(
    transaction: &Transaction<'_>,
    name: &GemName,
    identity: &Identity,
    now: Timestamp,
) -> Result<(), YankError> {
    let gem = rows::gem(transaction, name.as_str()).await?.ok_or(YankError::UnknownGem)?;
    let found = pushes::found(transaction, gem.id, identity).await?;
    match found.map(|(_, is_yanked)| is_yanked) {
        None => return Err(YankError::UnknownRelease(identity.to_string())),
        Some(true) => return Err(YankError::AlreadyYanked(identity.to_string())),
        Some(false) => {}
    }
    let statement = transaction
        .prepare_cached(
            "UPDATE releases SET yanked_at = $4 WHERE gem = $1 AND number = $2 AND platform = $3",
        )
        .await?;
    let (number, platform) = (identity.number.as_str(), identity.platform.as_str());
    transaction.execute(&statement, &[&gem.id, &number, &platform, &micros(now)]).await?;
    index::apply(transaction, gem, name.as_str(), Change::Yanked, identity).await?;
    webhooks::tell_of_yank(transaction, gem.id, name, identity, now).await?;
    Ok(())
}
