//! Connections to all nodes of a Redis Cluster that have slots, as one connection.
//!
//! The client library's cluster client sends a command again after its connection broke, also one that
//! may have been executed. Here a command is sent again only if a node has said that it was not executed
//! (`MOVED`, `ASK`, `TRYAGAIN`, `CLUSTERDOWN`). A connection that failed is not repaired, and a node that
//! is new is not connected to: both are errors, after which the user opens all of them again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, Value};

use crate::cluster_slots::{NodeAddress, Redirect, SlotRange, is_redirect};
use crate::slots::slot_of_command;

/// How often a command is sent at most. With the waits this is half a second to a second, in which a slot
/// may move.
const ATTEMPTS_MAX: u32 = 40;
/// The wait after `TRYAGAIN` or `CLUSTERDOWN`.
const RETRY_WAIT: Duration = Duration::from_millis(25);

/// The connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClusterConnection(Arc<ClusterNodes>);

#[derive(Debug)]
struct ClusterNodes {
    nodes: Vec<ClusterNode>,
    /// Held for a lookup, never across an await. The first range that has a slot counts.
    ranges: Mutex<Vec<SlotRange>>,
}

/// A node that has slots.
#[derive(Clone, Debug)]
pub struct ClusterNode {
    /// Its address, as the cluster names it.
    pub address: NodeAddress,
    /// The connection to it.
    pub connection: MultiplexedConnection,
}

impl ClusterConnection {
    /// Returns the connections to these nodes, at least one, as one connection.
    #[must_use]
    pub fn new(nodes: Vec<ClusterNode>, ranges: Vec<SlotRange>) -> Self {
        Self(Arc::new(ClusterNodes { nodes, ranges: Mutex::new(ranges) }))
    }

    /// Returns the address of the node that has a slot, as far as is known.
    #[must_use]
    pub fn owner_of(&self, slot: u16) -> Option<NodeAddress> {
        let ranges = self.ranges();
        let range = ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
        range.map(|range| range.node.clone())
    }

    /// Notes the owner of a slot that a node has named.
    pub fn note_owner(&self, slot: u16, owner: NodeAddress) {
        let mut ranges = self.ranges();
        ranges.retain(|range| (range.first, range.last) != (slot, slot));
        ranges.insert(0, SlotRange { first: slot, last: slot, node: owner });
    }

    /// Sends a command without keys to each node. Returns the first error, or the first reply.
    async fn send_to_all(&self, command: &Cmd) -> RedisResult<Value> {
        let sending = self.0.nodes.iter().map(|node| {
            let mut connection = node.connection.clone();
            async move { connection.send_packed_command(command).await }
        });
        let mut replies = join_all(sending).await;
        let failed = replies.iter().position(|reply| !is_fine(reply));
        replies.swap_remove(failed.unwrap_or_default())
    }

    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        match slot_of_command(command) {
            Some(slot) => self.send_to_owner(slot, command).await,
            None => self.send_to_all(command).await,
        }
    }

    /// Sends a command to the node that has the slot.
    async fn send_to_owner(&self, slot: u16, command: &Cmd) -> RedisResult<Value> {
        let mut target = self.owner_of(slot);
        let (mut is_asking, mut reply) = (false, Err(unknown_owner(slot)));
        for _ in 0..ATTEMPTS_MAX {
            let Some(node) = target.as_ref().and_then(|target| self.node(target)) else {
                return reply.and(Err(unknown_owner(slot)));
            };
            reply = send_to(node, command, is_asking).await;
            is_asking = false;
            match Redirect::of(&reply, &node.address.0) {
                None => return reply,
                Some(Redirect::Moved(owner)) => {
                    self.note_owner(slot, owner.clone());
                    target = Some(owner);
                }
                Some(Redirect::Ask(owner)) => (target, is_asking) = (Some(owner), true),
                Some(Redirect::Wait) => {
                    tokio::time::sleep(RETRY_WAIT).await;
                    target = self.owner_of(slot);
                }
            }
        }
        reply
    }

    /// Sends the commands of a pipeline to the nodes that have their keys, those of one node in order.
    async fn send_pipeline(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
        let mut parts: BTreeMap<Option<NodeAddress>, Vec<usize>> = BTreeMap::new();
        for (place, command) in commands.iter().enumerate() {
            let owner = slot_of_command(command).and_then(|slot| self.owner_of(slot));
            parts.entry(owner).or_default().push(place);
        }
        let sending = parts.iter().map(|(owner, places)| {
            self.send_part(owner.as_ref(), places.iter().map(|place| commands[*place]).collect())
        });
        let mut values = vec![Value::Nil; commands.len()];
        for (places, replies) in parts.values().zip(join_all(sending).await) {
            for (place, reply) in places.iter().zip(replies?) {
                values[*place] = reply;
            }
        }
        Ok(values)
    }

    /// Sends commands to one node, and then again those that it has not executed.
    async fn send_part(
        &self,
        owner: Option<&NodeAddress>,
        commands: Vec<&Cmd>,
    ) -> RedisResult<Vec<Value>> {
        let mut replies = match owner.and_then(|owner| self.node(owner)) {
            None => Vec::new(),
            Some(node) => {
                let mut part = Pipeline::with_capacity(commands.len());
                for command in &commands {
                    part.add_command((*command).clone());
                }
                node.connection.clone().send_packed_commands(&part, 0, commands.len()).await?
            }
        };
        replies.resize(commands.len(), Value::Nil);
        let was_sent = owner.is_some_and(|owner| self.node(owner).is_some());
        for (reply, command) in replies.iter_mut().zip(commands) {
            if !was_sent || is_redirect(reply) {
                *reply = self.send(command).await?;
            }
        }
        Ok(replies)
    }

    /// Sends a transaction, all of whose keys are in one slot.
    async fn send_transaction(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let slot = pipeline.cmd_iter().find_map(slot_of_command).unwrap_or_default();
        let owner = self.owner_of(slot);
        let node = owner.as_ref().and_then(|owner| self.node(owner));
        let node = node.ok_or_else(|| unknown_owner(slot))?;
        node.connection.clone().send_packed_commands(pipeline, offset, count).await
    }

    fn node(&self, address: &NodeAddress) -> Option<&ClusterNode> {
        self.0.nodes.iter().find(|node| node.address == *address)
    }

    fn ranges(&self) -> MutexGuard<'_, Vec<SlotRange>> {
        self.0.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionLike for ClusterConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.send(command))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            match pipeline.is_transaction() {
                true => self.send_transaction(pipeline, offset, count).await,
                false => self.send_pipeline(pipeline).await,
            }
        })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

async fn send_to(node: &ClusterNode, command: &Cmd, is_asking: bool) -> RedisResult<Value> {
    let mut connection = node.connection.clone();
    if !is_asking {
        return connection.send_packed_command(command).await;
    }
    let mut both = Pipeline::with_capacity(2);
    both.cmd("ASKING").add_command(command.clone());
    let reply = connection.send_packed_commands(&both, 1, 1).await?;
    Ok(reply.into_iter().next().unwrap_or(Value::Nil))
}

fn is_fine(reply: &RedisResult<Value>) -> bool {
    matches!(reply, Ok(value) if !matches!(value, Value::ServerError(_)))
}

/// Returns the error of a slot whose node is not connected. Nothing was executed.
fn unknown_owner(slot: u16) -> RedisError {
    let line = format!("-MOVED {slot} to a node that is not connected yet\r\n");
    match redis::parse_redis_value(line.as_bytes()).and_then(Value::extract_error) {
        Err(error) => error,
        Ok(_) => RedisError::from((ErrorKind::Client, "no node has the slot")),
    }
}
