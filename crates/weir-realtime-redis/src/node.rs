//! The task of a node: passes events to the hub, in the order of their channels.
//!
//! One task does everything that changes copies of channels, one step at a time. While it reads
//! channels from Redis, messages wait in the queue: each is either in what was read, and known, or
//! comes after it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, RedisResult, Value};
use tokio::time::{Instant, MissedTickBehavior};
use weir_base::shutdown::ShutdownToken;
use weir_base::switchboard::Switchboard;
use weir_realtime::hub::{HeldChannel, Hub};
use weir_realtime::shared_log::{ChannelKey, Delivery, HeldMembers, MembersMessage};
use weir_redis::cluster_slots::NodeAddress;
use weir_redis::{NamedPrimary, RedisErrorKind, error_kind};

use crate::appends::Appends;
use crate::command_connection::CommandConnection;
use crate::comparisons;
use crate::connections::{Connections, OpenError};
use crate::fence;
use crate::heartbeat::Sequences;
use crate::holes::Holes;
use crate::layout::{self, UnknownLayout};
use crate::log::RedisLog;
use crate::moves;
use crate::node_changes;
use crate::partition::Partition;
use crate::permissions;
use crate::presence::{self, ANNOUNCE_INTERVAL, LeaseLost, Presence, PresenceEnd};
use crate::queue_limit::QueueRoom;
use crate::record::{ShardMessage, ShardPayload};
use crate::rejections::{self, accepted, unless_rejected};
use crate::renewals::Renewals;
use crate::scripts;
use crate::shards::Shards;
use crate::shared_switches::{self, SharedSwitches};
use crate::subscription::{Push, Pushes, Subscriptions};
use crate::suspension::is_of_command;
use crate::terminations::TerminationReader;

/// Time between heartbeats. A missing event is found at the second one after it.
const HEARTBEAT: Duration = Duration::from_millis(900);
/// Time between questions to Sentinels.
const PRIMARY_INTERVAL: Duration = Duration::from_secs(1);
/// Time between attempts to connect, with a random part so that nodes don't connect together.
const RETRY_MS: std::ops::Range<u64> = 100..600;
/// How often the node looks whether the cores have room for channels that wait for it, and how many of
/// them it looks at.
const ROOM_INTERVAL: Duration = Duration::from_millis(20);
const ROOM_CHECKS_MAX: usize = 256;
/// Messages that are passed on before the node looks for other work.
const PUSHES_MAX: usize = 64;

/// The task of a node for one shard.
#[derive(Debug)]
pub struct LogNode {
    log: Arc<RedisLog>,
    shards: Arc<Shards>,
    hub: Arc<Hub>,
    shutdown: ShutdownToken,
    /// Whether nodes share what belongs to no channel through this shard.
    is_common: bool,
    switches: Option<Switchboard>,
    /// When the node started. It had no connections before.
    started: Instant,
    /// None: the node has not connected yet. A lock of std, never held across an await.
    terminations: Mutex<Option<TerminationReader>>,
}

