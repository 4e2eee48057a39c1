//! Chooses the shards that serve a FETCH.
//!
//! The order of the queues holds over all shards. Of the shards that have jobs of a queue, each
//! FETCH asks another one first, so none starves.

use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_jobs::allocation::Allocation;
use weir_jobs::dispatch::{Candidate, Dispatcher};
use weir_jobs::model::QueueName;

use super::readings::{QueueOnShards, ShardReadings};

/// Jobs to take from one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FetchStep {
    pub(super) shard: usize,
    pub(super) queues: Vec<QueueName>,
    pub(super) jobs: usize,
}

/// Plans a FETCH of up to `jobs` jobs, which are then no longer in `readings`. `rotation` is the
/// number of the FETCH.
pub(super) fn in_order(
    queues: &[QueueName],
    jobs: usize,
    readings: &mut ShardReadings,
    rotation: usize,
) -> Vec<FetchStep> {
    let mut steps: Vec<FetchStep> = Vec::new();
    let mut left = jobs;
    for queue in queues {
        let Some(open) = readings.open_mut(queue) else { continue };
        while let Some((shard, depth)) = next_shard(open, rotation) {
            let taken = left.min(usize::try_from(*depth).unwrap_or(usize::MAX));
            if taken == 0 {
                break;
            }
            *depth -= taken as u64;
            left -= taken;
            add(&mut steps, shard, queue, taken, true);
        }
    }
    steps
}

/// Plans a FETCH by the rules of an allocation, as [`in_order`] does without rules.
pub(super) fn by_rules(
    queues: &[QueueName],
    jobs: usize,
    readings: &mut ShardReadings,
    rotation: usize,
    allocation: &Allocation,
    dispatcher: &mut Dispatcher,
    now: Timestamp,
) -> Vec<FetchStep> {
    let mut steps: Vec<FetchStep> = Vec::new();
    for _ in 0..jobs {
        let candidates = queues.iter().enumerate();
        let candidates: Vec<Candidate> = candidates
            .filter_map(|(place, queue)| Some(candidate(place, readings.open(queue)?, now)))
            .collect();
        let Some(choice) = dispatcher.choose(allocation, queues, candidates.into_iter(), now)
        else {
            break;
        };
        let queue = &queues[choice.place];
        let Some(open) = readings.open_mut(queue) else { break };
        let Some((shard, depth)) = next_shard(open, rotation) else { break };
        *depth -= 1;
        let running = open.shards.iter_mut().find(|(place, _)| *place == shard);
        running.into_iter().for_each(|(_, reading)| reading.reserved += 1);
        // The shard applies the rules to the queues of a step again, so it gets one queue.
        add(&mut steps, shard, queue, 1, false);
    }
    steps
}

fn candidate(place: usize, queue: &QueueOnShards, now: Timestamp) -> Candidate {
    let with_jobs = queue.shards.iter().map(|(_, it)| it).filter(|it| it.depth > 0);
    let oldest = with_jobs.filter_map(|it| it.oldest).min().unwrap_or(now);
    let running = queue.shards.iter().map(|(_, it)| it.reserved).sum();
    let (oldest_wait, newest_wait) = (now.since(oldest), Duration::ZERO);
    Candidate { place, running, oldest_wait, newest_wait, is_held_back: false }
}

/// Returns the shard with jobs of a queue whose turn it is, and how many it has.
fn next_shard(queue: &mut QueueOnShards, rotation: usize) -> Option<(usize, &mut u64)> {
    let count = queue.shards.len();
    let mut turns = (0..count).map(|turn| (rotation + turn) % count);
    let turn = turns.find(|turn| queue.shards[*turn].1.depth > 0)?;
    let (shard, reading) = &mut queue.shards[turn];
    Some((*shard, &mut reading.depth))
}

/// Adds jobs of a queue to the last step, if that asks the same shard.
fn add(
    steps: &mut Vec<FetchStep>,
    shard: usize,
    queue: &QueueName,
    jobs: usize,
    may_join_queues: bool,
) {
    if let Some(last) = steps.last_mut().filter(|last| last.shard == shard) {
        let has_queue = last.queues.last() == Some(queue);
        if has_queue || may_join_queues {
            last.jobs += jobs;
            if !has_queue {
                last.queues.push(queue.clone());
            }
            return;
        }
    }
    steps.push(FetchStep { shard, queues: vec![queue.clone()], jobs });
}

#[cfg(test)]
mod tests {
    use weir_jobs::settings::JobServerLimits;

    use super::*;
    use crate::store::replies::QueueReading;

    fn names(text: &str) -> Vec<QueueName> {
        let limits = JobServerLimits::default();
        text.split(' ').map(|name| QueueName::parse(name, &limits).unwrap()).collect()
    }

    fn readings(depths: &[(usize, &str, u64)]) -> ShardReadings {
        let mut readings = ShardReadings::default();
        for (shard, queue, depth) in depths {
            let reading = QueueReading { depth: *depth, ..QueueReading::default() };
            readings.add(*shard, names(queue)[0].clone(), reading);
        }
        readings
    }

    fn shown(steps: &[FetchStep]) -> String {
        let step = |step: &FetchStep| {
            let queues: Vec<&str> = step.queues.iter().map(QueueName::as_str).collect();
            format!("{}:{}:{}", step.shard, queues.join("+"), step.jobs)
        };
        steps.iter().map(step).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_order_of_the_queues_holds_over_all_shards() {
        let depths = [(0, "low", 5), (1, "low", 0), (0, "high", 0), (1, "high", 2), (0, "mid", 1)];
        let plan = |jobs| in_order(&names("high mid low"), jobs, &mut readings(&depths), 0);
        assert_eq!(shown(&plan(1)), "1:high:1");
        assert_eq!(shown(&plan(9)), "1:high:2 0:mid+low:6");
    }

    #[test]
    fn every_shard_with_jobs_has_its_turn() {
        let mut readings = readings(&[(0, "q", 9), (1, "q", 0), (2, "q", 9), (3, "q", 9)]);
        let mut served = [0; 4];
        for rotation in 0..16 {
            let steps = in_order(&names("q"), 1, &mut readings, rotation);
            served[steps[0].shard] += 1;
        }
        assert!(served[0] >= 4 && served[1] == 0 && served[2] >= 4 && served[3] >= 4, "{served:?}");
    }

    #[test]
    fn a_queue_that_is_paused_on_one_shard_is_paused() {
        let mut readings = readings(&[(0, "q", 9)]);
        let paused = QueueReading { paused: true, ..QueueReading::default() };
        readings.add(1, names("q")[0].clone(), paused);
        assert_eq!(in_order(&names("q"), 1, &mut readings, 0), []);
    }

    #[test]
    fn a_cap_counts_the_jobs_of_all_shards() {
        let mut readings = ShardReadings::default();
        for shard in 0..2 {
            let reading = QueueReading { depth: 5, reserved: 1, ..QueueReading::default() };
            readings.add(shard, names("q")[0].clone(), reading);
        }
        let rules =
            weir_jobs::allocation::QueueAllocation { concurrency: Some(3), ..Default::default() };
        let allocation =
            Allocation { queues: [(names("q")[0].clone(), rules)].into(), ..Allocation::default() };
        let now = Timestamp::from_millis(1);
        let dispatcher = &mut Dispatcher::default();
        let steps = by_rules(&names("q"), 9, &mut readings, 1, &allocation, dispatcher, now);
        assert_eq!(shown(&steps), "1:q:1");
    }
}
