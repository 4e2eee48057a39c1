//! What this node has in Redis: the numbers of its subscriptions, and its members of presence channels.
//!
//! They are stored under an identity, which has a lease. With each connection to Redis the node begins a
//! new one, stores everything under it, and then removes the earlier ones: a member that is in both
//! stays. So no identity is used again after others may have removed it.

use std::collections::HashSet;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, RedisError, RedisResult, Value};
use tokio::time::{Instant, timeout};
use weir_realtime::hub::{HeldChannel, Hub};
use weir_realtime::pusher::position::ChannelPosition;
use weir_realtime::shared_log::{
    ChannelKey, Delivery, HeldMembers, MembersMessage, MembersState, SharedMember,
};
use weir_redis::error_kind;

use crate::command_connection::CommandConnection;
use crate::layout::{LAYOUT, Layout, SessionLayout, UnknownLayout};
use crate::leases::{CONNECT_MARGIN, Lease, LeaseWatch};
use crate::log::RedisLog;
use crate::member_lists::{MemberList, MemberLists, USERS_MAX};
use crate::record;
use crate::rejections::{accepted, is_rejected, unless_rejected};
use crate::removals::Removals;
use crate::scripts;
use crate::suspension::{Suspension, is_of_command};

/// How long a stopping node removes what it has in Redis and waits for its webhooks. Another node does the
/// rest when its lease lapses.
const END_MAX: Duration = Duration::from_secs(2);
/// How often a stopping node looks whether its webhooks are settled.
const SETTLE_INTERVAL: Duration = Duration::from_millis(20);

/// The members of this node during one connection.
#[derive(Debug)]
pub(crate) struct Presence {
    node: Arc<str>,
    layout: SessionLayout,
    leases: LeaseWatch,
    /// When members that Redis lacks are removed: until then, their nodes may be connecting.
    settles_at: Option<Instant>,
    /// Channels whose subscriptions and members are to be sent before earlier identities are removed.
    unsent: HashSet<ChannelKey>,
    /// Large channels with changes to announce.
    announcing: HashSet<ChannelKey>,
    /// Nodes whose members are being removed.
    pub(crate) removals: Removals,
    /// Lists that are too long for one reply.
    pub(crate) lists: MemberLists,
    /// While Redis rejects all this.
    pub(crate) suspension: Suspension,
}

/// Why the members of this node can't be stored in this session any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PresenceEnd {
    #[error("{0}")]
    LeaseLost(#[from] LeaseLost),
    #[error("all realtime nodes know layout {now} now, instead of {before}", now = now.0, before = before.0)]
    OtherLayout { before: Layout, now: Layout },
    #[error("{0}")]
    UnknownLayout(#[from] UnknownLayout),
}

/// The lease of this node was removed, because it was not renewed, or Redis was emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the lease of this node's members is gone: the node was stalled for longer than \
     realtime.redis.presence_lease, or Redis was emptied; its members are stored again"
)]
pub(crate) struct LeaseLost;

/// The members of a channel as Redis has them: the version, the nodes, and the users of each and their
/// information, unless they are too many.
type StoredMembers = Option<(String, Vec<String>, Option<Vec<Vec<Value>>>)>;

/// What was read of a channel's members.
#[derive(Debug)]
pub(crate) enum MembersReply {
    /// The channel has them, or it is no presence channel.
    Known,
    Read(MembersState),
    /// There are too many for one reply.
    Long,
    /// Redis rejects the command for now.
    Rejected,
}

