//! What a mirror keeps beside the gems, behind a trait of its own: what upstreams' `/versions` say,
//! how far each was read, where a gem came from, and the inbox of webhooks.
//!
//! Promises of every [`MirrorStore`]:
//! - what an upstream says of a name ([`MirrorStore::note`]) is work until it is applied or refused:
//!   a crash at any point leaves the work, never half of its result;
//! - [`MirrorStore::apply`] changes a gem's releases, what follows from them, where it comes from and
//!   that it is applied in one transaction, and never touches a gem that was pushed or imported here;
//! - [`Store::push`] refuses a name that came from an upstream ([`super::Conflict::Mirrored`]): one
//!   name never has releases of two sources;
//! - a hook that was taken is in the inbox until it is done.

mod changes;

use std::future::Future;

use weir_base::clock::Timestamp;

pub(crate) use self::changes::{Changes, StoredRelease};
use super::{Store, StoreError};
use crate::mirror::prefix::{Prefix, PrefixDigest};
use crate::name::GemName;
use crate::release::{Checksum, Identity, Release};

/// How far an upstream's `/versions` was read: to the end of a text that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Bytes of the text.
    pub length: u64,
    /// Where its digests go on ([`crate::index::digest::RunningDigest::save`]).
    pub digest_state: Vec<u8>,
    /// Its last bytes: asked for again, they must be the same.
    pub overlap: Vec<u8>,
    pub etag: Option<String>,
}

/// What the last line of a name says; None: the name is not there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    pub name: GemName,
    /// Of its `/info`.
    pub md5: Option<[u8; 16]>,
}

/// Whose a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// There is no such gem here.
    Nobody,
    /// It was pushed or imported here.
    Local,
    /// It came from the upstream of this name.
    Upstream(String),
}

/// A name that is to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its place in the order of what was noted.
    pub sequence: u64,
    pub noted: Noted,
    pub owner: Owner,
    /// Other upstreams whose `/versions` has it.
    pub listed_by: Vec<String>,
}

/// Why a name is not taken from an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The policy says that it is private.
    Policy,
    /// It was pushed or imported here.
    Local,
    /// The policy says that it comes from another upstream.
    Bound,
    /// An upstream that comes earlier has it.
    Shadowed,
}

/// A gem as an upstream has it, in the order of its `/info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredGem {
    pub noted: Noted,
    /// Those with the time 0 came now.
    pub releases: Vec<Release>,
}

/// What [`MirrorStore::apply`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub gems: u64,
    /// Gems that turned out to be local, and were left alone.
    pub refused: u64,
    pub added: u64,
    pub yanked: u64,
    /// Releases that say something else than before.
    pub changed: u64,
    /// Releases that were left out: their file would have the name of another release's.
    pub clashing: u64,
}

/// How much of an upstream is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorCounts {
    /// Names that its `/versions` has.
    pub names: u64,
    /// Names that are neither applied nor refused.
    pub pending: u64,
    pub refused: u64,
}

/// A release that came from an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredRelease {
    pub name: GemName,
    pub identity: Identity,
    pub checksum: Checksum,
    pub upstream: String,
    /// Length of its file; None: the file is not here.
    pub bytes: Option<u64>,
}

/// The file of a mirrored release, which is in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredFile {
    pub bytes: u64,
    /// `quick/Marshal.4.8/..` and words for readers; None: its specification can't be read.
    pub specification: Option<(Vec<u8>, String)>,
}

/// Releases whose files are not here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingFiles {
    pub releases: Vec<MirroredRelease>,
    /// Where the next page begins; None: there is none.
    pub next: Option<u64>,
}

/// Mirrored names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// With the upstreams that they came from.
    pub names: Vec<(GemName, String)>,
    /// Where the next page begins; None: there is none.
    pub next: Option<u64>,
}

/// What a hook says has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum HookKind {
    Added,
    Removed,
}

/// A hook that came from an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHook {
    pub upstream: String,
    pub kind: HookKind,
    pub name: GemName,
    pub identity: Identity,
    pub received_at: Timestamp,
}

/// A hook in the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub id: u64,
    pub hook: NewHook,
    /// How often it was tried.
    pub attempts: u32,
}

/// Whether hooks were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inbox {
    /// All are on disk.
    Taken,
    /// None is: too many wait.
    Full,
}

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

    /// Why a name is not taken; None: it is, or nothing was decided yet.
    fn refusal(
        &self,
        upstream: &str,
        name: &GemName,
    ) -> impl Future<Output = Result<Option<Refusal>, StoreError>> + Send;

    /// Makes work of all that was refused, of all upstreams: what decides may have changed.
    fn reconsider(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Names that are not taken, and why.
    fn refused(
        &self,
        upstream: &str,
        names_max: usize,
    ) -> impl Future<Output = Result<Vec<(String, Refusal)>, StoreError>> + Send;

    /// Makes the gems' releases what the upstream says, and each of them applied.
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

    /// Takes away what came from upstreams under these names. They are local from then on.
    fn disown(
        &self,
        names: Vec<GemName>,
        now: Timestamp,
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

    /// Whether the release is here and not yanked.
    fn has_release(
        &self,
        name: &GemName,
        identity: &Identity,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Notes that the file of a release is in its place.
    fn keep_file(
        &self,
        release: &MirroredRelease,
        file: MirroredFile,
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

    /// Hooks that are due, in the order in which they came.
    fn due_hooks(
        &self,
        now: Timestamp,
        hooks_max: usize,
    ) -> impl Future<Output = Result<Vec<Hook>, StoreError>> + Send;

    /// When the next hook is due; None: there is none.
    fn next_hook(&self) -> impl Future<Output = Result<Option<Timestamp>, StoreError>> + Send;

    /// Takes hooks out of the inbox, and puts others off.
    fn settle_hooks(
        &self,
        done: Vec<u64>,
        later: Vec<(u64, Timestamp)>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// How many hooks wait.
    fn waiting_hooks(&self) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

impl Applied {
    pub(crate) fn add(&mut self, other: &Self) {
        *self = self.and(other);
    }

    pub(crate) const fn and(&self, other: &Self) -> Self {
        Self {
            gems: self.gems + other.gems,
            refused: self.refused + other.refused,
            added: self.added + other.added,
            yanked: self.yanked + other.yanked,
            changed: self.changed + other.changed,
            clashing: self.clashing + other.clashing,
        }
    }
}

impl Refusal {
    /// For lists and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Local => "local",
            Self::Bound => "bound",
            Self::Shadowed => "shadowed",
        }
    }
}
