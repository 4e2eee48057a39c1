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

use std::future::Future;

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
pub trait MirrorStore: Store {
    /// How far `/versions` was read; None: never to its end.
    fn position(
        &self,
        upstream: &str,
    ) -> impl Future<Output = Result<Option<Position>, StoreError>> + Send;

    /// Notes what lines say, in their order, and how far the text was read, if that is given.
    fn note(
        &self,
        upstream: &str,
        noted: Vec<Noted>,
        position: Option<Position>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The digests of all that is noted of an upstream, for each beginning of names.
    fn noted_digests(
        &self,
        upstream: &str,
    ) -> impl Future<Output = Result<Vec<(Prefix, PrefixDigest)>, StoreError>> + Send;

    /// The names that are noted as there, of one beginning.
    fn noted(
        &self,
        upstream: &str,
        prefix: Prefix,
    ) -> impl Future<Output = Result<Vec<Noted>, StoreError>> + Send;

    /// Names to be applied, in the order of their lines, behind the place `after`.
    fn pending(
        &self,
        upstream: &str,
        after: u64,
        names_max: usize,
    ) -> impl Future<Output = Result<Vec<Pending>, StoreError>> + Send;

    /// Names that are not taken: no work until [`MirrorStore::reconsider`].
    fn refuse(
        &self,
        upstream: &str,
        names: Vec<(GemName, Refusal)>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// What is known of a name, noted or not.
    fn standing(
        &self,
        upstream: &str,
        name: &GemName,
    ) -> impl Future<Output = Result<Standing, StoreError>> + Send;

    /// Makes work of all that was refused, of all upstreams: what decides may have changed.
    fn reconsider(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Names that are not taken, and why.
    fn refused(
        &self,
        upstream: &str,
        names_max: usize,
    ) -> impl Future<Output = Result<Vec<(String, Refusal)>, StoreError>> + Send;

    /// Releases of an upstream whose file it has replaced, in the order of names.
    fn replaced(
        &self,
        upstream: &str,
        releases_max: usize,
    ) -> impl Future<Output = Result<Vec<ReplacedRelease>, StoreError>> + Send;

    /// The file that an upstream has now of such a release is taken with the next look, and no other.
    /// None: there is no such release.
    fn accept(
        &self,
        name: &GemName,
        identity: &Identity,
    ) -> impl Future<Output = Result<Option<ReplacedRelease>, StoreError>> + Send;

    /// Makes the gems' releases what the upstream says, and each of them applied. Each name comes
    /// once.
    fn apply(
        &self,
        upstream: &str,
        gems: Vec<MirroredGem>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Applied, StoreError>> + Send;

    /// Mirrored names, with their upstreams, page by page; begins with `from` 0.
    fn origins(
        &self,
        from: u64,
        names_max: usize,
    ) -> impl Future<Output = Result<Origins, StoreError>> + Send;

    /// Takes away what came from upstreams under these names. They are nobody's from then on: they
    /// can be pushed, and are work again for each upstream that lists them. What was yanked here
    /// stays so.
    fn disown(&self, names: Vec<GemName>) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The rules that were in force last, as text; None: there were none.
    fn policy(&self) -> impl Future<Output = Result<Option<String>, StoreError>> + Send;

    /// Notes the same.
    fn keep_policy(
        &self,
        rules: Option<String>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Some of the names that were pushed or imported here.
    fn local_names(
        &self,
        names_max: usize,
    ) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send;

    /// When looks at an upstream last came to something.
    fn last_looks(
        &self,
        upstream: &str,
    ) -> impl Future<Output = Result<LastLooks, StoreError>> + Send;

    /// Notes the same, for the next process.
    fn keep_looks(
        &self,
        upstream: &str,
        looks: LastLooks,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Names of an upstream that were taken away, as they were counted last.
    fn gone(&self, upstream: &str) -> impl Future<Output = Result<Gone, StoreError>> + Send;

    /// Notes the same.
    fn keep_gone(
        &self,
        upstream: &str,
        gone: Gone,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// How much of an upstream is known.
    fn counts(
        &self,
        upstream: &str,
    ) -> impl Future<Output = Result<MirrorCounts, StoreError>> + Send;

    /// The release of this full name that is not yanked, if it came from an upstream.
    fn mirrored(
        &self,
        full_name: &str,
    ) -> impl Future<Output = Result<Option<MirroredRelease>, StoreError>> + Send;

    /// What there is of a release.
    fn presence(
        &self,
        name: &GemName,
        identity: &Identity,
    ) -> impl Future<Output = Result<Presence, StoreError>> + Send;

    /// Notes that the file of a release is in its place.
    fn keep_file(
        &self,
        release: &MirroredRelease,
        file: MirroredFile,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Notes that the file of a release is not in its place any more.
    fn forget_file(
        &self,
        release: &MirroredRelease,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Releases of an upstream whose files are not here, page by page; begins with `from` 0. A page
    /// holds whole gems.
    fn missing_files(
        &self,
        upstream: &str,
        from: u64,
        releases_max: usize,
    ) -> impl Future<Output = Result<MissingFiles, StoreError>> + Send;

    /// Puts hooks into the inbox; they are on disk when this returns.
    fn take_hooks(
        &self,
        hooks: Vec<NewHook>,
        waiting_max: u64,
    ) -> impl Future<Output = Result<Inbox, StoreError>> + Send;

    /// Hooks of an upstream that are due, in the order in which they came.
    fn due_hooks(
        &self,
        upstream: &str,
        now: Timestamp,
        hooks_max: usize,
    ) -> impl Future<Output = Result<Vec<Hook>, StoreError>> + Send;

    /// When an upstream's next hook is due; None: there is none.
    fn next_hook(
        &self,
        upstream: &str,
    ) -> impl Future<Output = Result<Option<Timestamp>, StoreError>> + Send;

    /// Takes the hooks of all other upstreams out of the inbox, and answers how many there were.
    fn drop_hooks_of_others(
        &self,
        upstreams: Vec<String>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Takes hooks out of the inbox, and puts others off.
    fn settle_hooks(
        &self,
        done: Vec<u64>,
        later: Vec<(u64, Timestamp)>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// How many hooks wait.
    fn waiting_hooks(&self) -> impl Future<Output = Result<u64, StoreError>> + Send;
}
