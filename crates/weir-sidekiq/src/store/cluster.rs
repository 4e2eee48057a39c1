//! The nodes of a Redis Cluster: which of them has which slots, and a link to each.
//!
//! The client library's cluster client sends a command again after its connection broke, also one that
//! may have been executed, such as a push. Here a command is sent again only if a server has said that
//! it was not executed (`MOVED`, `ASK`, `TRYAGAIN`, `CLUSTERDOWN`) or nothing was sent. Each node has a
//! link of its own, so a node that is away fails only the commands for its slots.
//!
//! - `condition`: which slots are served, and the state of each node.

mod condition;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use redis::{Cmd, Pipeline, RedisError, RedisFuture, RedisResult, Value};
use tokio::time::Instant;
use weir_jobs::store::StoreError;
use weir_redis::cluster_slots::{
    NodeAddress, Redirect, SlotRange, is_redirect, name_of, parse_slots, slots_command,
};
use weir_redis::slots::slot_of_command;

pub(super) use self::condition::ClusterNode;
use super::link_connection::{LinkConnection, ManyServers, NamedReply};

/// How often a command is sent at most. With the waits this is two seconds, in which a slot may move or
/// a node learn its state.
const ATTEMPTS_MAX: u32 = 8;
/// The first wait after `TRYAGAIN` or `CLUSTERDOWN`. Each further one is twice as long.
const RETRY_WAIT: Duration = Duration::from_millis(8);
/// Between two readings of the slots.
const REFRESH_WAIT: Duration = Duration::from_millis(100);
/// Nodes that are connected to. Redis recommends at most 1,000.
const NODES_MAX: usize = 1_000;
/// The code of the error of a node that is away.
pub(super) const AWAY: &str = "WEIRNODEAWAY";

/// The link to one node.
pub(super) trait NodeLink: fmt::Debug + Send + Sync {
    /// Returns the connection, opening one if there is none and it is time for another attempt.
    fn connection(&self) -> BoxFuture<'_, Result<LinkConnection, StoreError>>;

    /// Returns why there is no connection, or `None` if there is one or none was needed yet.
    fn absence_text(&self) -> Option<String>;

    /// Returns for how long there has been none, or `None` as above.
    fn absence_lasts(&self) -> Option<Duration>;
}

/// Makes the links to nodes.
pub(super) trait NodeLinks: fmt::Debug + Send + Sync {
    fn link(&self, host: &str, port: u16) -> Arc<dyn NodeLink>;

    /// Returns the host of the server that leads to the cluster, for nodes that leave out theirs.
    fn seed_host(&self) -> &str;

    /// Asks that server for the slots, over a connection of its own.
    fn read_slots(&self) -> BoxFuture<'_, Option<Value>>;
}

/// A cluster, as its nodes describe it.
#[derive(Debug)]
pub(super) struct Cluster {
    links: Box<dyn NodeLinks>,
    /// Connections are used by futures that may move between threads, so it is std's. Held for
    /// moments, never across an await.
    map: Mutex<ClusterMap>,
    /// Held while the slots are read. Across awaits, so tokio's.
    refreshing: tokio::sync::Mutex<()>,
    /// Whether the nodes reject all commands, because the cluster is not complete.
    rejects_all: AtomicBool,
}

#[derive(Debug, Default)]
struct ClusterMap {
    /// By address.
    nodes: BTreeMap<NodeAddress, Arc<dyn NodeLink>>,
    ranges: Vec<SlotRange>,
    refreshed: Option<Instant>,
}

impl Cluster {
    /// Reads the cluster of the server that `connection` leads to. The error follows the server's name.
    pub(super) async fn open(
        links: Box<dyn NodeLinks>,
        connection: &mut redis::aio::MultiplexedConnection,
    ) -> RedisResult<Result<Self, String>> {
        let slots: Value = slots_command().query_async(connection).await?;
        let ranges = parse_slots(&slots, links.seed_host());
        if ranges.is_empty() {
            let text = "is a node of a Redis Cluster that has no slots: create the cluster \
                        (redis-cli --cluster create)";
            return Ok(Err(text.to_owned()));
        }
        let (map, refreshing, rejects_all) = Default::default();
        let cluster = Self { links, map, refreshing, rejects_all };
        cluster.replace(ranges);
        Ok(Ok(cluster))
    }

