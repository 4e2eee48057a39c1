//! A store in Postgres, for several Weir processes at once.
//!
//! Each connection runs one operation at a time, with a timeout. Writers are serialized: within a
//! process by a mutex, between processes by a Postgres lock that a transaction holds to its end. A
//! writer therefore sees all earlier writes, and no commit fails because of another. Readers never
//! wait for writers: each uses a single query, or a transaction with a snapshot. A cached text is
//! compared with the database at each use, so pushes by other processes are visible at once.
//!
//! Postgres need not be available when Weir starts: tables are created on the first connection.

mod analyze;
mod columns;
mod connect;
mod database;
mod failure;
mod import;
mod indexing;
mod locate;
mod metrics;
mod mirror;
mod pool;
mod prepare;
mod push;
mod read;
mod replacing;
mod rows;
mod settings;
mod text_rows;
mod url;
mod verify;
mod webhooks;
mod write;
mod yank;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use deadpool_postgres::Transaction;
use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;
use weir_base::clock::{Clock, Timestamp};

use self::connect::{Connector, IoThread};
use self::metrics::Limit;
use self::pool::{Lease, Pool};
use self::write::Turns;
use super::queries::QueryMetrics;
use super::statements::{index, keys};
use super::{
    FragmentPage, Imported, ImportedGem, Info, Key, NewKey, NewRelease, PushError, Pushed, Repair,
    Report, Store, StoreError, StoredFile, TextKind, YankError,
};
use crate::index::text::Text;
use crate::name::GemName;
use crate::release::Identity;

pub use self::metrics::PostgresMetrics;
pub use self::settings::{PostgresLimits, PostgresSettings, SchemaName, SchemaNameError};
pub use self::url::{PostgresUrl, PostgresUrlError};

/// The store in Postgres. Clones share it.
#[derive(Clone, Debug)]
pub struct PostgresStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: Pool,
    /// Declared after the pool, so that it is dropped after the connections.
    io: IoThread,
    clock: Clock,
    schema: SchemaName,
    import_batch: usize,
    /// Notified after each push or yank in this process.
    changes: watch::Sender<()>,
    is_prepared: AtomicBool,
    turns: Turns,
    versions: Cached,
    names: Cached,
    queries: QueryMetrics,
}

/// A cached text.
#[derive(Debug)]
struct Cached {
    text: ArcSwap<Text>,
    /// A tokio mutex: one task reloads the text while others wait for it.
    reading: Mutex<()>,
}

impl PostgresStore {
    /// Creates a store that connects on first use.
    ///
    /// # Errors
    /// Fails if the file of certificate authorities can't be used, or no thread could be started.
    pub fn open(
        settings: &PostgresSettings,
        clock: Clock,
        metrics: PostgresMetrics,
    ) -> Result<Self, StoreError> {
        let io = IoThread::start()?;
        let connector = Connector::new(settings, &io, metrics.clone())?;
        let pool = Pool::new(settings, connector, clock.clone(), metrics)?;
        Ok(Self(Arc::new(Inner {
            pool,
            io,
            clock,
            schema: settings.schema.clone(),
            import_batch: settings.import_batch.max(1),
            changes: watch::Sender::default(),
            is_prepared: AtomicBool::new(false),
            turns: Turns::default(),
            versions: Cached::empty(),
            names: Cached::empty(),
            queries: QueryMetrics::default(),
        })))
    }

    /// Connects, and creates missing tables. If this is not called, the first operation does it.
    ///
    /// # Errors
    /// Fails if there is no connection, or if the tables belong to another version of Weir.
    pub fn prepare(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.0.lease().await.map(drop) })
    }
}

impl PostgresStore {
    /// Registers the metrics of queries.
    pub(super) fn register_metrics(&self, registry: &mut Registry) {
        self.0.queries.register(registry);
    }

