//! Persistent storage behind one trait: the built-in SQLite, or an existing PostgreSQL.
//!
//! Guarantees of every [`Store`]:
//! - a change survives a crash as a whole once it has returned;
//! - a gem's `/info`, its digest in `/versions`, the lines of `/versions` and `/names`, and its
//!   dependency API fragment change in one transaction, so no reader sees one without the others;
//! - a [`Text`] and an [`Info`] are each one snapshot: the digests match the bytes;
//! - digests are computed on write, and continue from their saved state.

mod column;
pub(crate) mod cuts;
mod database;
mod derived;
mod error;
mod gem_store;
mod keys;
pub mod mirror;
mod pieces;
mod postgres;
mod queries;
mod sqlite;
mod statements;
mod verification;
pub mod webhooks;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use weir_base::clock::{Clock, Timestamp};

pub use self::error::{Conflict, PushError, StoreError, YankError};
pub use self::gem_store::{FullStore, GemStore};
pub use self::keys::{Key, KeySettings, NewKey, Scope, UnknownScope};
pub use self::postgres::{
    PostgresLimits, PostgresMetrics, PostgresSettings, PostgresStore, PostgresUrl,
    PostgresUrlError, SchemaName, SchemaNameError,
};
pub use self::sqlite::{SqliteSettings, SqliteStore, back_up};
use crate::index::digest::Digests;
use crate::index::text::Text;
use crate::name::GemName;
use crate::release::{Checksum, Identity, Release};

/// A text of the index that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the text of this path")]
pub enum TextKind {
    Versions,
    Names,
}

/// The text of `/info/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    pub content: Bytes,
    pub digests: Digests,
}

/// A release to push.
#[derive(Clone, Debug)]
pub struct NewRelease {
    pub name: GemName,
    pub release: Release,
    /// Size of its file in bytes.
    pub bytes: u64,
    /// The deflated specification, served as `quick/Marshal.4.8/..`.
    pub gemspec_rz: Vec<u8>,
    /// Descriptive text for readers, as JSON.
    pub about: String,
}

/// Outcome of a successful push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Names of other gems that the new name may be confused with; at most [`LOOKALIKES_MAX`].
    pub lookalikes: Vec<String>,
}

/// Maximum number of names that a warning lists.
pub const LOOKALIKES_MAX: usize = 5;

/// A gem with releases to import; its files are not stored here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedGem {
    pub name: GemName,
    pub releases: Vec<Release>,
}

/// Outcome of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Number of gems that are new.
    pub gems: u64,
    pub releases: u64,
    /// Number of releases left unchanged: those that already existed, including yanked ones, and
    /// those of gems that come from an upstream.
    pub known: u64,
    /// Number of releases that were skipped because their file would have the name of another gem's
    /// file.
    pub clashing: u64,
    /// Time spent writing rows of gems and releases, including commits.
    pub storing: Duration,
    /// Time spent computing derived data: infos, digests, dependency API fragments and lists.
    pub indexing: Duration,
}

/// A stored `.gem` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredFile {
    pub checksum: Checksum,
    pub bytes: u64,
}

/// Dependency API fragments of some gems, in the store's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FragmentPage {
    /// Names of gems with their packed releases.
    pub gems: Vec<(String, Vec<u8>)>,
    /// Start of the next page; None on the last one.
    pub next: Option<u64>,
}

/// Report of a check of the whole store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of gems with releases, as in `/names`.
    pub gems: u64,
    /// Number of names whose releases were all yanked or withdrawn.
    pub names_without_releases: u64,
    pub releases: u64,
    /// Descriptions of the problems found, at most [`PROBLEMS_MAX`].
    pub problems: Vec<String>,
    /// Number of problems found.
    pub problems_total: u64,
    pub is_fixed: bool,
}

/// Maximum number of problems that a report describes.
pub const PROBLEMS_MAX: usize = 100;

/// Whether a check repairs the problems that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Repair {
    Leave,
    Fix,
}

/// Storage for gems. Its futures are boxed, so that they are compiled in this crate.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns a snapshot of a text.
    async fn text(&self, kind: TextKind) -> Result<Text, StoreError>;

    /// Returns `/info/NAME`, or None if the gem never existed.
    async fn info(&self, name: &str) -> Result<Option<Info>, StoreError>;

    /// Returns the dependency API fragments of those names that are gems, in the given order.
    async fn fragments(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// Returns one page of the dependency API fragments of all gems. The first page starts at
    /// `from` 0.
    async fn fragment_page(&self, from: u64, gems_max: usize) -> Result<FragmentPage, StoreError>;

    /// Returns the file of a release by its full name (`rack-3.0`, `nokogiri-1.15-java`), or None
    /// if the release is yanked or its file is not stored here.
    async fn file(&self, full_name: &str) -> Result<Option<StoredFile>, StoreError>;

    /// Returns the deflated specification of a release.
    async fn gemspec(&self, full_name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Adds a release. Its file must already be in the directory of `.gem` files.
    async fn push(&self, release: NewRelease, now: Timestamp) -> Result<Pushed, PushError>;

    /// Removes a release from all lists.
    async fn yank(
        &self,
        name: &GemName,
        identity: &Identity,
        now: Timestamp,
    ) -> Result<(), YankError>;

    /// Adds many releases, in batches of gems. Batches added before an error remain.
    async fn import(
        &self,
        gems: Box<dyn Iterator<Item = ImportedGem> + Send>,
        clock: &Clock,
    ) -> Result<Imported, StoreError>;

    /// Rewrites `/versions` and `/names`. They become shorter, but every client fetches them
    /// completely.
    async fn rebaseline(&self, now: Timestamp) -> Result<(), StoreError>;

    /// Recomputes all data derived from the releases, in bounded memory, and compares it with the
    /// stored data.
    async fn verify(&self, repair: Repair, now: Timestamp) -> Result<Report, StoreError>;

    /// Stores a new key.
    async fn add_key(&self, key: NewKey) -> Result<Key, StoreError>;

    /// Returns the key whose text has this SHA-256, even if it has expired.
    async fn key(&self, hash: [u8; 32]) -> Result<Option<Key>, StoreError>;

    /// Returns all keys in order of creation.
    async fn keys(&self) -> Result<Vec<Key>, StoreError>;

    /// Deletes a key. Returns false if there is none.
    async fn remove_key(&self, id: u64) -> Result<bool, StoreError>;
}

impl Report {
    pub(crate) fn problem(&mut self, problem: impl FnOnce() -> String) {
        self.problems_total += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem());
        }
    }
}
