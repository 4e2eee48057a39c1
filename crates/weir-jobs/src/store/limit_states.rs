//! What limits allow now, beyond [`Counts`](super::Counts): for people.

use weir_base::clock::Timestamp;

pub use crate::lanes::LimitKind;
use crate::model::QueueName;

/// What the limits of a store allow now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitStates {
    /// Queues with a limit of their own or of their tenants.
    pub queues: Vec<QueueLimitState>,
    /// When the next job may start that uses a shared resource, by name. Resources whose rate prevents no job are left out.
    pub resources: Vec<(String, Timestamp)>,
}

impl LimitStates {
    /// Returns the limit of jobs at once of a queue that is in force.
    #[must_use]
    pub fn concurrency(&self, queue: &QueueName) -> Option<u32> {
        self.queues.iter().find(|state| state.name == *queue)?.concurrency
    }
}

/// What the limits of a queue allow now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueLimitState {
    pub name: QueueName,
    /// The limit of jobs at once that is in force: lower than that of the settings for a while after a crash.
    pub concurrency: Option<u32>,
    /// When the next job may start by the rate of the queue, if that is later than now.
    pub next_start: Option<Timestamp>,
    /// The tenants with the most jobs that a limit holds back.
    pub tenants: Vec<TenantLimitState>,
}

/// A tenant with jobs that a limit holds back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantLimitState {
    /// `None`: it has none, or its job could not be read.
    pub name: Option<String>,
    /// Several tenants share its lane; the name is that of one of them.
    pub is_shared: bool,
    pub waiting: u64,
    pub running: u64,
    /// The limit of jobs at once that is in force.
    pub concurrency: Option<u32>,
    pub blocked_by: LimitKind,
    /// When its next job may start by its rate, if that is later than now.
    pub next_start: Option<Timestamp>,
}
