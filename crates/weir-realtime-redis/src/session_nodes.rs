//! The nodes of a Redis Cluster during one session, as its router reaches them.
//!
//! A connection that failed is not repaired, and a node that is new is not connected to: both are errors,
//! after which the session ends and another one connects to all nodes. Only there terms begin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::Value;
use redis::aio::MultiplexedConnection;
use weir_redis::cluster::{NodeConnection, NodeLink, NodeLinks};
use weir_redis::cluster_slots::{NodeAddress, name_of};

/// The connections, by address.
#[derive(Debug)]
pub(crate) struct SessionNodes {
    pub(crate) seed_host: String,
    pub(crate) connections: BTreeMap<NodeAddress, MultiplexedConnection>,
}

/// A node, and its connection if it had slots when the session began.
#[derive(Debug)]
struct SessionNode {
    name: String,
    connection: Option<MultiplexedConnection>,
}

impl NodeLinks for SessionNodes {
    fn link(&self, address: &NodeAddress) -> Arc<dyn NodeLink> {
        let connection = self.connections.get(address).cloned();
        Arc::new(SessionNode { name: name_of(address), connection })
    }

    fn seed_host(&self) -> &str {
        &self.seed_host
    }

    fn read_slots(&self) -> BoxFuture<'_, Option<Value>> {
        Box::pin(std::future::ready(None))
    }
}

impl NodeLink for SessionNode {
    fn connection(&self) -> BoxFuture<'_, Result<NodeConnection, String>> {
        let connection = self.connection.clone().map(|it| Box::new(it) as NodeConnection);
        let connection = connection.ok_or_else(|| self.absence_text().unwrap_or_default());
        Box::pin(std::future::ready(connection))
    }

    fn absence_text(&self) -> Option<String> {
        let text = || format!("Redis {}, which has slots now, is not connected yet", self.name);
        self.connection.is_none().then(text)
    }

    fn absence_lasts(&self) -> Option<Duration> {
        self.connection.is_none().then_some(Duration::ZERO)
    }
}