    /// Tries to connect to the nodes that are away.
    pub(super) async fn probe(&self) {
        let nodes = self.nodes();
        let away = nodes.iter().filter(|node| node.absence_text().is_some());
        let probed = join_all(away.map(|node| node.connection())).await;
        if probed.is_empty() {
            return;
        }
        // Others may have taken their places.
        self.refresh().await;
        if self.absence_text().is_some()
            && let Some(slots) = self.links.read_slots().await
        {
            // All nodes may have other addresses now.
            self.replace_if_any(&slots);
        }
    }

    /// Connects to all nodes. Returns why some can't be used.
    pub(super) async fn check_nodes(&self) -> Result<(), String> {
        let nodes = self.map().nodes.clone();
        let checking = nodes.iter().map(|(address, node)| async move {
            node.connection().await.err().map(|error| (address, error.to_string()))
        });
        let mut failed = join_all(checking).await.into_iter().flatten();
        let Some((_, text)) = failed.next() else { return Ok(()) };
        let others: Vec<_> = failed.map(|(address, _)| name_of(address)).collect();
        Err(match others.len() {
            0 => text,
            _ => format!("{text}; other nodes that can't be used: {}", others.join(", ")),
        })
    }

    /// Sends a command to the node that has its keys. One without keys goes to any node, and a script
    /// that is loaded to all.
    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let Some(slot) = slot_of_command(command) else {
            let mut replies = self.send_to_all(command).await.into_iter().map(|(_, reply)| reply);
            let first = replies.next().unwrap_or_else(|| Ok(away("the cluster has no nodes")));
            return replies.find(is_usable).unwrap_or(first);
        };
        let reply = self.send_to_owner(slot, command).await;
        self.note_state(&reply);
        reply
    }

    /// Sends a command to the node that has the slot.
    async fn send_to_owner(&self, slot: u16, command: &Cmd) -> RedisResult<Value> {
        let mut target = self.owner_of(slot);
        let mut asking = false;
        let mut reply = Ok(away("no node of the cluster has the slot of this key"));
        for attempt in 0..ATTEMPTS_MAX {
            let Some(node) = target.clone() else {
                self.refresh().await;
                target = self.owner_of(slot);
                tokio::time::sleep(RETRY_WAIT * 2_u32.pow(attempt)).await;
                continue;
            };
            let link = self.node(&node);
            reply = send_to(&*link, command, asking).await;
            asking = false;
            match Redirect::of(&reply, &node.0) {
                Some(Redirect::Moved(owner)) => {
                    self.assign(slot, &owner);
                    self.refresh().await;
                    target = Some(owner);
                }
                Some(Redirect::Ask(owner)) => (target, asking) = (Some(owner), true),
                Some(Redirect::Wait) => {
                    tokio::time::sleep(RETRY_WAIT * 2_u32.pow(attempt)).await;
                    self.refresh().await;
                    target = self.owner_of(slot);
                }
                None if link.absence_text().is_some() => {
                    self.refresh().await;
                    // Another node may have taken its place. What was sent is not sent again.
                    let owner = self.owner_of(slot);
                    if !is_away(&reply) || owner == target {
                        return reply;
                    }
                    target = owner;
                }
                None => return reply,
            }
        }
        reply
    }

    /// Sends the commands of a pipeline to the nodes that have their keys, those of one node in order.
    /// A node that is away replies with an error to its commands.
    async fn send_pipeline(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        if pipeline.is_transaction() {
            return self.send_transaction(pipeline, offset, count).await;
        }
        let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
        let mut parts: BTreeMap<Option<NodeAddress>, Vec<usize>> = BTreeMap::new();
        for (place, command) in commands.iter().enumerate() {
            let owner = slot_of_command(command).and_then(|slot| self.owner_of(slot));
            parts.entry(owner).or_default().push(place);
        }
        let sending = parts.into_iter().map(|(node, places)| {
            let commands = &commands;
            async move {
                let mut replies = match &node {
                    Some(node) => self.send_part(node, commands, &places).await,
                    None => None,
                };
                let mut values = Vec::with_capacity(places.len());
                for (index, place) in places.into_iter().enumerate() {
                    let first =
                        replies.as_mut().map(|it| std::mem::replace(&mut it[index], Value::Nil));
                    let value = match first {
                        Some(value) if !is_redirect(&value) => value,
                        // It was not executed.
                        _ => self.send(commands[place]).await.unwrap_or_else(|it| away_of(&it)),
                    };
                    values.push((place, value));
                }
                values
            }
        });
        let mut values: Vec<_> = join_all(sending).await.into_iter().flatten().collect();
        values.sort_unstable_by_key(|(place, _)| *place);
        Ok(values.into_iter().map(|(_, value)| value).skip(offset).take(count).collect())
    }

    /// Sends some commands to a node. `None`: nothing was sent.
    async fn send_part(
        &self,
        node: &NodeAddress,
        commands: &[&Cmd],
        places: &[usize],
    ) -> Option<Vec<Value>> {
        let link = self.node(node);
        if link.absence_text().is_some() {
            return None;
        }
        let connection = link.connection().await.ok()?;
        let mut part = Pipeline::with_capacity(places.len());
        for place in places {
            part.add_command(commands[*place].clone());
        }
        match connection.send_pipeline_to_server(&part, 0, places.len()).await {
            Ok(values) if values.len() == places.len() => Some(values),
            Ok(_) => None,
            Err(error) => {
                self.refresh().await;
                Some(places.iter().map(|_| away_of(&error)).collect())
            }
        }
    }

    /// Sends a transaction, all of whose keys are in one slot.
    async fn send_transaction(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let slot = pipeline.cmd_iter().find_map(slot_of_command);
        let Some(node) = slot.and_then(|slot| self.owner_of(slot)) else {
            self.refresh().await;
            return Ok(vec![away("no node of the cluster has the slot of these keys")]);
        };
        let link = self.node(&node);
        if let Some(text) = link.absence_text() {
            return Ok(vec![away(&text)]);
        }
        let connection = match link.connection().await {
            Ok(connection) => connection,
            Err(error) => {
                self.refresh().await;
                return Ok(vec![away(&error.to_string())]);
            }
        };
        let reply = connection.send_pipeline_to_server(pipeline, offset, count).await;
        if reply.as_ref().is_err() || reply.iter().flatten().any(is_aborted) {
            self.refresh().await;
        }
        reply
    }

    /// Sends a command to each node. The replies of nodes that are away are errors.
    async fn send_to_all(&self, command: &Cmd) -> Vec<NamedReply> {
        let nodes = self.map().nodes.clone();
        let sending = nodes.iter().map(|(address, node)| async move {
            (name_of(address), send_to(&**node, command, false).await)
        });
        join_all(sending).await
    }

    /// Reads which nodes have which slots, unless that was done just now.
    async fn refresh(&self) {
        let asked = Instant::now();
        let _guard = self.refreshing.lock().await;
        let is_fresh = |at: Instant| at > asked || at.elapsed() < REFRESH_WAIT;
        if self.map().refreshed.is_some_and(is_fresh) {
            return;
        }
        let mut nodes = self.nodes();
        fastrand::shuffle(&mut nodes);
        for node in nodes {
            let slots = send_to(&*node, &slots_command(), false).await;
            if slots.is_ok_and(|slots| self.replace_if_any(&slots)) {
                return;
            }
        }
        self.map().refreshed = Some(Instant::now());
    }

    /// Notes the owners of the slots, if the reply names any.
    fn replace_if_any(&self, slots: &Value) -> bool {
        let ranges = parse_slots(slots, self.links.seed_host());
        let has_any = !ranges.is_empty();
        if has_any {
            self.replace(ranges);
        }
        has_any
    }

    fn replace(&self, ranges: Vec<SlotRange>) {
        let mut map = self.map();
        let owners: BTreeSet<&NodeAddress> = ranges.iter().map(|range| &range.node).collect();
        map.nodes.retain(|address, _| owners.contains(address));
        for address in owners.into_iter().take(NODES_MAX) {
            let link = || self.links.link(&address.0, address.1);
            map.nodes.entry(address.clone()).or_insert_with(link);
        }
        map.ranges = ranges;
        map.refreshed = Some(Instant::now());
    }

    /// Notes the owner of a slot that a server has named, until the slots are read again.
    fn assign(&self, slot: u16, owner: &NodeAddress) {
        let range = SlotRange { first: slot, last: slot, node: owner.clone() };
        self.map().ranges.insert(0, range);
    }

    fn owner_of(&self, slot: u16) -> Option<NodeAddress> {
        let map = self.map();
        let range = map.ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
        range.map(|range| range.node.clone())
    }

    fn node(&self, address: &NodeAddress) -> Arc<dyn NodeLink> {
        let link = || self.links.link(&address.0, address.1);
        Arc::clone(self.map().nodes.entry(address.clone()).or_insert_with(link))
    }

    fn nodes(&self) -> Vec<Arc<dyn NodeLink>> {
        self.map().nodes.values().map(Arc::clone).collect()
    }

    fn map(&self) -> MutexGuard<'_, ClusterMap> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ManyServers for Cluster {
    fn send<'a>(&'a self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.send(command))
    }

    fn send_pipeline<'a>(
        &'a self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(self.send_pipeline(pipeline, offset, count))
    }

    fn send_to_all<'a>(&'a self, command: &'a Cmd) -> BoxFuture<'a, Vec<NamedReply>> {
        Box::pin(self.send_to_all(command))
    }
}

