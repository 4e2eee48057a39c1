//! The log in one Redis: one of several shards, or the only one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{Cmd, FromRedisValue, Pipeline, RedisError, RedisResult};
use tokio::sync::{Notify, Semaphore};
use weir_realtime::pusher::position::ChannelPosition;
use weir_realtime::shared_log::{
    AppendError, ChannelKey, ClientBroadcast, LogShardView, NewEvent, SharedCounts,
};
use weir_redis::{RedisErrorKind, error_kind};

use crate::appends::{AppendFailure, Appends, ends_connection};
use crate::broadcasts::Broadcasts;
use crate::command_connection::CommandConnection;
use crate::connection_shares::ConnectionShares;
use crate::connections::{ConnectionParts, Connections, OpenError};
use crate::data_ids::DataIds;
use crate::hooks::Hooks;
use crate::identities::Identities;
use crate::keys::Keys;
use crate::layout::NeededLayout;
use crate::metrics::{LogQueue, RedisLogMetrics};
use crate::node_reports::{NodeOptions, Reports};
use crate::placement::{Placement, ShardOptions};
use crate::queries;
use crate::queue_limit::{QueueLimit, QueueRoom};
use crate::requests::Requests;
use crate::scripts;
use crate::seeds::Seeds;
use crate::settings::RedisLogSettings;
use crate::shard_condition::ShardCondition;
use crate::terminations;

/// Lists of channels that are read at a time; more are rejected. Each has the names of all channels of an
/// app in this shard, some 10 MiB for 100,000 of them.
const LISTINGS_MAX: usize = 2;

/// The log of the channels of one shard. Nothing is sent before a [`LogNode`](crate::LogNode) has
/// connected.
#[derive(Debug)]
pub(crate) struct RedisLog {
    pub(crate) shard: ShardOptions,
    /// Its place among the shards.
    place: usize,
    pub(crate) placement: Arc<Placement>,
    pub(crate) settings: RedisLogSettings,
    pub(crate) keys: Keys,
    pub(crate) metrics: RedisLogMetrics,
    pub(crate) requests: Requests,
    /// Channels that are to be moved to this shard before they are compared.
    pub(crate) moves: Requests,
    /// Channels whose subscribers came to this node or left it.
    pub(crate) subscribers: Requests,
    /// Whether subscriptions and members are sent to this shard.
    takes_members: AtomicBool,
    /// Lists of channels that are being read.
    listings: Semaphore,
    /// A lock of std: held to clone a handle, never across an await.
    commands: Mutex<Commands>,
    pub(crate) condition: ShardCondition,
    pub(crate) seeds: Seeds,
    pub(crate) data_ids: DataIds,
    pub(crate) failed: Notify,
    pub(crate) broadcasts: Broadcasts,
    pub(crate) identities: Identities,
    /// Webhooks that this node must send.
    pub(crate) hooks: Hooks,
    pub(crate) connections: ConnectionShares,
    pub(crate) needed_layout: NeededLayout,
    /// Identifies this node to itself.
    pub(crate) node: String,
    /// What the nodes report about themselves.
    pub(crate) reports: Reports,
    /// Publications that wait for Redis.
    appends: QueueLimit,
    /// Events of clients that wait to be sent.
    client_events: QueueLimit,
}

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    At(ChannelPosition),
    /// Nothing was appended: another node has moved the channel to this shard.
    Moved(String),
    /// Nothing was appended: the channel may have to be moved here first.
    Absent,
}

impl Appended {
    fn of(text: &str) -> Option<Self> {
        match text.strip_prefix("moved ") {
            Some(shard) => Some(Self::Moved(shard.to_owned())),
            None if text == "absent" => Some(Self::Absent),
            None => text.parse().ok().map(Self::At),
        }
    }
}

