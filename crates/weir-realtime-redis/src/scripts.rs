//! The scripts, and how they are called.

use std::sync::LazyLock;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Script};
use weir_realtime::hub::HeldChannel;
use weir_realtime::pusher::position::{ChannelPosition, Epoch};
use weir_realtime::settings::HistoryLimits;
use weir_realtime::shared_log::{ChannelKey, HeldMembers, MemberChanges, NewEvent, SharedMember};

use crate::keys::Keys;
use crate::partition::{PARTITIONS, Partition};
use crate::record;
use crate::settings::RedisLogSettings;

/// A channel without events for this long starts again with a new epoch. Its hash has some 150 bytes.
const CHANNEL_AGE: Duration = Duration::from_secs(24 * 3_600);
/// Likewise, of a channel that has had no events yet, so that names that are only read take no memory
/// for long. Nodes renew both ages while they hold the channel.
const UNUSED_CHANNEL_AGE: Duration = Duration::from_secs(30 * 60);
/// A stream keeps at least this many events for at least this long, so that a node that missed some
/// finds them, also if clients get no history.
const EVENTS_MIN: usize = 100;
const EVENT_AGE_MIN: Duration = Duration::from_secs(60);
/// A comparison reads at least this many bytes of events of a channel, the newest.
const READ_BYTES_MIN: usize = 1 << 20;

static APPEND: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/append.lua")));
static READ: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/read.lua")));
static FENCE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/fence.lua")));
static CHANGE_MEMBERS: LazyLock<Script> = LazyLock::new(|| {
    let functions = include_str!("scripts/members.lua");
    Script::new(&format!("{functions}{}", include_str!("scripts/change_members.lua")))
});
static REMOVE_NODE: LazyLock<Script> = LazyLock::new(|| {
    let functions = include_str!("scripts/members.lua");
    Script::new(&format!("{functions}{}", include_str!("scripts/remove_node.lua")))
});
static READ_MEMBERS: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/read_members.lua")));
static LEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/lease.lua")));
static END_LEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/end_lease.lua")));

/// Stores the scripts on the server, which loses them when it restarts.
pub(crate) async fn load(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let members = [&*CHANGE_MEMBERS, &*REMOVE_NODE, &*READ_MEMBERS, &*LEASE, &*END_LEASE];
    for script in [&*APPEND, &*READ, &*FENCE].into_iter().chain(members) {
        script.load_async(connection).await?;
    }
    Ok(())
}

/// Returns the command that appends an event.
pub(crate) fn append(keys: &Keys, settings: &RedisLogSettings, new: &NewEvent) -> Cmd {
    let partition = Partition::of(&new.key);
    let mut command = redis::cmd("EVALSHA");
    command.arg(APPEND.get_hash()).arg(5 + usize::from(new.idempotency_key.is_some()));
    command.arg(keys.channel(&new.key)).arg(keys.events(&new.key));
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
        .arg(new.cache_age.map_or(0, millis));
    command
}

/// Returns the command that reads what a copy lacks.
pub(crate) fn read(keys: &Keys, held: &HeldChannel) -> Cmd {
    let (epoch, offset) = match held.position {
        Some(ChannelPosition { epoch, offset }) => (epoch.to_string(), offset),
        None => (String::new(), 0),
    };
    let partition = Partition::of(&held.key);
    let mut command = redis::cmd("EVALSHA");
    command
        .arg(READ.get_hash())
        .arg(4 + usize::from(held.caches))
        .arg(keys.channel(&held.key))
        .arg(keys.events(&held.key))
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
        .arg(millis(UNUSED_CHANNEL_AGE));
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
        pipeline.add_command(command).ignore();
    }
    pipeline
}

/// Returns the commands that begin a new term of each partition, unless the server with this id has
/// begun one. An empty id is that of a server that reports none, which is never another one.
pub(crate) fn fence(keys: &Keys, server_id: &str) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(PARTITIONS);
    for partition in Partition::all() {
        let mut command = redis::cmd("EVALSHA");
        command.arg(FENCE.get_hash()).arg(1).arg(keys.fence(partition));
        command.arg(server_id).arg(new_epoch().to_string());
        pipeline.add_command(command).ignore();
    }
    pipeline
}

/// Returns the command that tells all nodes of changes of this node's members.
pub(crate) fn change_members(
    keys: &Keys,
    node: &str,
    key: &ChannelKey,
    changes: &MemberChanges,
) -> Cmd {
    let partition = Partition::of(key);
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
        .arg(changes.removed.len());
    for user_id in &changes.removed {
        command.arg(&**user_id);
    }
    for SharedMember { user_id, user_info } in &changes.added {
        command.arg(&**user_id).arg(user_info.as_ref().map_or("", |info| info.get()));
    }
    command
}

/// Returns the command that removes some members of a node that has ended.
pub(crate) fn remove_node(keys: &Keys, node: &str, partition: Partition) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command
        .arg(REMOVE_NODE.get_hash())
        .arg(2)
        .arg(keys.channels_of(node, partition))
        .arg(keys.sequence(partition))
        .arg(node)
        .arg(new_epoch().to_string())
        .arg(keys.shard_channel(partition))
        .arg(keys.beginning(partition));
    command
}

/// Returns the command that reads the members of a presence channel.
pub(crate) fn read_members(keys: &Keys, held: &HeldChannel) -> Cmd {
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
        .arg(entry(&held.key));
    command
}

/// Returns the command that renews a node's lease and reads those of all nodes.
pub(crate) fn renew_lease(keys: &Keys, node: &str) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(LEASE.get_hash()).arg(1).arg(keys.leases()).arg(node);
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
