//! The store that the settings choose. The index, the mirror and the webhook sender use this type, not
//! the trait, so that their code is compiled once, in this crate.

mod mirror;

use tokio::sync::watch;
use weir_base::clock::{Clock, Timestamp};

use super::webhooks::{Claim, Claimed, EndpointState, Settled, WebhookStore};
use super::{
    FragmentPage, Imported, ImportedGem, Info, Key, NewKey, NewRelease, PostgresStore, PushError,
    Pushed, Repair, Report, SqliteStore, Store, StoreError, StoredFile, TextKind, YankError,
};
use crate::index::text::Text;
use crate::name::GemName;
use crate::release::Identity;

/// The store that the settings choose. Clones share it.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum GemStore {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

impl From<SqliteStore> for GemStore {
    fn from(store: SqliteStore) -> Self {
        Self::Sqlite(store)
    }
}

impl From<PostgresStore> for GemStore {
    fn from(store: PostgresStore) -> Self {
        Self::Postgres(store)
    }
}

/// Asks the one that it is.
macro_rules! ask {
    ($store:expr, $method:ident $(, $argument:expr)*) => {
        match $store {
            Self::Sqlite(store) => store.$method($($argument),*).await,
            Self::Postgres(store) => store.$method($($argument),*).await,
        }
    };
}
use ask;

impl Store for GemStore {
    async fn text(&self, kind: TextKind) -> Result<Text, StoreError> {
        ask!(self, text, kind)
    }

    async fn info(&self, name: &str) -> Result<Option<Info>, StoreError> {
        ask!(self, info, name)
    }

    async fn fragments(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        ask!(self, fragments, names)
    }

    async fn fragment_page(&self, from: u64, gems_max: usize) -> Result<FragmentPage, StoreError> {
        ask!(self, fragment_page, from, gems_max)
    }

    async fn file(&self, full_name: &str) -> Result<Option<StoredFile>, StoreError> {
        ask!(self, file, full_name)
    }

    async fn gemspec(&self, full_name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        ask!(self, gemspec, full_name)
    }

    async fn push(&self, release: NewRelease, now: Timestamp) -> Result<Pushed, PushError> {
        ask!(self, push, release, now)
    }

    async fn yank(
        &self,
        name: &GemName,
        identity: &Identity,
        now: Timestamp,
    ) -> Result<(), YankError> {
        ask!(self, yank, name, identity, now)
    }

    async fn import<I>(&self, gems: I, clock: &Clock) -> Result<Imported, StoreError>
    where
        I: Iterator<Item = ImportedGem> + Send + 'static,
    {
        ask!(self, import, gems, clock)
    }

    async fn rebaseline(&self, now: Timestamp) -> Result<(), StoreError> {
        ask!(self, rebaseline, now)
    }

    async fn verify(&self, repair: Repair, now: Timestamp) -> Result<Report, StoreError> {
        ask!(self, verify, repair, now)
    }

    async fn add_downloads(&self, counts: Vec<(String, u64)>) -> Result<(), StoreError> {
        ask!(self, add_downloads, counts)
    }

    async fn downloads(&self, full_names: &[String]) -> Result<Vec<u64>, StoreError> {
        ask!(self, downloads, full_names)
    }

    async fn add_key(&self, key: NewKey) -> Result<Key, StoreError> {
        ask!(self, add_key, key)
    }

    async fn key(&self, hash: [u8; 32]) -> Result<Option<Key>, StoreError> {
        ask!(self, key, hash)
    }

    async fn keys(&self) -> Result<Vec<Key>, StoreError> {
        ask!(self, keys)
    }

    async fn remove_key(&self, id: u64) -> Result<bool, StoreError> {
        ask!(self, remove_key, id)
    }
}

impl WebhookStore for GemStore {
    async fn set_webhook_endpoints(
        &self,
        names: Vec<String>,
        events_max: u64,
    ) -> Result<(), StoreError> {
        ask!(self, set_webhook_endpoints, names, events_max)
    }

    async fn webhook_endpoints(&self) -> Result<Vec<EndpointState>, StoreError> {
        ask!(self, webhook_endpoints)
    }

    async fn claim_webhooks(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> Result<Option<Claimed>, StoreError> {
        ask!(self, claim_webhooks, claim, now)
    }

    async fn settle_webhooks(&self, settled: Settled) -> Result<bool, StoreError> {
        ask!(self, settle_webhooks, settled)
    }

    fn changes(&self) -> watch::Receiver<()> {
        match self {
            Self::Sqlite(store) => store.changes(),
            Self::Postgres(store) => store.changes(),
        }
    }
}
