//! Rates of queues and of their tenants. No fetch examines jobs that may not start yet. A fetch that waits for
//! them is served by the timer when the next one may.
//!
//! Rates are in memory only. After a restart, all begin with their burst.

use weir_base::clock::Timestamp;
use weir_log::Disk;

use super::core::Engine;
use super::fair_queue::RunningLane;
use super::queues::EngineQueue;
use crate::model::QueueName;

impl<D: Disk> Engine<D> {
    /// Wakes the tenants of these queues whose next job may start, by their rates and shared resources, and lets no queue
    /// owe more than its rate allows.
    pub(crate) fn wake_for_fetch(&mut self, queues: &[QueueName], now: Timestamp) {
        let has_resources = !self.state.resources.is_empty();
        if !self.state.queues.have_rates() && !has_resources {
            return;
        }
        self.state.resources.limit_debt(now);
        let blocked = self.blocked_resources(now);
        for name in queues {
            let number = self.state.queues.number(name.as_str());
            let queue = number.and_then(|number| self.state.queues.find_mut(number));
            if let Some(queue) = queue {
                queue.wake(now);
                if let Some(fair) = queue.fair.as_mut().filter(|_| has_resources) {
                    fair.unblock(blocked);
                }
            }
        }
    }

    /// Wakes the tenants of all queues whose next job may start, so that they do not count as blocked.
    pub(crate) fn wake_all(&mut self, now: Timestamp) {
        if self.state.queues.have_rates() {
            self.state.queues.wake_all(now);
        }
    }

    /// Remembers when the next jobs of these queues may start, and for which resources they wait, for a fetch that waits.
    pub(crate) fn sleep_for_fetch(&mut self, queues: &[QueueName], now: Timestamp) {
        if !self.state.queues.have_rates() && self.state.resources.is_empty() {
            return;
        }
        for name in queues {
            let Some(number) = self.state.queues.number(name.as_str()) else { continue };
            let Some(queue) = self.state.queues.find_mut(number) else { continue };
            if queue.paused || queue.lane.len() == 0 {
                continue;
            }
            let by_rates = next_start(queue, now);
            let by_resources = self.wait_for_resources(number, now);
            let Some(at) = by_rates.into_iter().chain(by_resources).min() else { continue };
            let Some(queue) = self.state.queues.find_mut(number) else { continue };
            if queue.wakes_at == Some(at) {
                continue;
            }
            if let Some(earlier) = queue.wakes_at.replace(at) {
                self.state.sleeping.remove(&(earlier, number));
            }
            self.state.sleeping.insert((at, number));
        }
    }

    /// Returns the queues of which a job may start by `now`, up to `max`.
    pub(crate) fn take_awake(&mut self, now: Timestamp, max: usize) -> Vec<u16> {
        let mut awake = Vec::new();
        while awake.len() < max
            && let Some((at, number)) = self.state.sleeping.first().copied()
            && at <= now
        {
            self.state.sleeping.pop_first();
            if let Some(queue) = self.state.queues.find_mut(number) {
                queue.wakes_at = None;
            }
            awake.push(number);
        }
        if !awake.is_empty() {
            self.free_by_rates(now);
        }
        awake
    }

    /// Takes back the start of a job that was just taken and is not handed out.
    pub(crate) fn take_back_start(&mut self, queue: u16, lane: Option<RunningLane>) {
        let Some(queue) = self.state.queues.find_mut(queue) else { return };
        queue.rate.take_back();
        if let (Some(fair), Some(lane)) = (&mut queue.fair, lane) {
            fair.take_back_start(lane);
        }
    }
}

/// Returns when the next job of a queue may start, if its rate or those of its tenants prevent that now.
fn next_start(queue: &EngineQueue, now: Timestamp) -> Option<Timestamp> {
    let of_queue = queue.rate.blocked_until(now);
    of_queue.or_else(|| queue.fair.as_ref().and_then(|fair| fair.next_wake()))
}
