//! Applies fetched gems, several in one transaction, in the order of their lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Work;
use crate::mirror::decide::forbidden;
use crate::mirror::error::Problem;
use crate::mirror::{Mirror, Upstream};
use crate::store::mirror::MirroredGem;

/// Gems for one transaction.
#[derive(Default)]
pub(super) struct Gathered {
    /// Gems by their position.
    gems: BTreeMap<usize, MirroredGem>,
    pub(super) bytes: usize,
    /// Number of consecutive failed requests.
    pub(super) failures: u32,
}

impl Gathered {
    pub(super) fn add(&mut self, index: usize, gem: MirroredGem, bytes: usize) {
        self.gems.insert(index, gem);
        self.bytes += bytes;
    }
}

impl Mirror {
    pub(super) async fn apply(
        &self,
        upstream: &Upstream,
        gathered: &mut Gathered,
        work: &mut Work,
    ) -> Result<(), Problem> {
        gathered.bytes = 0;
        let gems = std::mem::take(&mut gathered.gems).into_values();
        let in_force = self.in_force().await?;
        let policy = self.policy.load_full();
        // The policy may have changed since the decision. Names that it now forbids are decided
        // again.
        let is_allowed = |gem: &MirroredGem| {
            forbidden(&policy, gem.noted.name.as_str(), upstream.name.as_str()).is_none()
        };
        let (mut gems, late): (Vec<_>, Vec<_>) = gems.partition(is_allowed);
        work.waiting += late.len() as u64;
        if gems.is_empty() {
            return Ok(());
        }
        for gem in &mut gems {
            let name = gem.noted.name.as_str();
            gem.is_invited = policy.invites(name);
            // A rule for this upstream overrides the order of upstreams.
            if policy.rule(name).is_none() {
                gem.earlier = Arc::clone(&upstream.earlier);
            }
        }
        let applied = self.store.apply(upstream.name.as_str(), gems, self.clock.now()).await?;
        drop(in_force);
        upstream.metrics.applied(&applied);
        if applied.kept_out > 0 {
            let (upstream, releases) = (&upstream.name, applied.kept_out);
            let text = "an upstream has replaced files of known releases; they are kept out until \
                        an operator accepts them (weir gems mirror status)";
            tracing::warn!(%upstream, releases, "{text}");
        }
        work.refused += applied.refused;
        work.applied.add(&applied);
        Ok(())
    }
}