/// The connection for commands.
#[derive(Debug, Default)]
struct Commands {
    /// Counts connections, so that a late error of an earlier one does not end this one.
    generation: u64,
    /// None: the server does not respond.
    connection: Option<CommandConnection>,
    /// Publications to one server. None: also if there are several, which may not wait for each other.
    appends: Option<Appends>,
}

impl Commands {
    /// Replaces the connection. What waits for another server is not sent any more.
    fn replace(&mut self, next: Option<(CommandConnection, Option<Appends>)>) {
        let (connection, appends) = next.unzip();
        let appends = appends.flatten();
        if let Some(before) = &self.appends
            && connection.is_some()
            && !appends.as_ref().is_some_and(|appends| appends.has_server_of(before))
        {
            before.end();
        }
        self.generation += u64::from(connection.is_some());
        (self.connection, self.appends) = (connection, appends);
    }

    /// Ends the use of a connection, and of what waits for it. Returns false if there is another one already.
    fn end(&mut self, generation: u64) -> bool {
        if self.generation != generation || self.connection.take().is_none() {
            return false;
        }
        if let Some(appends) = self.appends.take() {
            appends.end();
        }
        true
    }
}

/// What the logs of all shards have in common.
#[derive(Clone, Debug)]
pub(crate) struct SharedParts {
    pub(crate) placement: Arc<Placement>,
    pub(crate) settings: RedisLogSettings,
    pub(crate) metrics: RedisLogMetrics,
    /// Identifies this node to itself.
    pub(crate) node: String,
    pub(crate) options: NodeOptions,
}

impl RedisLog {
    /// Returns a log that is not connected.
    pub(crate) fn new(shard: ShardOptions, place: usize, parts: SharedParts) -> Self {
        let SharedParts { placement, settings, metrics, node, options } = parts;
        let metrics = metrics.of_shard(&shard.name);
        let limit = |queue, waiting_max, bytes_max| {
            QueueLimit::new(metrics.gauges(queue), waiting_max, bytes_max)
        };
        let client_events_max = settings.client_events_max;
        Self {
            shard,
            place,
            placement,
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
            moves: Requests::default(),
            subscribers: Requests::default(),
            takes_members: AtomicBool::new(false),
            listings: Semaphore::new(LISTINGS_MAX),
            identities: Identities::default(),
            reports: Reports::new(options),
            hooks: Hooks::default(),
            connections: ConnectionShares::default(),
            needed_layout: NeededLayout::default(),
            commands: Mutex::default(),
            condition: ShardCondition::default(),
            seeds: Seeds::default(),
            data_ids: DataIds::default(),
            broadcasts: Broadcasts::new(client_events_max),
            node,
            failed: Notify::new(),
        }
    }

    /// Returns whether this node assigns a channel to this shard.
    pub(crate) fn owns(&self, key: &ChannelKey) -> bool {
        self.placement.home(key) == self.place
    }

    /// Returns whether a channel is in this shard, or another node may have moved it here.
    pub(crate) fn concerns(&self, key: &ChannelKey) -> bool {
        self.placement.concerns(self.place, key)
    }

    /// Returns whether a channel may have to be moved to this shard before it is used.
    pub(crate) fn may_lack(&self, key: &ChannelKey) -> bool {
        !self.owns(key) || self.placement.previous(key).is_some()
    }

    /// Connects to the servers of the shard, and checks them.
    pub(crate) async fn open_connections(&self) -> Result<Connections, OpenError> {
        let Self { shard: ShardOptions { endpoint, .. }, settings, keys, metrics, .. } = self;
        let parts = ConnectionParts { endpoint, settings, keys, metrics };
        Connections::open(&parts, &self.seeds.candidates(endpoint)).await
    }

    /// Returns whether events of several partitions can't be appended together.
    pub(crate) fn is_split(&self) -> bool {
        matches!(self.commands(), Some((_, CommandConnection::Cluster(..))))
    }

    /// Notes whether members are sent to this shard.
    pub(crate) fn set_takes_members(&self, takes: bool) {
        self.takes_members.store(takes, Ordering::SeqCst);
    }

