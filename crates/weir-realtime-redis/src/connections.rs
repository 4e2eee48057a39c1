//! The connections of a node to a shard, which are used only after their servers were checked: the version,
//! the role, and the permissions of the user.
//!
//! There are two connections to a server: for commands and for subscriptions. Where the server is a node
//! of a Redis Cluster, there are two to each node that has slots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::try_join_all;
use prometheus_client::registry::Registry;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
use weir_redis::cluster::{ClusterRouter, SlotWait};
use weir_redis::cluster_slots::{NodeAddress, SlotRange, parse_slots, slots_command};
use weir_redis::server_state::{self, OldestVersion, ServerMode};
use weir_redis::{ConnectError, ConnectOptions, NamedPrimary, RedisEndpoint, ServerConnection};

use crate::command_connection::CommandConnection;
use crate::keys::Keys;
use crate::layout;
use crate::metrics::RedisLogMetrics;
use crate::partition::Partition;
use crate::permissions::{self, Permissions, is_denied};
use crate::session_nodes::SessionNodes;
use crate::settings::RedisLogSettings;
use crate::subscription::{self, PushQueue, Pushes, Subscriptions};

/// The first version with sharded channels.
const OLDEST: OldestVersion = OldestVersion { version: (7, 0), part_needs: "realtime needs" };
/// Nodes of a cluster that are connected to. Redis recommends at most 1,000.
const NODES_MAX: usize = 1_000;

/// What connections are opened with.
#[derive(Debug)]
pub(crate) struct ConnectionParts<'a> {
    pub(crate) endpoint: &'a RedisEndpoint,
    pub(crate) settings: &'a RedisLogSettings,
    pub(crate) keys: &'a Keys,
    pub(crate) metrics: &'a RedisLogMetrics,
}

/// The connections to a shard.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) commands: CommandConnection,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) pushes: Pushes,
    /// Each server.
    pub(crate) servers: Vec<CheckedServer>,
    /// The primary, if Sentinels named it.
    pub(crate) primary: Option<NamedPrimary>,
}

/// A server that can be used.
#[derive(Debug)]
pub(crate) struct CheckedServer {
    pub(crate) commands: MultiplexedConnection,
    subscriptions: MultiplexedConnection,
    /// Identifies the process of the server: another one may lack events.
    pub(crate) id: String,
}

/// Why there are no connections.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// The text follows the name of the Redis.
    #[error("Redis {name} {problem}")]
    Unusable { name: String, problem: String },
    #[error("Redis {name}: {error}")]
    NoReply { name: String, error: RedisError },
}

/// A server that responds, and what it says of itself.
struct FoundServer {
    connection: MultiplexedConnection,
    primary: Option<NamedPrimary>,
    /// Empty if the user may not read it.
    info: String,
    mode: ServerMode,
    endpoint: RedisEndpoint,
}

impl Connections {
    /// Connects and checks all servers, which the first of these addresses that can be used leads to.
    pub(crate) async fn open(
        parts: &ConnectionParts<'_>,
        seeds: &[RedisEndpoint],
    ) -> Result<Self, OpenError> {
        let mut problem = None;
        for seed in seeds {
            let error = match Self::open_at(parts, seed).await {
                Ok(opened) => return Ok(opened),
                Err(error) => error,
            };
            // Operators know the address of the settings.
            problem = Some(problem.filter(|_| seed != parts.endpoint).unwrap_or(error));
        }
        Err(problem.unwrap_or_else(|| unreachable!("the address of the settings is one of them")))
    }

    async fn open_at(parts: &ConnectionParts<'_>, seed: &RedisEndpoint) -> Result<Self, OpenError> {
        let found = parts.find(seed).await?;
        let (queue, pushes) = subscription::queue(parts.settings, parts.metrics);
        match found.mode {
            ServerMode::Alone => {
                let primary = found.primary.clone();
                let server = parts.check(found, &queue).await?;
                let commands = CommandConnection::Server(server.commands.clone());
                let subscriptions = Subscriptions::Server(server.subscriptions.clone());
                Ok(Self { commands, subscriptions, pushes, servers: vec![server], primary })
            }
            ServerMode::ClusterNode => parts.open_cluster(found, &queue, pushes).await,
        }
    }

