//! The scripts, and how they are called.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Script, ServerErrorKind};
use weir_realtime::hub::HeldChannel;
use weir_realtime::pusher::position::{ChannelPosition, Epoch};
use weir_realtime::settings::HistoryLimits;
use weir_realtime::shared_log::{
    ChannelKey, ConnectionUse, HeldMembers, NewEvent, NodeSubscriptions, SharedMember,
    UnsentMembers,
};

use crate::keys::Keys;
use crate::partition::Partition;
use crate::record;
use crate::settings::RedisLogSettings;

/// A channel without events for this long starts again with a new epoch. Its hash has some 150 bytes.
const CHANNEL_AGE: Duration = Duration::from_secs(24 * 3_600);
/// Likewise, of a channel that has had no events yet, so that names that are only read take no memory
/// for long. Nodes renew both ages while they hold the channel.
const UNUSED_CHANNEL_AGE: Duration = Duration::from_secs(30 * 60);
/// How long a shard remembers that a channel was moved to another one, for nodes that do not move channels
/// yet.
const MOVED_AGE: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Nodes renew what they use of an app's limit each second. It is forgotten after this long, for example when
/// the app has no limit any more.
const GRANTS_AGE: Duration = Duration::from_secs(3_600);
/// A stream keeps at least this many events for at least this long, so that a node that missed some
/// finds them, also if clients get no history.
const EVENTS_MIN: usize = 100;
const EVENT_AGE_MIN: Duration = Duration::from_secs(60);
/// Redis forgets all reports this long after the last one of any node.
const REPORTS_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Redis forgets a node that has been gone for this long.
const REPORT_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Nodes that are read.
const NODES_READ_MAX: usize = 1_000;
/// Bytes of one report.
const REPORT_BYTES_MAX: usize = 2_048;
/// A comparison reads at least this many bytes of events of a channel, the newest.
const READ_BYTES_MIN: usize = 1 << 20;

/// Functions that scripts share.
const HOOKS: &str = include_str!("scripts/hooks.lua");
const MEMBERS: &str = include_str!("scripts/members.lua");
const COUNTS: &str = include_str!("scripts/counts.lua");

static APPEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/append.lua")));
static READ: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/read.lua")));
static FENCE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/fence.lua")));
static CHANGE_MEMBERS: LazyLock<Script> =
    LazyLock::new(|| script(&[HOOKS, MEMBERS, include_str!("scripts/change_members.lua")]));
static REMOVE_NODE: LazyLock<Script> =
    LazyLock::new(|| script(&[HOOKS, MEMBERS, include_str!("scripts/remove_node.lua")]));
static MOVE_OUT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/move_out.lua")));
static MOVE_IN: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/move_in.lua")));
static READ_MEMBERS: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/read_members.lua")));
static CHANGE_COUNT: LazyLock<Script> =
    LazyLock::new(|| script(&[HOOKS, COUNTS, include_str!("scripts/change_count.lua")]));
static REMOVE_COUNTS: LazyLock<Script> =
    LazyLock::new(|| script(&[HOOKS, COUNTS, include_str!("scripts/remove_counts.lua")]));
static RELEASE_HOOK: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/release_hook.lua")));
static TAKE_HOOKS: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/take_hooks.lua")));
static CHANGE_SWITCHES: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/change_switches.lua")));
static SHARE_CONNECTIONS: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/share_connections.lua")));
static LEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/lease.lua")));
static REPORTS: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/reports.lua")));
static END_LEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/end_lease.lua")));

/// Stores the scripts on the server, which loses them when it restarts.
pub(crate) async fn load(connection: &mut impl ConnectionLike) -> RedisResult<()> {
    let members =
        [&*CHANGE_MEMBERS, &*REMOVE_NODE, &*READ_MEMBERS, &*LEASE, &*END_LEASE, &*REPORTS];
    let limits = [&*SHARE_CONNECTIONS];
    let events = [&*APPEND, &*READ, &*FENCE, &*MOVE_OUT, &*MOVE_IN, &*CHANGE_SWITCHES];
    let counts = [&*CHANGE_COUNT, &*REMOVE_COUNTS, &*RELEASE_HOOK, &*TAKE_HOOKS];
    for script in events.into_iter().chain(members).chain(counts).chain(limits) {
        script.load_async(connection).await?;
    }
    Ok(())
}