/// Sends a command to a node. One that is away is probed by a task of its own, so that no command waits
/// for it (`probe`).
async fn send_to(link: &dyn NodeLink, command: &Cmd, asking: bool) -> RedisResult<Value> {
    if let Some(text) = link.absence_text() {
        return Ok(away(&text));
    }
    let connection = match link.connection().await {
        Ok(connection) => connection,
        Err(error) => return Ok(away(&error.to_string())),
    };
    if !asking {
        return connection.send_to_server(command).await;
    }
    let mut both = Pipeline::with_capacity(2);
    both.cmd("ASKING").add_command(command.clone());
    let reply = connection.send_pipeline_to_server(&both, 1, 1).await?;
    Ok(reply.into_iter().next().unwrap_or(Value::Nil))
}

/// Returns whether a transaction was not executed.
fn is_aborted(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.code() == "EXECABORT")
}

fn is_usable(reply: &RedisResult<Value>) -> bool {
    matches!(reply, Ok(value) if !matches!(value, Value::ServerError(_)))
}

fn is_away(reply: &RedisResult<Value>) -> bool {
    matches!(reply, Ok(Value::ServerError(error)) if error.code() == AWAY)
}

/// Returns the reply of a node that is away.
fn away(text: &str) -> Value {
    let line = format!("-{AWAY} {}\r\n", text.replace(['\r', '\n'], " "));
    redis::parse_redis_value(line.as_bytes()).unwrap_or(Value::Nil)
}

