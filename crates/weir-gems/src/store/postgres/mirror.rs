//! Stores a mirror's data, in the same schema as the gems.
//!
//! Gems are applied in batches. The number of statements does not depend on the size of a batch.
//! Transactions that change gems are serialized with all other writes to gems.

mod apply;
mod changed;
pub(super) mod clashes;
mod delete_mirrored;
mod earlier;
mod files;
mod hooks;
mod lookalikes;
mod noted;
mod origins;
mod pending;
mod replaced;
mod settled;

use async_trait::async_trait;
use tokio::time::timeout;
use weir_base::clock::Timestamp;

pub(super) use self::origins::make_local;
use super::metrics::Limit;
use super::{PostgresStore, ask};
use crate::mirror::prefix::{Prefix, PrefixDigest};
use crate::name::GemName;
use crate::release::Identity;
use crate::store::StoreError;
use crate::store::mirror::{
    Applied, Gone, Hook, Inbox, LastLooks, MirrorCounts, MirrorStore, MirroredFile, MirroredGem,
    MirroredRelease, MissingFiles, NewHook, Noted, Origins, Pending, Position, Presence, Refusal,
    ReplacedRelease, Standing,
};
use crate::store::statements::{self, refusals, upstreams};

#[async_trait]
impl MirrorStore for PostgresStore {
    async fn position(&self, upstream: &str) -> Result<Option<Position>, StoreError> {
        ask!(self, "position", upstreams::position, upstream)
    }

    async fn note(
        &self,
        upstream: &str,
        noted: Vec<Noted>,
        position: Option<Position>,
    ) -> Result<(), StoreError> {
        let upstream = upstream.to_owned();
        let note =
            self.write("note", move |it| Box::pin(noted::note(it, upstream, noted, position)));
        let has_doubled: bool = note.await?;
        self.0.analyze_if(has_doubled).await
    }

    async fn noted_digests(
        &self,
        upstream: &str,
    ) -> Result<Vec<(Prefix, PrefixDigest)>, StoreError> {
        let _timer = self.0.queries.start("noted_digests");
        let time = self.0.pool.limits.text_timeout;
        let mut lease = self.0.lease().await?;
        let digests = timeout(time, noted::digests(&mut lease, upstream, time)).await;
        self.0.pool.settle(lease, Limit::Text, digests)
    }

    async fn noted(&self, upstream: &str, prefix: Prefix) -> Result<Vec<Noted>, StoreError> {
        ask!(self, "noted", statements::noted::of_prefix, upstream, prefix)
    }

    async fn pending(
        &self,
        upstream: &str,
        after: u64,
        names_max: usize,
    ) -> Result<Vec<Pending>, StoreError> {
        ask!(self, "pending", pending::page, upstream, after, names_max)
    }

    async fn refuse(
        &self,
        upstream: &str,
        names: Vec<(GemName, Refusal)>,
    ) -> Result<(), StoreError> {
        let upstream = upstream.to_owned();
        self.write("refuse", move |it| Box::pin(pending::refuse(it, upstream, names))).await
    }

    async fn standing(&self, upstream: &str, name: &GemName) -> Result<Standing, StoreError> {
        ask!(self, "standing", pending::standing, upstream, name)
    }

    async fn reconsider(&self) -> Result<(), StoreError> {
        self.write("reconsider", move |it| Box::pin(refusals::reconsider(it))).await
    }

    async fn refused(
        &self,
        upstream: &str,
        names_max: usize,
    ) -> Result<Vec<(String, Refusal)>, StoreError> {
        ask!(self, "refused", refusals::refused, upstream, names_max)
    }

    async fn replaced(
        &self,
        upstream: &str,
        releases_max: usize,
    ) -> Result<Vec<ReplacedRelease>, StoreError> {
        ask!(self, "replaced", statements::replaced::of_upstream, upstream, releases_max)
    }

    async fn accept(
        &self,
        name: &GemName,
        identity: &Identity,
    ) -> Result<Option<ReplacedRelease>, StoreError> {
        let (name, identity) = (name.clone(), identity.clone());
        self.write("accept", move |it| Box::pin(replaced::accept(it, name, identity))).await
    }

