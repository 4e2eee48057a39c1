//! What is stored, behind one trait: a database that ships with Weir, or one that is there already.
//!
//! Promises of every [`Store`]:
//! - what was answered as done survives a crash, whole;
//! - a gem's `/info`, its digest in `/versions`, the lines of `/versions` and `/names` and what the
//!   dependency API joins change in one transaction: no reader sees one without the others;
//! - a [`Text`] is one snapshot, and so is an [`Info`]: digests are those of the bytes;
//! - digests are computed when something is written, and go on from where they were.

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
pub use self::sqlite::{SqliteSettings, SqliteStore};
use crate::index::digest::Digests;
use crate::index::text::Text;
use crate::name::GemName;
use crate::release::{Checksum, Identity, Release};

/// A text that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the text of this path")]
pub enum TextKind {
    Versions,
    Names,
}

/// `/info/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    pub content: Bytes,
    pub digests: Digests,
}

/// A release that is pushed.
#[derive(Clone, Debug)]
pub struct NewRelease {
    pub name: GemName,
    pub release: Release,
    /// Length of its file.
    pub bytes: u64,
    /// `quick/Marshal.4.8/..`.
    pub gemspec_rz: Vec<u8>,
    /// Words for readers, as JSON.
    pub about: String,
}

/// A push that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Names of other gems that this new name may be taken for; at most [`LOOKALIKES_MAX`].
    pub lookalikes: Vec<String>,
}

/// Names that a warning lists.
pub const LOOKALIKES_MAX: usize = 5;

/// A gem with releases, from elsewhere: its files are not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedGem {
    pub name: GemName,
    pub releases: Vec<Release>,
}

/// What an import has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Gems that were not known.
    pub gems: u64,
    pub releases: u64,
    /// Releases that were here before, yanked ones included, and those of gems that come from an
    /// upstream; they stay as they are.
    pub known: u64,
    /// Releases that were left out, because their file would have the name of another gem's.
    pub clashing: u64,
    /// How long it took to write the rows of gems and releases, commits included ..
    pub storing: Duration,
    /// .. and what follows from them: infos, digests, what the dependency API joins, the lists.
    pub indexing: Duration,
}

/// A `.gem` file that is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredFile {
    pub checksum: Checksum,
    pub bytes: u64,
}

/// The numbers and platforms of some gems, in the order of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FragmentPage {
    /// Names with their packed releases.
    pub gems: Vec<(String, Vec<u8>)>,
    /// Where the next page begins; None: there is none.
    pub next: Option<u64>,
}

/// What a check of the whole store has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Those with releases, as `/names` has them.
    pub gems: u64,
    /// Names of which all releases were yanked or taken back.
    pub names_without_releases: u64,
    pub releases: u64,
    /// What was wrong, at most [`PROBLEMS_MAX`] of it.
    pub problems: Vec<String>,
    /// How much was wrong.
    pub problems_total: u64,
    pub is_fixed: bool,
}

/// Problems that a report tells in words.
pub const PROBLEMS_MAX: usize = 100;

/// Whether a check repairs what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Repair {
    Leave,
    Fix,
}

/// Where gems are kept. Its futures are boxed, so that they are compiled in this crate.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// A text as it is now.
    async fn text(&self, kind: TextKind) -> Result<Text, StoreError>;

    /// `/info/NAME`; None: there was never such a gem.
    async fn info(&self, name: &str) -> Result<Option<Info>, StoreError>;

    /// What the dependency API joins, for those of the names that are gems, in their order.
    async fn fragments(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// The same for all gems, page by page; begins with `from` 0.
    async fn fragment_page(&self, from: u64, gems_max: usize) -> Result<FragmentPage, StoreError>;

    /// The file of a release that is not yanked, if the file is here, by its full name
    /// (`rack-3.0`, `nokogiri-1.15-java`).
    async fn file(&self, full_name: &str) -> Result<Option<StoredFile>, StoreError>;

    /// Its specification, deflated.
    async fn gemspec(&self, full_name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Adds a release. Its file must be in its place already.
    async fn push(&self, release: NewRelease, now: Timestamp) -> Result<Pushed, PushError>;

    /// Takes a release out of all lists.
    async fn yank(
        &self,
        name: &GemName,
        identity: &Identity,
        now: Timestamp,
    ) -> Result<(), YankError>;

    /// Adds many releases, some gems at a time; what was added before an error stays.
    async fn import(
        &self,
        gems: Box<dyn Iterator<Item = ImportedGem> + Send>,
        clock: &Clock,
    ) -> Result<Imported, StoreError>;

    /// Begins `/versions` and `/names` anew: shorter, but every client fetches all of them.
    async fn rebaseline(&self, now: Timestamp) -> Result<(), StoreError>;

    /// Computes everything that follows from the releases anew, in bounded memory, and compares.
    async fn verify(&self, repair: Repair, now: Timestamp) -> Result<Report, StoreError>;

    /// Adds to how often files were downloaded, by full name; each comes once.
    async fn add_downloads(&self, counts: Vec<(String, u64)>) -> Result<(), StoreError>;

    /// How often the files of these full names were downloaded, in their order.
    async fn downloads(&self, full_names: &[String]) -> Result<Vec<u64>, StoreError>;

    /// Keeps a key.
    async fn add_key(&self, key: NewKey) -> Result<Key, StoreError>;

    /// The key whose text has this SHA-256, expired ones included.
    async fn key(&self, hash: [u8; 32]) -> Result<Option<Key>, StoreError>;

    /// All keys, in the order in which they were made.
    async fn keys(&self) -> Result<Vec<Key>, StoreError>;

    /// Forgets a key; false: there was none.
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