fn away_of(error: &RedisError) -> Value {
    away(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct AbsentNode;

    impl NodeLink for AbsentNode {
        fn connection(&self) -> BoxFuture<'_, Result<LinkConnection, StoreError>> {
            Box::pin(async { Err(StoreError::Unavailable("away".to_owned())) })
        }

        fn absence_text(&self) -> Option<String> {
            Some("away".to_owned())
        }

        fn absence_lasts(&self) -> Option<Duration> {
            Some(Duration::ZERO)
        }
    }

    /// The seed has these slots.
    #[derive(Debug)]
    struct Links(Value);

    impl NodeLinks for Links {
        fn link(&self, _: &str, _: u16) -> Arc<dyn NodeLink> {
            Arc::new(AbsentNode)
        }

        fn seed_host(&self) -> &str {
            "seed"
        }

        fn read_slots(&self) -> BoxFuture<'_, Option<Value>> {
            Box::pin(async { Some(self.0.clone()) })
        }
    }

    #[tokio::test]
    async fn nodes_that_all_have_other_addresses_are_found_through_the_url() {
        let reply = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$3\r\nnew\r\n:7001\r\n";
        let links = Box::new(Links(redis::parse_redis_value(reply.as_bytes()).unwrap()));
        let (map, refreshing, rejects_all) = Default::default();
        let cluster = Cluster { links, map, refreshing, rejects_all };
        let old = SlotRange { first: 0, last: 16_383, node: ("old".to_owned(), 7001) };
        cluster.replace(vec![old]);
        cluster.probe().await;
        assert_eq!(cluster.owner_name(0).as_deref(), Some("new:7001"));
    }

    #[test]
    fn a_node_that_is_away_is_an_error_of_one_line() {
        let Value::ServerError(error) = away("a\r\nb") else { panic!("no error") };
        assert_eq!((error.code(), error.details()), (AWAY, Some("a  b")));
    }
}
