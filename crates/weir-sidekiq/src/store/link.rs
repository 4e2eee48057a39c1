//! The connection to a Redis that comes and goes.
//!
//! All commands share one connection, which sends them in the order in which they were given. After
//! an error of the connection the next command opens another one. While that fails, commands fail
//! at once, and only one command after each wait tries again.
//!
//! A server is used only after it was checked: its version, its role, and the permissions of its
//! user. A connection ends when its server becomes a replica or denies a command, so that the next
//! one finds the primary, or names what is missing.
//!
//! A server that is a node of a Redis Cluster leads to all its nodes, each with a link of its own. A
//! server that rejects steps over several slots (a proxy before several servers) gets the same steps
//! as a cluster.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
use tokio::sync::Mutex;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::store::{StoreCondition, StoreError};
use weir_redis::cluster::{ClusterRouter, NodeConnection, NodeLink, NodeLinks};
use weir_redis::cluster_slots::{NodeAddress, slots_command};
use weir_redis::error_kind::{self, RedisErrorKind};
use weir_redis::server_state::{self, OldestVersion, ServerMode};
use weir_redis::{
    NetworkErrorKind, RedisAddress, RedisConnectionError, RedisEndpoint, TlsErrorKind,
};

use super::link_connection::{CommandLimit, LinkConnection, reason_of};
use super::link_state::LinkState;
use super::permissions::Permissions;
use super::settings::RedisStoreSettings;
use crate::connection::RedisConnection;
use crate::error::SidekiqError;
use crate::limits::SampleLimits;

/// Connecting takes up to `connect_timeout` for each of: the Sentinels, if there are any; the
/// connection with its login; the checks.
const CONNECT_STEPS: u32 = 2;

/// The first version of Redis with all commands that the store uses.
const OLDEST: OldestVersion = OldestVersion { version: (6, 2), part_needs: "jobs need" };

/// The reason of a node of a cluster whose certificate is for another host. The address is the cluster's.
const UNNAMED_NODE: &str = "its certificate is not valid for this address, which the cluster announces; \
                            set cluster-announce-hostname to the host name of the certificate, and \
                            cluster-preferred-endpoint-type hostname, on each node (Redis 7 or later)";

/// The connection, or since when there is none.
#[derive(Debug)]
pub(super) struct RedisLink {
    endpoint: RedisEndpoint,
    limits: SampleLimits,
    state: Arc<LinkState>,
    /// What a server must allow. `None`: servers are not checked.
    permissions: Option<Permissions>,
    command_limit: Option<CommandLimit>,
    /// Whether the server may be a node of a cluster to which another link belongs.
    is_cluster_node: bool,
    /// How the server stores keys, once it was reached.
    mode: OnceLock<ServerMode>,
    /// All nodes, once the server was found to be one of them.
    cluster: OnceLock<Arc<ClusterRouter>>,
    /// Held while a connection is opened, so that many commands open one. Across awaits, so tokio's.
    opening: Mutex<()>,
}

impl RedisLink {
    pub(super) fn new(
        endpoint: RedisEndpoint,
        connect_timeout: Duration,
        command_timeout: Duration,
        retry_wait_max: Duration,
    ) -> Self {
        let limits = SampleLimits {
            connect_timeout,
            answer_timeout: command_timeout,
            ..SampleLimits::default()
        };
        let state = LinkState::new(endpoint.to_string(), command_timeout, retry_wait_max);
        Self {
            endpoint,
            limits,
            state: Arc::new(state),
            permissions: None,
            command_limit: None,
            is_cluster_node: false,
            mode: OnceLock::new(),
            cluster: OnceLock::new(),
            opening: Mutex::default(),
        }
    }

    /// Returns a link of a job store, which checks its server before it uses it.
    pub(super) fn of_store(endpoint: &RedisEndpoint, settings: &RedisStoreSettings) -> Self {
        let RedisStoreSettings { connect_timeout, command_timeout, retry_wait_max, .. } = *settings;
        let link = Self::new(endpoint.clone(), connect_timeout, command_timeout, retry_wait_max);
        let permissions = Permissions::of_store(endpoint, settings);
        Self { permissions: Some(permissions), ..link }
    }

    /// Limits the commands that are in flight.
    #[must_use]
    pub(super) fn with_command_limit(self, max: usize, metrics: JobsMetrics) -> Self {
        let in_flight = Arc::<AtomicUsize>::default();
        Self { command_limit: Some(CommandLimit { max, in_flight, metrics }), ..self }
    }

    /// Returns a link to a node of the cluster of this server.
    fn of_node(links: &LinksOfCluster, (host, port): &NodeAddress) -> Self {
        let LinksOfCluster { endpoint, limits, permissions, timeouts: [command, retry] } = links;
        let endpoint = endpoint.of_cluster_node(host, *port);
        let link = Self::new(endpoint, limits.connect_timeout, *command, *retry);
        link.state.split();
        Self { permissions: permissions.clone(), is_cluster_node: true, ..link }
    }

