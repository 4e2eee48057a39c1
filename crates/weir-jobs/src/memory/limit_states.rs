//! What limits allow now, for people.

use weir_base::clock::Timestamp;

use super::state::{MemoryQueue, MemoryState};
use crate::model::QueueName;
use crate::store::limit_states::{LimitStates, QueueLimitState, TenantLimitState};

impl MemoryState {
    /// Returns what limits allow now, with up to `tenants_max` tenants of each queue.
    pub(super) fn limit_states(&mut self, now: Timestamp, tenants_max: usize) -> LimitStates {
        for fair in self.queues.values_mut().filter_map(|queue| queue.fair.as_mut()) {
            fair.wake(now);
        }
        let visible = self.queues.iter().filter(|(_, queue)| !queue.hidden);
        let limited = visible.filter(|(name, _)| self.allocation.of(name).has_limits());
        let state = |(name, queue): (&QueueName, &MemoryQueue)| QueueLimitState {
            name: name.clone(),
            concurrency: self.allocation.of(name).concurrency,
            next_start: queue.rate.blocked_until(now),
            tenants: self.limited_tenants(queue, tenants_max),
        };
        LimitStates {
            queues: limited.map(state).collect(),
            resources: self.resources.next_starts(now),
        }
    }

    fn limited_tenants(&self, queue: &MemoryQueue, max: usize) -> Vec<TenantLimitState> {
        let Some(fair) = &queue.fair else { return Vec::new() };
        let limited = fair.limited(max).into_iter();
        let tenant = |(lane, id): (crate::lanes::LimitedLane, _)| TenantLimitState {
            name: fair.tenant_name(&self.job(id).json),
            is_shared: lane.is_shared,
            waiting: u64::from(lane.waiting),
            running: u64::from(lane.running),
            concurrency: lane.running_max,
            blocked_by: lane.blocked_by,
            next_start: lane.next_start,
        };
        limited.map(tenant).collect()
    }
}
