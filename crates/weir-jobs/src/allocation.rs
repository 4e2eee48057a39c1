//! How workers are shared among queues: the one set of rules that settings fix today and that an
//! advisor may compute.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::QueueName;
use crate::settings::JobServerSettings;

/// What dispatch obeys. A queue without an entry gets [`QueueAllocation::default`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    pub queues: BTreeMap<QueueName, QueueAllocation>,
}

/// One queue's share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueAllocation {
    /// While fewer of its jobs than this run, a FETCH that names the queue serves it first. No setting
    /// sets it yet.
    pub guaranteed_slots: u32,
    /// Weight among the queues of one FETCH that have no guarantee open. None: strict order. No
    /// setting sets it yet.
    pub share: Option<u32>,
    /// At most this many of its jobs run at once.
    pub concurrency: Option<u32>,
    /// Past `target_latency`: newest first, and the oldest with every fifth fetch.
    pub fresh_lane: bool,
    pub target_latency: Option<Duration>,
}

impl Allocation {
    /// What the settings fix.
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