    /// Runs [`Inner::write`] within `write_timeout`, and measures it.
    async fn write<T, W>(&self, query: &'static str, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'a> FnOnce(&'a Transaction<'a>) -> BoxFuture<'a, Result<T, StoreError>>
            + Send
            + 'static,
    {
        let _timer = self.0.queries.start(query);
        self.0.write(Limit::Write, work).await
    }

    /// Runs [`Inner::write_hooks`], and measures it.
    async fn write_hooks<T, W>(&self, query: &'static str, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'a> FnOnce(&'a Transaction<'a>) -> BoxFuture<'a, Result<T, StoreError>>
            + Send
            + 'static,
    {
        let _timer = self.0.queries.start(query);
        self.0.write_hooks(work).await
    }
}

impl Cached {
    fn empty() -> Self {
        Self { text: ArcSwap::from_pointee(Text::empty(0)), reading: Mutex::default() }
    }
}

impl Inner {
    /// Returns a connection to a database that has the tables.
    async fn lease(self: &Arc<Self>) -> Result<Lease, StoreError> {
        let lease = self.pool.lease().await?;
        if self.is_prepared.load(Ordering::Acquire) {
            return Ok(lease);
        }
        let inner = Arc::clone(self);
        let prepared = self.io.spawn(async move { inner.prepare(lease).await });
        prepared.await.map_err(|error| StoreError::Abandoned(error.to_string()))??;
        self.is_prepared.store(true, Ordering::Release);
        self.pool.lease().await
    }

    /// Creates the tables. The connection may have other timeouts and hold a lock afterwards.
    async fn prepare(&self, mut lease: Lease) -> Result<(), StoreError> {
        let time = self.pool.limits.maintenance_timeout;
        let now = self.clock.now();
        let result = timeout(time, prepare::prepare(&mut lease, &self.schema, time, now)).await;
        lease.close();
        result.unwrap_or(Err(StoreError::Late { limit: Limit::Maintenance.setting() }))
    }

    fn cached(&self, kind: TextKind) -> &Cached {
        match kind {
            TextKind::Versions => &self.versions,
            TextKind::Names => &self.names,
        }
    }

    async fn text(self: &Arc<Self>, kind: TextKind) -> Result<Text, StoreError> {
        let cached = self.cached(kind);
        if let Some(text) = self.current(kind).await? {
            return Ok(text);
        }
        let late = |_| StoreError::Late { limit: Limit::Text.setting() };
        let time = self.pool.limits.text_timeout;
        let _reading = timeout(time, cached.reading.lock()).await.map_err(late)?;
        // The previous holder of the lock may have reloaded it.
        if let Some(text) = self.current(kind).await? {
            return Ok(text);
        }
        let mut lease = self.lease().await?;
        let known = Text::clone(&cached.text.load());
        let fresh = timeout(time, text_rows::fresh(&mut lease, kind, &known, time)).await;
        let fresh = self.pool.settle(lease, Limit::Text, fresh)?;
        cached.text.store(Arc::new(fresh.clone()));
        Ok(fresh)
    }

    /// Returns the cached text if it is up to date.
    async fn current(self: &Arc<Self>, kind: TextKind) -> Result<Option<Text>, StoreError> {
        let lease = self.lease().await?;
        let known = Text::clone(&self.cached(kind).text.load());
        let time = self.pool.limits.query_timeout;
        let is_current = timeout(time, text_rows::is_current(&lease, kind, &known)).await;
        let is_current = self.pool.settle(lease, Limit::Query, is_current)?;
        Ok(is_current.then_some(known))
    }
}

/// Runs a query on one connection, within `query_timeout`.
macro_rules! ask {
    ($store:expr, $query:literal, $question:path $(, $argument:expr)*) => {{
        let inner = &$store.0;
        let _timer = inner.queries.start($query);
        let lease = inner.lease().await?;
        let time = inner.pool.limits.query_timeout;
        let answer = ::tokio::time::timeout(time, $question(&lease $(, $argument)*)).await;
        inner.pool.settle(lease, $crate::store::postgres::Limit::Query, answer)
    }};
}
use ask;

#[async_trait]
impl Store for PostgresStore {
    async fn text(&self, kind: TextKind) -> Result<Text, StoreError> {
        let _timer = self.0.queries.start("text");
        self.0.text(kind).await
    }

    async fn info(&self, name: &str) -> Result<Option<Info>, StoreError> {
        ask!(self, "info", read::info, name)
    }

    async fn fragments(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        ask!(self, "fragments", read::fragments, names)
    }

    async fn fragment_page(&self, from: u64, gems_max: usize) -> Result<FragmentPage, StoreError> {
        ask!(self, "fragment_page", index::fragment_page, from, gems_max)
    }

    async fn file(&self, full_name: &str) -> Result<Option<StoredFile>, StoreError> {
        ask!(self, "file", locate::file, full_name)
    }

    async fn gemspec(&self, full_name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        ask!(self, "gemspec", locate::gemspec, full_name)
    }

    async fn push(&self, release: NewRelease, now: Timestamp) -> Result<Pushed, PushError> {
        let _timer = self.0.queries.start("push");
        let pushed = push::push(&self.0, release, now).await?;
        self.0.changes.send_replace(());
        Ok(pushed)
    }

    async fn yank(
        &self,
        name: &GemName,
        identity: &Identity,
        now: Timestamp,
    ) -> Result<(), YankError> {
        let _timer = self.0.queries.start("yank");
        yank::yank(&self.0, name, identity, now).await?;
        self.0.changes.send_replace(());
        Ok(())
    }

    async fn import(
        &self,
        gems: Box<dyn Iterator<Item = ImportedGem> + Send>,
        clock: &Clock,
    ) -> Result<Imported, StoreError> {
        let _timer = self.0.queries.start("import");
        import::import(&self.0, gems, clock.clone()).await
    }

    async fn rebaseline(&self, now: Timestamp) -> Result<(), StoreError> {
        let _timer = self.0.queries.start("rebaseline");
        let limit = Limit::Maintenance;
        self.0.write(limit, move |it| Box::pin(index::rebaseline(it, now))).await
    }

    async fn verify(&self, repair: Repair, now: Timestamp) -> Result<Report, StoreError> {
        let _timer = self.0.queries.start("verify");
        verify::verify(&self.0, repair, now).await
    }

    async fn add_key(&self, key: NewKey) -> Result<Key, StoreError> {
        self.write("add_key", move |it| Box::pin(keys::add(it, key))).await
    }

    async fn key(&self, hash: [u8; 32]) -> Result<Option<Key>, StoreError> {
        ask!(self, "key", keys::by_hash, hash)
    }

    async fn keys(&self) -> Result<Vec<Key>, StoreError> {
        ask!(self, "keys", keys::all)
    }

    async fn remove_key(&self, id: u64) -> Result<bool, StoreError> {
        self.write("remove_key", move |it| Box::pin(keys::remove(it, id))).await
    }
}