    pub(crate) fn takes_members(&self) -> bool {
        self.takes_members.load(Ordering::SeqCst)
    }

    /// Notes why the shard can't be used. Returns whether that is news.
    pub(crate) fn note_problem(&self, problem: &str, is_full: bool) -> bool {
        self.condition.note_problem(problem, is_full)
    }

    /// Returns the state of the shard for operators.
    pub(crate) fn view(&self) -> LogShardView {
        let is_connected = self.commands().is_some();
        LogShardView {
            name: self.shard.name.clone(),
            address: self.shard.endpoint.to_string(),
            is_connected,
            problem: self.condition.problem().filter(|_| !is_connected),
            seconds: self.condition.seconds(),
            nodes: if is_connected { self.metrics.node_count() } else { 0 },
        }
    }

    /// Replaces the connection for commands, and the way of publications to one server. None: the server does not
    /// respond.
    pub(crate) fn set_commands(&self, connection: Option<(CommandConnection, Option<Appends>)>) {
        self.metrics.connected(connection.is_some());
        self.condition.set_connected(connection.is_some());
        self.lock_commands().replace(connection);
    }

    /// Ends the use of the connection: publications that were not sent yet are not sent on it any more.
    pub(crate) fn disconnect(&self) {
        if let Some(appends) = &self.lock_commands().appends {
            appends.end();
        }
        self.set_commands(None);
    }

    pub(crate) fn commands(&self) -> Option<(u64, CommandConnection)> {
        let commands = self.lock_commands();
        commands.connection.clone().map(|connection| (commands.generation, connection))
    }

    /// Returns the way to the server, if there is one server and this connection to it.
    fn appends_of(&self, generation: u64) -> Option<Appends> {
        let commands = self.lock_commands();
        commands.appends.clone().filter(|_| commands.generation == generation)
    }

    /// Returns the connection, or why nothing can be done.
    pub(crate) fn connected(&self) -> Result<(u64, CommandConnection), AppendError> {
        let absence =
            || if self.condition.is_full() { AppendError::Full } else { AppendError::Away };
        self.commands().ok_or_else(absence)
    }

    fn lock_commands(&self) -> MutexGuard<'_, Commands> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the use of a connection. Publications are rejected at once until the node has connected
    /// again.
    fn end_commands(&self, generation: u64) {
        if self.lock_commands().end(generation) {
            self.metrics.connected(false);
            self.condition.set_connected(false);
            self.failed.notify_one();
        }
    }

    /// Appends all of these events, or none of them; except those of channels that were moved, or that may
    /// have to be moved here first.
    pub(crate) async fn append_all(
        &self,
        events: &[NewEvent],
        must_exist: bool,
    ) -> Result<Vec<Appended>, AppendError> {
        let (generation, connection) = self.connected()?;
        let room = self.room_to_append(events.iter().map(bytes_of).sum())?;
        let append = |new| scripts::append(&self.keys, &self.settings, new, must_exist);
        let texts = match (events, self.appends_of(generation)) {
            ([new], Some(appends)) => {
                vec![self.append_one(generation, &appends, append(new), room).await?]
            }
            _ => {
                let commands: Vec<Cmd> = events.iter().map(append).collect();
                self.append_together(generation, connection, &commands).await?
            }
        };
        let appended: Option<Vec<Appended>> = texts.iter().map(|text| Appended::of(text)).collect();
        appended.ok_or(AppendError::Rejected)
    }

    async fn append_one(
        &self,
        generation: u64,
        appends: &Appends,
        command: Cmd,
        room: QueueRoom,
    ) -> Result<String, AppendError> {
        let explain = |error: RedisError| self.explain_append(generation, &error, 1);
        match appends.send(command, room).await {
            Ok(reply) => redis::from_redis_value(reply).map_err(|error| explain(error.into())),
            Err(AppendFailure::Redis(error)) => Err(explain(error)),
            Err(AppendFailure::NotSent) => {
                self.end_commands(generation);
                Err(AppendError::Away)
            }
            Err(AppendFailure::NoReply) => Err(AppendError::Unknown),
        }
    }

