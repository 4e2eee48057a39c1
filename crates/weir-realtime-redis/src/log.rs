//! The log, as the hub sees it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, RedisResult, ServerErrorKind};
use tokio::sync::{Notify, Semaphore};
use weir_realtime::pusher::position::ChannelPosition;
use weir_realtime::settings::HistoryLimits;
use weir_realtime::shared_log::{
    AppendError, Appending, ChannelKey, ClientBroadcast, Counting, Listing, NewEvent, SharedCounts,
    SharedLog, Terminating,
};
use weir_redis::{RedisEndpoint, RedisErrorKind};

use crate::broadcasts::Broadcasts;
use crate::hooks::Hooks;
use crate::identities::Identities;
use crate::keys::Keys;
use crate::metrics::{LogQueue, RedisLogMetrics};
use crate::queries;
use crate::queue_limit::{QueueLimit, QueueRoom};
use crate::requests::Requests;
use crate::scripts;
use crate::settings::RedisLogSettings;
use crate::terminations;

/// Lists of channels that are read at a time; more are rejected. Each has the names of all channels of an
/// app, some 10 MiB for 100,000 of them.
const LISTINGS_MAX: usize = 2;

/// A log in Redis. Nothing is sent before a [`LogNode`](crate::LogNode) has connected.
#[derive(Debug)]
pub struct RedisLog {
    pub(crate) endpoint: RedisEndpoint,
    pub(crate) settings: RedisLogSettings,
    pub(crate) keys: Keys,
    pub(crate) metrics: RedisLogMetrics,
    pub(crate) requests: Requests,
    /// Channels whose subscribers came to this node or left it.
    pub(crate) subscribers: Requests,
    /// Lists of channels that are being read.
    listings: Semaphore,
    /// A lock of std: held to clone a handle, never across an await.
    commands: Mutex<Commands>,
    pub(crate) failed: Notify,
    pub(crate) broadcasts: Broadcasts,
    pub(crate) identities: Identities,
    /// Webhooks that this node must send.
    pub(crate) hooks: Hooks,
    /// Identifies this node to itself.
    pub(crate) node: String,
    /// Publications that wait for Redis.
    appends: QueueLimit,
    /// Events of clients that wait to be sent.
    client_events: QueueLimit,
}

/// The connection for commands.
#[derive(Debug, Default)]
struct Commands {
    /// Counts connections, so that a late error of an earlier one does not end this one.
    generation: u64,
    /// None: the server does not respond.
    connection: Option<MultiplexedConnection>,
}

/// The parts of a log.
#[derive(Debug)]
pub struct LogParts {
    /// The server, or the service that Sentinels watch.
    pub endpoint: RedisEndpoint,
    /// The settings.
    pub settings: RedisLogSettings,
    /// The metrics.
    pub metrics: RedisLogMetrics,
}

impl RedisLog {
    /// Returns a log that is not connected.
    #[must_use]
    pub fn new(parts: LogParts) -> Arc<Self> {
        let LogParts { endpoint, settings, metrics } = parts;
        let limit = |queue, waiting_max, bytes_max| {
            QueueLimit::new(metrics.gauges(queue), waiting_max, bytes_max)
        };
        let client_events_max = settings.client_events_max;
        Arc::new(Self {
            endpoint,
            keys: Keys::new(&settings.prefix),
            appends: limit(LogQueue::Appends, settings.appends_max, settings.append_bytes_max),
            client_events: limit(
                LogQueue::ClientEvents,
                client_events_max,
                settings.client_event_bytes_max,
            ),
            settings,
            metrics,
            requests: Requests::default(),
            subscribers: Requests::default(),
            listings: Semaphore::new(LISTINGS_MAX),
            identities: Identities::default(),
            hooks: Hooks::default(),
            commands: Mutex::default(),
            broadcasts: Broadcasts::new(client_events_max),
            node: format!("{:016x}", fastrand::u64(..)),
            failed: Notify::new(),
        })
    }

