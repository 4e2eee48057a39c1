//! Implements webhook storage for SQLite.

use async_trait::async_trait;
use tokio::sync::watch;
use weir_base::clock::Timestamp;

use super::SqliteStore;
use super::database::Sqlite;
use crate::store::StoreError;
use crate::store::database::at_once;
use crate::store::statements::webhooks as rows;
use crate::store::webhooks::{Claim, Claimed, EndpointState, Settled, WebhookStore};

#[async_trait]
impl WebhookStore for SqliteStore {
    async fn set_webhook_endpoints(
        &self,
        names: Vec<String>,
        events_max: u64,
    ) -> Result<(), StoreError> {
        self.blocking("set_webhook_endpoints", move |inner| {
            inner.write(|it| at_once(rows::set_endpoints(&Sqlite(it), names, events_max)))
        })
        .await
    }

    async fn webhook_endpoints(&self) -> Result<Vec<EndpointState>, StoreError> {
        self.read_once("webhook_endpoints", |it| at_once(rows::endpoints(&Sqlite(it))))
    }

    async fn claim_webhooks(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> Result<Option<Claimed>, StoreError> {
        self.blocking("claim_webhooks", move |inner| {
            inner.write(|it| at_once(rows::claim(&Sqlite(it), claim, now)))
        })
        .await
    }

    async fn settle_webhooks(&self, settled: Settled) -> Result<bool, StoreError> {
        self.blocking("settle_webhooks", move |inner| {
            inner.write(|it| at_once(rows::settle(&Sqlite(it), settled)))
        })
        .await
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }
}