    /// Executes all commands or none of them.
    async fn append_together(
        &self,
        generation: u64,
        mut connection: CommandConnection,
        commands: &[Cmd],
    ) -> Result<Vec<String>, AppendError> {
        let mut reply = execute(&mut connection, commands).await;
        if reply.as_ref().is_err_and(scripts::is_lacking) {
            // Nothing was executed: all commands of the batch are the same script.
            scripts::load(&mut connection)
                .await
                .map_err(|error| self.explain(generation, &error))?;
            reply = execute(&mut connection, commands).await;
        }
        reply.map_err(|error| self.explain_append(generation, &error, commands.len()))
    }

    /// Sends one command to the shard that reads, or that may be repeated.
    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, AppendError> {
        let (generation, mut connection) = self.connected()?;
        let reply = command.query_async(&mut connection).await;
        reply.map_err(|error| self.explain_query(generation, &error))
    }

    /// Sends clients' events to the other nodes until the connection fails.
    pub(crate) async fn send_broadcasts(&self, connection: CommandConnection) -> RedisError {
        self.broadcasts.send_all(&self.keys, &self.node, &self.metrics, connection).await
    }

    fn room_to_append(&self, bytes: usize) -> Result<QueueRoom, AppendError> {
        self.appends.reserve(bytes).map_err(|full| {
            self.metrics.limit_hit(LogQueue::Appends, full);
            AppendError::Busy
        })
    }

    /// Sends a client's event to the other nodes, or counts it as lost.
    pub(crate) fn broadcast(&self, event: ClientBroadcast) {
        if !self.add_broadcast(event) {
            self.metrics.broadcasts_lost(1);
        }
    }

    /// Notes that subscribers of a channel came to this node or left it.
    pub(crate) fn subscribers_changed(&self, channel: ChannelKey) {
        // With the next connection, everything is sent again.
        if self.lock_commands().connection.is_some() {
            self.subscribers.add(channel);
        }
    }

