//! Operations on the index's mirror, if there is one.

use crate::Gems;
use crate::mirror::Scope;
use crate::name::GemName;
use crate::release::Identity;
use crate::store::StoreError;
use crate::view::{MirrorView, ReplacedView};
use futures_util::future::BoxFuture;

/// Reasons why a replaced file can't be accepted.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum AcceptError {
    #[error("this Weir mirrors no other index")]
    NoMirror,
    #[error("no replaced file of {0} is kept out")]
    NotReplaced(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Gems {
    /// Returns the state of the mirror, or None if there is no mirror.
    pub fn mirrored(&self) -> BoxFuture<'_, Result<Option<MirrorView>, StoreError>> {
        Box::pin(async move {
            match self.mirror() {
                Some(mirror) => mirror.view().await.map(Some),
                None => Ok(None),
            }
        })
    }

    /// Accepts the changed file of a release that was rejected because its checksum differs.
    ///
    /// # Errors
    /// Fails if there is no such release or no mirror, or with the store's error.
    pub fn accept_replaced<'a>(
        &'a self,
        name: &'a GemName,
        identity: &'a Identity,
    ) -> BoxFuture<'a, Result<ReplacedView, AcceptError>> {
        Box::pin(async move {
            let mirror = self.mirror().ok_or(AcceptError::NoMirror)?;
            let accepted = mirror.accept(name, identity).await?;
            let unknown = || AcceptError::NotReplaced(format!("{name}-{identity}"));
            accepted.map(ReplacedView::of).ok_or_else(unknown)
        })
    }

    /// Requests a synchronization of all upstreams as soon as possible. Returns a number; the
    /// request is done when [`MirrorView::rounds_done`] reaches it. Returns None if there is no
    /// mirror.
    pub fn request_synchronization(&self, scope: Scope) -> Option<u64> {
        let round = self.mirror().map(|mirror| mirror.request_synchronization(scope));
        if round.is_some() {
            tracing::info!(?scope, "an operator requested a synchronization");
        }
        round
    }
}
