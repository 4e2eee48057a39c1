//! The embedded store: one SQLite file with a write-ahead log.
//!
//! Reads run on the calling thread, since they touch a page cache and not a network. There is one
//! connection per thread that reads concurrently. Writes are serialized on one connection and run
//! on blocking threads. Another process (such as an import from the command line) may write to the
//! same file, so cached texts and infos are compared with the file at each use.

mod back_up;
mod connections;
mod database;
mod import;
mod info_cache;
mod locate;
mod mirror;
mod read;
mod schema;
mod text_rows;
mod webhook_tables;
mod webhooks;

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use prometheus_client::registry::Registry;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::watch;
use weir_base::clock::{Clock, Timestamp};
use weir_settings::Section;

pub use self::back_up::back_up;
use self::connections::Connections;
use self::database::Sqlite;
use self::info_cache::InfoCache;
use super::database::at_once;
use super::queries::QueryMetrics;
use super::statements::{index, keys, pushes, verify};
use super::{
    FragmentPage, Imported, ImportedGem, Info, Key, NewKey, NewRelease, PushError, Pushed, Repair,
    Report, Store, StoreError, StoredFile, TextKind, YankError,
};
use crate::blocking::blocking;
use crate::index::text::Text;
use crate::name::GemName;
use crate::release::Identity;

/// `[gems]`, as far as the embedded store is concerned.
#[derive(Clone, Debug, Section)]
#[section(restart, path = "gems.sqlite")]
pub struct SqliteSettings {
    #[setting(skip)]
    pub path: PathBuf,
    /// Memory for pages of the database of each connection that reads; there is one for each core,
    /// and one for each list that is built.
    // Enough for the index of 190,000 names: reading an info then costs one more page.
    #[setting(size, range = 64 << 10..=1 << 40, default = 16 << 20)]
    pub reader_cache_bytes: u64,
    /// So much of the file, from its beginning, is mapped by each connection that reads, which
    /// nearly doubles the rate of /info. It counts as resident memory, several times over with
    /// several cores, but is the kernel's page cache: it goes as soon as the memory is needed. A
    /// disk that fails to read ends the service process, which is started anew. 0: everything is
    /// read by calls.
    // The database of 190,000 gems has 650 MB. Without mapping, reading an info from the file takes
    // 30 µs instead of 17 µs.
    #[setting(size, range = 0..=Self::MAPPED_MAX, default = 1 << 30)]
    pub mapped_bytes: u64,
    /// Memory for pages of the database of the connection that writes.
    #[setting(size, range = 64 << 10..=1 << 40, default = 32 << 20)]
    pub writer_cache_bytes: u64,
    /// Memory for recently requested /info responses, for all cores together. Each use is
    /// checked against the database, so nothing is out of date. 0: none is kept.
    // Enough for the infos of about 40,000 gems.
    #[setting(size, range = 0..=1 << 40, default = 64 << 20)]
    pub info_cache_bytes: u64,
    /// Gems that an import adds in one transaction. More is quicker; pushes wait that much longer
    /// meanwhile.
    #[setting(key = "import_batch_gems", range = 1..=1_000_000, default = 2_000)]
    pub import_batch: usize,
}

impl SqliteSettings {
    /// The maximum that SQLite can map (`SQLITE_MAX_MMAP_SIZE`: 2 GiB less 64 KiB).
    pub const MAPPED_MAX: u64 = 0x7fff_0000;

    /// Returns the default settings for the file at `path`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }
}

/// The embedded store. Clones share it.
#[derive(Clone, Debug)]
pub struct SqliteStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connections: Connections,
    infos: InfoCache,
    queries: QueryMetrics,
    import_batch: usize,
    /// Notified after each push or yank in this process.
    changes: watch::Sender<()>,
    /// Cached texts.
    versions: ArcSwap<Text>,
    names: ArcSwap<Text>,
}

impl SqliteStore {
    /// Opens the file, creating it if needed.
    ///
    /// # Errors
    /// Fails if it can't be opened, or is not a database of Weir.
    pub fn open(settings: &SqliteSettings, now: Timestamp) -> Result<Self, StoreError> {
        let connections = Connections::open(settings)?;
        let store = Self(Arc::new(Inner {
            connections,
            infos: InfoCache::new(settings.info_cache_bytes),
            queries: QueryMetrics::default(),
            import_batch: settings.import_batch,
            changes: watch::Sender::default(),
            versions: ArcSwap::from_pointee(Text::empty(0)),
            names: ArcSwap::from_pointee(Text::empty(0)),
        }));
        store.0.write(|it| at_once(index::begin_if_missing(&Sqlite(it), now)))?;
        Ok(store)
    }