    /// Returns the addresses of the nodes, if this is a cluster.
    pub(crate) fn cluster_nodes(&self) -> Vec<NodeAddress> {
        match &self.subscriptions {
            Subscriptions::Server(_) => Vec::new(),
            Subscriptions::Cluster(nodes, _) => nodes.keys().cloned().collect(),
        }
    }
}

impl ConnectionParts<'_> {
    fn permissions<'a>(&'a self, endpoint: &'a RedisEndpoint, mode: ServerMode) -> Permissions<'a> {
        let is_cluster = mode == ServerMode::ClusterNode;
        Permissions { user: endpoint.username.as_deref(), keys: self.keys, is_cluster }
    }

    fn options(&self, permissions: &Permissions<'_>) -> ConnectOptions {
        let timeout = self.settings.timeout;
        let acl_rules = permissions.line();
        ConnectOptions { connect_timeout: timeout, reply_timeout: timeout, acl_rules }
    }

    /// Connects to a server and reads its state.
    async fn find(&self, endpoint: &RedisEndpoint) -> Result<FoundServer, OpenError> {
        let options = self.options(&self.permissions(endpoint, ServerMode::Alone));
        let mut opened = ServerConnection::open(endpoint, &options).await?;
        let primary = opened.primary().cloned();
        let info: Result<String, _> = redis::cmd("INFO").query_async(opened.inner()).await;
        let (info, mode) = match info {
            Ok(info) => {
                let mode = server_state::mode(&info);
                (info, mode)
            }
            // Named with all others that are missing.
            Err(error) if is_denied(&error) => {
                (String::new(), server_state::mode_without_info(opened.inner()).await)
            }
            // The first command: a login or a certificate may be missing.
            Err(error) => {
                return Err(ConnectError::from(opened.unusable(&error, false).await).into());
            }
        };
        let connection = opened.into_inner();
        Ok(FoundServer { connection, primary, info, mode, endpoint: endpoint.clone() })
    }

    /// Checks a server, and opens the connection for subscriptions.
    async fn check(
        &self,
        found: FoundServer,
        queue: &PushQueue,
    ) -> Result<CheckedServer, OpenError> {
        let FoundServer { connection: mut commands, info, mode, endpoint, .. } = found;
        let name = || endpoint.to_string();
        server_state::check(&info, OLDEST)
            .map_err(|error| OpenError::Unusable { name: name(), problem: error.to_string() })?;
        let permissions = self.permissions(&endpoint, mode);
        let (queue, options) = (queue.clone(), self.options(&permissions));
        let sender = move |push| queue.offer(push);
        let mut subscriptions =
            ServerConnection::open_for_pushes(&endpoint, &options, sender).await?.into_inner();
        let lacking = permissions.lacking(&mut commands, &mut subscriptions).await;
        let lacking = lacking.map_err(|error| OpenError::NoReply { name: name(), error })?;
        if !lacking.is_empty() {
            let problem = format!("can't be used: {}", permissions.error(&lacking));
            return Err(OpenError::Unusable { name: name(), problem });
        }
        let id = server_state::run_id(&info).unwrap_or_default().to_owned();
        Ok(CheckedServer { commands, subscriptions, id })
    }

    /// Connects to all nodes of the cluster of a server.
    async fn open_cluster(
        &self,
        mut found: FoundServer,
        queue: &PushQueue,
        pushes: Pushes,
    ) -> Result<Connections, OpenError> {
        let ranges = self.read_slots(&mut found).await?;
        let addresses: BTreeSet<NodeAddress> =
            ranges.iter().map(|range| range.node.clone()).collect();
        let addresses: BTreeSet<NodeAddress> = addresses.into_iter().take(NODES_MAX).collect();
        let opening = addresses.iter().map(|(host, port)| async move {
            let node = self.find(&self.endpoint.of_cluster_node(host, *port)).await?;
            self.check(node, queue).await
        });
        let servers = try_join_all(opening).await?;
        let nodes = |connection: fn(&CheckedServer) -> &MultiplexedConnection| {
            let connections = servers.iter().map(|server| connection(server).clone());
            addresses.iter().cloned().zip(connections).collect::<BTreeMap<_, _>>()
        };
        let seed_host = found.endpoint.cluster_host().to_owned();
        let links = SessionNodes { seed_host, connections: nodes(|server| &server.commands) };
        let router = Arc::new(ClusterRouter::new(Box::new(links), ranges));
        let subscriptions =
            Subscriptions::Cluster(nodes(|server| &server.subscriptions), Arc::clone(&router));
        let commands = CommandConnection::Cluster(router, SlotWait::Retry);
        Ok(Connections { commands, subscriptions, pushes, servers, primary: None })
    }

    /// Reads which nodes have which slots, among them those of all partitions.
    async fn read_slots(&self, found: &mut FoundServer) -> Result<Vec<SlotRange>, OpenError> {
        let name = || found.endpoint.to_string();
        let reply: Result<Value, _> = slots_command().query_async(&mut found.connection).await;
        let slots = match reply {
            Ok(slots) => slots,
            Err(error) if is_denied(&error) => {
                let permissions = self.permissions(&found.endpoint, found.mode);
                let error = permissions.error(&["+cluster|slots".to_owned()]);
                let problem = format!("can't be used: {error}");
                return Err(OpenError::Unusable { name: name(), problem });
            }
            Err(error) => return Err(OpenError::NoReply { name: name(), error }),
        };
        let ranges = parse_slots(&slots, found.endpoint.cluster_host());
        let has = |slot| ranges.iter().any(|range| (range.first..=range.last).contains(&slot));
        match Partition::all().find(|partition| !has(partition.slot())) {
            None => Ok(ranges),
            Some(partition) => {
                let problem = format!(
                    "belongs to a Redis Cluster in which no node has the slot {}: assign all slots",
                    partition.slot()
                );
                Err(OpenError::Unusable { name: name(), problem })
            }
        }
    }
}