impl Presence {
    /// Begins a new identity, in the layout that all nodes know. If Redis rejects that, although it takes events,
    /// another attempt is made later.
    pub(crate) async fn begin(
        log: &RedisLog,
        connection: &mut CommandConnection,
    ) -> RedisResult<Result<Self, UnknownLayout>> {
        let duration = log.settings.presence_lease;
        let mut suspension = Suspension::default();
        let (node, layout) = match begin_identity(log, connection).await {
            Err(error) if is_of_command(&error) => {
                note_suspended(log, &error);
                suspension.begin(&error);
                ("".into(), Layout::FIRST)
            }
            begun => {
                log.metrics.presence_suspended(false);
                match begun? {
                    Ok(begun) => begun,
                    Err(unknown) => return Ok(Err(unknown)),
                }
            }
        };
        Ok(Ok(Self {
            node,
            layout: SessionLayout::new(layout),
            leases: LeaseWatch::new(duration),
            settles_at: Some(Instant::now() + duration + CONNECT_MARGIN),
            unsent: HashSet::new(),
            announcing: HashSet::new(),
            removals: Removals::default(),
            lists: MemberLists::default(),
            suspension,
        }))
    }

    /// Returns the layout of this session: the first one while no identity could begin.
    pub(crate) const fn layout(&self) -> Layout {
        self.layout.used
    }

    /// Sends and reads nothing from now on, until [`resume`](Self::resume). Returns the error if it is another one
    /// than that of a command.
    pub(crate) fn suspend(
        &mut self,
        log: &RedisLog,
        hub: &Hub,
        error: RedisError,
    ) -> RedisResult<()> {
        if !is_of_command(&error) {
            return Err(error);
        }
        note_suspended(log, &error);
        self.suspension.begin(&error);
        self.lists = MemberLists::default();
        log.set_takes_members(false);
        hub.end_log_session(|key| log.owns(key));
        Ok(())
    }

    /// Begins a new identity after a time without one, and requests that everything is sent.
    pub(crate) async fn resume(
        &mut self,
        log: &RedisLog,
        hub: &Hub,
        connection: &mut CommandConnection,
    ) -> RedisResult<Result<(), PresenceEnd>> {
        match begin_identity(log, connection).await {
            Ok(Ok((_, now))) if !self.node.is_empty() && now != self.layout.used => {
                let before = self.layout.used;
                return Ok(Err(PresenceEnd::OtherLayout { before, now }));
            }
            Ok(Ok((node, layout))) => {
                (self.node, self.layout) = (node, SessionLayout::new(layout));
            }
            Ok(Err(unknown)) => return Ok(Err(unknown.into())),
            Err(error) if is_of_command(&error) || is_rejected(&error) => {
                self.suspension.begin(&error);
                return Ok(Ok(()));
            }
            Err(error) => return Err(error),
        }
        log.metrics.layout(self.layout.used);
        self.suspension.end();
        // Other nodes may resume later.
        self.settles_at = Some(Instant::now() + log.settings.presence_lease + CONNECT_MARGIN);
        log.metrics.presence_suspended(false);
        let shard = &*log.shard.name;
        tracing::info!(shard, "subscriptions and members are stored in Redis again");
        self.request_all(log, hub);
        Ok(Ok(()))
    }

    /// Requests that all subscriptions and members are sent.
    pub(crate) fn request_all(&mut self, log: &RedisLog, hub: &Hub) {
        if self.suspension.is_active() {
            return;
        }
        // First: a channel is created either before it is listed, or with this.
        log.set_takes_members(true);
        self.unsent = hub.begin_log_session(|key| log.owns(key)).into_iter().collect();
        for key in &self.unsent {
            log.subscribers.add(key.clone());
        }
    }

    /// Returns the present identity, which is empty if Redis has rejected the first one.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Notes that Redis has stored all changes of a channel.
    pub(crate) fn on_sent(&mut self, key: &ChannelKey) {
        self.unsent.remove(key);
    }

