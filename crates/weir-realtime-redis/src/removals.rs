//! Nodes that have ended, whose subscriptions and members are removed from Redis one round trip at a
//! time, so that a node with many of them delays nothing else.

use std::collections::VecDeque;
use std::sync::Arc;

use redis::{Pipeline, RedisResult, Value};
use tokio::time::Instant;
use weir_realtime::hub::Hub;

use crate::command_connection::CommandConnection;
use crate::log::RedisLog;
use crate::partition::Partition;
use crate::rejections::{RETRY, accepted, unless_rejected};
use crate::scripts;

/// Nodes that wait. A later heartbeat finds those that had no room.
const NODES_MAX: usize = 256;
/// Partitions from which members are removed in one round trip, at most 1,000 from each, and
/// subscriptions of at most 200 channels. A node with nothing takes 32 round trips.
const PARTITIONS_MAX: usize = 8;

/// Nodes whose leases have ended, the first one being removed.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    nodes: VecDeque<Removal>,
    /// When the next step is due, after Redis has rejected a part of the last one.
    resumes_at: Option<Instant>,
}

#[derive(Debug)]
struct Removal {
    node: Arc<str>,
    /// Partitions in which the node may have subscriptions or members.
    partitions: VecDeque<Partition>,
}

impl Removals {
    /// Returns whether one more node may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.nodes.len() < NODES_MAX
    }

    /// Returns whether this node is being removed.
    pub(crate) fn contains(&self, node: &str) -> bool {
        self.nodes.iter().any(|removal| *removal.node == *node)
    }

    /// Adds a node whose lease has ended.
    pub(crate) fn add(&mut self, node: &str) {
        let partitions = Partition::all().collect();
        self.nodes.push_back(Removal { node: Arc::from(node), partitions });
    }

    /// Returns whether any node is being removed.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns when the next step is due. None: no node is being removed.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        (!self.is_empty()).then(|| self.resumes_at.unwrap_or_else(Instant::now))
    }

    /// Removes a part of what the first node has and, at the end, its lease. Other nodes may do the same at
    /// once: everything is removed once. If this node ends meanwhile, others continue when the
    /// lease has been the same for long enough.
    pub(crate) async fn step(
        &mut self,
        log: &RedisLog,
        hub: &Hub,
        connection: &mut CommandConnection,
    ) -> RedisResult<()> {
        let Some(Removal { node, partitions }) = self.nodes.front_mut() else { return Ok(()) };
        let some: Vec<Partition> =
            partitions.drain(..PARTITIONS_MAX.min(partitions.len())).collect();
        let Some(present) = log.identities.present() else { return Ok(()) };
        let nodes = EndedNode { node, present: &present };
        let (left, is_rejected) = nodes.remove_some(log, hub, connection, &some).await?;
        partitions.extend(left);
        self.resumes_at = is_rejected.then(|| Instant::now() + RETRY);
        if partitions.is_empty() {
            if !nodes.is_own_end() {
                // A lease that is left is found again when it has been the same for long enough.
                let removed = scripts::remove_lease(&log.keys, node).exec_async(connection).await;
                unless_rejected(removed)?;
                log.identities.remove(node);
            }
            self.nodes.pop_front();
        }
        Ok(())
    }
}

/// A node that has ended, and the one that removes it.
#[derive(Clone, Copy)]
struct EndedNode<'a> {
    node: &'a str,
    present: &'a str,
}

impl EndedNode<'_> {
    /// Returns whether this node removes itself, because it stops. Another one takes over what is left of
    /// its webhooks.
    fn is_own_end(self) -> bool {
        self.node == self.present
    }

    /// Removes a part of what the node has in these partitions. Returns those that may have more, and whether
    /// Redis rejects any of them for now.
    async fn remove_some(
        self,
        log: &RedisLog,
        hub: &Hub,
        connection: &mut CommandConnection,
        partitions: &[Partition],
    ) -> RedisResult<(Vec<Partition>, bool)> {
        let Self { node, present } = self;
        let mut pipeline = Pipeline::with_capacity(3 * partitions.len());
        for partition in partitions {
            pipeline.add_command(scripts::remove_node(&log.keys, node, present, *partition));
            pipeline.add_command(scripts::remove_counts(&log.keys, node, present, *partition));
            if !self.is_own_end() {
                pipeline.add_command(scripts::take_hooks(&log.keys, node, present, *partition));
            }
        }
        let replies: Vec<Value> = pipeline.ignore_errors().query_async(connection).await?;
        // Nothing inside for a part of which nothing is left.
        let replies: Vec<Option<Option<Vec<String>>>> =
            replies.into_iter().map(accepted).collect::<RedisResult<_>>()?;
        let (mut left, mut is_rejected) = (Vec::new(), false);
        for (partition, replies) in
            partitions.iter().zip(replies.chunks(if self.is_own_end() { 2 } else { 3 }))
        {
            is_rejected |= replies.iter().any(Option::is_none);
            if replies.iter().any(|reply| *reply != Some(None)) {
                left.push(*partition);
            }
            for (index, words) in replies.iter().enumerate() {
                let words = words.as_ref().and_then(Option::as_deref).unwrap_or_default();
                match index {
                    0 | 1 => log.hooks.add(hub, words),
                    _ => log.hooks.take_over(hub, words),
                }
            }
        }
        Ok((left, is_rejected))
    }
}