    async fn apply(
        &self,
        upstream: &str,
        gems: Vec<MirroredGem>,
        now: Timestamp,
    ) -> Result<Applied, StoreError> {
        let upstream = upstream.to_owned();
        let apply = self.write("apply", move |it| Box::pin(apply::apply(it, upstream, gems, now)));
        let apply::Done { applied, has_doubled } = apply.await?;
        self.0.analyze_if(has_doubled).await?;
        Ok(applied)
    }

    async fn origins(&self, from: u64, names_max: usize) -> Result<Origins, StoreError> {
        ask!(self, "origins", upstreams::origins, from, names_max)
    }

    async fn delete_mirrored(&self, names: Vec<GemName>) -> Result<(), StoreError> {
        self.write("delete_mirrored", move |it| {
            Box::pin(delete_mirrored::delete_mirrored(it, names))
        })
        .await
    }

    async fn last_looks(&self, upstream: &str) -> Result<LastLooks, StoreError> {
        ask!(self, "last_looks", upstreams::last_looks, upstream)
    }

    async fn keep_looks(&self, upstream: &str, looks: LastLooks) -> Result<(), StoreError> {
        let upstream = upstream.to_owned();
        let keep = self
            .write("keep_looks", move |it| Box::pin(upstreams::keep_looks(it, upstream, looks)));
        keep.await
    }

    async fn gone(&self, upstream: &str) -> Result<Gone, StoreError> {
        ask!(self, "gone", upstreams::gone, upstream)
    }

    async fn keep_gone(&self, upstream: &str, gone: Gone) -> Result<(), StoreError> {
        let upstream = upstream.to_owned();
        let keep =
            self.write("keep_gone", move |it| Box::pin(upstreams::keep_gone(it, upstream, gone)));
        keep.await
    }

    async fn counts(&self, upstream: &str) -> Result<MirrorCounts, StoreError> {
        ask!(self, "counts", upstreams::counts, upstream)
    }

    async fn mirrored(&self, full_name: &str) -> Result<Option<MirroredRelease>, StoreError> {
        ask!(self, "mirrored", files::mirrored, full_name)
    }

    async fn presence(&self, name: &GemName, identity: &Identity) -> Result<Presence, StoreError> {
        ask!(self, "presence", statements::files::presence, name, identity)
    }

    async fn keep_file(
        &self,
        release: &MirroredRelease,
        file: MirroredFile,
    ) -> Result<(), StoreError> {
        let release = release.clone();
        self.write("keep_file", move |it| Box::pin(statements::files::keep(it, release, file)))
            .await
    }

    async fn forget_file(&self, release: &MirroredRelease) -> Result<(), StoreError> {
        let release = release.clone();
        self.write("forget_file", move |it| Box::pin(statements::files::forget(it, release))).await
    }

    async fn missing_files(
        &self,
        upstream: &str,
        from: u64,
        releases_max: usize,
    ) -> Result<MissingFiles, StoreError> {
        ask!(self, "missing_files", statements::files::missing, upstream, from, releases_max)
    }

    async fn take_hooks(&self, hooks: Vec<NewHook>, waiting_max: u64) -> Result<Inbox, StoreError> {
        self.write_hooks("take_hooks", move |it| Box::pin(hooks::take(it, hooks, waiting_max)))
            .await
    }

    async fn due_hooks(
        &self,
        upstream: &str,
        now: Timestamp,
        hooks_max: usize,
    ) -> Result<Vec<Hook>, StoreError> {
        ask!(self, "due_hooks", statements::hooks::due, upstream, now, hooks_max)
    }

    async fn next_hook(&self, upstream: &str) -> Result<Option<Timestamp>, StoreError> {
        ask!(self, "next_hook", statements::hooks::next, upstream)
    }

    async fn drop_hooks_of_others(&self, upstreams: Vec<String>) -> Result<u64, StoreError> {
        self.write_hooks("drop_hooks_of_others", move |it| {
            Box::pin(statements::hooks::drop_others(it, upstreams))
        })
        .await
    }

    async fn settle_hooks(
        &self,
        done: Vec<u64>,
        later: Vec<(u64, Timestamp)>,
    ) -> Result<(), StoreError> {
        self.write_hooks("settle_hooks", move |it| Box::pin(hooks::settle(it, done, later))).await
    }

    async fn waiting_hooks(&self) -> Result<u64, StoreError> {
        ask!(self, "waiting_hooks", statements::hooks::waiting)
    }
}
