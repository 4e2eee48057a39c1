//! Data that a mirror stores beside the gems, behind a separate trait: the content of upstreams'
//! `/versions` and the position up to which each was read, the origin of gems, and the inbox of
//! webhooks.
//!
//! Guarantees of every [`MirrorStore`]:
//! - a recorded name ([`MirrorStore::note`]) stays pending until it is applied or rejected: after a
//!   crash at any point it is still pending, and never half applied;
//! - [`MirrorStore::apply`] changes a gem's releases, their derived data, the gem's origin and its
//!   applied state in one transaction, and never changes a gem that was pushed or imported here;
//! - it neither adds a gem, nor gives releases to a gem without any, if the name could be confused
//!   with one that was pushed or imported here ([`crate::name::GemName::folded`]), unless the
//!   policy invites it;
//! - it does not add a gem that an earlier upstream lists ([`MirroredGem::earlier`]), whichever
//!   responded first;
//! - a release keeps its first file: another file for the same version and platform is listed
//!   ([`MirrorStore::replaced`]) and rejected until [`MirrorStore::accept`];
//! - a name is in the applied state only if the gem comes from this upstream and matches its index;
//! - [`Store::push`] rejects a name that came from an upstream ([`super::Conflict::Mirrored`]): a
//!   name never has releases from two sources;
//! - a release of a mirrored gem that was yanked here ([`Store::yank`]) is never added from an
//!   upstream again;
//! - a webhook that was received stays in the inbox until it is processed.

mod changes;
mod model;

use async_trait::async_trait;
use weir_base::clock::Timestamp;

pub(crate) use self::changes::{Changes, Pins, Replaced, StoredRelease};
pub(crate) use self::model::NOBODY;
pub use self::model::{
    Applied, Gone, Hook, HookKind, Inbox, LastLooks, MirrorCounts, MirroredFile, MirroredGem,
    MirroredRelease, MissingFiles, NewHook, Noted, Origins, Owner, Pending, Position, Presence,
    Refusal, ReplacedRelease, Standing,
};
use super::{Store, StoreError};
use crate::mirror::prefix::{Prefix, PrefixDigest};
use crate::name::GemName;
use crate::release::Identity;

/// Storage of a mirror. See the module for its guarantees.
#[async_trait]
pub trait MirrorStore: Store {
    /// Returns the position up to which `/versions` was read, or None if it was never read to its
    /// end.
    async fn position(&self, upstream: &str) -> Result<Option<Position>, StoreError>;

    /// Records lines of `/versions` in order, and the position, if given.
    async fn note(
        &self,
        upstream: &str,
        noted: Vec<Noted>,
        position: Option<Position>,
    ) -> Result<(), StoreError>;

    /// Returns the digests of all recorded names of an upstream, per prefix.
    async fn noted_digests(
        &self,
        upstream: &str,
    ) -> Result<Vec<(Prefix, PrefixDigest)>, StoreError>;

    /// Returns the recorded names with a prefix that the upstream still lists.
    async fn noted(&self, upstream: &str, prefix: Prefix) -> Result<Vec<Noted>, StoreError>;

    /// Returns pending names in the order of their lines, starting after the position `after`.
    async fn pending(
        &self,
        upstream: &str,
        after: u64,
        names_max: usize,
    ) -> Result<Vec<Pending>, StoreError>;

    /// Marks names as rejected. They are not pending until [`MirrorStore::reconsider`].
    async fn refuse(
        &self,
        upstream: &str,
        names: Vec<(GemName, Refusal)>,
    ) -> Result<(), StoreError>;

    /// Returns what is known about a name, whether or not it is recorded.
    async fn standing(&self, upstream: &str, name: &GemName) -> Result<Standing, StoreError>;

    /// Makes all rejected names of all upstreams pending, because decisions may have changed.
    async fn reconsider(&self) -> Result<(), StoreError>;

    /// Returns rejected names with the reasons.
    async fn refused(
        &self,
        upstream: &str,
        names_max: usize,
    ) -> Result<Vec<(String, Refusal)>, StoreError>;

