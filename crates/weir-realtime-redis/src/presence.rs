//! The members of presence channels that this node has, in Redis.
//!
//! A node's members are stored under an identity, which has a lease. With each connection to Redis the
//! node begins a new one, stores all of its members under it, and then removes the earlier ones: a
//! member that is in both stays. So no identity is used again after others may have removed it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult, Value};
use tokio::time::Instant;
use weir_realtime::hub::{HeldChannel, Hub};
use weir_realtime::shared_log::{ChannelKey, HeldMembers, MembersState};

use crate::leases::{CONNECT_MARGIN, Lease, LeaseWatch};
use crate::log::RedisLog;
use crate::partition::Partition;
use crate::record;
use crate::scripts;

/// Channels whose members are sent in one round trip, and changes of each: 8 MiB with information of
/// 1 kB.
const CHANNELS_MAX: usize = 32;
const CHANGES_MAX: usize = 256;
/// Partitions from which members are removed in one round trip.
const REMOVALS_MAX: usize = 32;

/// The members of this node during one connection.
#[derive(Debug)]
pub(crate) struct Presence {
    node: Arc<str>,
    leases: LeaseWatch,
    /// When members that Redis lacks are removed: until then, their nodes may be connecting.
    settles_at: Option<Instant>,
    /// Channels whose members are to be sent before earlier identities are removed.
    unsent: HashSet<ChannelKey>,
    /// Large channels with changes to announce.
    announcing: HashSet<ChannelKey>,
}

/// The lease of this node was removed, because it was not renewed, or Redis was emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseLost;

/// The members of a channel as Redis has them: the version, the nodes, and the users of each and their
/// information.
type StoredMembers = Option<(String, Vec<String>, Vec<Vec<Value>>)>;