    /// Renews the lease, and removes the members of nodes whose leases have lapsed, and those of earlier
    /// identities once all members have been sent.
    pub(crate) async fn on_heartbeat(
        &mut self,
        log: &RedisLog,
        connection: &mut CommandConnection,
    ) -> RedisResult<Result<(), PresenceEnd>> {
        // While no lease can be renewed, none lapses.
        let renewed = unless_rejected(renew(log, &self.node, connection).await)?;
        let Some(Renewed { number, leases, layout, check }) = renewed else { return Ok(Ok(())) };
        if let Err(unknown) = check {
            return Ok(Err(unknown.into()));
        }
        // The first one was when this identity began.
        if number <= 1 {
            return Ok(Err(LeaseLost.into()));
        }
        if let Some(now) = self.layout.on_heartbeat(layout) {
            return Ok(Err(PresenceEnd::OtherLayout { before: self.layout.used, now }));
        }
        log.metrics.nodes(leases.len());
        if self.unsent.is_empty() {
            log.data_ids.on_all_stored();
            self.suspension.on_all_stored();
            for node in log.identities.earlier_than(&self.node) {
                let lease = leases.iter().find(|(other, _)| **other == *node);
                unless_rejected(self.remove_later(log, connection, &node, lease).await)?;
            }
        }
        let others = leases.into_iter().filter(|(node, _)| **node != *self.node).collect();
        for lapsed in self.leases.observe(Instant::now(), others) {
            let begun = self.remove_later(log, connection, &lapsed.0, Some(&lapsed)).await;
            if unless_rejected(begun)? == Some(true) {
                log.metrics.node_lapsed();
                tracing::warn!(node = %lapsed.0, "a realtime node has ended; removing its members");
            }
        }
        Ok(Ok(()))
    }

    /// Ends the lease of a node, if it has one, and begins to remove the node's members. Returns false if
    /// that is not possible now, or has begun before.
    async fn remove_later(
        &mut self,
        log: &RedisLog,
        connection: &mut CommandConnection,
        node: &str,
        lease: Option<&Lease>,
    ) -> RedisResult<bool> {
        if self.removals.contains(node) || !self.removals.has_room() {
            return Ok(false);
        }
        if let Some(lease) = lease
            && !end_lease(log, connection, lease).await?
        {
            return Ok(false);
        }
        self.removals.add(node);
        Ok(true)
    }

    /// Returns whether members that Redis lacks are to be removed from now on. True once.
    pub(crate) fn settles(&mut self) -> bool {
        self.settles_at.take_if(|at| Instant::now() >= *at).is_some()
    }

    /// Notes a channel whose members changed. Large channels announce changes at intervals.
    pub(crate) fn announce(&mut self, hub: &Hub, key: &ChannelKey) {
        if hub.announce_members(key) {
            self.announcing.insert(key.clone());
        }
    }

    pub(crate) fn is_announcing(&self) -> bool {
        !self.announcing.is_empty()
    }

    pub(crate) fn announce_due(&mut self, hub: &Hub) {
        self.announcing.retain(|key| hub.announce_members(key));
    }

    /// Reads the members of channels. Nothing, if Redis may have been emptied: other nodes must store their
    /// members again first.
    pub(crate) async fn read(
        &self,
        log: &RedisLog,
        held: &[HeldChannel],
        connection: &mut CommandConnection,
    ) -> RedisResult<Result<Vec<MembersReply>, LeaseLost>> {
        let is_presence = |channel: &&HeldChannel| channel.members != HeldMembers::None;
        let mut pipeline = Pipeline::new();
        for channel in held.iter().filter(is_presence) {
            pipeline.add_command(scripts::read_members(&log.keys, channel, USERS_MAX));
        }
        if pipeline.is_empty() || self.suspension.is_active() {
            return Ok(Ok(held.iter().map(|_| MembersReply::Known).collect()));
        }
        pipeline.add_command(scripts::read_lease(&log.keys, &self.node));
        let mut replies: Vec<Value> = pipeline.ignore_errors().query_async(connection).await?;
        let lease: Option<Option<i64>> = accepted(replies.pop().unwrap_or(Value::Nil))?;
        if lease.is_some_and(|number| number.is_none_or(|number| number < 0)) {
            return Ok(Err(LeaseLost));
        }
        let mut replies = replies.into_iter();
        let mut read = Vec::with_capacity(held.len());
        for channel in held {
            let reply = if is_presence(&channel) { replies.next() } else { None };
            read.push(match reply {
                Some(_) if lease.is_none() => MembersReply::Rejected,
                reply => self.members_of(log, reply.unwrap_or(Value::Nil))?,
            });
        }
        Ok(Ok(read))
    }

