//! What a mirror keeps beside the gems, behind a trait of its own: what upstreams' `/versions` say,
//! how far each was read, where a gem came from, and the inbox of webhooks.
//!
//! Promises of every [`MirrorStore`]:
//! - what an upstream says of a name ([`MirrorStore::note`]) is work until it is applied or refused:
//!   a crash at any point leaves the work, never half of its result;
//! - [`MirrorStore::apply`] changes a gem's releases, what follows from them, where it comes from and
//!   that it is applied in one transaction, and never touches a gem that was pushed or imported here;
//! - nor does it add a gem, or give one without releases any, that could be taken for one that was
//!   pushed or imported here ([`crate::name::GemName::folded`]), unless it is invited;
//! - nor one that an upstream lists which comes before ([`MirroredGem::earlier`]), whoever was asked
//!   first;
//! - a release keeps the file that it was first seen with: another one under the same version and
//!   platform is listed ([`MirrorStore::replaced`]) and not taken until [`MirrorStore::accept`];
//! - that something is applied says that the gem comes from this upstream and is what it says;
//! - [`Store::push`] refuses a name that came from an upstream ([`super::Conflict::Mirrored`]): one
//!   name never has releases of two sources;
//! - what was yanked here ([`Store::yank`]) of a mirrored gem never comes again from an upstream;
//! - a hook that was taken is in the inbox until it is done.

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

/// What a mirror keeps. See the module for the promises.
#[async_trait]
pub trait MirrorStore: Store {
    /// How far `/versions` was read; None: never to its end.
    async fn position(&self, upstream: &str) -> Result<Option<Position>, StoreError>;

    /// Notes what lines say, in their order, and how far the text was read, if that is given.
    async fn note(
        &self,
        upstream: &str,
        noted: Vec<Noted>,
        position: Option<Position>,
    ) -> Result<(), StoreError>;

    /// The digests of all that is noted of an upstream, for each beginning of names.
    async fn noted_digests(
        &self,
        upstream: &str,
    ) -> Result<Vec<(Prefix, PrefixDigest)>, StoreError>;

    /// The names that are noted as there, of one beginning.
    async fn noted(&self, upstream: &str, prefix: Prefix) -> Result<Vec<Noted>, StoreError>;

    /// Names to be applied, in the order of their lines, behind the place `after`.
    async fn pending(
        &self,
        upstream: &str,
        after: u64,
        names_max: usize,
    ) -> Result<Vec<Pending>, StoreError>;

    /// Names that are not taken: no work until [`MirrorStore::reconsider`].
    async fn refuse(
        &self,
        upstream: &str,
        names: Vec<(GemName, Refusal)>,
    ) -> Result<(), StoreError>;

    /// What is known of a name, noted or not.
    async fn standing(&self, upstream: &str, name: &GemName) -> Result<Standing, StoreError>;

    /// Makes work of all that was refused, of all upstreams: what decides may have changed.
    async fn reconsider(&self) -> Result<(), StoreError>;

    /// Names that are not taken, and why.
    async fn refused(
        &self,
        upstream: &str,
        names_max: usize,
    ) -> Result<Vec<(String, Refusal)>, StoreError>;

    /// Releases of an upstream whose file it has replaced, in the order of names.
    async fn replaced(
        &self,
        upstream: &str,
        releases_max: usize,
    ) -> Result<Vec<ReplacedRelease>, StoreError>;

    /// The file that an upstream has now of such a release is taken with the next look, and no other.
    /// None: there is no such release.
    async fn accept(
        &self,
        name: &GemName,
        identity: &Identity,
    ) -> Result<Option<ReplacedRelease>, StoreError>;

    /// Makes the gems' releases what the upstream says, and each of them applied. Each name comes
    /// once.
    async fn apply(
        &self,
        upstream: &str,
        gems: Vec<MirroredGem>,
        now: Timestamp,
    ) -> Result<Applied, StoreError>;

    /// Mirrored names, with their upstreams, page by page; begins with `from` 0.
    async fn origins(&self, from: u64, names_max: usize) -> Result<Origins, StoreError>;

    /// Takes away what came from upstreams under these names. They are nobody's from then on: they
    /// can be pushed, and are work again for each upstream that lists them. What was yanked here
    /// stays so.
    async fn disown(&self, names: Vec<GemName>) -> Result<(), StoreError>;

    /// The rules that were in force last, as text; None: there were none.
    async fn policy(&self) -> Result<Option<String>, StoreError>;

    /// Notes the same.
    async fn keep_policy(&self, rules: Option<String>) -> Result<(), StoreError>;

    /// Some of the names that were pushed or imported here.
    async fn local_names(&self, names_max: usize) -> Result<Vec<String>, StoreError>;

    /// When looks at an upstream last came to something.
    async fn last_looks(&self, upstream: &str) -> Result<LastLooks, StoreError>;

    /// Notes the same, for the next process.
    async fn keep_looks(&self, upstream: &str, looks: LastLooks) -> Result<(), StoreError>;

    /// Names of an upstream that were taken away, as they were counted last.
    async fn gone(&self, upstream: &str) -> Result<Gone, StoreError>;

    /// Notes the same.
    async fn keep_gone(&self, upstream: &str, gone: Gone) -> Result<(), StoreError>;

    /// How much of an upstream is known.
    async fn counts(&self, upstream: &str) -> Result<MirrorCounts, StoreError>;

    /// The release of this full name that is not yanked, if it came from an upstream.
    async fn mirrored(&self, full_name: &str) -> Result<Option<MirroredRelease>, StoreError>;

    /// What there is of a release.
    async fn presence(&self, name: &GemName, identity: &Identity) -> Result<Presence, StoreError>;

    /// Notes that the file of a release is in its place.
    async fn keep_file(
        &self,
        release: &MirroredRelease,
        file: MirroredFile,
    ) -> Result<(), StoreError>;

    /// Notes that the file of a release is not in its place any more.
    async fn forget_file(&self, release: &MirroredRelease) -> Result<(), StoreError>;

    /// Releases of an upstream whose files are not here, page by page; begins with `from` 0. A page
    /// holds whole gems.
    async fn missing_files(
        &self,
        upstream: &str,
        from: u64,
        releases_max: usize,
    ) -> Result<MissingFiles, StoreError>;

    /// Puts hooks into the inbox; they are on disk when this returns.
    async fn take_hooks(&self, hooks: Vec<NewHook>, waiting_max: u64) -> Result<Inbox, StoreError>;

    /// Hooks of an upstream that are due, in the order in which they came.
    async fn due_hooks(
        &self,
        upstream: &str,
        now: Timestamp,
        hooks_max: usize,
    ) -> Result<Vec<Hook>, StoreError>;

    /// When an upstream's next hook is due; None: there is none.
    async fn next_hook(&self, upstream: &str) -> Result<Option<Timestamp>, StoreError>;

    /// Takes the hooks of all other upstreams out of the inbox, and answers how many there were.
    async fn drop_hooks_of_others(&self, upstreams: Vec<String>) -> Result<u64, StoreError>;

    /// Takes hooks out of the inbox, and puts others off.
    async fn settle_hooks(
        &self,
        done: Vec<u64>,
        later: Vec<(u64, Timestamp)>,
    ) -> Result<(), StoreError>;

    /// How many hooks wait.
    async fn waiting_hooks(&self) -> Result<u64, StoreError>;
}
