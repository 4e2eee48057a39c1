//! Implements webhook storage for Postgres.

use async_trait::async_trait;
use tokio::sync::watch;
use weir_base::clock::Timestamp;

use super::{PostgresStore, ask};
use crate::store::StoreError;
use crate::store::statements::webhooks as rows;
use crate::store::webhooks::{Claim, Claimed, EndpointState, Settled, WebhookStore};

#[async_trait]
impl WebhookStore for PostgresStore {
    async fn set_webhook_endpoints(
        &self,
        names: Vec<String>,
        events_max: u64,
    ) -> Result<(), StoreError> {
        let set = self.write("set_webhook_endpoints", move |transaction| {
            Box::pin(rows::set_endpoints(transaction, names, events_max))
        });
        set.await
    }

    async fn webhook_endpoints(&self) -> Result<Vec<EndpointState>, StoreError> {
        ask!(self, "webhook_endpoints", rows::endpoints)
    }

    async fn claim_webhooks(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> Result<Option<Claimed>, StoreError> {
        self.write("claim_webhooks", move |it| Box::pin(rows::claim(it, claim, now))).await
    }

    async fn settle_webhooks(&self, settled: Settled) -> Result<bool, StoreError> {
        self.write("settle_webhooks", move |it| Box::pin(rows::settle(it, settled))).await
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }
}