/// Returns whether the server has lost the script of a command, which was not executed then.
pub(crate) fn is_lacking(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

fn script(parts: &[&str]) -> Script {
    Script::new(&parts.concat())
}

/// Returns the command that appends an event. `must_exist`: nothing is appended to a channel that does not
/// exist, because it may have to be moved here first.
pub(crate) fn append(
    keys: &Keys,
    settings: &RedisLogSettings,
    new: &NewEvent,
    must_exist: bool,
) -> Cmd {
    let partition = Partition::of(&new.key);
    let mut command = redis::cmd("EVALSHA");
    command.arg(APPEND.get_hash()).arg(6 + usize::from(new.idempotency_key.is_some()));
    command.arg(keys.channel(&new.key)).arg(&keys.events(&new.key));
    command.arg(keys.sequence(partition)).arg(keys.fence(partition));
    command.arg(keys.cached(&new.key));
    if let Some(key) = &new.idempotency_key {
        command.arg(keys.idempotency(&new.key, key));
    }
    command
        .arg(new_epoch().to_string())
        .arg(events_max(&new.history))
        .arg(millis(new.history.age_max.max(EVENT_AGE_MIN)))
        .arg(millis(channel_age(&new.history)))
        .arg(keys.shard_channel(partition))
        .arg(record::encode(&new.key, &new.event))
        .arg(millis(settings.idempotency_age))
        .arg(new.cache_age.map_or(0, millis))
        .arg(u8::from(must_exist));
    command
}

/// Returns the command that reads the position that an event with this idempotency key got.
pub(crate) fn read_appended(keys: &Keys, key: &ChannelKey, idempotency_key: &str) -> Cmd {
    let mut command = redis::cmd("GET");
    command.arg(keys.idempotency(key, idempotency_key));
    command
}

/// Returns the command that ends a channel in its shard and reads it, to move it to another one.
pub(crate) fn move_out(keys: &Keys, key: &ChannelKey, shard: &str, bytes_max: usize) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(MOVE_OUT.get_hash()).arg(5);
    add_channel_keys(&mut command, keys, key);
    command.arg(shard).arg(millis(MOVED_AGE)).arg(bytes_max.max(READ_BYTES_MIN));
    command
}

/// Returns the command that continues a channel that was ended in another shard.
pub(crate) fn move_in(
    keys: &Keys,
    key: &ChannelKey,
    history: &HistoryLimits,
    moving: &MovingChannel,
) -> Cmd {
    let (epoch, offset, is_exact, events, cached, cached_ms) = moving;
    let mut command = redis::cmd("EVALSHA");
    command.arg(MOVE_IN.get_hash()).arg(5);
    add_channel_keys(&mut command, keys, key);
    command
        .arg(epoch)
        .arg(offset)
        .arg(is_exact)
        .arg(millis(channel_age(history)))
        .arg(millis(history.age_max.max(EVENT_AGE_MIN)))
        .arg(cached)
        .arg(cached_ms)
        .arg(events);
    command
}

fn add_channel_keys(command: &mut Cmd, keys: &Keys, key: &ChannelKey) {
    command.arg(keys.channel(key)).arg(&keys.events(key));
    command.arg(keys.fence(Partition::of(key))).arg(keys.cached(key));
}

/// What a shard had of a channel: its epoch, its offset, whether these are exact, its events, the cached
/// event, and how long that is left.
pub(crate) type MovingChannel = (Vec<u8>, Vec<u8>, u8, Vec<Vec<u8>>, Vec<u8>, i64);