/// What a check of the server has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerCheck {
    /// The command that grants the user all that realtime needs: `ACL SETUSER weir ~keys ..`.
    pub acl_line: String,
    /// Whether it is known if the server is a node of a Redis Cluster.
    pub is_mode_known: bool,
    /// Why realtime could not use the server, in words for operators.
    pub problem: Option<String>,
}

/// Returns the command that grants the user of `endpoint` all that realtime needs on a Redis without cluster
/// mode.
#[must_use]
pub fn acl_line(endpoint: &RedisEndpoint, settings: &RedisLogSettings) -> String {
    line(endpoint, settings, false)
}

/// Returns the words that the user needs in addition on each node of a Redis Cluster.
#[must_use]
pub fn cluster_acl_words() -> String {
    permissions::cluster_words()
}

/// Returns what is known of a server that was not reached.
#[must_use]
pub fn unchecked_server(endpoint: &RedisEndpoint, settings: &RedisLogSettings) -> BrokerCheck {
    let acl_line = acl_line(endpoint, settings);
    BrokerCheck { acl_line, is_mode_known: false, problem: None }
}

/// Connects as a node does, and checks the version and the role of the server and the permissions of
/// the user. Of a Redis Cluster, checks each node that has slots.
pub async fn check_server(endpoint: &RedisEndpoint, settings: &RedisLogSettings) -> BrokerCheck {
    let keys = Keys::new(&settings.prefix);
    let metrics = RedisLogMetrics::register(&mut Registry::default());
    let parts = ConnectionParts { endpoint, settings, keys: &keys, metrics: &metrics };
    let mode = parts.find(endpoint).await.ok().map(|found| found.mode);
    let opened = Connections::open(&parts, std::slice::from_ref(endpoint)).await;
    let problem = match opened {
        Ok(mut opened) => layout_problem(&keys, &mut opened.commands).await,
        Err(error) => Some(error.to_string()),
    };
    let acl_line = line(endpoint, settings, mode == Some(ServerMode::ClusterNode));
    BrokerCheck { acl_line, is_mode_known: mode.is_some(), problem }
}

/// Returns why this version must not touch what is in Redis.
async fn layout_problem(keys: &Keys, commands: &mut CommandConnection) -> Option<String> {
    match layout::read(keys, commands).await {
        Ok(checked) => checked.err().map(|unknown| unknown.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

fn line(endpoint: &RedisEndpoint, settings: &RedisLogSettings, is_cluster: bool) -> String {
    let keys = Keys::new(&settings.prefix);
    Permissions { user: endpoint.username.as_deref(), keys: &keys, is_cluster }.line()
}
