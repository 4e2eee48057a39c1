//! Events for receivers elsewhere, kept with what they tell.
//!
//! Promises of every [`WebhookStore`]:
//! - the event of a push or a yank is written in its transaction: there is one without the other
//!   never, whoever pushes and whether or not anybody sends;
//! - events have numbers without gaps in the order of the changes, and each endpoint has a place in
//!   that order, so nothing is sent out of order or left out unseen;
//! - of two senders only one holds an endpoint, and one that was killed loses it after a while;
//! - at most `events_max` events are kept, the newest.

use async_trait::async_trait;
use tokio::sync::watch;
use weir_base::clock::Timestamp;

use super::{Store, StoreError};
use crate::store::column::unsigned;

/// What happened to a release.
pub use crate::index::versions::{Change, UnknownChange};

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookEvent {
    pub id: u64,
    pub change: Change,
    pub name: String,
    pub number: String,
    pub platform: String,
    /// When it happened.
    pub at: Timestamp,
    /// JSON of the release, without addresses ([`crate::webhooks`] adds them).
    pub release: String,
}

/// What is noted of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointState {
    pub name: String,
    /// Events that it has not got.
    pub waiting: u64,
    /// When the oldest of them happened.
    pub oldest_at: Option<Timestamp>,
    /// Attempts that failed since the last that did not.
    pub failures: u32,
    /// When the next attempt is due.
    pub due_at: Timestamp,
    /// Until when somebody sends to it.
    pub held_until: Option<Timestamp>,
}

/// Who wants to send to an endpoint, and what.
#[derive(Clone, Debug)]
pub struct Claim {
    pub endpoint: String,
    /// Tells senders apart.
    pub holder: String,
    /// The claim lasts so long, unless it is settled before.
    pub held_until: Timestamp,
    pub events_max: u32,
}

/// Events to be sent, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    pub events: Vec<WebhookEvent>,
    /// Attempts for the first of them that failed.
    pub failures: u32,
    /// Events that were too many and are gone.
    pub dropped: u64,
}

/// What became of claimed events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub endpoint: String,
    pub holder: String,
    /// All events up to this one are done. None: none was.
    pub done: Option<u64>,
    pub failures: u32,
    pub due_at: Timestamp,
    /// The claim goes on until then. None: it ends.
    pub held_until: Option<Timestamp>,
}

/// Where events are kept. See the module for the promises.
#[async_trait]
pub trait WebhookStore: Store {
    /// From now on events are kept for these endpoints and for no others. One that is new gets what
    /// happens from now on.
    async fn set_webhook_endpoints(
        &self,
        names: Vec<String>,
        events_max: u64,
    ) -> Result<(), StoreError>;

    /// All endpoints.
    async fn webhook_endpoints(&self) -> Result<Vec<EndpointState>, StoreError>;

    /// The next events of an endpoint; None: it is somebody else's, not due, or not known.
    async fn claim_webhooks(
        &self,
        claim: Claim,
        now: Timestamp,
    ) -> Result<Option<Claimed>, StoreError>;

    /// Notes what became of claimed events; false: the claim was lost.
    async fn settle_webhooks(&self, settled: Settled) -> Result<bool, StoreError>;

    /// Changes whenever this process has pushed or yanked.
    fn changes(&self) -> watch::Receiver<()>;
}

/// The number of events between two.
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
