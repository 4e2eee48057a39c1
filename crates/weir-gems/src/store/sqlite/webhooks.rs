//! The embedded store's side of webhooks.

use async_trait::async_trait;
use tokio::sync::watch;
use weir_base::clock::Timestamp;

use super::{SqliteStore, webhook_rows as rows};
use crate::store::StoreError;
use crate::store::webhooks::{Claim, Claimed, EndpointState, Settled, WebhookStore};

#[async_trait]
impl WebhookStore for SqliteStore {
    async fn set_webhook_endpoints(
        &self,
        names: Vec<String>,
        events_max: u64,
    ) -> Result<(), StoreError> {
        self.blocking(move |inner| inner.write(|it| rows::set_endpoints(it, &names, events_max)))
            .await
    }

    async fn webhook_endpoints(&self) -> Result<Vec<EndpointState>, StoreError> {
        self.0.read_once(rows::endpoints)
    }

    async fn claim_webhooks(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> Result<Option<Claimed>, StoreError> {
        self.blocking(move |inner| inner.write(|it| rows::claim(it, &claim, now))).await
    }

    async fn settle_webhooks(&self, settled: Settled) -> Result<bool, StoreError> {
        self.blocking(move |inner| inner.write(|it| rows::settle(it, &settled))).await
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }
}