    /// Returns whether each step may use the keys of one slot only. Known once there was a connection.
    pub(super) fn is_split(&self) -> bool {
        self.state.is_split()
    }

    /// Uses steps for the keys of one slot from now on.
    pub(super) fn split(&self) {
        self.state.split();
    }

    /// Returns whether the server is a node of a cluster.
    pub(super) fn is_cluster(&self) -> bool {
        self.cluster.get().is_some()
    }

    /// Returns the cluster that the server is a node of.
    pub(super) fn cluster(&self) -> Option<&ClusterRouter> {
        self.cluster.get().map(|cluster| &**cluster)
    }

    /// Returns whether the jobs can be reached.
    pub(super) fn condition(&self) -> StoreCondition {
        if let Some(text) = self.absence_text() {
            return StoreCondition::Unavailable(text);
        }
        let problems = self.cluster().map(ClusterRouter::problems).unwrap_or_default();
        match problems.is_empty() {
            true => StoreCondition::Ok,
            false => StoreCondition::Degraded(problems.join("; ")),
        }
    }

    /// Returns the command that grants the user all that the store needs, once the server was reached.
    pub(super) fn acl_line(&self) -> Option<String> {
        let permissions = self.permissions.as_ref()?;
        match self.mode.get()? {
            ServerMode::ClusterNode => Some(permissions.for_cluster().line()),
            ServerMode::Alone => Some(permissions.line()),
        }
    }

    /// Connects to all nodes, if the server leads to a cluster. Each has users of its own.
    pub(super) async fn check_nodes(&self) -> Result<(), String> {
        match self.cluster.get() {
            Some(cluster) => cluster.check_nodes().await,
            None => Ok(()),
        }
    }

    /// Tries to connect to the nodes of a cluster that are away.
    pub(super) async fn probe_nodes(&self) {
        if let Some(cluster) = self.cluster.get() {
            cluster.probe().await;
        }
    }

    /// Returns the connection, opening one if there is none and it is time for another attempt.
    pub(super) async fn connection(&self) -> Result<LinkConnection, StoreError> {
        if let Some(connection) = self.present() {
            return Ok(connection);
        }
        let _guard = match self.opening.try_lock() {
            Ok(guard) => guard,
            // Another command connects. While Redis is known to be away, this one fails at once.
            Err(_) => match self.state.absence_text() {
                Some(text) => return Err(StoreError::Unavailable(text)),
                None => self.opening.lock().await,
            },
        };
        if let Some(connection) = self.present() {
            return Ok(connection);
        }
        if let Some(text) = self.state.absence_text_before_retry() {
            return Err(StoreError::Unavailable(text));
        }
        match self.open().await {
            Ok(opened) if self.is_cluster() => {
                drop(opened);
                self.state.reached();
                self.present().ok_or_else(|| StoreError::Unavailable(self.endpoint.to_string()))
            }
            Ok(mut opened) => {
                let primary = opened.primary().cloned();
                let inner = opened.inner().clone();
                let generation = self.state.opened(inner.clone(), primary);
                Ok(self.usable(inner, generation))
            }
            Err(reason) => Err(StoreError::Unavailable(self.state.not_opened(reason))),
        }
    }

    fn present(&self) -> Option<LinkConnection> {
        if let Some(cluster) = self.cluster.get() {
            let (cluster, state) = (Arc::clone(cluster), Arc::clone(&self.state));
            return Some(LinkConnection::of_many(cluster, state, self.command_limit.clone()));
        }
        self.state.present().map(|(inner, generation)| self.usable(inner, generation))
    }

    fn usable(&self, inner: MultiplexedConnection, generation: u64) -> LinkConnection {
        let (state, limit) = (Arc::clone(&self.state), self.command_limit.clone());
        LinkConnection::new(inner, generation, state, limit)
    }

    async fn open(&self) -> Result<RedisConnection, String> {
        let opening = async {
            let opened = RedisConnection::open(&self.endpoint, &self.limits).await;
            let mut opened = opened.map_err(|error| self.describe(&error))?;
            self.check(opened.inner()).await?;
            Ok(opened)
        };
        let steps = CONNECT_STEPS + u32::from(self.uses_sentinels());
        let timeout = self.limits.connect_timeout.saturating_mul(steps);
        tokio::time::timeout(timeout, opening).await.unwrap_or_else(|_| {
            let setting = RedisStoreSettings::CONNECT_TIMEOUT;
            Err(format!("it does not respond within {timeout:?} ({steps} times {setting})"))
        })
    }