    /// Returns the releases of an upstream whose file it has replaced, in the order of names.
    async fn replaced(
        &self,
        upstream: &str,
        releases_max: usize,
    ) -> Result<Vec<ReplacedRelease>, StoreError>;

    /// Accepts the file that an upstream now has for such a release, and no other. The next
    /// synchronization takes it. Returns None if there is no such release.
    async fn accept(
        &self,
        name: &GemName,
        identity: &Identity,
    ) -> Result<Option<ReplacedRelease>, StoreError>;

    /// Makes the releases of gems equal to the upstream's, and marks the gems as applied. Each name
    /// must occur only once.
    async fn apply(
        &self,
        upstream: &str,
        gems: Vec<MirroredGem>,
        now: Timestamp,
    ) -> Result<Applied, StoreError>;

    /// Returns mirrored names with their upstreams, page by page. The first page starts at `from`
    /// 0.
    async fn origins(&self, from: u64, names_max: usize) -> Result<Origins, StoreError>;

    /// Removes mirrored releases of these names. The names then have no owner: they can be pushed,
    /// and are pending for each upstream that lists them. Yanked releases stay yanked.
    async fn delete_mirrored(&self, names: Vec<GemName>) -> Result<(), StoreError>;

    /// Returns the times of the last successful synchronizations of an upstream.
    async fn last_looks(&self, upstream: &str) -> Result<LastLooks, StoreError>;

    /// Saves those times for the next process.
    async fn keep_looks(&self, upstream: &str, looks: LastLooks) -> Result<(), StoreError>;

    /// Returns the saved count of removed names of an upstream.
    async fn gone(&self, upstream: &str) -> Result<Gone, StoreError>;

    /// Saves that count.
    async fn keep_gone(&self, upstream: &str, gone: Gone) -> Result<(), StoreError>;

    /// Returns counts of an upstream's names.
    async fn counts(&self, upstream: &str) -> Result<MirrorCounts, StoreError>;

    /// Returns the release of this full name if it came from an upstream and is not yanked.
    async fn mirrored(&self, full_name: &str) -> Result<Option<MirroredRelease>, StoreError>;

    /// Returns whether a release and its file exist.
    async fn presence(&self, name: &GemName, identity: &Identity) -> Result<Presence, StoreError>;

    /// Records that the file of a release is stored.
    async fn keep_file(
        &self,
        release: &MirroredRelease,
        file: MirroredFile,
    ) -> Result<(), StoreError>;

    /// Records that the file of a release is missing.
    async fn forget_file(&self, release: &MirroredRelease) -> Result<(), StoreError>;

    /// Returns releases of an upstream whose files are missing, page by page with whole gems. The
    /// first page starts at `from` 0.
    async fn missing_files(
        &self,
        upstream: &str,
        from: u64,
        releases_max: usize,
    ) -> Result<MissingFiles, StoreError>;

    /// Adds webhooks to the inbox. They are on disk when this returns.
    async fn take_hooks(&self, hooks: Vec<NewHook>, waiting_max: u64) -> Result<Inbox, StoreError>;

    /// Returns the webhooks of an upstream that are due, in order of arrival.
    async fn due_hooks(
        &self,
        upstream: &str,
        now: Timestamp,
        hooks_max: usize,
    ) -> Result<Vec<Hook>, StoreError>;

    /// Returns when an upstream's next webhook is due, or None if there is none.
    async fn next_hook(&self, upstream: &str) -> Result<Option<Timestamp>, StoreError>;

    /// Removes the webhooks of all other upstreams from the inbox and returns their number.
    async fn drop_hooks_of_others(&self, upstreams: Vec<String>) -> Result<u64, StoreError>;

    /// Removes some webhooks from the inbox, and postpones others.
    async fn settle_hooks(
        &self,
        done: Vec<u64>,
        later: Vec<(u64, Timestamp)>,
    ) -> Result<(), StoreError>;

    /// Returns the number of webhooks in the inbox.
    async fn waiting_hooks(&self) -> Result<u64, StoreError>;
}
