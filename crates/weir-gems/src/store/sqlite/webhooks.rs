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
        self.write("set_webhook_endpoints", move |it| {
            at_once(rows::set_endpoints(it, names, events_max))
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
        self.write("claim_webhooks", move |it| at_once(rows::claim(it, claim, now))).await
    }

    async fn settle_webhooks(&self, settled: Settled) -> Result<bool, StoreError> {
        self.write("settle_webhooks", move |it| at_once(rows::settle(it, settled))).await
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }
}