    /// Requests a comparison of a channel. Returns false if Redis does not respond, or rejects it for now.
    pub(crate) fn request(&self, channel: ChannelKey) -> bool {
        if self.commands().is_none() {
            return false;
        }
        let is_postponed = self.requests.is_postponed(&channel);
        self.requests.add(channel);
        !is_postponed
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

    /// Requests that the other nodes close the connections of a user.
    pub(crate) async fn add_termination(&self, app: &str, user: &str) -> Result<(), AppendError> {
        let (generation, mut connection) = self.connected()?;
        let _room = self.room_to_append(user.len())?;
        let added = terminations::add(&self.keys, &self.node, app, user);
        let added = added.exec_async(&mut connection).await;
        added.map_err(|error| self.explain(generation, &error))
    }

    /// Returns the counts of channels, in this order.
    pub(crate) async fn read_counts(
        &self,
        channels: &[ChannelKey],
    ) -> Result<Vec<SharedCounts>, AppendError> {
        let (generation, mut connection) = self.connected()?;
        let _room = self.room_to_append(channels.iter().map(|key| key.channel.len()).sum())?;
        let counts = queries::counts(&self.keys, channels, &mut connection).await;
        counts.map_err(|error| self.explain_query(generation, &error))
    }

    /// Returns the channels of an app with subscribers whose names begin with `prefix`.
    pub(crate) async fn list_channels(
        &self,
        app: &str,
        prefix: &str,
        counts_users: bool,
    ) -> Result<Vec<(String, SharedCounts)>, AppendError> {
        let (generation, mut connection) = self.connected()?;
        let Ok(_permit) = self.listings.try_acquire() else {
            return Err(AppendError::TooManyLists);
        };
        let listed =
            queries::channels(&self.keys, app, prefix, counts_users, &mut connection).await;
        listed.map_err(|error| self.explain_query(generation, &error))
    }

    /// Explains why nothing was read, or may be repeated. The user may still be allowed to append events.
    fn explain_query(&self, generation: u64, error: &RedisError) -> AppendError {
        if matches!(RedisErrorKind::of(error, ""), RedisErrorKind::NoPermission { .. }) {
            self.metrics.rejected();
            let error = error_kind::message(error);
            tracing::warn!(error, "Redis rejected a query of realtime");
            return AppendError::Rejected;
        }
        match self.explain(generation, error) {
            AppendError::Unknown => AppendError::Away,
            other => other,
        }
    }

    /// Explains why not all of these events were appended.
    fn explain_append(&self, generation: u64, error: &RedisError, events: usize) -> AppendError {
        let failed = error.clone().into_server_errors().map_or(events, |errors| errors.len());
        match self.explain(generation, error) {
            AppendError::Full if failed < events => AppendError::Partial,
            other => other,
        }
    }

    fn explain(&self, generation: u64, error: &RedisError) -> AppendError {
        self.metrics.rejected();
        if ends_connection(error) {
            self.end_commands(generation);
            return AppendError::Unknown;
        }
        match RedisErrorKind::of(error, "") {
            // Nothing was executed.
            RedisErrorKind::SlotUnavailable => AppendError::Moving,
            RedisErrorKind::OutOfMemory => AppendError::Full,
            kind if is_of_no_use(&kind) => {
                // The next connection finds the primary, or names what is missing.
                self.end_commands(generation);
                AppendError::Away
            }
            _ => {
                tracing::warn!(%error, "Redis rejected an event of realtime");
                AppendError::Rejected
            }
        }
    }
}

/// Returns the bytes of an event, without its JSON and the command around it.
fn bytes_of(new: &NewEvent) -> usize {
    let key = new.idempotency_key.as_ref().map_or(0, |key| key.len());
    new.key.channel.len() + new.event.name.len() + new.event.data.len() + key
}

/// Executes all commands or none of them.
async fn execute(connection: &mut CommandConnection, commands: &[Cmd]) -> RedisResult<Vec<String>> {
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
        AuthRequired, ClusterRedirect, Loading, MasterDown, NoPermission, NodeAway, ReadOnly,
    };
    matches!(
        kind,
        ReadOnly
            | MasterDown
            | NoPermission { .. }
            | AuthRequired
            | Loading
            | ClusterRedirect
            | NodeAway
    )
}

#[cfg(test)]
mod tests {
    use redis::RedisConnectionInfo;
    use redis::aio::MultiplexedConnection;
    use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    /// Returns a connection, and its server, which is silent.
    async fn connection() -> (CommandConnection, DuplexStream) {
        let (client, mut server) = duplex(1024);
        // What a client says first is accepted.
        server.write_all("+OK\r\n".repeat(8).as_bytes()).await.unwrap();
        let info = RedisConnectionInfo::default();
        let (connection, _) = MultiplexedConnection::new(&info, client).await.unwrap();
        (CommandConnection::Server(connection), server)
    }

    #[tokio::test]
    async fn what_waits_for_a_server_that_has_failed_or_was_replaced_is_not_sent() {
        let (connection, _server) = connection().await;
        let appends = |server| Appends::begin(connection.clone(), server, 1).0;
        let mut commands = Commands::default();
        let mut replace = |appends: &Appends| {
            commands.replace(Some((connection.clone(), Some(appends.clone()))));
            commands.generation
        };
        let (first, again, other) = (appends("one"), appends("one"), appends("two"));
        assert_eq!([replace(&first), replace(&again)], [1, 2]);
        assert!(!first.is_ended(), "it leads to the same server");
        replace(&other);
        assert!(again.is_ended());
        assert!(!commands.end(1) && !other.is_ended(), "an error of an earlier connection");
        assert!(commands.end(3) && other.is_ended());
    }
}
