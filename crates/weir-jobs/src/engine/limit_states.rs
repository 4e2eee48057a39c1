//! What limits allow now, for people.

use weir_base::clock::Timestamp;
use weir_log::Disk;

use super::core::Engine;
use super::queues::EngineQueue;
use crate::lanes::LimitedLane;
use crate::store::limit_states::{LimitStates, QueueLimitState, TenantLimitState};

impl<D: Disk> Engine<D> {
    /// Returns what limits allow now, with up to `tenants_max` tenants of each queue. This reads one record for each of
    /// them, for its name.
    pub(crate) fn limit_states(&mut self, now: Timestamp, tenants_max: usize) -> LimitStates {
        self.wake_all(now);
        let visible = self.state.queues.iter().filter(|(_, queue)| !queue.hidden);
        let limited = visible.filter(|(_, queue)| self.allocation.of(&queue.name).has_limits());
        let state = |(_, queue): (u16, &EngineQueue)| QueueLimitState {
            name: queue.name.clone(),
            concurrency: self.allocation.of(&queue.name).concurrency,
            next_start: queue.rate.blocked_until(now),
            tenants: self.limited_tenants(queue, tenants_max),
        };
        LimitStates {
            queues: limited.map(state).collect(),
            resources: self.state.resources.next_starts(now),
        }
    }

    fn limited_tenants(&self, queue: &EngineQueue, max: usize) -> Vec<TenantLimitState> {
        let Some(fair) = &queue.fair else { return Vec::new() };
        let mut buffer = Vec::new();
        let tenant = |(lane, job): (LimitedLane, _)| {
            let position = self.state.arena.get(job).position;
            let body = self.journal.read(position, &mut buffer);
            TenantLimitState {
                name: body.ok().and_then(|body| fair.tenant_name(body.json)),
                is_shared: lane.is_shared,
                waiting: u64::from(lane.waiting),
                running: u64::from(lane.running),
                concurrency: lane.running_max,
                blocked_by: lane.blocked_by,
                next_start: lane.next_start,
            }
        };
        fair.limited(max).into_iter().map(tenant).collect()
    }
}