/// Why a session with Redis ended.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error("{}", error_kind::message(.0))]
    Redis(#[from] RedisError),
    #[error("its Sentinels name {now} as the primary instead of {before}")]
    Replaced { before: String, now: String },
    #[error("the connection for subscriptions ended")]
    SubscriptionLost,
    #[error("a publication got no reply")]
    AppendFailed,
    #[error("{0}")]
    Presence(#[from] PresenceEnd),
}

impl From<LeaseLost> for SessionError {
    fn from(lost: LeaseLost) -> Self {
        PresenceEnd::from(lost).into()
    }
}

impl From<UnknownLayout> for SessionError {
    fn from(unknown: UnknownLayout) -> Self {
        PresenceEnd::from(unknown).into()
    }
}

impl SessionError {
    /// Returns whether publications go on: they need only the connection for commands, and their events arrive
    /// later.
    const fn leaves_publications(&self) -> bool {
        match self {
            Self::SubscriptionLost => true,
            Self::Presence(end) => !matches!(end, PresenceEnd::UnknownLayout(_)),
            _ => false,
        }
    }

    /// Returns whether Redis has reached its maxmemory.
    fn is_full(&self) -> bool {
        let (Self::Redis(error) | Self::Open(OpenError::NoReply { error, .. })) = self else {
            return false;
        };
        RedisErrorKind::of(error, "") == RedisErrorKind::OutOfMemory
    }
}

/// The connections of a session, and what arrived on them.
struct Session {
    /// Waits for no slot of a cluster: the node has others to serve meanwhile.
    commands: CommandConnection,
    /// The same connection, or those to all nodes of a cluster.
    servers: Vec<MultiplexedConnection>,
    subscriptions: Subscriptions,
    /// Partitions whose subscriptions ended, and those to which no node accepts one for now.
    ended: Vec<Partition>,
    unsubscribed: Vec<Partition>,
    pushes: Pushes,
    sequences: Sequences,
    holes: Holes,
    renewals: Renewals,
    presence: Presence,
    switches: SharedSwitches,
    /// When this node last got its parts of the apps' limits.
    shared_at: Instant,
    primary: Option<NamedPrimary>,
}

/// The servers of a session, besides what the session has itself.
struct OpenedServers {
    /// The connection for publications.
    commands: CommandConnection,
    /// Identifies the process of the first server.
    id: String,
    /// The nodes of a cluster.
    nodes: Vec<NodeAddress>,
}

impl LogNode {
    /// Returns the task of the node whose hub uses `log`.
    pub(crate) fn new(
        (log, shards, hub): (Arc<RedisLog>, Arc<Shards>, Arc<Hub>),
        (is_common, switches): (bool, Option<Switchboard>),
        shutdown: ShutdownToken,
    ) -> Self {
        let (started, terminations) = (Instant::now(), Mutex::new(None));
        Self { log, shards, hub, shutdown, is_common, switches, started, terminations }
    }

    /// Runs until shutdown.
    pub async fn run(self) {
        let shard = &*self.log.shard.name;
        loop {
            tokio::select! {
                () = self.shutdown.requested() => break,
                error = self.run_session() => {
                    if !error.leaves_publications() {
                        self.log.disconnect();
                    }
                    self.log.metrics.disconnected();
                    let (problem, is_full) = (error.to_string(), error.is_full());
                    if self.log.note_problem(&problem, is_full) {
                        tracing::warn!(shard, %error, "the realtime session with Redis ended; connecting again");
                    }
                }
            }
            tokio::select! {
                () = self.shutdown.requested() => break,
                () = tokio::time::sleep(Duration::from_millis(fastrand::u64(RETRY_MS))) => {}
            }
        }
        if let Some((_, mut connection)) = self.log.commands() {
            if let Err(error) = presence::end(&self.log, &self.hub, &mut connection).await {
                tracing::warn!(shard, %error, "other realtime nodes will remove this node's members");
            }
            if let Err(error) = self.log.reports.stop(&self.log.keys, &mut connection).await {
                tracing::debug!(shard, %error, "other nodes will list this node as away");
            }
        }
        self.log.set_commands(None);
    }

    /// Connects and runs until a connection fails.
    async fn run_session(&self) -> SessionError {
        let (mut session, OpenedServers { commands, id, nodes }) = match self.open().await {
            Ok(opened) => opened,
            Err(error) => {
                self.log.seeds.on_failed();
                return error;
            }
        };
        self.log.seeds.on_opened(nodes);
        // Forget a failure of the last session.
        let _ = self.log.failed.notified().now_or_never();
        let (failed, primary) = (self.log.failed.notified(), session.primary.take());
        let broadcast_commands = session.commands.clone();
        // In this order: a channel that is created after the list was made requests its own comparison.
        let appends = self.begin_appends(&commands, &id);
        self.log.set_commands(Some((commands, appends)));
        session.presence.request_all(&self.log, &self.hub);
        self.request_all(|_| true);
        self.log.connections.request();
        tracing::info!(shard = self.log.shard.name, "realtime is connected to Redis");
        let error = tokio::select! {
            () = failed => SessionError::AppendFailed,
            error = self.watch_primary(primary) => error,
            error = self.log.send_broadcasts(broadcast_commands) => error.into(),
            error = self.serve(&mut session) => error,
            never = moves::run(&self.log, &self.shards, &self.hub) => match never {},
        };
        self.log.set_takes_members(false);
        self.hub.end_log_session(|key| self.log.owns(key));
        if self.is_common {
            self.hub.end_connection_grants();
        }
        error
    }

    /// Begins to send publications, if there is one server: a slot of a cluster that can't be used would delay the others.
    fn begin_appends(&self, commands: &CommandConnection, server: &str) -> Option<Appends> {
        let CommandConnection::Server(_) = commands else { return None };
        let waiting_max = self.log.settings.appends_max;
        let (appends, sending) = Appends::begin(commands.clone(), server, waiting_max);
        self.shutdown.spawn(sending);
        Some(appends)
    }

    async fn open(&self) -> Result<(Session, OpenedServers), SessionError> {
        let log = &self.log;
        let opened = log.open_connections().await?;
        let nodes = opened.cluster_nodes();
        let id = opened.servers.first().map(|server| server.id.clone()).unwrap_or_default();
        let Connections { mut commands, subscriptions, pushes, servers, primary } = opened;
        scripts::load(&mut commands).await?;
        let links = servers.iter().map(|server| server.commands.clone()).collect();
        // Before anything is written.
        layout::read(&log.keys, &mut commands).await??;
        // Before the first event, and before channels are compared.
        for server in servers {
            let ids = fence::begin(server, &log.keys, &mut commands).await?;
            log.data_ids.begin(ids);
        }
        let unsubscribed = subscriptions.subscribe(&log.keys, Partition::all()).await?;
        self.begin_terminations(&mut commands).await?;
        let presence = Presence::begin(log, &mut commands).await??;
        log.metrics.layout(presence.layout());
        // Read after subscribing, so that no event is in neither.
        let sequences = Sequences::new(&self.read_sequences(&mut commands).await?);
        let now = Instant::now();
        let (holes, renewals) = (Holes::new(now), Renewals::new(now));
        let session = Session {
            commands: commands.without_waits(),
            servers: links,
            subscriptions,
            ended: Vec::new(),
            unsubscribed,
            pushes,
            sequences,
            holes,
            renewals,
            presence,
            switches: SharedSwitches::new(self.switches.clone()),
            shared_at: now,
            primary,
        };
        Ok((session, OpenedServers { commands, id, nodes }))
    }

    /// Asks the Sentinels, if there are any, until they name another primary: one that was cut off
    /// accepts events until it learns of its successor, and loses them then.
    async fn watch_primary(&self, used: Option<NamedPrimary>) -> SessionError {
        let Some(used) = used else { return std::future::pending().await };
        loop {
            tokio::time::sleep(PRIMARY_INTERVAL).await;
            let timeout = self.log.settings.timeout;
            if let Some(now) = weir_redis::named_primary(&self.log.shard.endpoint, timeout).await
                && now.replaces(&used)
            {
                return SessionError::Replaced { before: used.address(), now: now.address() };
            }
        }
    }

    async fn serve(&self, session: &mut Session) -> SessionError {
        let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        let mut room = tokio::time::interval(ROOM_INTERVAL);
        let mut announcements = tokio::time::interval(ANNOUNCE_INTERVAL);
        let mut switches = tokio::time::interval(shared_switches::INTERVAL);
        let mut retry = tokio::time::interval(rejections::RETRY);
        for interval in [&mut heartbeat, &mut room, &mut announcements, &mut switches, &mut retry] {
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            let (holes_due, shared_at) = (session.holes.due(), session.shared_at);
            let (resume_due, stores) =
                (session.presence.suspension.retry_at(), !session.presence.suspension.is_active());
            let held_max = self.hub.webhooks_held_max();
            let removals_due = session.presence.removals.next_due().filter(|_| stores);
            let hooks_due = self.log.hooks.next_due(held_max).filter(|_| stores);
            let done = tokio::select! {
                first = session.pushes.next() => self.on_pushes(session, first),
                () = self.log.requests.added() => self.compare_requested(session).await,
                () = self.log.subscribers.added(), if stores => self.send_changes(session).await,
                () = sleep_until(resume_due) => self.resume_presence(session).await,
                // One round trip in each turn, so that the others are not delayed.
                () = sleep_until(removals_due) => self.remove_members(session).await,
                () = std::future::ready(()), if session.presence.lists.has_work() => {
                    self.read_member_list(session).await
                }
                _ = announcements.tick(), if session.presence.is_announcing() => {
                    session.presence.announce_due(&self.hub);
                    Ok(())
                }
                () = sleep_until(hooks_due) => self.release_hooks(session).await,
                () = sleep_until(holes_due) => {
                    let partitions = session.holes.take(Instant::now());
                    self.request_all(|key| partitions.contains(&Partition::of(key)));
                    Ok(())
                }
                () = self.log.connections.due(shared_at), if self.shares_limits(session) => {
                    self.share_connections(session).await
                }
                _ = heartbeat.tick() => self.on_heartbeat(session).await,
                _ = switches.tick() => self.exchange_switches(session, false).await,
                _ = retry.tick(), if self.has_rejected(session) => {
                    self.retry_rejected(session);
                    Ok(())
                }
                _ = room.tick(), if self.log.requests.has_delayed() => {
                    self.log.requests.resume(ROOM_CHECKS_MAX, |key| self.hub.has_room(key));
                    Ok(())
                }
            };
            if let Err(error) = done {
                return error;
            }
            if let Err(error) = self.subscribe_again(session).await {
                return error;
            }
            if session.pushes.take_overflow() {
                self.log.metrics.hole();
                self.request_all(|_| true);
            }
        }
    }

    /// Passes on what has arrived.
    fn on_pushes(
        &self,
        session: &mut Session,
        first: (Push, Option<QueueRoom>),
    ) -> Result<(), SessionError> {
        let mut next = Some(first);
        for left in (0..PUSHES_MAX).rev() {
            let Some((push, _room)) = next else { break };
            self.on_push(session, push)?;
            next = if left > 0 { session.pushes.next_now() } else { None };
        }
        Ok(())
    }

    fn on_push(&self, session: &mut Session, push: Push) -> Result<(), SessionError> {
        match push {
            Push::Payload(ShardPayload::Event(message)) => self.on_message(session, &message),
            // Subscribers of this node have received its clients' events already.
            Push::Payload(ShardPayload::Client { node, .. }) if node == self.log.node => {}
            Push::Payload(ShardPayload::Client { event, .. }) => {
                self.hub.deliver_client_event(&event);
            }
            Push::Payload(ShardPayload::Members { sequence, message }) => {
                self.on_members(session, sequence, &message);
            }
            Push::Payload(ShardPayload::Count { sequence, key, count }) => {
                self.on_sequence(session, &key, sequence);
                if self.log.owns(&key) && self.hub.deliver_count(&key, count) {
                    session.presence.announce(&self.hub, &key);
                }
            }
            Push::Payload(ShardPayload::Switches) => session.switches.on_message(),
            Push::Ended(partition) => session.ended.push(partition),
            Push::Unreadable => self.log.metrics.unreadable(1),
            Push::Lost => return Err(SessionError::SubscriptionLost),
            Push::Other => {}
        }
        Ok(())
    }

    /// Subscribes to partitions whose slots were moved, and compares their channels. Until that is possible,
    /// heartbeats find their events.
    async fn subscribe_again(&self, session: &mut Session) -> Result<(), SessionError> {
        if session.ended.is_empty() {
            return Ok(());
        }
        let ended = std::mem::take(&mut session.ended);
        let partitions = ended.iter().copied();
        let left = session.subscriptions.subscribe(&self.log.keys, partitions).await?;
        for partition in ended {
            self.log.metrics.hole();
            session.holes.add(partition);
        }
        session.unsubscribed.extend(left);
        Ok(())
    }

    /// Returns whether anything waits because Redis rejects it for now.
    fn has_rejected(&self, session: &Session) -> bool {
        !session.unsubscribed.is_empty()
            || self.log.requests.has_postponed()
            || self.log.subscribers.has_postponed()
    }

    fn retry_rejected(&self, session: &mut Session) {
        session.ended.append(&mut session.unsubscribed);
        self.log.requests.retry_postponed();
        self.log.subscribers.retry_postponed();
    }

    fn on_members(&self, session: &mut Session, sequence: u64, message: &MembersMessage) {
        self.on_sequence(session, &message.key, sequence);
        if self.log.owns(&message.key) && !session.presence.lists.take_change(message) {
            session.presence.apply_change(&self.log, &self.hub, message);
        }
    }

    /// Notes the number of a message in its partition.
    fn on_sequence(&self, session: &mut Session, key: &ChannelKey, sequence: u64) {
        let partition = Partition::of(key);
        if session.sequences.on_message(partition, sequence) {
            self.log.metrics.hole();
            session.holes.add(partition);
        }
    }

    fn on_message(&self, session: &mut Session, message: &ShardMessage) {
        self.log.metrics.message(message.record.event.data.len());
        self.on_sequence(session, &message.key, message.sequence);
        match self.hub.deliver(&message.key, &message.record) {
            Delivery::Delivered | Delivery::NotNeeded => {}
            Delivery::Hole => self.log.requests.add(message.key.clone()),
            Delivery::Busy => self.log.requests.delay(message.key.clone()),
        }
    }

    fn request_all(&self, is_included: impl Fn(&ChannelKey) -> bool) {
        for held in self.held_channels() {
            if is_included(&held.key) {
                self.log.requests.add(held.key);
            }
        }
    }

    /// Returns the copies of the channels of this shard.
    fn held_channels(&self) -> Vec<HeldChannel> {
        let mut held = self.hub.held_channels();
        held.retain(|held| self.log.concerns(&held.key));
        held
    }

    fn request_presence(&self) {
        for held in self.held_channels() {
            if held.members != HeldMembers::None && self.log.owns(&held.key) {
                self.log.requests.add(held.key);
            }
        }
    }

    async fn on_heartbeat(&self, session: &mut Session) -> Result<(), SessionError> {
        session.subscriptions.ping().await?;
        let sent = Instant::now();
        let stored = self.read_sequences(&mut session.commands).await?;
        self.log.reports.note_response(sent.elapsed());
        for partition in session.sequences.on_heartbeat(&stored) {
            self.log.metrics.hole();
            session.holes.add(partition);
        }
        self.read_terminations(session).await?;
        let Session { presence, commands, .. } = &mut *session;
        if presence.suspension.is_active() {
            // There is no lease, with which it is read otherwise.
            if let Some(checked) = unless_rejected(layout::read(&self.log.keys, commands).await)? {
                checked?;
            }
            if self.is_common {
                self.hub.end_connection_grants();
            }
        } else {
            match presence.on_heartbeat(&self.log, commands).await {
                Ok(renewed) => renewed?,
                Err(error) => self.suspend(presence, error)?,
            }
        }
        if session.presence.settles() {
            self.request_presence();
        }
        let renewed = session.renewals.next(Instant::now(), || self.held_channels());
        if !renewed.is_empty() {
            let mut renewal = scripts::renew(&self.log.keys, &renewed);
            let replies = renewal.ignore_errors().query_async(&mut session.commands).await?;
            // Those that are rejected have time until the round after the next one.
            check_replies(replies)?;
        }
        self.settle_hooks(session).await?;
        self.exchange_switches(session, true).await?;
        self.share_connections(session).await?;
        let Session { commands, .. } = session;
        let reported = self.log.reports.exchange(&self.log.keys, &self.hub, commands).await;
        match unless_rejected(reported) {
            // Only lists of nodes need them.
            Err(error) if is_of_command(&error) => {
                let (shard, error) = (&*self.log.shard.name, error_kind::message(&error));
                tracing::warn!(shard, error, "Redis rejects the report of this node");
            }
            other => drop(other?),
        }
        self.log.metrics.heartbeat();
        Ok(())
    }

    /// Closes the connections of users that other nodes were asked to terminate.
    async fn read_terminations(&self, session: &mut Session) -> Result<(), SessionError> {
        let Some(mut reader) = self.terminations().clone() else { return Ok(()) };
        let read = reader.read(&self.log.keys, &mut session.commands).await;
        for termination in unless_rejected(read)?.into_iter().flatten() {
            let is_own = termination.node == self.log.node;
            if !is_own && self.hub.terminate(&termination.app, &termination.user).is_err() {
                // A core has no room: again at the next heartbeat.
                break;
            }
            if !is_own {
                self.log.metrics.termination();
            }
            reader.advance(&termination);
        }
        *self.terminations() = Some(reader);
        Ok(())
    }

    /// Begins to read requests, if the node has not connected before.
    async fn begin_terminations(
        &self,
        commands: &mut CommandConnection,
    ) -> Result<(), SessionError> {
        let has_begun = self.terminations().is_some();
        if !has_begun {
            let reader = TerminationReader::begin(commands, self.started).await?;
            *self.terminations() = Some(reader);
        }
        Ok(())
    }

    fn terminations(&self) -> MutexGuard<'_, Option<TerminationReader>> {
        self.terminations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn compare_requested(&self, session: &mut Session) -> Result<(), SessionError> {
        let Session { presence, commands, .. } = session;
        let shards = (&*self.log, &*self.shards);
        Ok(comparisons::compare_requested(shards, &self.hub, presence, commands).await??)
    }

    async fn read_member_list(&self, session: &mut Session) -> Result<(), SessionError> {
        let Session { presence, commands, .. } = session;
        let shards = (&*self.log, &*self.shards);
        Ok(comparisons::read_list(shards, &self.hub, presence, commands).await??)
    }

    async fn send_changes(&self, session: &mut Session) -> Result<(), SessionError> {
        let Session { presence, commands, .. } = session;
        let sent = node_changes::send(&self.log, &self.hub, presence, commands).await;
        self.or_suspend(presence, sent)
    }

    /// Goes on without subscriptions and members if Redis rejects only those.
    fn or_suspend(
        &self,
        presence: &mut Presence,
        result: RedisResult<()>,
    ) -> Result<(), SessionError> {
        result.or_else(|error| self.suspend(presence, error))
    }

    /// Goes on without subscriptions, members and parts of limits: other nodes end the lease with which they are stored.
    fn suspend(&self, presence: &mut Presence, error: RedisError) -> Result<(), SessionError> {
        presence.suspend(&self.log, &self.hub, error)?;
        if self.is_common {
            self.hub.end_connection_grants();
        }
        Ok(())
    }

    /// Tries to store subscriptions and members again.
    async fn resume_presence(&self, session: &mut Session) -> Result<(), SessionError> {
        let Session { presence, commands, servers, .. } = session;
        if presence.suspension.lacks_permission()
            && permissions::is_any_denied(&self.log.keys, servers).await?
        {
            presence.suspension.wait_for_permissions();
            return Ok(());
        }
        presence.resume(&self.log, &self.hub, commands).await??;
        if !presence.suspension.is_active() {
            self.request_presence();
        }
        Ok(())
    }

    async fn exchange_switches(
        &self,
        session: &mut Session,
        looks: bool,
    ) -> Result<(), SessionError> {
        let Session { switches, commands, .. } = session;
        unless_rejected(switches.exchange(&self.log.keys, looks, commands).await)?;
        Ok(())
    }

    /// Returns whether limits of connections are divided among the nodes through this shard. Otherwise they hold
    /// for each node.
    fn shares_limits(&self, session: &Session) -> bool {
        self.is_common
            && session.presence.layout().shares_users_and_limits()
            && !session.presence.suspension.is_active()
    }

    /// Renews this node's parts of the apps' limits of connections.
    async fn share_connections(&self, session: &mut Session) -> Result<(), SessionError> {
        if !self.shares_limits(session) {
            return Ok(());
        }
        session.shared_at = Instant::now();
        let Session { presence, commands, .. } = session;
        let node = presence.node();
        if node.is_empty() {
            return Ok(());
        }
        let earlier = self.log.identities.earlier_than(node);
        let shares = &self.log.connections;
        let shared = shares.exchange(&self.log.keys, &self.hub, (node, &earlier), commands).await;
        match shared {
            // Nothing else needs them.
            Err(error) if is_of_command(&error) => {
                self.hub.end_connection_grants();
                if shares.note_rejected(true) {
                    let (shard, error) = (&*self.log.shard.name, error_kind::message(&error));
                    tracing::warn!(
                        shard,
                        error,
                        "Redis rejects what nodes share of connections_max: it holds for each node for now"
                    );
                }
                Ok(())
            }
            shared => {
                shares.note_rejected(false);
                Ok(shared?)
            }
        }
    }

    async fn release_hooks(&self, session: &mut Session) -> Result<(), SessionError> {
        let Session { presence, commands, .. } = session;
        let released = self.log.hooks.release(&self.log.keys, &self.hub, commands).await;
        self.or_suspend(presence, released)
    }

    async fn settle_hooks(&self, session: &mut Session) -> Result<(), SessionError> {
        let Session { presence, commands, .. } = session;
        if presence.suspension.is_active() {
            return Ok(());
        }
        let (hooks, identities) = (&self.log.hooks, &self.log.identities);
        let settled = hooks.settle(&self.log.keys, identities, commands).await;
        self.or_suspend(presence, settled.map(|_| ()))
    }

    async fn remove_members(&self, session: &mut Session) -> Result<(), SessionError> {
        let Session { presence, commands, .. } = session;
        let removed = presence.removals.step(&self.log, &self.hub, commands).await;
        self.or_suspend(presence, removed)
    }

    /// Reads the sequences of all partitions, except those that Redis rejects for now.
    async fn read_sequences(
        &self,
        commands: &mut CommandConnection,
    ) -> RedisResult<Vec<Option<u64>>> {
        let mut pipeline = Pipeline::new();
        for partition in Partition::all() {
            pipeline.get(self.log.keys.sequence(partition));
        }
        let replies: Vec<Value> = pipeline.ignore_errors().query_async(commands).await?;
        let number = |reply| {
            let number: Option<Option<u64>> = accepted(reply)?;
            Ok(number.map(Option::unwrap_or_default))
        };
        replies.into_iter().map(number).collect()
    }
}

/// Returns the first error that is not for now.
fn check_replies(replies: Vec<Value>) -> RedisResult<()> {
    replies.into_iter().try_for_each(|reply| accepted::<Value>(reply).map(|_| ()))
}

/// Sleeps until then. None: for ever.
async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