    /// Checks that the server can store jobs, and that its user may do so.
    async fn check(&self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        let Some(permissions) = &self.permissions else { return Ok(()) };
        let info: Result<String, _> = redis::cmd("INFO").query_async(connection).await;
        let mode = match info {
            // Any node of a cluster leads to the others.
            Ok(info) if self.is_node_of_cluster(&info) => ServerMode::ClusterNode,
            Ok(info) => {
                server_state::check(&info, OLDEST).map_err(|error| format!("it {error}"))?
            }
            Err(error) if is_no_permission(&error) => {
                server_state::mode_without_info(connection).await
            }
            Err(error) => return Err(self.describe_unanswered(&error)),
        };
        self.mode.get_or_init(|| mode);
        if mode == ServerMode::ClusterNode && !self.is_cluster_node {
            return self.find_cluster(connection, permissions).await;
        }
        let lacking = permissions.lacking(connection).await;
        let lacking = lacking.map_err(|error| self.describe_unanswered(&error))?;
        if let Some(text) = permissions.error_of(&lacking) {
            return Err(text);
        }
        if !self.is_split() && self.rejects_several_slots(connection, permissions).await? {
            permissions.check_split()?;
            self.state.split();
        }
        Ok(())
    }

    fn is_node_of_cluster(&self, info: &str) -> bool {
        !self.is_cluster_node && server_state::mode(info) == ServerMode::ClusterNode
    }

    /// Reads the nodes of the cluster that the server belongs to. Each is checked with its first
    /// command.
    async fn find_cluster(
        &self,
        connection: &mut MultiplexedConnection,
        permissions: &Permissions,
    ) -> Result<(), String> {
        permissions.check_split()?;
        let permissions = permissions.for_cluster();
        let links = LinksOfCluster {
            endpoint: self.endpoint.clone(),
            limits: self.limits,
            permissions: Some(permissions.clone()),
            timeouts: [self.state.command_timeout(), self.state.retry_wait_max()],
        };
        let cluster = match ClusterRouter::open(Box::new(links), connection).await {
            Ok(cluster) => cluster.map_err(|error| format!("it {error}"))?,
            Err(error) => {
                return Err(match is_no_permission(&error) {
                    true => permissions.error(&["+cluster|slots".to_owned()]),
                    false => self.describe_unanswered(&error),
                });
            }
        };
        self.state.split();
        // Another connection cannot have set it: one opens at a time.
        drop(self.cluster.set(Arc::new(cluster)));
        Ok(())
    }

    /// Tries a script that uses keys of two slots and does nothing.
    async fn rejects_several_slots(
        &self,
        connection: &mut MultiplexedConnection,
        permissions: &Permissions,
    ) -> Result<bool, String> {
        let tried: Result<Value, _> = permissions.two_slots().query_async(connection).await;
        match tried {
            Err(error) if RedisErrorKind::of(&error, "") == RedisErrorKind::CrossSlot => Ok(true),
            Err(error) if error.is_io_error() => Err(self.describe_unanswered(&error)),
            _ => Ok(false),
        }
    }

    /// Returns the error for clients.
    pub(super) fn failed(&self, error: &RedisError) -> StoreError {
        if let Some(text) = CommandLimit::text_of(error) {
            return StoreError::Limit(text.to_owned());
        }
        let kind = RedisErrorKind::of(error, "");
        if kind == RedisErrorKind::NodeAway {
            return StoreError::Unavailable(error_kind::message(error));
        }
        if kind == RedisErrorKind::OutOfMemory {
            return StoreError::Full(format!(
                "Redis {} is full (maxmemory): job not stored; free memory there, pushes resume \
                 by themselves",
                self.endpoint
            ));
        }
        if let Some(cluster) = self.cluster.get()
            && (error.is_io_error() || error.is_timeout())
            && let Some(text) = cluster.absence_text_of_a_node()
        {
            return StoreError::Unavailable(text);
        }
        let ended = reason_of(error, &self.state);
        let absence = ended.and_then(|_| self.state.absence_text());
        let text = absence.unwrap_or_else(|| self.error_of(error).to_string());
        StoreError::Unavailable(text)
    }

    /// Ends the connection to a server that is of no use. Returns the error for clients.
    pub(super) fn rejected(&self, reason: String) -> StoreError {
        if let Some((_, generation)) = self.state.present() {
            self.state.broke(generation, reason.clone());
        }
        StoreError::Unavailable(self.state.absence_text().unwrap_or(reason))
    }

    /// Returns why there is no connection, or `None` if there is one or none was needed yet. A cluster
    /// is there as long as one of its nodes is.
    pub(super) fn absence_text(&self) -> Option<String> {
        self.cluster.get().map_or_else(|| self.state.absence_text(), |it| it.absence_text())
    }

    /// Returns whether Sentinels name the server.
    pub(super) const fn uses_sentinels(&self) -> bool {
        matches!(self.endpoint.address, RedisAddress::Sentinel(_))
    }

