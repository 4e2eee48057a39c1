//! Changes of this node's subscriptions and members, on their way to Redis.

use redis::{Pipeline, RedisResult, Value};
use weir_realtime::hub::Hub;
use weir_realtime::shared_log::{ChannelKey, CountChange, SharedMember};

use crate::command_connection::CommandConnection;
use crate::log::RedisLog;
use crate::presence::Presence;
use crate::scripts;

/// Channels whose changes are sent in one round trip.
const CHANNELS_MAX: usize = 128;
/// Changes of members of one channel, and of all, in one round trip: 8 MiB with information of 1 kB.
const CHANNEL_CHANGES_MAX: usize = 256;
const CHANGES_MAX: usize = 8_192;

/// What was sent, in the order of the replies.
enum SentChange {
    Subscriptions { key: ChannelKey, count: usize },
    Members { key: ChannelKey, count: usize, requested: Vec<SharedMember> },
}

/// Sends changes of some channels.
pub(crate) async fn send(
    log: &RedisLog,
    hub: &Hub,
    presence: &mut Presence,
    connection: &mut CommandConnection,
) -> RedisResult<()> {
    let (mut pipeline, mut sent, mut left) = (Pipeline::new(), Vec::new(), CHANGES_MAX);
    for key in log.subscribers.take(CHANNELS_MAX) {
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
    let replies: Vec<Value> = pipeline.query_async(connection).await?;
    for (change, reply) in sent.into_iter().zip(replies) {
        on_reply(log, hub, change, reply)?;
    }
    Ok(())
}

fn on_reply(log: &RedisLog, hub: &Hub, change: SentChange, reply: Value) -> RedisResult<()> {
    match change {
        SentChange::Subscriptions { key, count } => {
            let (before, after, hooks): (usize, usize, Vec<String>) =
                redis::from_redis_value(reply)?;
            let was_counted =
                hub.on_subscriptions_stored(&key, count, CountChange { before, after });
            if was_counted && before == 0 {
                // Redis was emptied: the channel was occupied before.
                log.hooks.cancel(&hooks);
            } else {
                log.hooks.add(hub, &hooks);
            }
        }
        SentChange::Members { key, count, requested } => {
            let (hooks, rejected): (Vec<String>, Vec<String>) = redis::from_redis_value(reply)?;
            hub.settle_admissions(&key, &requested, &rejected);
            log.metrics.members_changed(count - rejected.len());
            log.hooks.add(hub, &hooks);
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
    } else {
        presence.on_sent(key);
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
    let number =
        (number, SentChange::Subscriptions { key: key.clone(), count: subscriptions.count });
    let members =
        (members, SentChange::Members { key: key.clone(), count, requested: unsent.requested });
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
    count
}
