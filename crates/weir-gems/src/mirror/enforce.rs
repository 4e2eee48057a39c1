//! The policy in force, and what was let in under an earlier one.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::RwLockReadGuard;

use super::decide::forbidden;
use super::policy::{Policy, PolicyError};
use super::{Enforced, Mirror};
use crate::name::GemName;
use crate::store::StoreError;
use crate::store::mirror::Origins;

/// Names that are compared with a policy at once.
const ORIGINS_PAGE: usize = 5_000;

/// Why another policy does not hold, or not yet whole.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PolicyChangeError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Mirror {
    /// Takes away what an earlier policy let in and this one does not, has decided anew what it
    /// refused, and recalls how far earlier processes came. Before anything is served; each look does it, too.
    ///
    /// # Errors
    /// The store fails.
    pub fn prepare(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            drop(self.in_force().await?);
            for upstream in &self.upstreams {
                self.recall(upstream).await?;
            }
            Ok(())
        })
    }

    /// From now on another policy. What it forbids is taken away before this returns, and what it
    /// allows comes with the next look.
    ///
    /// # Errors
    /// The policy names an upstream that there is not (the old one stays), or the store fails (the
    /// new one holds, and what it forbids is taken away with the next look).
    pub fn set_policy(&self, policy: Policy) -> BoxFuture<'_, Result<(), PolicyChangeError>> {
        Box::pin(async move {
            let names: Vec<_> =
                self.upstreams.iter().map(|upstream| upstream.name.clone()).collect();
            policy.check(&names)?;
            self.policy.store(Arc::new(policy));
            // Whoever decides or applies at this moment may do so by the old one.
            let mut enforced = self.enforced.write().await;
            *enforced = Enforced::No;
            self.enforce(&mut enforced).await?;
            drop(enforced);
            self.decide_refused().await?;
            Ok(())
        })
    }

    /// Decides what needs no answer of an upstream: what was refused, and is work again since the
    /// policy may be another, is told as refused even while upstreams are away.
    pub(super) async fn decide_refused(&self) -> Result<(), StoreError> {
        for upstream in &self.upstreams {
            self.refuse_pending(upstream).await?;
        }
        Ok(())
    }

    /// Holds the policy in force while something is decided or applied by it. Never while an
    /// upstream is waited for: a change of the policy waits until this is dropped.
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

    /// For commands that write into the same index and have no settings: before anything is decided
    /// by it.
    async fn store_policy(&self, policy: &Policy) -> Result<(), StoreError> {
        let rules = (!policy.has_no_rules()).then(|| policy.to_string());
        match self.store.policy().await? == rules {
            true => Ok(()),
            false => self.store.keep_policy(rules).await,
        }
    }

    /// Takes away what came from where it may not come from, and has everything decided anew that
    /// was refused. The other way round it needs nothing: what is taken away is work again.
    async fn enforce(&self, enforced: &mut Enforced) -> Result<(), StoreError> {
        if *enforced == Enforced::Yes {
            return Ok(());
        }
        let policy = self.policy.load_full();
        self.store_policy(&policy).await?;
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
                self.store.disown(gone).await?;
            }
            next = further;
        }
        self.store.reconsider().await?;
        *enforced = Enforced::Yes;
        Ok(())
    }
}
