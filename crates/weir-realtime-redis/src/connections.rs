//! The two connections of a node, which are used only after their server was checked: its version,
//! its role, and the permissions of its user.

use prometheus_client::registry::Registry;
use redis::RedisError;
use redis::aio::MultiplexedConnection;
use weir_redis::server_state::{self, OldestVersion, ServerMode};
use weir_redis::{ConnectError, ConnectOptions, NamedPrimary, RedisEndpoint, ServerConnection};

use crate::keys::Keys;
use crate::metrics::RedisLogMetrics;
use crate::permissions::{Permissions, is_denied};
use crate::settings::RedisLogSettings;
use crate::subscription::{self, Pushes};

/// The first version with sharded channels.
const OLDEST: OldestVersion = OldestVersion { version: (7, 0), part_needs: "realtime needs" };

/// The connections, to one server.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) commands: MultiplexedConnection,
    pub(crate) subscriptions: MultiplexedConnection,
    pub(crate) pushes: Pushes,
    /// Identifies the process of the server: another one may lack events.
    pub(crate) server_id: String,
    /// The primary, if Sentinels named it.
    pub(crate) primary: Option<NamedPrimary>,
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

impl Connections {
    /// Connects and checks the server.
    pub(crate) async fn open(
        endpoint: &RedisEndpoint,
        settings: &RedisLogSettings,
        keys: &Keys,
        metrics: &RedisLogMetrics,
    ) -> Result<Self, OpenError> {
        let permissions = Permissions { user: endpoint.username.as_deref(), keys };
        let options = ConnectOptions {
            connect_timeout: settings.timeout,
            reply_timeout: settings.timeout,
            acl_rules: permissions.line(),
        };
        let (queue, pushes) = subscription::queue(settings, metrics);
        let opened = ServerConnection::open(endpoint, &options).await?;
        let primary = opened.primary().cloned();
        let mut commands = opened.into_inner();
        let sender = move |push| queue.offer(push);
        let mut subscriptions =
            ServerConnection::open_for_pushes(endpoint, &options, sender).await?.into_inner();
        let name = || endpoint.to_string();
        let info: Result<String, _> = redis::cmd("INFO").query_async(&mut commands).await;
        let info = match info {
            Ok(info) => info,
            // Named below, with all others that are missing.
            Err(error) if is_denied(&error) => String::new(),
            Err(error) => return Err(OpenError::NoReply { name: name(), error }),
        };
        check_state(&info).map_err(|problem| OpenError::Unusable { name: name(), problem })?;
        let lacking = permissions.lacking(&mut commands, &mut subscriptions).await;
        let lacking = lacking.map_err(|error| OpenError::NoReply { name: name(), error })?;
        if !lacking.is_empty() {
            let problem = format!("can't be used: {}", permissions.error(&lacking));
            return Err(OpenError::Unusable { name: name(), problem });
        }
        let server_id = server_state::run_id(&info).unwrap_or_default().to_owned();
        Ok(Self { commands, subscriptions, pushes, server_id, primary })
    }
}

fn check_state(info: &str) -> Result<(), String> {
    match server_state::check(info, OLDEST) {
        Ok(ServerMode::Alone) => Ok(()),
        Ok(ServerMode::ClusterNode) => {
            Err("is a node of a Redis Cluster, which realtime does not support yet".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// What a check of the server has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerCheck {
    /// The command that grants the user all that realtime needs: `ACL SETUSER weir ~keys ..`.
    pub acl_line: String,
    /// Why realtime could not use the server, in words for operators.
    pub problem: Option<String>,
}

/// Returns the command that grants the user of `endpoint` all that realtime needs.
#[must_use]
pub fn acl_line(endpoint: &RedisEndpoint, settings: &RedisLogSettings) -> String {
    let keys = Keys::new(&settings.prefix);
    Permissions { user: endpoint.username.as_deref(), keys: &keys }.line()
}

/// Connects as a node does, and checks the version and the role of the server and the permissions of
/// the user.
pub async fn check_server(endpoint: &RedisEndpoint, settings: &RedisLogSettings) -> BrokerCheck {
    let keys = Keys::new(&settings.prefix);
    let metrics = RedisLogMetrics::register(&mut Registry::default());
    let opened = Connections::open(endpoint, settings, &keys, &metrics).await;
    let problem = opened.err().map(|error| error.to_string());
    BrokerCheck { acl_line: acl_line(endpoint, settings), problem }
}