/// Returns the command that reads what a copy lacks. `creates`: a channel that does not exist begins.
pub(crate) fn read(keys: &Keys, held: &HeldChannel, creates: bool) -> Cmd {
    let (epoch, offset) = match held.position {
        Some(ChannelPosition { epoch, offset }) => (epoch.to_string(), offset),
        None => (String::new(), 0),
    };
    let partition = Partition::of(&held.key);
    let mut command = redis::cmd("EVALSHA");
    command
        .arg(READ.get_hash())
        .arg(5 + usize::from(held.caches))
        .arg(keys.channel(&held.key))
        .arg(&keys.events(&held.key))
        .arg(keys.sequence(partition))
        .arg(keys.fence(partition));
    if held.caches {
        command.arg(keys.cached(&held.key));
    }
    command
        .arg(new_epoch().to_string())
        .arg(epoch)
        .arg(offset)
        .arg(events_max(&held.history))
        .arg(millis(channel_age(&held.history)))
        .arg(held.history.bytes_max.max(READ_BYTES_MIN))
        .arg(millis(UNUSED_CHANNEL_AGE))
        .arg(u8::from(creates));
    command
}

/// Returns the commands that keep channels for longer, unless they are kept for longer anyway.
pub(crate) fn renew(keys: &Keys, held: &[HeldChannel]) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(held.len());
    for channel in held {
        let has_events = channel.position.is_some_and(|position| position.offset > 0);
        let age = if has_events { channel_age(&channel.history) } else { UNUSED_CHANNEL_AGE };
        let mut command = redis::cmd("PEXPIRE");
        command.arg(keys.channel(&channel.key)).arg(millis(age)).arg("GT");
        pipeline.add_command(command);
    }
    pipeline
}

/// Returns the command that begins a new term of a partition, unless the server with this id has begun one.
/// An empty id is that of a server that reports none, which is never another one. The reply is the id of
/// the partition's data.
pub(crate) fn fence(keys: &Keys, server_id: &str, partition: Partition) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(FENCE.get_hash()).arg(1).arg(keys.fence(partition));
    command.arg(server_id).arg(new_epoch().to_string());
    command
}

/// Returns the command that reads the id of a partition's data.
pub(crate) fn read_data_id(keys: &Keys, partition: Partition) -> Cmd {
    let mut command = redis::cmd("HGET");
    command.arg(keys.fence(partition)).arg("data");
    command
}

/// Returns the command that tells all nodes of changes of this node's members. `hook_prefix` begins the ids
/// of webhooks; empty: none are wanted.
pub(crate) fn change_members(
    keys: &Keys,
    node: &str,
    key: &ChannelKey,
    unsent: &UnsentMembers,
    hook_prefix: &str,
) -> Cmd {
    let (partition, changes) = (Partition::of(key), &unsent.changes);
    let mut command = redis::cmd("EVALSHA");
    command
        .arg(CHANGE_MEMBERS.get_hash())
        .arg(6)
        .arg(keys.version(key))
        .arg(keys.users(key))
        .arg(keys.nodes(key))
        .arg(keys.members_of(node, key))
        .arg(keys.channels_of(node, partition))
        .arg(keys.sequence(partition))
        .arg(node)
        .arg(new_epoch().to_string())
        .arg(keys.shard_channel(partition))
        .arg(entry(key))
        .arg(changes.removed.len())
        .arg(keys.beginning(partition))
        .arg(hook_prefix)
        .arg(changes.added.len())
        .arg(unsent.members_max);
    for user_id in &changes.removed {
        command.arg(&**user_id);
    }
    for SharedMember { user_id, user_info } in changes.added.iter().chain(&unsent.requested) {
        command.arg(&**user_id).arg(user_info.as_ref().map_or("", |info| info.get()));
    }
    command
}

