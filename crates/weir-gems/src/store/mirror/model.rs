//! The words of what a mirror keeps.

use std::sync::Arc;

use weir_base::clock::Timestamp;

use crate::mirror::upstream_name::UpstreamName;
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

/// When looks at an upstream last came to something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastLooks {
    /// When all that it had was here; None: never.
    pub complete: Option<Timestamp>,
    /// When all of its `/versions` was compared; None: never.
    pub compared: Option<Timestamp>,
}

/// Names that were taken away since their upstream does not have them any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// When the first of them was; None: none yet.
    pub since: Option<Timestamp>,
    pub names: u64,
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
    /// There is no such gem here, or what came of it was taken away ([`super::MirrorStore::disown`]).
    Nobody,
    /// It was pushed or imported here.
    Local,
    /// It came from the upstream of this name.
    Upstream(String),
}

/// As stores keep it in the place of an upstream's number, which are counted from 1: the gem came
/// from one and was taken away.
pub(crate) const NOBODY: i64 = 0;

/// A name that is to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its place in the order of what was noted.
    pub sequence: u64,
    pub noted: Noted,
    pub standing: Standing,
}

/// What is known of a name beside what the upstream in question says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub owner: Owner,
    /// Whether there are releases of it that are not yanked.
    pub has_versions: bool,
    /// Whether it could be taken for another name that was pushed or imported here
    /// ([`GemName::folded`]).
    pub resembles_ours: bool,
    /// Other upstreams whose `/versions` has it.
    pub listed_by: Vec<String>,
}

/// What there is of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Presence {
    Absent,
    Served,
    /// If it came from an upstream, it was yanked here: for good.
    Yanked,
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
    /// It came from an upstream that is not in the settings any more.
    Former,
    /// It could be taken for a name that was pushed or imported here.
    Lookalike,
}

/// A gem as an upstream has it, in the order of its `/info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredGem {
    pub noted: Noted,
    /// Those with the time 0 came now.
    pub releases: Vec<Release>,
    /// It is taken also when it is new and could be taken for a name of ours.
    pub is_invited: bool,
    /// Upstreams that come before this one: what one of them lists is not taken.
    pub earlier: Arc<[UpstreamName]>,
}

/// What [`MirrorStore::apply`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub gems: u64,
    /// Gems that turned out to be local, new and to be taken for one that is, or an earlier upstream's,
    /// and were left alone.
    pub refused: u64,
    pub added: u64,
    pub yanked: u64,
    /// Releases that say something else than before.
    pub changed: u64,
    /// Releases whose file the upstream has replaced: kept out.
    pub kept_out: u64,
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
    /// Releases whose file it has replaced, and that wait for an operator.
    pub replaced: u64,
}

/// A release whose file an upstream has replaced under the same version. The new file is kept out
/// until an operator accepts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedRelease {
    pub name: GemName,
    pub identity: Identity,
    /// Of the file as it was first seen.
    pub pinned: Checksum,
    /// Of the file that the upstream has now.
    pub offered: Checksum,
    /// When that was first seen.
    pub since: Timestamp,
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
            kept_out: self.kept_out + other.kept_out,
            clashing: self.clashing + other.clashing,
        }
    }
}

impl Refusal {
    const ALL: [Self; 6] =
        [Self::Policy, Self::Local, Self::Bound, Self::Shadowed, Self::Former, Self::Lookalike];

    /// As stores keep it.
    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Policy => 1,
            Self::Local => 2,
            Self::Bound => 3,
            Self::Shadowed => 4,
            Self::Former => 5,
            Self::Lookalike => 6,
        }
    }

    pub(crate) fn of_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.number() == number)
    }

    /// For lists and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Local => "local",
            Self::Bound => "bound",
            Self::Shadowed => "shadowed",
            Self::Former => "former",
            Self::Lookalike => "lookalike",
        }
    }
}
