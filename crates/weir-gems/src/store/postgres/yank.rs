//! Yanks a release.

use std::sync::Arc;

use weir_base::clock::Timestamp;

use super::Inner;
use super::metrics::Limit;
use crate::name::GemName;
use crate::release::Identity;
use crate::store::statements::pushes;
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
            Box::pin(async move { pushes::yank(transaction, &yanked.0, &yanked.1, now).await })
        })
        .await;
    match done {
        Err(YankError::Store(StoreError::Unanswered(lost))) => {
            let became = inner.what_became(lost, move |transaction| {
                let which = Arc::clone(&which);
                Box::pin(async move { pushes::is_yanked(transaction, &which.0, &which.1).await })
            });
            Ok(became.await?)
        }
        done => done,
    }
}
