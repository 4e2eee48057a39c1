//! The side of webhooks of the store in Postgres.

use async_trait::async_trait;
use tokio::sync::watch;
use weir_base::clock::Timestamp;

use super::metrics::Limit;
use super::{PostgresStore, ask, webhook_rows as rows};
use crate::store::StoreError;
use crate::store::webhooks::{Claim, Claimed, EndpointState, Settled, WebhookStore};

#[async_trait]
impl WebhookStore for PostgresStore {
    async fn set_webhook_endpoints(
        &self,
        names: Vec<String>,
        events_max: u64,
    ) -> Result<(), StoreError> {
        let set = self.0.write(Limit::Write, move |transaction| {
            Box::pin(rows::set_endpoints(transaction, names, events_max))
        });
        set.await
    }

    async fn webhook_endpoints(&self) -> Result<Vec<EndpointState>, StoreError> {
        ask!(self, rows::endpoints)
    }

    async fn claim_webhooks(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> Result<Option<Claimed>, StoreError> {
        self.0.write(Limit::Write, move |it| Box::pin(rows::claim(it, claim, now))).await
    }

    async fn settle_webhooks(&self, settled: Settled) -> Result<bool, StoreError> {
        self.0.write(Limit::Write, move |it| Box::pin(rows::settle(it, settled))).await
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }
}
