//! Pushes a release.

use std::sync::Arc;

use weir_base::clock::Timestamp;

use super::Inner;
use super::metrics::Limit;
use crate::store::statements::pushes;
use crate::store::{NewRelease, PushError, Pushed, StoreError};

pub(super) async fn push(
    inner: &Arc<Inner>,
    new: NewRelease,
    now: Timestamp,
) -> Result<Pushed, PushError> {
    let new = Arc::new(new);
    let pushed = Arc::clone(&new);
    let done = inner
        .write(Limit::Write, move |transaction| {
            Box::pin(async move { pushes::push(transaction, &pushed, now).await })
        })
        .await;
    match done {
        Err(PushError::Store(StoreError::Unanswered(lost))) => {
            let is_there = inner.what_became(lost, move |transaction| {
                let new = Arc::clone(&new);
                Box::pin(async move { pushes::is_stored(transaction, &new).await })
            });
            is_there.await?;
            Ok(Pushed { lookalikes: Vec::new() })
        }
        done => done,
    }
}
