//! What the shards have together, and the state of each.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use futures_util::future::join_all;
use weir_base::clock::Timestamp;
use weir_base::node::merged;
use weir_jobs::model::{QueueName, Wid, WorkerDirective};
use weir_jobs::node::{NodeReport, NodeState};
use weir_jobs::store::{
    Counts, QueueCounts, ShardState, Storage, Store as _, StoreCondition, StoreError, WorkerReport,
};

use super::shard::{Shard, ShardAbsence};
use super::sharded_core::ShardedCore;

impl ShardedCore {
    /// Returns the sums, with the last known figures of shards that can't be used.
    pub(super) async fn counts(&self) -> Counts {
        let read = self.shards.iter().map(async |shard: &Shard| match shard.is_usable() {
            true => shard.store.counts().await,
            false => shard.core().last_known_counts(),
        });
        let mut sum = Counts::default();
        let mut queues: BTreeMap<QueueName, QueueCounts> = BTreeMap::new();
        for counts in join_all(read).await {
            for queue in counts.queues {
                match queues.get_mut(&queue.name) {
                    Some(known) => add_queue(known, &queue),
                    None => drop(queues.insert(queue.name.clone(), queue)),
                }
            }
            sum.scheduled += counts.scheduled;
            sum.retries += counts.retries;
            sum.dead += counts.dead;
            sum.tracked += counts.tracked;
            sum.reserved += counts.reserved;
            sum.processed_total += counts.processed_total;
            sum.failed_total += counts.failed_total;
            sum.pushed_total += counts.pushed_total;
            sum.age = sum.age.max(counts.age);
        }
        let allocation = self.allocation.borrow();
        for (name, queue) in &mut queues {
            let most = allocation.of(name).concurrency;
            let is_full = most.is_some_and(|most| queue.reserved >= u64::from(most));
            // The limit holds for all shards together.
            queue.blocked.concurrency = if is_full { queue.depth } else { 0 };
        }
        let queues = queues.into_values().collect();
        Counts { queues, fetches_waiting: self.line.waiting() as u64, ..sum }
    }

    pub(super) async fn storage(&self) -> Storage {
        let read = self.shards.iter().map(async |shard: &Shard| {
            let (mut problem, mut queues) = (None, Vec::new());
            if shard.is_usable() {
                let storage = shard.store.storage().await;
                shard.memory_bytes.set(storage.bytes);
                problem = part_away(&storage.condition);
                queues = storage.sidekiq_queues;
            }
            ((shard.state(), problem), queues)
        });
        let (states, queues): (Vec<_>, Vec<_>) = join_all(read).await.into_iter().unzip();
        let (shards, partly): (Vec<_>, Vec<_>) = states.into_iter().unzip();
        let sidekiq_queues: BTreeSet<String> = queues.into_iter().flatten().collect();
        let sidekiq_queues = sidekiq_queues.into_iter().collect();
        let away: Vec<String> = self
            .shards
            .iter()
            .filter_map(|shard| shard.check().err())
            .map(|error| error.to_string())
            .collect();
        let all_away = away.len() == self.shards.len();
        let problems: Vec<String> = away.into_iter().chain(partly.into_iter().flatten()).collect();
        let condition = match problems.join("; ") {
            _ if problems.is_empty() => StoreCondition::Ok,
            text if all_away => StoreCondition::Unavailable(text),
            text => StoreCondition::Degraded(text),
        };
        let bytes = shards.iter().map(|shard| shard.memory_bytes).sum();
        let nodes = self.known_nodes();
        let kind = "redis";
        Storage { kind, bytes, condition, shards, nodes, sidekiq_queues, ..Storage::default() }
    }

    /// Returns the nodes, each with its latest report on any shard.
    fn known_nodes(&self) -> Vec<NodeState> {
        merged(self.shards.iter().flat_map(|shard| shard.core().known_nodes()).collect())
    }

    /// Reports this node on every shard, and workers with the jobs that they have from there. Returns
    /// what operators ask of the workers.
    pub(super) async fn exchange_reports(
        &self,
        node: NodeReport,
        workers: Vec<WorkerReport>,
    ) -> Vec<(Wid, WorkerDirective)> {
        let reported = self.on_all(async |shard: &Shard| {
            let of_shard = |worker: &WorkerReport| WorkerReport {
                busy: shard.store.busy(&worker.wid),
                ..worker.clone()
            };
            shard
                .core()
                .exchange_reports(node.clone(), workers.iter().map(of_shard).collect())
                .await
        });
        // What is missed now is reported with the next call.
        reported.await.done.into_iter().flat_map(|(_, directives)| directives).collect()
    }

    /// Stores on every shard when workers sent a BEAT to this node, and returns the latest BEATs that any shard knows.
    pub(super) async fn exchange_beats(
        &self,
        received: &[(Wid, Duration)],
        overdue: &[Wid],
    ) -> Result<Vec<(Wid, Duration)>, StoreError> {
        let exchanged =
            self.on_all(async |shard: &Shard| shard.core().exchange_beats(received, overdue).await);
        let mut latest: HashMap<Wid, Duration> = HashMap::new();
        for (wid, age) in exchanged.await.any_done()?.into_iter().flat_map(|(_, known)| known) {
            latest.entry(wid).and_modify(|least| *least = age.min(*least)).or_insert(age);
        }
        Ok(latest.into_iter().collect())
    }
}

/// Returns what is away of a shard that is a Redis Cluster.
fn part_away(condition: &StoreCondition) -> Option<String> {
    match condition {
        StoreCondition::Degraded(text) => Some(text.clone()),
        _ => None,
    }
}

fn add_queue(sum: &mut QueueCounts, other: &QueueCounts) {
    sum.depth += other.depth;
    sum.oldest = [sum.oldest, other.oldest].into_iter().flatten().min();
    sum.paused |= other.paused;
    sum.reserved += other.reserved;
    sum.pushed_total += other.pushed_total;
    sum.processed_total += other.processed_total;
    sum.failed_total += other.failed_total;
}

impl Shard {
    /// Returns its state, with the figures that were read last.
    fn state(&self) -> ShardState {
        let counts = self.core().last_counts.borrow();
        let absence: Option<ShardAbsence> = self.absence();
        let since: Option<Timestamp> = absence.as_ref().map(|absence| absence.since);
        ShardState {
            name: self.name.clone(),
            address: self.address.clone(),
            drains: self.drains,
            away_since: since,
            problem: absence.map(|absence| absence.reason),
            enqueued: counts.queues.iter().map(|queue| queue.depth).sum(),
            reserved: counts.reserved,
            scheduled: counts.scheduled,
            retries: counts.retries,
            dead: counts.dead,
            memory_bytes: self.memory_bytes.get(),
        }
    }
}
