//! The policy in force, and what was let in under an earlier one.

use std::sync::Arc;

use tokio::sync::RwLockReadGuard;

use super::policy::{Policy, PolicyError};
use super::{Enforced, Mirror};
use crate::store::StoreError;
use crate::store::mirror::{MirrorStore, Origins};

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

impl<S: MirrorStore> Mirror<S> {
    /// Takes away what an earlier policy let in and this one does not, and recalls how far earlier
    /// processes came. Before anything is served; each look does it, too.
    ///
    /// # Errors
    /// The store fails.
    pub async fn prepare(&self) -> Result<(), StoreError> {
        drop(self.in_force().await?);
        for upstream in &self.upstreams {
            self.recall(upstream).await?;
        }
        Ok(())
    }

    /// From now on another policy. What it makes private is taken away before this returns.
    ///
    /// # Errors
    /// The policy names an upstream that there is not (the old one stays), or the store fails (the
    /// new one holds, and what it makes private is taken away with the next look).
    pub async fn set_policy(&self, policy: Policy) -> Result<(), PolicyChangeError> {
        let names: Vec<_> = self.upstreams.iter().map(|upstream| upstream.name.clone()).collect();
        policy.check(&names)?;
        self.policy.store(Arc::new(policy));
        // Whoever is looking at an upstream may have decided by the old one.
        let mut enforced = self.enforced.write().await;
        *enforced = Enforced::No;
        self.enforce(&mut enforced).await?;
        Ok(())
    }

    /// Holds the policy in force while an upstream is looked at.
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

    /// Takes away what is private and came from an upstream, and has everything decided anew that
    /// was refused.
    async fn enforce(&self, enforced: &mut Enforced) -> Result<(), StoreError> {
        if *enforced == Enforced::Yes {
            return Ok(());
        }
        let policy = self.policy.load_full();
        let mut next = Some(0);
        while let Some(from) = next {
            let Origins { names, next: further } = self.store.origins(from, ORIGINS_PAGE).await?;
            let private: Vec<_> = names
                .into_iter()
                .filter_map(|(name, _)| policy.is_private(name.as_str()).then_some(name))
                .collect();
            if !private.is_empty() {
                tracing::warn!(names = private.len(), "mirrored gems became private and are gone");
                self.store.disown(private).await?;
            }
            next = further;
        }
        self.store.reconsider().await?;
        *enforced = Enforced::Yes;
        Ok(())
    }
}