    /// Reads what a script has replied about the members of a channel.
    fn members_of(&self, log: &RedisLog, reply: Value) -> RedisResult<MembersReply> {
        let stored: Option<StoredMembers> = accepted(reply)?;
        Ok(match stored {
            None => MembersReply::Rejected,
            Some(None) => MembersReply::Known,
            Some(Some((_, _, None))) => MembersReply::Long,
            Some(Some((version, nodes, Some(members)))) => {
                let members = members.iter().map(|members| users(members));
                let nodes = nodes.into_iter().map(Arc::from).zip(members).collect();
                MembersReply::Read(self.state(log, version.parse().ok(), nodes))
            }
        })
    }

    /// Reads a part of a list that is too long for one reply. Returns the list after its last part.
    pub(crate) async fn read_list(
        &mut self,
        log: &RedisLog,
        hub: &Hub,
        connection: &mut CommandConnection,
    ) -> RedisResult<Option<MemberList>> {
        if let Some(key) = self.lists.next() {
            let Some(held) = hub.held_channel(&key) else { return Ok(None) };
            let command = scripts::read_members(&log.keys, &held, 0);
            let stored = unless_rejected(command.query_async(connection).await)?;
            let Some(stored): Option<StoredMembers> = stored else {
                log.requests.postpone(key);
                return Ok(None);
            };
            let Some((version, nodes, _)) = stored else { return Ok(None) };
            let others = nodes.into_iter().filter(|node| !log.identities.contains(node));
            self.lists.begin(key, version.parse().ok(), others.map(Arc::from).collect());
        }
        match self.lists.step(&log.keys, connection).await {
            Err(error) if is_rejected(&error) => {
                // From the beginning: changes that arrive until then are in the list.
                if let Some(key) = self.lists.stop() {
                    log.requests.postpone(key);
                }
                Ok(None)
            }
            other => other,
        }
    }

    /// Applies a change of members, or requests a comparison of the channel.
    pub(crate) fn apply_change(&mut self, log: &RedisLog, hub: &Hub, message: &MembersMessage) {
        let is_own = log.identities.contains(&message.node);
        match hub.deliver_members(message, is_own) {
            Delivery::Delivered => self.announce(hub, &message.key),
            Delivery::NotNeeded => {}
            Delivery::Hole => log.requests.add(message.key.clone()),
            Delivery::Busy => log.requests.delay(message.key.clone()),
        }
    }

    /// Returns whether the lease of this node has ended, or Redis was emptied.
    pub(crate) async fn has_lost_lease(
        &self,
        log: &RedisLog,
        connection: &mut CommandConnection,
    ) -> RedisResult<bool> {
        let command = scripts::read_lease(&log.keys, &self.node);
        let number: Option<i64> = command.query_async(connection).await?;
        Ok(number.is_none_or(|number| number < 0))
    }

    /// Returns the members of other nodes as the hub expects them.
    pub(crate) fn state(
        &self,
        log: &RedisLog,
        version: Option<ChannelPosition>,
        mut nodes: Vec<(Arc<str>, Vec<SharedMember>)>,
    ) -> MembersState {
        nodes.retain(|(node, _)| !log.identities.contains(node));
        MembersState { version, nodes, keeps_absent: self.settles_at.is_some() }
    }
}

/// Begins an identity and its lease.
async fn begin_identity(
    log: &RedisLog,
    connection: &mut CommandConnection,
) -> RedisResult<Result<(Arc<str>, Layout), UnknownLayout>> {
    let node = log.identities.begin();
    let renewed = renew(log, &node, connection).await;
    let is_stored = match &renewed {
        Ok(renewed) => renewed.check.is_ok(),
        Err(error) => !is_of_command(error) && !is_rejected(error),
    };
    if !is_stored {
        log.identities.remove(&node);
    }
    let Renewed { layout, check, .. } = renewed?;
    Ok(check.map(|()| (node, layout)))
}