    /// Replaces the connection for commands. None: the server does not respond.
    pub(crate) fn set_commands(&self, connection: Option<MultiplexedConnection>) {
        self.metrics.connected(connection.is_some());
        let mut commands = self.lock_commands();
        commands.generation += u64::from(connection.is_some());
        commands.connection = connection;
    }

    pub(crate) fn commands(&self) -> Option<(u64, MultiplexedConnection)> {
        let commands = self.lock_commands();
        commands.connection.clone().map(|connection| (commands.generation, connection))
    }

    fn lock_commands(&self) -> MutexGuard<'_, Commands> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the use of a connection. Publications are rejected at once until the node has connected
    /// again.
    fn end_commands(&self, generation: u64) {
        let mut commands = self.lock_commands();
        if commands.generation == generation && commands.connection.take().is_some() {
            self.metrics.connected(false);
            self.failed.notify_one();
        }
    }

    async fn append_all(&self, events: Vec<NewEvent>) -> Result<Vec<ChannelPosition>, AppendError> {
        let (generation, mut connection) = self.commands().ok_or(AppendError::Away)?;
        let _room = self.room_to_append(events.iter().map(bytes_of).sum())?;
        let commands: Vec<Cmd> =
            events.iter().map(|new| scripts::append(&self.keys, &self.settings, new)).collect();
        let mut reply = execute(&mut connection, &commands).await;
        if reply.as_ref().is_err_and(lacks_script) {
            // Nothing was executed: all commands of the batch are the same script.
            scripts::load(&mut connection)
                .await
                .map_err(|error| self.explain(generation, &error))?;
            reply = execute(&mut connection, &commands).await;
        }
        let texts = reply.map_err(|error| self.explain(generation, &error))?;
        let positions: Option<Vec<ChannelPosition>> =
            texts.iter().map(|text| text.parse().ok()).collect();
        positions.ok_or(AppendError::Rejected)
    }

    /// Sends clients' events to the other nodes until the connection fails.
    pub(crate) async fn send_broadcasts(&self, connection: MultiplexedConnection) -> RedisError {
        self.broadcasts.send_all(&self.keys, &self.node, &self.metrics, connection).await
    }

    fn room_to_append(&self, bytes: usize) -> Result<QueueRoom, AppendError> {
        self.appends.reserve(bytes).map_err(|full| {
            self.metrics.limit_hit(LogQueue::Appends, full);
            AppendError::Busy
        })
    }

    /// Queues a client's event. Returns whether there is room, and a connection.
    fn add_broadcast(&self, event: ClientBroadcast) -> bool {
        if self.commands().is_none() {
            return false;
        }
        let bytes = event.key.channel.len() + event.data.as_ref().map_or(0, |data| data.len());
        match self.client_events.reserve(bytes) {
            Ok(room) => self.broadcasts.add(event, room),
            Err(full) => {
                self.metrics.limit_hit(LogQueue::ClientEvents, full);
                false
            }
        }
    }

    async fn add_termination(&self, app: &str, user: &str) -> Result<(), AppendError> {
        let (generation, mut connection) = self.commands().ok_or(AppendError::Away)?;
        let _room = self.room_to_append(user.len())?;
        let added = terminations::add(&self.keys, &self.node, app, user);
        let added = added.exec_async(&mut connection).await;
        added.map_err(|error| self.explain(generation, &error))
    }

    async fn read_counts(
        &self,
        channels: Vec<ChannelKey>,
    ) -> Result<Vec<SharedCounts>, AppendError> {
        let (generation, mut connection) = self.commands().ok_or(AppendError::Away)?;
        let _room = self.room_to_append(channels.iter().map(|key| key.channel.len()).sum())?;
        let counts = queries::counts(&self.keys, &channels, &mut connection).await;
        counts.map_err(|error| self.explain_query(generation, &error))
    }

