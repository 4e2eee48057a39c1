//! Which node has which slots, and the links to all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use tokio::time::Instant;

use super::links::{NodeLink, NodeLinks};
use super::request::SlotRequest;
use crate::cluster_slots::{NodeAddress, SlotRange, name_of, parse_slots, slots_command};

/// Between two readings of the slots.
const REFRESH_WAIT: Duration = Duration::from_millis(100);
/// Nodes that are connected to. Redis recommends at most 1,000.
const NODES_MAX: usize = 1_000;

/// A cluster, as its nodes describe it.
#[derive(Debug)]
pub struct ClusterRouter {
    pub(super) links: Box<dyn NodeLinks>,
    /// Connections are used by futures that may move between threads, so it is std's. Held for
    /// moments, never across an await.
    map: Mutex<ClusterMap>,
    /// Held while the slots are read. Across awaits, so tokio's.
    refreshing: tokio::sync::Mutex<()>,
    /// Whether the nodes reject all commands, because the cluster is not complete.
    pub(super) rejects_all: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct ClusterMap {
    /// By address.
    pub(super) nodes: BTreeMap<NodeAddress, Arc<dyn NodeLink>>,
    /// The first range that has a slot counts.
    pub(super) ranges: Vec<SlotRange>,
    refreshed: Option<Instant>,
}

impl ClusterRouter {
    /// Returns a router for a cluster with these slots.
    #[must_use]
    pub fn new(links: Box<dyn NodeLinks>, ranges: Vec<SlotRange>) -> Self {
        let (map, refreshing, rejects_all) = Default::default();
        let router = Self { links, map, refreshing, rejects_all };
        router.replace(ranges);
        router
    }

    /// Reads the cluster of the server that `connection` leads to.
    ///
    /// # Errors
    /// The outer error is that of the connection, the inner one follows the server's name.
    pub async fn open(
        links: Box<dyn NodeLinks>,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<Result<Self, String>> {
        let slots: Value = slots_command().query_async(connection).await?;
        let ranges = parse_slots(&slots, links.seed_host());
        if ranges.is_empty() {
            let text = "is a node of a Redis Cluster that has no slots: create the cluster \
                        (redis-cli --cluster create)";
            return Ok(Err(text.to_owned()));
        }
        Ok(Ok(Self::new(links, ranges)))
    }

    /// Tries to connect to the nodes that are away.
    pub async fn probe(&self) {
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

    /// Connects to all nodes.
    ///
    /// # Errors
    /// Returns why some can't be used.
    pub async fn check_nodes(&self) -> Result<(), String> {
        let nodes = self.map().nodes.clone();
        let checking = nodes.iter().map(|(address, node)| async move {
            node.connection().await.err().map(|error| (address, error))
        });
        let mut failed = join_all(checking).await.into_iter().flatten();
        let Some((_, text)) = failed.next() else { return Ok(()) };
        let others: Vec<_> = failed.map(|(address, _)| name_of(address)).collect();
        Err(match others.len() {
            0 => text,
            _ => format!("{text}; other nodes that can't be used: {}", others.join(", ")),
        })
    }

    /// Reads which nodes have which slots, unless that was done just now.
    pub(super) async fn refresh(&self) {
        let asked = Instant::now();
        let _guard = self.refreshing.lock().await;
        let is_fresh = |at: Instant| at > asked || at.elapsed() < REFRESH_WAIT;
        if self.map().refreshed.is_some_and(is_fresh) {
            return;
        }
        let mut nodes = self.nodes();
        fastrand::shuffle(&mut nodes);
        let command = slots_command();
        for node in nodes {
            let slots = SlotRequest::Command(&command).send_to(&*node, false).await;
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
            let link = || self.links.link(address);
            map.nodes.entry(address.clone()).or_insert_with(link);
        }
        map.ranges = ranges;
        map.refreshed = Some(Instant::now());
    }

    /// Notes the owner of a slot that a server has named, until the slots are read again.
    pub fn note_owner(&self, slot: u16, owner: &NodeAddress) {
        let ranges = &mut self.map().ranges;
        ranges.retain(|range| (range.first, range.last) != (slot, slot));
        ranges.insert(0, SlotRange { first: slot, last: slot, node: owner.clone() });
    }

    /// Returns the address of the node that has a slot, as far as is known.
    #[must_use]
    pub fn owner_of(&self, slot: u16) -> Option<NodeAddress> {
        let map = self.map();
        let range = map.ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
        range.map(|range| range.node.clone())
    }

    pub(super) fn node(&self, address: &NodeAddress) -> Arc<dyn NodeLink> {
        let link = || self.links.link(address);
        Arc::clone(self.map().nodes.entry(address.clone()).or_insert_with(link))
    }

    pub(super) fn nodes(&self) -> Vec<Arc<dyn NodeLink>> {
        self.map().nodes.values().map(Arc::clone).collect()
    }

    pub(super) fn map(&self) -> MutexGuard<'_, ClusterMap> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