impl Presence {
    /// Begins a new identity.
    pub(crate) async fn begin(
        log: &RedisLog,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<Self> {
        let node = log.identities.begin();
        scripts::renew_lease(&log.keys, &node).exec_async(connection).await?;
        let duration = log.settings.presence_lease;
        Ok(Self {
            node,
            leases: LeaseWatch::new(duration),
            settles_at: Some(Instant::now() + duration + CONNECT_MARGIN),
            unsent: HashSet::new(),
            announcing: HashSet::new(),
        })
    }

    /// Requests that all members are sent.
    pub(crate) fn request_all(&mut self, log: &RedisLog, hub: &Hub) {
        self.unsent = hub.begin_members().into_iter().collect();
        for key in &self.unsent {
            log.members.add(key.clone());
        }
    }

    /// Sends changes of this node's members.
    pub(crate) async fn send(
        &mut self,
        log: &RedisLog,
        hub: &Hub,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<()> {
        let (mut pipeline, mut sent) = (Pipeline::new(), Vec::new());
        for key in log.members.take(CHANNELS_MAX) {
            let (changes, has_more) = hub.take_member_changes(&key, CHANGES_MAX);
            if has_more {
                log.members.add(key.clone());
            } else {
                self.unsent.remove(&key);
            }
            let count = changes.added.len() + changes.removed.len();
            if count > 0 {
                pipeline
                    .add_command(scripts::change_members(&log.keys, &self.node, &key, &changes));
                sent.push((key, count));
            }
        }
        if sent.is_empty() {
            return Ok(());
        }
        let replies: Vec<(Vec<String>, Vec<String>)> = pipeline.query_async(connection).await?;
        for ((key, count), (first, last)) in sent.iter().zip(replies) {
            log.metrics.members_changed(*count);
            hub.send_member_webhooks(key, &first, &last);
        }
        Ok(())
    }

    /// Renews the lease, and removes the members of nodes whose leases have lapsed, and those of earlier
    /// identities once all members have been sent.
    pub(crate) async fn on_heartbeat(
        &mut self,
        log: &RedisLog,
        hub: &Hub,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<Result<(), LeaseLost>> {
        let (number, leases) = renew(log, &self.node, connection).await?;
        // The first one was when this identity began.
        if number <= 1 {
            return Ok(Err(LeaseLost));
        }
        log.metrics.nodes(leases.len());
        if self.unsent.is_empty() {
            for node in log.identities.earlier_than(&self.node) {
                if let Some(lease) = leases.iter().find(|(other, _)| **other == *node) {
                    end_lease(log, connection, lease).await?;
                }
                remove(log, hub, connection, &node).await?;
            }
        }
        let others = leases.into_iter().filter(|(node, _)| **node != *self.node).collect();
        for lapsed in self.leases.observe(Instant::now(), others) {
            if end_lease(log, connection, &lapsed).await? {
                log.metrics.node_lapsed();
                tracing::warn!(node = %lapsed.0, "a realtime node has ended; removing its members");
                remove(log, hub, connection, &lapsed.0).await?;
            }
        }
        Ok(Ok(()))
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

    /// Reads the members of channels. None: those that the channel has. Nothing, if Redis may have been
    /// emptied: other nodes must store their members again first.
    pub(crate) async fn read(
        &self,
        log: &RedisLog,
        held: &[HeldChannel],
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<Result<Vec<Option<MembersState>>, LeaseLost>> {
        let mut pipeline = Pipeline::new();
        let is_presence = |channel: &&HeldChannel| channel.members != HeldMembers::None;
        for channel in held.iter().filter(is_presence) {
            pipeline.add_command(scripts::read_members(&log.keys, channel));
        }
        if pipeline.is_empty() {
            return Ok(Ok(vec![None; held.len()]));
        }
        pipeline.add_command(scripts::read_lease(&log.keys, &self.node));
        let mut replies: Vec<Value> = pipeline.query_async(connection).await?;
        let lease =
            replies.pop().map(redis::from_redis_value::<Option<i64>>).transpose()?.flatten();
        if lease.is_none_or(|number| number < 0) {
            return Ok(Err(LeaseLost));
        }
        let mut replies = replies.into_iter();
        let mut states = Vec::with_capacity(held.len());
        for channel in held {
            let reply = if is_presence(&channel) { replies.next() } else { None };
            let stored: StoredMembers = redis::from_redis_value(reply.unwrap_or(Value::Nil))?;
            states.push(stored.map(|stored| self.state(log, stored)));
        }
        Ok(Ok(states))
    }

    fn state(
        &self,
        log: &RedisLog,
        (version, nodes, members): (String, Vec<String>, Vec<Vec<Value>>),
    ) -> MembersState {
        let others = nodes.into_iter().zip(members);
        let others = others.filter(|(node, _)| !log.identities.contains(node));
        let nodes = others.map(|(node, members)| {
            let words: Vec<String> = members.iter().map(text).collect();
            (Arc::from(node), record::parse_users(&words))
        });
        let keeps_absent = self.settles_at.is_some();
        MembersState { version: version.parse().ok(), nodes: nodes.collect(), keeps_absent }
    }
}

/// Removes all identities of this process, whose connections have ended.
pub(crate) async fn end(
    log: &RedisLog,
    hub: &Hub,
    connection: &mut MultiplexedConnection,
) -> RedisResult<()> {
    let Some(present) = log.identities.present() else { return Ok(()) };
    let (_, leases) = renew(log, &present, connection).await?;
    for lease in leases.iter().filter(|(node, _)| log.identities.contains(node)) {
        end_lease(log, connection, lease).await?;
        remove(log, hub, connection, &lease.0).await?;
    }
    Ok(())
}

/// Renews a lease. Returns its number, and all leases.
async fn renew(
    log: &RedisLog,
    node: &str,
    connection: &mut MultiplexedConnection,
) -> RedisResult<(i64, Vec<Lease>)> {
    let reply = scripts::renew_lease(&log.keys, node).query_async(connection).await;
    let (number, words): (i64, Vec<String>) = reply?;
    let pairs = words.chunks_exact(2);
    let leases = pairs.filter_map(|pair| Some((pair[0].clone(), pair[1].parse().ok()?)));
    Ok((number, leases.collect()))
}

/// Ends a lease, so that its node begins a new identity if it still runs. Returns false if it was renewed.
async fn end_lease(
    log: &RedisLog,
    connection: &mut MultiplexedConnection,
    (node, number): &Lease,
) -> RedisResult<bool> {
    scripts::end_lease(&log.keys, node, *number).query_async(connection).await
}

/// Removes all members of a node whose lease has ended, and then the lease. Others may do the same at
/// once: each member is removed once. If this node ends meanwhile, others go on when the lease has been
/// the same for long enough.
async fn remove(
    log: &RedisLog,
    hub: &Hub,
    connection: &mut MultiplexedConnection,
    node: &str,
) -> RedisResult<()> {
    let mut partitions: Vec<Partition> = Partition::all().collect();
    while !partitions.is_empty() {
        let mut left = Vec::new();
        for some in partitions.chunks(REMOVALS_MAX) {
            left.extend(remove_from(log, hub, connection, node, some).await?);
        }
        partitions = left;
    }
    scripts::remove_lease(&log.keys, node).exec_async(connection).await?;
    log.identities.remove(node);
    Ok(())
}

/// Removes some members of a node. Returns the partitions that may have more.
async fn remove_from(
    log: &RedisLog,
    hub: &Hub,
    connection: &mut MultiplexedConnection,
    node: &str,
    partitions: &[Partition],
) -> RedisResult<Vec<Partition>> {
    let mut pipeline = Pipeline::with_capacity(partitions.len());
    for partition in partitions {
        pipeline.add_command(scripts::remove_node(&log.keys, node, *partition));
    }
    let replies: Vec<Option<(String, Vec<String>)>> = pipeline.query_async(connection).await?;
    let mut left = Vec::new();
    for (partition, reply) in partitions.iter().zip(replies) {
        let Some((entry, last)) = reply else { continue };
        left.push(*partition);
        if let Some((app, channel)) = entry.split_once(':') {
            let key = ChannelKey { app: app.into(), channel: channel.into() };
            hub.send_member_webhooks(&key, &[], &last);
        }
    }
    Ok(left)
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    }
}

/// Time between announcements of changes of large channels.
pub(crate) const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(100);
