//! Events for webhook endpoints, stored with their content.
//!
//! Guarantees of every [`WebhookStore`]:
//! - the event of a push or a yank is written in the same transaction, whichever process makes the
//!   change and whether or not a sender is running;
//! - events are numbered without gaps in the order of changes, and each endpoint has a position in
//!   that order, so no event is sent out of order or skipped unnoticed;
//! - only one sender at a time holds an endpoint; the claim of a killed sender expires;
//! - at most `events_max` events are stored, the newest.

use async_trait::async_trait;
use tokio::sync::watch;
use weir_base::clock::Timestamp;

use super::{Store, StoreError};
use crate::store::column::unsigned;

/// Kind of change of a release.
pub use crate::index::versions::{Change, UnknownChange};

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookEvent {
    pub id: u64,
    pub change: Change,
    pub name: String,
    pub number: String,
    pub platform: String,
    /// Time of the change.
    pub at: Timestamp,
    /// JSON of the release, without URLs ([`crate::webhooks`] adds them).
    pub release: String,
}

/// Stored state of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointState {
    pub name: String,
    /// Number of events not delivered yet.
    pub waiting: u64,
    /// Time of the oldest undelivered event.
    pub oldest_at: Option<Timestamp>,
    /// Number of failed attempts since the last success.
    pub failures: u32,
    /// Time of the next attempt.
    pub due_at: Timestamp,
    /// End of the current sender's claim, if there is one.
    pub held_until: Option<Timestamp>,
}

/// A sender's request for events of an endpoint.
#[derive(Clone, Debug)]
pub struct Claim {
    pub endpoint: String,
    /// Identifies the sender.
    pub holder: String,
    /// End of the claim, unless it is settled earlier.
    pub held_until: Timestamp,
    pub events_max: u32,
}

/// Claimed events, to be sent in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    pub events: Vec<WebhookEvent>,
    /// Number of failed attempts for the first event.
    pub failures: u32,
    /// Number of events that were dropped because there were too many.
    pub dropped: u64,
}

/// Outcome of sending claimed events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub endpoint: String,
    pub holder: String,
    /// Number of the last event that is done, or None if none is.
    pub done: Option<u64>,
    pub failures: u32,
    pub due_at: Timestamp,
    /// New end of the claim, or None to release it.
    pub held_until: Option<Timestamp>,
}

/// Storage of events. See the module for its guarantees.
#[async_trait]
pub trait WebhookStore: Store {
    /// Sets the endpoints for which events are stored. A new endpoint gets the events from now on.
    async fn set_webhook_endpoints(
        &self,
        names: Vec<String>,
        events_max: u64,
    ) -> Result<(), StoreError>;

    /// Returns the state of all endpoints.
    async fn webhook_endpoints(&self) -> Result<Vec<EndpointState>, StoreError>;

    /// Claims the next events of an endpoint. Returns None if another sender holds it, nothing is
    /// due, or it is unknown.
    async fn claim_webhooks(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> Result<Option<Claimed>, StoreError>;

    /// Saves the outcome of claimed events. Returns false if the claim was lost.
    async fn settle_webhooks(&self, settled: Settled) -> Result<bool, StoreError>;

    /// Returns a receiver that changes after each push or yank in this process.
    fn changes(&self) -> watch::Receiver<()>;
}

/// Returns the number of events between two positions.
pub(super) fn lost(cursor: i64, first: i64) -> u64 {
    unsigned(first - cursor - 1)
}

pub(super) const fn change_number(change: Change) -> i64 {
    match change {
        Change::Pushed => 1,
        Change::Yanked => 2,
    }
}

pub(super) const fn change_of(number: i64) -> Change {
    match number {
        2 => Change::Yanked,
        _ => Change::Pushed,
    }
}
