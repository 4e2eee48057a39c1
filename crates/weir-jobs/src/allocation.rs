//! How workers are shared among queues. The settings fix these rules today; an advisor may compute
//! them later.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::QueueName;
use crate::settings::JobServerSettings;

/// The rules that dispatch applies. A queue without an entry gets [`QueueAllocation::default`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    pub queues: BTreeMap<QueueName, QueueAllocation>,
}

/// The rules of one queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueAllocation {
    /// While fewer jobs of this queue are running, a FETCH that names the queue is served from it
    /// first. There is no setting for it yet.
    pub guaranteed_slots: u32,
    /// Weight among the queues of one FETCH whose guaranteed slots are in use. `None`: strict
    /// order. There is no setting for it yet.
    pub share: Option<u32>,
    /// Maximum number of jobs of this queue that run at once.
    pub concurrency: Option<u32>,
    /// While latency exceeds `target_latency`: serve the newest job first, and the oldest with
    /// every fifth fetch.
    pub fresh_lane: bool,
    pub target_latency: Option<Duration>,
}

impl Allocation {
    /// Returns the rules that the settings define.
    #[must_use]
    pub fn of_settings(settings: &JobServerSettings) -> Self {
        let queues = settings.queues.iter().map(|(name, queue)| {
            let allocation = QueueAllocation {
                concurrency: queue.concurrency,
                fresh_lane: queue.fresh_lane,
                target_latency: queue.target_latency,
                ..QueueAllocation::default()
            };
            (name.clone(), allocation)
        });
        Self { queues: queues.collect() }
    }
}