fn note_suspended(log: &RedisLog, error: &RedisError) {
    log.metrics.presence_suspended(true);
    let (shard, error) = (&*log.shard.name, error_kind::message(error));
    tracing::warn!(
        shard,
        error,
        "Redis rejects what concerns subscriptions and members of realtime; trying again, and events go on without"
    );
}

/// Removes all identities of this process, whose connections have ended, as far as the time allows.
pub(crate) async fn end(
    log: &RedisLog,
    hub: &Hub,
    connection: &mut CommandConnection,
) -> RedisResult<()> {
    let Some(present) = log.identities.present() else { return Ok(()) };
    let removing = async {
        let Renewed { leases, check, .. } = renew(log, &present, connection).await?;
        if check.is_err() {
            return Ok(());
        }
        let mut removals = Removals::default();
        for lease in leases.iter().filter(|(node, _)| log.identities.contains(node)) {
            end_lease(log, connection, lease).await?;
            removals.add(&lease.0);
        }
        while let Some(due) = removals.next_due() {
            tokio::time::sleep_until(due).await;
            removals.step(log, hub, connection).await?;
        }
        while log.hooks.next_due(hub.webhooks_held_max()).is_some_and(|due| due <= Instant::now()) {
            log.hooks.release(&log.keys, hub, connection).await?;
        }
        while !log.hooks.settle(&log.keys, &log.identities, connection).await? {
            tokio::time::sleep(SETTLE_INTERVAL).await;
        }
        // Another node takes over webhooks that may still be cancelled.
        if log.hooks.is_empty() {
            scripts::remove_lease(&log.keys, &present).exec_async(connection).await?;
        }
        Ok(())
    };
    timeout(END_MAX, removing).await.unwrap_or_else(|_| {
        tracing::warn!("another realtime node will remove what is left of this one in Redis");
        Ok(())
    })
}

/// What the renewal of a lease has returned.
struct Renewed {
    number: i64,
    /// Those of all nodes.
    leases: Vec<Lease>,
    /// The layout that all nodes know.
    layout: Layout,
    /// Whether this node knows the layout that it must know.
    check: Result<(), UnknownLayout>,
}

/// Renews a lease.
async fn renew(
    log: &RedisLog,
    node: &str,
    connection: &mut CommandConnection,
) -> RedisResult<Renewed> {
    let command = scripts::renew_lease(&log.keys, node, LAYOUT, log.needed_layout.get());
    let reply = command.query_async(connection).await;
    let (number, leases, layouts, needed): (i64, Vec<String>, Vec<String>, Vec<u8>) = reply?;
    let (leases, layouts) = (pairs(&leases), pairs(&layouts));
    let layout = Layout::of_all(&leases, &layouts);
    let check = log.needed_layout.check(&log.keys, &String::from_utf8_lossy(&needed));
    Ok(Renewed { number, leases, layout, check })
}

/// Reads nodes, each followed by a number. One whose number can't be read is left out.
fn pairs<T: FromStr>(words: &[String]) -> Vec<(String, T)> {
    let pairs = words.chunks_exact(2);
    pairs.filter_map(|pair| Some((pair[0].clone(), pair[1].parse().ok()?))).collect()
}

/// Ends a lease, so that its node begins a new identity if it still runs. Returns false if it was renewed.
async fn end_lease(
    log: &RedisLog,
    connection: &mut CommandConnection,
    (node, number): &Lease,
) -> RedisResult<bool> {
    scripts::end_lease(&log.keys, node, *number).query_async(connection).await
}

/// Reads the users of a node.
fn users(members: &[Value]) -> Vec<SharedMember> {
    let words: Vec<String> = members.iter().map(text).collect();
    record::parse_users(&words)
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    }
}

/// Time between announcements of changes of large channels.
pub(crate) const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(100);