    /// Asks the Sentinels whether the connected server is still the primary, and ends the connection
    /// if they name another one: a primary that was cut off or stopped accepts writes until it
    /// learns of its successor, and loses them then.
    pub(super) async fn check_primary(&self) {
        let Some((used, generation)) = self.state.primary() else { return };
        let timeout = self.limits.connect_timeout;
        let named = weir_redis::named_primary(&self.endpoint, timeout).await;
        if let Some(named) = named
            && named.replaces(&used)
        {
            let (named, used) = (named.address(), used.address());
            let reason = format!("its Sentinels name {named} as the primary instead of {used}");
            self.state.broke(generation, reason);
        }
    }

    /// Ends the connection if `other` uses a primary that Sentinels have named later.
    pub(super) fn follow(&self, other: &Self) {
        let (used, latest) = (self.state.primary(), other.state.primary());
        if let (Some((used, generation)), Some((latest, _))) = (used, latest)
            && latest.replaces(&used)
        {
            let (latest, used) = (latest.address(), used.address());
            let reason = format!("its Sentinels name {latest} as the primary instead of {used}");
            self.state.broke(generation, reason);
        }
    }

    /// Returns the reason that follows the name of the Redis and a colon.
    fn describe(&self, error: &SidekiqError) -> String {
        if let (SidekiqError::Redis(error), Some(permissions)) = (error, &self.permissions)
            && let RedisErrorKind::NoPermission { command } = &error.kind
        {
            return permissions.error(&[format!("+{}", command.to_ascii_lowercase())]);
        }
        if self.is_cluster_node && has_wrong_name(error) {
            return UNNAMED_NODE.to_owned();
        }
        let text = error.to_string();
        let rest = text.strip_prefix("Redis ").and_then(|it| it.strip_prefix(self.state.name()));
        match rest.and_then(|rest| rest.split_at_checked(1)) {
            Some((":", rest)) => rest.trim_start().to_owned(),
            Some((" ", rest)) => format!("it {rest}"),
            _ => text,
        }
    }

    /// Returns the reason of an error of a command that checks the server.
    fn describe_unanswered(&self, error: &RedisError) -> String {
        let timeout = error.is_timeout().then(|| reason_of(error, &self.state)).flatten();
        timeout.unwrap_or_else(|| self.describe(&self.unanswered(error).into()))
    }

    /// Returns the error of the first command.
    fn unanswered(&self, error: &RedisError) -> RedisConnectionError {
        self.error_of(error).of_first_command(&self.endpoint.address)
    }

    fn error_of(&self, error: &RedisError) -> RedisConnectionError {
        let kind = RedisErrorKind::of(error, "");
        RedisConnectionError::new(self.state.name(), kind, error_kind::message(error))
    }
}

/// What the links to the nodes of a cluster have in common.
#[derive(Clone, Debug)]
struct LinksOfCluster {
    /// Of the server that leads to the cluster.
    endpoint: RedisEndpoint,
    limits: SampleLimits,
    permissions: Option<Permissions>,
    /// For a command, and the longest wait before another attempt to connect.
    timeouts: [Duration; 2],
}

impl NodeLink for RedisLink {
    fn connection(&self) -> BoxFuture<'_, Result<NodeConnection, String>> {
        Box::pin(async {
            let connection = self.connection().await.map_err(|error| error.to_string())?;
            Ok(Box::new(connection) as NodeConnection)
        })
    }

    fn absence_text(&self) -> Option<String> {
        self.state.absence_text()
    }

    fn absence_lasts(&self) -> Option<Duration> {
        self.state.absence_lasts()
    }
}

impl NodeLinks for LinksOfCluster {
    fn link(&self, address: &NodeAddress) -> Arc<dyn NodeLink> {
        Arc::new(RedisLink::of_node(self, address))
    }

    fn seed_host(&self) -> &str {
        self.endpoint.cluster_host()
    }

    fn read_slots(&self) -> BoxFuture<'_, Option<Value>> {
        Box::pin(async move {
            let opened = RedisConnection::open(&self.endpoint, &self.limits).await;
            slots_command().query_async(opened.ok()?.inner()).await.ok()
        })
    }
}

/// Returns whether the certificate of a server is for another host.
fn has_wrong_name(error: &SidekiqError) -> bool {
    const WRONG_NAME: NetworkErrorKind = NetworkErrorKind::Tls(TlsErrorKind::WrongName);
    matches!(error, SidekiqError::Redis(error) if error.kind == RedisErrorKind::Network(WRONG_NAME))
}

fn is_no_permission(error: &RedisError) -> bool {
    matches!(RedisErrorKind::of(error, "INFO"), RedisErrorKind::NoPermission { .. })
}
