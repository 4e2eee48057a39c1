//! The side of mirrors of the store that was chosen.

use weir_base::clock::Timestamp;

use super::{GemStore, ask};
use crate::mirror::prefix::{Prefix, PrefixDigest};
use crate::name::GemName;
use crate::release::Identity;
use crate::store::StoreError;
use crate::store::mirror::{
    Applied, Gone, Hook, Inbox, LastLooks, MirrorCounts, MirrorStore, MirroredFile, MirroredGem,
    MirroredRelease, MissingFiles, NewHook, Noted, Origins, Pending, Position, Presence, Refusal,
    ReplacedRelease, Standing,
};

impl MirrorStore for GemStore {
    async fn position(&self, upstream: &str) -> Result<Option<Position>, StoreError> {
        ask!(self, position, upstream)
    }

    async fn note(
        &self,
        upstream: &str,
        noted: Vec<Noted>,
        position: Option<Position>,
    ) -> Result<(), StoreError> {
        ask!(self, note, upstream, noted, position)
    }

    async fn noted_digests(
        &self,
        upstream: &str,
    ) -> Result<Vec<(Prefix, PrefixDigest)>, StoreError> {
        ask!(self, noted_digests, upstream)
    }

    async fn noted(&self, upstream: &str, prefix: Prefix) -> Result<Vec<Noted>, StoreError> {
        ask!(self, noted, upstream, prefix)
    }

    async fn pending(
        &self,
        upstream: &str,
        after: u64,
        names_max: usize,
    ) -> Result<Vec<Pending>, StoreError> {
        ask!(self, pending, upstream, after, names_max)
    }

    async fn refuse(
        &self,
        upstream: &str,
        names: Vec<(GemName, Refusal)>,
    ) -> Result<(), StoreError> {
        ask!(self, refuse, upstream, names)
    }

    async fn standing(&self, upstream: &str, name: &GemName) -> Result<Standing, StoreError> {
        ask!(self, standing, upstream, name)
    }

    async fn reconsider(&self) -> Result<(), StoreError> {
        ask!(self, reconsider)
    }

    async fn refused(
        &self,
        upstream: &str,
        names_max: usize,
    ) -> Result<Vec<(String, Refusal)>, StoreError> {
        ask!(self, refused, upstream, names_max)
    }

    async fn replaced(
        &self,
        upstream: &str,
        releases_max: usize,
    ) -> Result<Vec<ReplacedRelease>, StoreError> {
        ask!(self, replaced, upstream, releases_max)
    }

    async fn accept(
        &self,
        name: &GemName,
        identity: &Identity,
    ) -> Result<Option<ReplacedRelease>, StoreError> {
        ask!(self, accept, name, identity)
    }

    async fn apply(
        &self,
        upstream: &str,
        gems: Vec<MirroredGem>,
        now: Timestamp,
    ) -> Result<Applied, StoreError> {
        ask!(self, apply, upstream, gems, now)
    }

    async fn origins(&self, from: u64, names_max: usize) -> Result<Origins, StoreError> {
        ask!(self, origins, from, names_max)
    }

    async fn disown(&self, names: Vec<GemName>) -> Result<(), StoreError> {
        ask!(self, disown, names)
    }

    async fn policy(&self) -> Result<Option<String>, StoreError> {
        ask!(self, policy)
    }

    async fn keep_policy(&self, rules: Option<String>) -> Result<(), StoreError> {
        ask!(self, keep_policy, rules)
    }

    async fn local_names(&self, names_max: usize) -> Result<Vec<String>, StoreError> {
        ask!(self, local_names, names_max)
    }

    async fn last_looks(&self, upstream: &str) -> Result<LastLooks, StoreError> {
        ask!(self, last_looks, upstream)
    }

    async fn keep_looks(&self, upstream: &str, looks: LastLooks) -> Result<(), StoreError> {
        ask!(self, keep_looks, upstream, looks)
    }

    async fn gone(&self, upstream: &str) -> Result<Gone, StoreError> {
        ask!(self, gone, upstream)
    }

    async fn keep_gone(&self, upstream: &str, gone: Gone) -> Result<(), StoreError> {
        ask!(self, keep_gone, upstream, gone)
    }

    async fn counts(&self, upstream: &str) -> Result<MirrorCounts, StoreError> {
        ask!(self, counts, upstream)
    }

    async fn mirrored(&self, full_name: &str) -> Result<Option<MirroredRelease>, StoreError> {
        ask!(self, mirrored, full_name)
    }

    async fn presence(&self, name: &GemName, identity: &Identity) -> Result<Presence, StoreError> {
        ask!(self, presence, name, identity)
    }

    async fn keep_file(
        &self,
        release: &MirroredRelease,
        file: MirroredFile,
    ) -> Result<(), StoreError> {
        ask!(self, keep_file, release, file)
    }

    async fn forget_file(&self, release: &MirroredRelease) -> Result<(), StoreError> {
        ask!(self, forget_file, release)
    }

    async fn missing_files(
        &self,
        upstream: &str,
        from: u64,
        releases_max: usize,
    ) -> Result<MissingFiles, StoreError> {
        ask!(self, missing_files, upstream, from, releases_max)
    }

    async fn take_hooks(&self, hooks: Vec<NewHook>, waiting_max: u64) -> Result<Inbox, StoreError> {
        ask!(self, take_hooks, hooks, waiting_max)
    }

    async fn due_hooks(
        &self,
        upstream: &str,
        now: Timestamp,
        hooks_max: usize,
    ) -> Result<Vec<Hook>, StoreError> {
        ask!(self, due_hooks, upstream, now, hooks_max)
    }

    async fn next_hook(&self, upstream: &str) -> Result<Option<Timestamp>, StoreError> {
        ask!(self, next_hook, upstream)
    }

    async fn drop_hooks_of_others(&self, upstreams: Vec<String>) -> Result<u64, StoreError> {
        ask!(self, drop_hooks_of_others, upstreams)
    }

    async fn settle_hooks(
        &self,
        done: Vec<u64>,
        later: Vec<(u64, Timestamp)>,
    ) -> Result<(), StoreError> {
        ask!(self, settle_hooks, done, later)
    }

    async fn waiting_hooks(&self) -> Result<u64, StoreError> {
        ask!(self, waiting_hooks)
    }
}