    async fn list_channels(
        &self,
        app: &str,
        prefix: &str,
        counts_users: bool,
    ) -> Result<Vec<(String, SharedCounts)>, AppendError> {
        let (generation, mut connection) = self.commands().ok_or(AppendError::Away)?;
        let Ok(_permit) = self.listings.try_acquire() else {
            return Err(AppendError::TooManyLists);
        };
        let listed =
            queries::channels(&self.keys, app, prefix, counts_users, &mut connection).await;
        listed.map_err(|error| self.explain_query(generation, &error))
    }

    /// Explains why nothing was read.
    fn explain_query(&self, generation: u64, error: &RedisError) -> AppendError {
        match self.explain(generation, error) {
            AppendError::Unknown => AppendError::Away,
            other => other,
        }
    }

    fn explain(&self, generation: u64, error: &RedisError) -> AppendError {
        self.metrics.rejected();
        if error.is_io_error() || error.is_timeout() || error.is_unrecoverable_error() {
            self.end_commands(generation);
            return AppendError::Unknown;
        }
        if is_of_no_use(&RedisErrorKind::of(error, "")) {
            // The next connection finds the primary, or names what is missing.
            self.end_commands(generation);
            return AppendError::Away;
        }
        tracing::warn!(%error, "Redis rejected an event of realtime");
        AppendError::Rejected
    }
}

/// Returns the bytes of an event, without its JSON and the command around it.
fn bytes_of(new: &NewEvent) -> usize {
    let key = new.idempotency_key.as_ref().map_or(0, |key| key.len());
    new.key.channel.len() + new.event.name.len() + new.event.data.len() + key
}

/// Executes all commands or none of them.
async fn execute(
    connection: &mut MultiplexedConnection,
    commands: &[Cmd],
) -> RedisResult<Vec<String>> {
    if let [command] = commands {
        return Ok(vec![command.query_async(connection).await?]);
    }
    let mut pipeline = Pipeline::with_capacity(commands.len());
    pipeline.atomic();
    for command in commands {
        pipeline.add_command(command.clone());
    }
    pipeline.query_async(connection).await
}

/// Returns whether a server with such an error can append no event.
const fn is_of_no_use(kind: &RedisErrorKind) -> bool {
    use RedisErrorKind::{
        AuthRequired, ClusterRedirect, Loading, MasterDown, NoPermission, ReadOnly,
    };
    matches!(
        kind,
        ReadOnly | MasterDown | NoPermission { .. } | AuthRequired | Loading | ClusterRedirect
    )
}

fn lacks_script(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript)
}

impl SharedLog for RedisLog {
    fn append(&self, events: Vec<NewEvent>) -> Appending<'_> {
        Box::pin(self.append_all(events))
    }

    fn terminate(&self, app: Arc<str>, user: Box<str>) -> Terminating<'_> {
        Box::pin(async move { self.add_termination(&app, &user).await })
    }

    fn broadcast(&self, event: ClientBroadcast) {
        if !self.add_broadcast(event) {
            self.metrics.broadcasts_lost(1);
        }
    }

    fn subscribers_changed(&self, channel: ChannelKey) {
        // With the next connection, everything is sent again.
        if self.lock_commands().connection.is_some() {
            self.subscribers.add(channel);
        }
    }

    fn counts(&self, channels: Vec<ChannelKey>) -> Counting<'_> {
        Box::pin(self.read_counts(channels))
    }

    fn channels(&self, app: Arc<str>, prefix: Box<str>, counts_users: bool) -> Listing<'_> {
        Box::pin(async move { self.list_channels(&app, &prefix, counts_users).await })
    }

    fn request(&self, channel: ChannelKey, _: HistoryLimits) -> bool {
        let is_connected = self.commands().is_some();
        if is_connected {
            self.requests.add(channel);
        }
        is_connected
    }
}
