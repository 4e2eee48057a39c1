//! The index's mirror, if it has one.

use crate::Gems;
use crate::mirror::Scope;
use crate::store::{Store, StoreError};
use crate::view::MirrorView;

impl<S: Store> Gems<S> {
    /// How the mirror is; None: there is none.
    ///
    /// # Errors
    /// The store's.
    pub async fn mirrored(&self) -> Result<Option<MirrorView>, StoreError> {
        match self.mirror() {
            Some(mirror) => mirror.view().await.map(Some),
            None => Ok(None),
        }
    }

    /// Has all upstreams looked at as soon as possible: that is done when
    /// [`MirrorView::rounds_done`] is this number. None: there is no mirror.
    pub fn look_at_upstreams(&self, scope: Scope) -> Option<u64> {
        let round = self.mirror().map(|mirror| mirror.ask(scope));
        if round.is_some() {
            tracing::info!(?scope, "an operator has the upstreams looked at");
        }
        round
    }
}
