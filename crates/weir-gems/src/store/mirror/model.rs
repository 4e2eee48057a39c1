//! Types of the data that a mirror stores.

use std::sync::Arc;

use weir_base::clock::Timestamp;

use crate::mirror::upstream_name::UpstreamName;
use crate::name::GemName;
use crate::release::{Checksum, Identity, Release};

/// Position up to which an upstream's `/versions` was read: the end of a checked text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Length of the text in bytes.
    pub length: u64,
    /// State to continue its digests from ([`crate::index::digest::RunningDigest::save`]).
    pub digest_state: Vec<u8>,
    /// Its last bytes. They are requested again and must be unchanged.
    pub overlap: Vec<u8>,
    pub etag: Option<String>,
}

/// Times of the last successful synchronizations of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastLooks {
    /// When everything it had was here; None if that never was.
    pub complete: Option<Timestamp>,
    /// When all of its `/versions` was compared; None if that never was.
    pub compared: Option<Timestamp>,
}

/// Count of names that were removed because their upstream no longer lists them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// When the first of them was removed; None if there is none.
    pub since: Option<Timestamp>,
    pub names: u64,
}

/// The content of a name's last line, or a name that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    pub name: GemName,
    /// MD5 of its `/info`; None if the name is gone.
    pub md5: Option<[u8; 16]>,
}

/// The owner of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// There is no such gem, or its mirrored releases were removed
    /// ([`super::MirrorStore::delete_mirrored`]).
    Nobody,
    /// The name was pushed or imported here.
    Local,
    /// The name came from the upstream of this name.
    Upstream(String),
}

/// Stored instead of the id of an upstream (which start at 1) if the gem came from an upstream and
/// was removed.
pub(crate) const NOBODY: i64 = 0;

/// A pending name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its position in the order of recorded lines.
    pub sequence: u64,
    pub noted: Noted,
    pub standing: Standing,
}

/// What is known about a name, apart from the data of the upstream in question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub owner: Owner,
    /// Whether it has releases that are not yanked.
    pub has_versions: bool,
    /// Whether it could be confused with another name that was pushed or imported here
    /// ([`GemName::folded`]).
    pub resembles_ours: bool,
    /// Other upstreams whose `/versions` lists it.
    pub listed_by: Vec<String>,
}

/// Presence of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Presence {
    Absent,
    Served,
    /// The release is yanked. If it came from an upstream, it was yanked here, permanently.
    Yanked,
}

/// Reasons why a name is not taken from an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The policy makes the name private.
    Policy,
    /// The name was pushed or imported here.
    Local,
    /// The policy assigns the name to another upstream.
    Bound,
    /// An earlier upstream lists the name.
    Shadowed,
    /// The name came from an upstream that is no longer in the settings.
    Former,
    /// The name could be confused with one that was pushed or imported here.
    Lookalike,
}

/// A gem as an upstream lists it, in the order of its `/info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredGem {
    pub noted: Noted,
    /// Releases; those with the time 0 get the current time.
    pub releases: Vec<Release>,
    /// Whether the gem may be added although it could be confused with a local name.
    pub is_invited: bool,
    /// Earlier upstreams. The gem is not taken if one of them lists it.
    pub earlier: Arc<[UpstreamName]>,
}

/// Outcome of [`MirrorStore::apply`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub gems: u64,
    /// Number of gems that were left unchanged because they turned out to be local, new and
    /// confusable with a local one, or listed by an earlier upstream.
    pub refused: u64,
    pub added: u64,
    pub yanked: u64,
    /// Number of releases whose data has changed.
    pub changed: u64,
    /// Number of releases that were rejected because the upstream has replaced their file.
    pub kept_out: u64,
    /// Number of releases that were skipped because their file would have the name of another
    /// release's file.
    pub clashing: u64,
}

/// Counts of an upstream's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorCounts {
    /// Number of names in its `/versions`.
    pub names: u64,
    /// Number of names that are neither applied nor rejected.
    pub pending: u64,
    pub refused: u64,
    /// Number of releases with a replaced file that wait for an operator.
    pub replaced: u64,
}

/// A release whose file an upstream has replaced without a new version. The new file is rejected
/// until an operator accepts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedRelease {
    pub name: GemName,
    pub identity: Identity,
    /// Checksum of the first file.
    pub pinned: Checksum,
    /// Checksum of the file that the upstream has now.
    pub offered: Checksum,
    /// When the new file was first seen.
    pub since: Timestamp,
}

/// A release that came from an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredRelease {
    pub name: GemName,
    pub identity: Identity,
    pub checksum: Checksum,
    pub upstream: String,
    /// Size of its file in bytes; None if the file is missing.
    pub bytes: Option<u64>,
}

/// The stored file of a mirrored release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredFile {
    pub bytes: u64,
    /// The deflated specification (`quick/Marshal.4.8/..`) and the descriptive JSON; None if the
    /// specification can't be parsed.
    pub specification: Option<(Vec<u8>, String)>,
}

/// Releases whose files are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingFiles {
    pub releases: Vec<MirroredRelease>,
    /// Start of the next page; None on the last one.
    pub next: Option<u64>,
}

/// Mirrored names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// Names with the upstreams that they came from.
    pub names: Vec<(GemName, String)>,
    /// Start of the next page; None on the last one.
    pub next: Option<u64>,
}

/// Kind of event that a webhook reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum HookKind {
    Added,
    Removed,
}

/// A webhook received from an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHook {
    pub upstream: String,
    pub kind: HookKind,
    pub name: GemName,
    pub identity: Identity,
    pub received_at: Timestamp,
}

/// A webhook in the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub id: u64,
    pub hook: NewHook,
    /// Number of attempts so far.
    pub attempts: u32,
}

/// Whether webhooks were added to the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inbox {
    /// All were saved to disk.
    Taken,
    /// None were added, because too many are waiting.
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

    /// Returns the stored number.
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

    /// Returns the name for lists and metrics.
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
