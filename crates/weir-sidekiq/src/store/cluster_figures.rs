//! What each node of a Redis Cluster has of the jobs, and what it reports of itself.

use std::collections::BTreeMap;

use redis::from_redis_value;
use weir_jobs::metrics::{CommandFigures, StoreServerFigures};
use weir_jobs::model::SetName;
use weir_jobs::store::{Counts, ShardState};
use weir_redis::cluster::ClusterNodeState;
use weir_redis::slots::slot_of;

use super::link_connection::LinkConnection;
use super::server_info::{INFO_SECTIONS, ServerInfo};
use super::store_core::StoreCore;

/// Figures by the address of the node.
pub(super) type NodeFigures = Vec<(String, StoreServerFigures)>;

impl StoreCore {
    /// Returns the nodes of a cluster, with the figures that were read last. None for another Redis.
    pub(super) fn cluster_shards(&self) -> Vec<ShardState> {
        let Some(cluster) = self.link.cluster() else { return Vec::new() };
        let memory = self.memory.borrow();
        let bytes = |name: &str| memory.as_ref()?.bytes.get(name).copied();
        let state = |node: ClusterNodeState| ShardState {
            away_since: node.away.map(|lasts| self.now() - lasts),
            problem: node.problem,
            memory_bytes: bytes(&node.name).unwrap_or_default(),
            address: node.name.clone(),
            name: node.name,
            ..ShardState::default()
        };
        let mut shards: Vec<ShardState> = cluster.node_states().into_iter().map(state).collect();
        let mut add = |key: &str, add: &dyn Fn(&mut ShardState)| {
            let owner = cluster.owner_name(slot_of(key.as_bytes()));
            shards.iter_mut().filter(|shard| Some(&shard.name) == owner.as_ref()).for_each(add);
        };
        let counts = self.last_counts.borrow();
        for queue in &counts.queues {
            add(&self.keys.list(queue.name.as_str()), &|shard| {
                shard.enqueued += queue.depth;
                shard.reserved += queue.reserved;
            });
        }
        add(&self.keys.scheduled(), &|shard| shard.scheduled += counts.scheduled);
        add(&self.keys.retries(), &|shard| shard.retries += counts.retries);
        add(&self.keys.dead(), &|shard| shard.dead += counts.dead);
        shards
    }

    /// Replaces the figures of nodes that are away by the last known ones.
    pub(super) fn keep_figures_of_absent_nodes(&self, counts: &mut Counts) {
        let Some(cluster) = self.link.cluster() else { return };
        let nodes = cluster.node_states().into_iter();
        let absent: Vec<String> = nodes.filter(|it| it.away.is_some()).map(|it| it.name).collect();
        let is_absent = |key: &str| {
            let owner = cluster.owner_name(slot_of(key.as_bytes()));
            owner.is_some_and(|owner| absent.contains(&owner))
        };
        let last = self.last_counts.borrow();
        for queue in &mut counts.queues {
            let known = last.queues.iter().find(|known| known.name == queue.name);
            let Some(known) = known.filter(|_| is_absent(&self.keys.list(queue.name.as_str())))
            else {
                continue;
            };
            counts.reserved += known.reserved;
            (queue.depth, queue.reserved) = (known.depth, known.reserved);
            (queue.oldest, queue.paused) = (known.oldest, known.paused);
        }
        let keep = |set, count: &mut u64, known: u64| {
            if is_absent(&self.set_key(set)) {
                *count = known;
            }
        };
        keep(SetName::Scheduled, &mut counts.scheduled, last.scheduled);
        keep(SetName::Retries, &mut counts.retries, last.retries);
        keep(SetName::Dead, &mut counts.dead, last.dead);
    }

    /// Reads what each node reports of itself. Nodes that are away, or permit no `INFO`, are left out.
    pub(super) async fn read_node_figures(&self, connection: &LinkConnection) -> NodeFigures {
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for section in INFO_SECTIONS {
            for (node, info) in connection.send_to_all(redis::cmd("INFO").arg(section)).await {
                texts.entry(node).or_default().extend(from_redis_value::<String>(info).ok());
            }
        }
        let at = self.now();
        let figures = texts.into_iter().filter_map(|(node, texts)| {
            let [memory, cpu, commands]: [String; 3] = texts.try_into().ok()?;
            let figures = ServerInfo { memory, cpu, commands }.figures()?;
            Some((node, StoreServerFigures { at, ..figures }))
        });
        figures.collect()
    }
}

/// Returns the sums of all nodes, or `None` if there are no figures.
pub(super) fn sum_of(nodes: &[(String, StoreServerFigures)]) -> Option<StoreServerFigures> {
    let mut figures = nodes.iter().map(|(_, figures)| figures);
    let mut sum = figures.next()?.clone();
    for node in figures {
        sum.memory_bytes += node.memory_bytes;
        sum.memory_bytes_max += node.memory_bytes_max;
        sum.cpu_seconds += node.cpu_seconds;
        node.commands.iter().for_each(|command| add_command(&mut sum.commands, command));
    }
    Some(sum)
}

fn add_command(commands: &mut Vec<CommandFigures>, other: &CommandFigures) {
    match commands.iter_mut().find(|command| command.name == other.name) {
        Some(command) => {
            command.calls += other.calls;
            command.took += other.took;
        }
        None => commands.push(other.clone()),
    }
}
