//! The depths of queues with a `jobs_max`, in a store that can't be asked for them at each push.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::model::QueueName;
use crate::store::{QueueCounts, QueueTraffic};

/// The depths of the last sample, which the traffic of this node since then corrects.
#[derive(Debug, Default)]
pub(crate) struct SampledDepths {
    samples: RefCell<HashMap<QueueName, DepthSample>>,
    /// Jobs that are being pushed, and that the traffic does not have yet.
    in_progress: RefCell<HashMap<QueueName, u64>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct DepthSample {
    depth: u64,
    traffic: QueueTraffic,
    /// Jobs that left the queue since the start, to workers of any node. Those that others added hide as many.
    left: u64,
}

impl SampledDepths {
    /// Replaces the samples by those of the queues in `limited`, which exist or not, with the traffic of this node until
    /// their depths were read.
    pub(super) fn sample(&self, limited: Vec<(QueueName, QueueTraffic)>, queues: &[QueueCounts]) {
        let mut samples = self.samples.borrow_mut();
        let before = std::mem::take(&mut *samples);
        for (name, traffic) in limited {
            let depth = queues.iter().find(|queue| queue.name == name).map_or(0, |it| it.depth);
            let left = before.get(name.as_str()).map_or(0, |before| {
                let most = before.depth + traffic.added.saturating_sub(before.traffic.added);
                before.left + most.saturating_sub(depth)
            });
            samples.insert(name, DepthSample { depth, traffic, left });
        }
    }

    /// Returns the depth of a queue, jobs that are being pushed included. 0 for one without a sample.
    pub(crate) fn get(&self, queue: &str, traffic: QueueTraffic) -> u64 {
        let in_progress = self.in_progress.borrow().get(queue).copied().unwrap_or_default();
        let depth = self.samples.borrow().get(queue).map_or(0, |sample| {
            let added = traffic.added.saturating_sub(sample.traffic.added);
            let taken = traffic.taken.saturating_sub(sample.traffic.taken);
            (sample.depth + added).saturating_sub(taken)
        });
        depth + in_progress
    }

    /// Returns how many jobs have left a queue since the start.
    pub(super) fn left(&self, queue: &str) -> u64 {
        self.samples.borrow().get(queue).map_or(0, |sample| sample.left)
    }

    /// Counts a job that is being pushed.
    pub(crate) fn begin_push(&self, queue: &QueueName) {
        *self.in_progress.borrow_mut().entry(queue.clone()).or_default() += 1;
    }

    /// Ends what [`SampledDepths::begin_push`] began. The traffic has the jobs that were stored.
    pub(crate) fn end_pushes(&self, queue: &QueueName, jobs: u64) {
        let mut in_progress = self.in_progress.borrow_mut();
        if let Some(count) = in_progress.get_mut(queue) {
            *count -= jobs;
            if *count == 0 {
                in_progress.remove(queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::JobServerLimits;

    fn name() -> QueueName {
        QueueName::parse("q", &JobServerLimits::default()).unwrap()
    }

    fn sample(depths: &SampledDepths, depth: u64, traffic: QueueTraffic) {
        let counts = QueueCounts {
            name: name(),
            depth,
            oldest: None,
            paused: false,
            reserved: 0,
            pushed_total: 0,
            processed_total: 0,
            failed_total: 0,
            lanes: crate::lanes::LaneCounts::default(),
            arrivals: None,
            blocked: crate::lanes::BlockedJobs::default(),
            blocked_by_resource: Vec::new(),
            in_time: None,
        };
        depths.sample(vec![(name(), traffic)], &[counts]);
    }

    const fn traffic(added: u64, taken: u64) -> QueueTraffic {
        QueueTraffic { added, taken }
    }

    #[test]
    fn the_nodes_own_traffic_corrects_the_last_sample() {
        let depths = SampledDepths::default();
        assert_eq!(depths.get("q", traffic(9, 0)), 0, "not sampled");
        sample(&depths, 10, traffic(100, 90));
        assert_eq!(depths.get("q", traffic(100, 90)), 10);
        assert_eq!(depths.get("q", traffic(5_100, 5_095)), 5, "10 + 5,000 - 5,005");
        assert_eq!(depths.get("q", traffic(100, 200)), 0, "others have added some");
    }

    #[test]
    fn a_push_counts_while_it_is_in_progress() {
        let depths = SampledDepths::default();
        sample(&depths, 10, traffic(0, 0));
        (0..3).for_each(|_| depths.begin_push(&name()));
        assert_eq!(depths.get("q", traffic(0, 0)), 13);
        // One of them failed.
        depths.end_pushes(&name(), 3);
        assert_eq!(depths.get("q", traffic(2, 0)), 12);
    }

    #[test]
    fn jobs_that_others_take_have_left_the_queue() {
        let depths = SampledDepths::default();
        for (depth, added, taken, left) in
            [(100, 0, 0, 0), (40, 0, 0, 60), (30, 50, 20, 120), (90, 50, 20, 120)]
        {
            sample(&depths, depth, traffic(added, taken));
            assert_eq!(depths.left("q"), left, "{depth} {added}");
        }
        depths.sample(vec![(name(), traffic(50, 20))], &[]);
        assert_eq!((depths.get("q", traffic(50, 20)), depths.left("q")), (0, 210));
        depths.sample(Vec::new(), &[]);
        assert_eq!(depths.left("q"), 0, "it has no limit any more");
    }
}
