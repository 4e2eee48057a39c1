//! Applies the policy, and removes gems that only an earlier policy allowed.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::RwLockReadGuard;

use super::decide::forbidden;
use super::policy::{Policy, PolicyError};
use super::{Enforced, Mirror};
use crate::name::GemName;
use crate::store::StoreError;
use crate::store::mirror::Origins;

/// Number of names to check against a policy at once.
const ORIGINS_PAGE: usize = 5_000;

/// Reasons why a new policy is not in force, or not completely.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PolicyChangeError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Mirror {
    /// Prepares the mirror before anything is served: removes gems that only an earlier policy
    /// allowed, makes rejected names pending again, and loads the times of earlier
    /// synchronizations. Each synchronization does this, too.
    pub fn prepare(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            drop(self.in_force().await?);
            for upstream in &self.upstreams {
                self.recall(upstream).await?;
            }
            Ok(())
        })
    }

    /// Replaces the policy. Gems that it forbids are removed before this returns; those that it
    /// newly allows are added by the next synchronization.
    ///
    /// # Errors
    /// Fails if the policy names an unknown upstream; the old policy then stays. If the store
    /// fails, the new policy is in force, and the next synchronization removes what it forbids.
    pub fn set_policy(&self, policy: Policy) -> BoxFuture<'_, Result<(), PolicyChangeError>> {
        Box::pin(async move {
            let names: Vec<_> =
                self.upstreams.iter().map(|upstream| upstream.name.clone()).collect();
            policy.check(&names)?;
            self.policy.store(Arc::new(policy));
            // The lock waits for tasks that are deciding or applying by the old policy.
            let mut enforced = self.enforced.write().await;
            *enforced = Enforced::No;
            self.enforce(&mut enforced).await?;
            drop(enforced);
            self.decide_refused().await?;
            Ok(())
        })
    }

    /// Decides pending names that need no response of an upstream. After a change of the policy
    /// this reports rejected names even while upstreams are unavailable.
    pub(super) async fn decide_refused(&self) -> Result<(), StoreError> {
        for upstream in &self.upstreams {
            self.refuse_pending(upstream).await?;
        }
        Ok(())
    }

    /// Locks the policy while something is decided or applied by it. Do not hold the guard while
    /// waiting for an upstream, because changes of the policy wait for it.
    pub(super) async fn in_force(&self) -> Result<RwLockReadGuard<'_, Enforced>, StoreError> {
        let enforced = self.enforced.read().await;
        if *enforced == Enforced::Yes {
            return Ok(enforced);
        }
        drop(enforced);
        let mut enforced = self.enforced.write().await;
        self.enforce(&mut enforced).await?;
        Ok(enforced.downgrade())
    }

    /// Removes gems from upstreams that the policy forbids, and makes all rejected names pending
    /// again. Removed names become pending as well.
    async fn enforce(&self, enforced: &mut Enforced) -> Result<(), StoreError> {
        if *enforced == Enforced::Yes {
            return Ok(());
        }
        let policy = self.policy.load_full();
        let mut next = Some(0);
        while let Some(from) = next {
            let Origins { names, next: further } = self.store.origins(from, ORIGINS_PAGE).await?;
            let is_forbidden = |(name, upstream): &(GemName, String)| {
                forbidden(&policy, name.as_str(), upstream).is_some()
            };
            let gone: Vec<_> =
                names.into_iter().filter(is_forbidden).map(|(name, _)| name).collect();
            if !gone.is_empty() {
                let text = "mirrored gems may not come from where they did and are gone";
                tracing::warn!(names = gone.len(), "{text}");
                self.store.delete_mirrored(gone).await?;
            }
            next = further;
        }
        self.store.reconsider().await?;
        *enforced = Enforced::Yes;
        Ok(())
    }
}