/// Returns the command that sets the number of a node's subscriptions of a channel. `earlier` are
/// identities of the same node, whose numbers are replaced. `hook_prefix` is as in [`change_members`].
pub(crate) fn change_count(
    keys: &Keys,
    (node, earlier): (&str, &[Arc<str>]),
    key: &ChannelKey,
    subscriptions: NodeSubscriptions,
    hook_prefix: &str,
) -> Cmd {
    let partition = Partition::of(key);
    let mut command = redis::cmd("EVALSHA");
    command
        .arg(CHANGE_COUNT.get_hash())
        .arg(3)
        .arg(keys.counts_of(node, partition))
        .arg(keys.occupied(&key.app, partition))
        .arg(keys.sequence(partition))
        .arg(entry(key))
        .arg(&*key.channel)
        .arg(subscriptions.count)
        .arg(u8::from(subscriptions.is_announced))
        .arg(keys.shard_channel(partition))
        .arg(keys.beginning(partition))
        .arg(node)
        .arg(hook_prefix);
    for node in earlier {
        command.arg(&**node);
    }
    command
}

/// Returns the command that removes subscriptions of a node that has ended from some channels. `present` is
/// this node, which sends webhooks.
pub(crate) fn remove_counts(keys: &Keys, node: &str, present: &str, partition: Partition) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command
        .arg(REMOVE_COUNTS.get_hash())
        .arg(2)
        .arg(keys.counts_of(node, partition))
        .arg(keys.sequence(partition))
        .arg(keys.shard_channel(partition))
        .arg(keys.beginning(partition))
        .arg(present)
        .arg(hook_prefix());
    command
}

/// Returns the command that takes over some webhooks of a node that has ended.
pub(crate) fn take_hooks(keys: &Keys, node: &str, present: &str, partition: Partition) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command
        .arg(TAKE_HOOKS.get_hash())
        .arg(3)
        .arg(keys.hooks_of(node, partition))
        .arg(keys.hooks_of(present, partition))
        .arg(keys.leaving(partition))
        .arg(node)
        .arg(present);
    command
}

/// Returns the command that ends the wait of a webhook.
pub(crate) fn release_hook(keys: &Keys, partition: Partition, subject: &str, id: &str) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(RELEASE_HOOK.get_hash()).arg(1).arg(keys.leaving(partition));
    command.arg(subject).arg(id);
    command
}

/// Returns a new prefix for the ids of webhooks.
pub(crate) fn hook_prefix() -> String {
    new_epoch().to_string()
}

/// Returns the command that removes some members of a node that has ended. `present` is this node, which
/// sends webhooks.
pub(crate) fn remove_node(keys: &Keys, node: &str, present: &str, partition: Partition) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command
        .arg(REMOVE_NODE.get_hash())
        .arg(2)
        .arg(keys.channels_of(node, partition))
        .arg(keys.sequence(partition))
        .arg(node)
        .arg(new_epoch().to_string())
        .arg(keys.shard_channel(partition))
        .arg(keys.beginning(partition))
        .arg(present)
        .arg(hook_prefix());
    command
}

/// Returns the command that reads the members of a presence channel, or only their nodes if there are more
/// than `users_max`.
pub(crate) fn read_members(keys: &Keys, held: &HeldChannel, users_max: usize) -> Cmd {
    let version = match held.members {
        HeldMembers::Known(Some(version)) => version.to_string(),
        HeldMembers::Known(None) => "none".to_owned(),
        HeldMembers::Unknown | HeldMembers::None => String::new(),
    };
    let mut command = redis::cmd("EVALSHA");
    command
        .arg(READ_MEMBERS.get_hash())
        .arg(2)
        .arg(keys.version(&held.key))
        .arg(keys.nodes(&held.key))
        .arg(version)
        .arg(keys.beginning(Partition::of(&held.key)))
        .arg(entry(&held.key))
        .arg(users_max);
    command
}

/// Returns the command that reads some of a node's members of a channel, about `count`. The reply begins with
/// the next cursor, which is 0 after the last ones.
pub(crate) fn scan_members(
    keys: &Keys,
    node: &str,
    key: &ChannelKey,
    cursor: u64,
    count: usize,
) -> Cmd {
    let mut command = redis::cmd("HSCAN");
    command.arg(keys.members_of(node, key)).arg(cursor).arg("COUNT").arg(count);
    command
}