    /// Registers the metrics of memory caches and of queries.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.0.infos.register(registry);
        self.0.queries.register(registry);
    }

    /// Runs [`Inner::read`], and measures it.
    fn read<T>(
        &self,
        query: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _timer = self.0.queries.start(query);
        self.0.read(work)
    }

    /// Runs [`Inner::read_once`], and measures it.
    fn read_once<T>(
        &self,
        query: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _timer = self.0.queries.start(query);
        self.0.read_once(work)
    }

    /// Changes the store on a thread that may wait.
    async fn write<T: Send + 'static>(
        &self,
        query: &'static str,
        work: impl FnOnce(&Sqlite<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.blocking(query, move |inner| inner.write(|it| work(&Sqlite(it)))).await
    }

    /// Reads one snapshot on a thread that may wait.
    async fn read_blocking<T: Send + 'static>(
        &self,
        query: &'static str,
        work: impl FnOnce(&Sqlite<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.blocking(query, move |inner| inner.read(|it| work(&Sqlite(it)))).await
    }

    /// Runs `work` on a blocking thread.
    async fn blocking<T, E>(
        &self,
        query: &'static str,
        work: impl FnOnce(&Inner) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        let _timer = self.0.queries.start(query);
        let done = blocking(move || work(&inner)).await;
        done.unwrap_or_else(|error| Err(StoreError::Abandoned(error.to_string()).into()))
    }
}

impl Inner {
    /// Runs `work` on a connection for reading, in one transaction with a consistent view of the
    /// file.
    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut reader = self.connections.reader()?;
        let transaction = reader.transaction()?;
        let result = work(&transaction);
        // Nothing was written, so rollback and commit are equivalent.
        drop(transaction);
        result
    }

    /// Runs `work`, which may run only a single query.
    fn read_once<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        work(&*self.connections.reader()?)
    }

    /// Runs `work` in one transaction. It is on disk when this returns.
    fn write<T, E: From<rusqlite::Error>>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut writer = self.connections.writer();
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    fn text(&self, kind: TextKind) -> Result<Text, StoreError> {
        let place = match kind {
            TextKind::Versions => &self.versions,
            TextKind::Names => &self.names,
        };
        let known = place.load();
        if self.read_once(|connection| text_rows::is_current(connection, kind, &known))? {
            return Ok(Text::clone(&known));
        }
        let fresh = self.read(|connection| text_rows::fresh(connection, kind, &known))?;
        place.store(Arc::new(fresh.clone()));
        Ok(fresh)
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn text(&self, kind: TextKind) -> Result<Text, StoreError> {
        let _timer = self.0.queries.start("text");
        self.0.text(kind)
    }

    async fn info(&self, name: &str) -> Result<Option<Info>, StoreError> {
        let _timer = self.0.queries.start("info");
        self.0.info(name)
    }

    async fn fragments(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.read("fragments", |connection| read::fragments(connection, names))
    }

    async fn fragment_page(&self, from: u64, gems_max: usize) -> Result<FragmentPage, StoreError> {
        self.read_once("fragment_page", |it| {
            at_once(index::fragment_page(&Sqlite(it), from, gems_max))
        })
    }

    async fn file(&self, full_name: &str) -> Result<Option<StoredFile>, StoreError> {
        self.read("file", |connection| locate::file(connection, full_name))
    }

    async fn gemspec(&self, full_name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read("gemspec", |connection| locate::gemspec(connection, full_name))
    }

    async fn push(&self, release: NewRelease, now: Timestamp) -> Result<Pushed, PushError> {
        self.blocking("push", move |inner| {
            let pushed = inner.write(|it| at_once(pushes::push(&Sqlite(it), &release, now)))?;
            inner.changes.send_replace(());
            Ok(pushed)
        })
        .await
    }

    async fn yank(
        &self,
        name: &GemName,
        identity: &Identity,
        now: Timestamp,
    ) -> Result<(), YankError> {
        let (name, identity) = (name.clone(), identity.clone());
        self.blocking("yank", move |inner| {
            inner.write(|it| at_once(pushes::yank(&Sqlite(it), &name, &identity, now)))?;
            inner.changes.send_replace(());
            Ok(())
        })
        .await
    }

    async fn import(
        &self,
        gems: Box<dyn Iterator<Item = ImportedGem> + Send>,
        clock: &Clock,
    ) -> Result<Imported, StoreError> {
        let clock = clock.clone();
        self.blocking("import", move |inner| import::import(inner, gems, &clock)).await
    }

    async fn rebaseline(&self, now: Timestamp) -> Result<(), StoreError> {
        self.write("rebaseline", move |it| at_once(index::rebaseline(it, now))).await
    }

    async fn verify(&self, repair: Repair, now: Timestamp) -> Result<Report, StoreError> {
        self.blocking("verify", move |inner| match repair {
            Repair::Leave => inner.read(|it| at_once(verify::verify(&Sqlite(it), repair, now))),
            Repair::Fix => inner.write(|it| at_once(verify::verify(&Sqlite(it), repair, now))),
        })
        .await
    }

    async fn add_key(&self, key: NewKey) -> Result<Key, StoreError> {
        self.write("add_key", move |it| at_once(keys::add(it, key))).await
    }

    async fn key(&self, hash: [u8; 32]) -> Result<Option<Key>, StoreError> {
        self.read_once("key", |it| at_once(keys::by_hash(&Sqlite(it), hash)))
    }

    async fn keys(&self) -> Result<Vec<Key>, StoreError> {
        self.read_once("keys", |it| at_once(keys::all(&Sqlite(it))))
    }

    async fn remove_key(&self, id: u64) -> Result<bool, StoreError> {
        self.write("remove_key", move |it| at_once(keys::remove(it, id))).await
    }
}
