//! The embedded store's side of webhooks.

use async_trait::async_trait;
use tokio::sync::watch;
use weir_base::clock::Timestamp;

use super::SqliteStore;
use super::database::Sqlite;
use crate::store::StoreError;
use crate::store::database::at_once;
use crate::store::statements::webhooks as rows;
use crate::store::webhooks::{Claim, Claimed, EndpointState, Settled, WebhookStore};

pub(super) const TABLES: &str = "
CREATE TABLE webhook_events (
    id INTEGER PRIMARY KEY,
    change INTEGER NOT NULL,
    name TEXT NOT NULL,
    number TEXT NOT NULL,
    platform TEXT NOT NULL,
    at INTEGER NOT NULL,
    release TEXT NOT NULL
) STRICT;
CREATE TABLE webhook_endpoints (
    name TEXT PRIMARY KEY,
    -- The last event that it has got, or will not get.
    cursor INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    holder TEXT,
    held_until INTEGER
) STRICT;
-- One row: the last event's number, and how many are kept.
CREATE TABLE webhook_log (last INTEGER NOT NULL, events_max INTEGER NOT NULL) STRICT;
INSERT INTO webhook_log VALUES (0, 1);
";

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