/// Returns the command that changes switches: patterns, each with what is off (JSON), or nothing if it is
/// on. `only_first`: only if no node has stored any before.
pub(crate) fn change_switches(
    keys: &Keys,
    only_first: bool,
    changes: impl Iterator<Item = (String, String)>,
) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command
        .arg(CHANGE_SWITCHES.get_hash())
        .arg(2)
        .arg(keys.switches())
        .arg(keys.switches_version());
    command.arg(new_epoch().to_string()).arg(keys.shard_channel(Partition::first()));
    command.arg(u8::from(only_first));
    for (pattern, off) in changes {
        command.arg(pattern).arg(off);
    }
    command
}

/// Returns the command that grants a node a part of an app's limit of connections. `earlier` are identities
/// of the same node.
pub(crate) fn share_connections(
    keys: &Keys,
    (node, earlier): (&str, &[Arc<str>]),
    used: &ConnectionUse,
) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command
        .arg(SHARE_CONNECTIONS.get_hash())
        .arg(2)
        .arg(keys.connections_of(&used.app))
        .arg(keys.leases())
        .arg(node)
        .arg(used.connections)
        .arg(used.held)
        .arg(used.connections_max)
        .arg(u8::from(used.is_wanted))
        .arg(millis(GRANTS_AGE));
    for node in earlier {
        command.arg(&**node);
    }
    command
}

/// Returns the command that renews the lease of a node, which knows `layout`, and reads those of all nodes, with their
/// layouts.
pub(crate) fn renew_lease(keys: &Keys, node: &str, layout: u32, needed: u32) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(LEASE.get_hash()).arg(3);
    command.arg(keys.leases()).arg(keys.layouts()).arg(keys.layout());
    command.arg(node).arg(layout).arg(needed);
    command
}

/// Returns the command that reads the layout that a node must know.
pub(crate) fn read_layout(keys: &Keys) -> Cmd {
    let mut command = redis::cmd("GET");
    command.arg(keys.layout());
    command
}

/// Returns the command that ends the lease of a node, unless the node has renewed it.
pub(crate) fn end_lease(keys: &Keys, node: &str, number: i64) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(END_LEASE.get_hash()).arg(1).arg(keys.leases()).arg(node).arg(number);
    command
}

/// Returns the command that removes the lease of a node that has ended.
pub(crate) fn remove_lease(keys: &Keys, node: &str) -> Cmd {
    let mut command = redis::cmd("HDEL");
    command.arg(keys.leases()).arg(node);
    command
}

/// Returns the command that reads the lease of a node.
pub(crate) fn read_lease(keys: &Keys, node: &str) -> Cmd {
    let mut command = redis::cmd("HGET");
    command.arg(keys.leases()).arg(node);
    command
}

/// Returns a channel as scripts name it.
fn entry(key: &ChannelKey) -> String {
    format!("{}:{}", key.app, key.channel)
}

fn new_epoch() -> Epoch {
    Epoch(fastrand::u64(..))
}

fn events_max(history: &HistoryLimits) -> usize {
    history.events_max.max(EVENTS_MIN)
}

fn channel_age(history: &HistoryLimits) -> Duration {
    CHANNEL_AGE.max(history.age_max.saturating_mul(2))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Stores the report of a node, and returns those of all. `replaced`: only in place of this one.
pub(crate) fn report(keys: &Keys, node: &str, report: &str, replaced: &str) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(REPORTS.get_hash()).arg(1).arg(keys.reports());
    command.arg(node).arg(report).arg(millis(REPORTS_AGE_MAX));
    command.arg(NODES_READ_MAX).arg(REPORT_BYTES_MAX);
    command.arg(REPORT_AGE_MAX.as_secs()).arg(replaced);
    command
}
