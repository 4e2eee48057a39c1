//! Changes of this node's subscriptions and members, on their way to Redis.

use std::collections::HashSet;

use redis::{ErrorKind, Pipeline, RedisError, RedisResult, Value};
use weir_realtime::hub::Hub;
use weir_realtime::shared_log::{ChannelKey, CountChange, UnsentMembers};

use crate::command_connection::CommandConnection;
use crate::log::RedisLog;
use crate::partition::Partition;
use crate::presence::Presence;
use crate::rejections::unless_rejected;
use crate::scripts;

/// Channels whose changes are sent in one round trip.
const CHANNELS_MAX: usize = 128;
/// Changes of members of one channel, and of all, in one round trip: 8 MiB with information of 1 kB.
const CHANNEL_CHANGES_MAX: usize = 256;
const CHANGES_MAX: usize = 8_192;
/// The error of changes that can be neither sent nor returned to their channel.
const GONE: &str = "Redis rejected members of a channel that has ended since; all are sent again";

/// What was sent, in the order of the replies.
enum SentChange {
    /// `has_more`: there are further changes of its members.
    Subscriptions {
        key: ChannelKey,
        count: usize,
        has_more: bool,
    },
    Members {
        key: ChannelKey,
        changes: UnsentMembers,
        has_more: bool,
    },
}

/// What Redis has stored.
#[derive(Default)]
struct SentChanges {
    /// Channels without further changes.
    complete: Vec<ChannelKey>,
    /// Channels whose subscriptions Redis lacked, although this node had stored them, and the webhooks that
    /// report them.
    restored: Vec<(ChannelKey, Vec<String>)>,
}

/// Sends changes of some channels. Those that Redis rejects for now are sent again later.
pub(crate) async fn send(
    log: &RedisLog,
    hub: &Hub,
    presence: &mut Presence,
    connection: &mut CommandConnection,
) -> RedisResult<()> {
    let (mut pipeline, mut sent, mut left) = (Pipeline::new(), Vec::new(), CHANGES_MAX);
    let has_directory = presence.layout().shares_users_and_limits();
    for key in log.subscribers.take(CHANNELS_MAX) {
        if key.is_directory() && !has_directory {
            // All of its members are sent in the session in which all nodes know them. Until then nobody takes the
            // changes.
            let (_, has_more) = hub.take_member_changes(&key, CHANGES_MAX);
            match has_more {
                true => log.subscribers.add(key),
                false => presence.on_sent(&key),
            }
            continue;
        }
        let max = CHANNEL_CHANGES_MAX.min(left);
        if max == 0 {
            log.subscribers.add(key);
            continue;
        }
        left -= add(log, hub, presence, &key, max, &mut pipeline, &mut sent);
    }
    if sent.is_empty() {
        return Ok(());
    }
    let replies: Vec<Value> = pipeline.ignore_errors().query_async(connection).await?;
    let (mut results, mut rejected) = (SentChanges::default(), HashSet::new());
    for (change, reply) in sent.into_iter().zip(replies) {
        match unless_rejected(reply.extract_error())? {
            Some(reply) => on_reply(log, hub, &mut results, change, reply)?,
            None => drop(rejected.insert(on_rejected(log, hub, change)?)),
        }
    }
    results.complete.retain(|key| !rejected.contains(key));
    results.complete.iter().for_each(|key| presence.on_sent(key));
    send_restored(log, hub, results.restored, connection).await
}

fn on_reply(
    log: &RedisLog,
    hub: &Hub,
    results: &mut SentChanges,
    change: SentChange,
    reply: Value,
) -> RedisResult<()> {
    match change {
        SentChange::Subscriptions { key, count, has_more } => {
            let (before, after, hooks): (usize, usize, Vec<String>) =
                redis::from_redis_value(reply)?;
            let was_counted =
                hub.on_subscriptions_stored(&key, count, CountChange { before, after });
            if !has_more {
                results.complete.push(key.clone());
            }
            match was_counted && before == 0 {
                true => results.restored.push((key, hooks)),
                false => log.hooks.add(hub, &hooks),
            }
        }
        SentChange::Members { key, changes, has_more } => {
            let (hooks, rejected): (Vec<String>, Vec<String>) = redis::from_redis_value(reply)?;
            hub.settle_admissions(&key, &changes.requested, &rejected);
            log.metrics.members_changed(changes.len() - rejected.len());
            if key.is_directory() && !has_more {
                results.complete.push(key);
            }
            log.hooks.add(hub, &hooks);
        }
    }
    Ok(())
}

/// Notes a change for the next attempt. Returns its channel.
fn on_rejected(log: &RedisLog, hub: &Hub, change: SentChange) -> RedisResult<ChannelKey> {
    let key = match change {
        SentChange::Subscriptions { key, .. } => key,
        SentChange::Members { key, changes, .. } => {
            if !hub.return_member_changes(&key, changes) {
                // In the next session, all members are sent again.
                return Err(RedisError::from((ErrorKind::Client, GONE)));
            }
            key
        }
    };
    log.subscribers.postpone(key.clone());
    Ok(key)
}

/// Sends webhooks for channels whose subscriptions Redis lacked. If it has lost its data, they were occupied
/// before; otherwise another node has removed this one's subscriptions, and has reported that.
async fn send_restored(
    log: &RedisLog,
    hub: &Hub,
    mut restored: Vec<(ChannelKey, Vec<String>)>,
    connection: &mut CommandConnection,
) -> RedisResult<()> {
    restored.retain(|(_, hooks)| !hooks.is_empty());
    if restored.is_empty() {
        return Ok(());
    }
    let partitions = restored.iter().map(|(key, _)| Partition::of(key));
    let lost = log.data_ids.lost(&log.keys, partitions, connection).await?;
    for (key, hooks) in restored {
        match lost.contains(&Partition::of(&key)) {
            true => log.hooks.cancel(&hooks),
            false => log.hooks.add(hub, &hooks),
        }
    }
    Ok(())
}

/// Adds the commands for one channel: subscriptions before members that came, and after those that left.
/// Returns the number of changed members.
fn add(
    log: &RedisLog,
    hub: &Hub,
    presence: &mut Presence,
    key: &ChannelKey,
    max: usize,
    pipeline: &mut Pipeline,
    sent: &mut Vec<SentChange>,
) -> usize {
    let (unsent, has_more) = hub.take_member_changes(key, max);
    if has_more {
        log.subscribers.add(key.clone());
    }
    let node = presence.node();
    let subscriptions = hub.node_subscriptions(key);
    let count = unsent.len();
    let prefix = || match hub.wants_shared_webhooks(key) {
        true => scripts::hook_prefix(),
        false => String::new(),
    };
    let members = scripts::change_members(&log.keys, node, key, &unsent, &prefix());
    let earlier = log.identities.earlier_than(node);
    let number = scripts::change_count(&log.keys, (node, &earlier), key, subscriptions, &prefix());
    let stored =
        SentChange::Subscriptions { key: key.clone(), count: subscriptions.count, has_more };
    let number = (number, stored);
    let members = (members, SentChange::Members { key: key.clone(), changes: unsent, has_more });
    let commands = if subscriptions.count > 0 { [number, members] } else { [members, number] };
    for (command, change) in commands {
        let is_due = match change {
            SentChange::Members { .. } => count > 0,
            SentChange::Subscriptions { .. } => !key.is_directory(),
        };
        if is_due {
            pipeline.add_command(command);
            sent.push(change);
        }
    }
    if count == 0 && key.is_directory() {
        presence.on_sent(key);
    }
    count
}
