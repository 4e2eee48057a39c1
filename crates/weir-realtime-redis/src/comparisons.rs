//! Comparisons of copies of channels with Redis.

use redis::{Pipeline, RedisResult, Value};
use weir_realtime::hub::{HeldChannel, Hub};
use weir_realtime::pusher::position::ChannelPosition;
use weir_realtime::shared_log::{ChannelKey, ChannelState, HeldMembers, LogRecord, MembersState};

use crate::command_connection::CommandConnection;
use crate::log::RedisLog;
use crate::member_lists::MemberList;
use crate::presence::{LeaseLost, MembersReply, Presence};
use crate::queries;
use crate::record;
use crate::rejections::{accepted, unless_rejected};
use crate::scripts;
use crate::shards::Shards;

/// Channels that are read in one round trip. Each reply has at most 1 MiB of events, or the history's
/// `bytes_max`, so that a node that compares all of its channels needs no more than some 32 MiB, and as
/// much for members.
const READS_MAX: usize = 32;

/// What Redis has of a channel: its position, its events after the copy, the last one of a cache channel,
/// whether these are the last ones of an earlier epoch, so that the present one must be read next, and the
/// shard that the channel was moved to, or nothing.
type StoredChannel = (Vec<u8>, Vec<Value>, Vec<u8>, bool, Vec<u8>);

/// The position of a channel that does not exist.
const ABSENT: &[u8] = b"absent";

/// Compares channels that were requested with the log.
pub(crate) async fn compare_requested(
    (log, shards): (&RedisLog, &Shards),
    hub: &Hub,
    presence: &mut Presence,
    connection: &mut CommandConnection,
) -> RedisResult<Result<(), LeaseLost>> {
    let requested = log.requests.take(READS_MAX);
    let held: Vec<HeldChannel> = requested.iter().filter_map(|key| hub.held_channel(key)).collect();
    let (held, stored) = read(log, held, connection).await?;
    if held.is_empty() {
        return Ok(Ok(()));
    }
    let members = match presence.read(log, &held, connection).await {
        Ok(Ok(members)) => members,
        Ok(Err(LeaseLost)) => return Ok(Err(LeaseLost)),
        Err(error) => {
            presence.suspend(log, hub, error)?;
            held.iter().map(|_| MembersReply::Known).collect()
        }
    };
    read_counts(log, hub, presence, &held, connection).await?;
    for ((channel, stored), members) in held.iter().zip(&stored).zip(members) {
        let Some(stored) = follow(log, shards, channel, stored) else { continue };
        let members = match members {
            MembersReply::Read(members) if log.owns(&channel.key) => Some(members),
            MembersReply::Known | MembersReply::Read(_) => None,
            MembersReply::Rejected => {
                log.requests.postpone(channel.key.clone());
                continue;
            }
            MembersReply::Long if !log.owns(&channel.key) => None,
            MembersReply::Long => {
                presence.lists.add(&channel.key);
                if channel.position.is_none() {
                    // Its first subscriber gets the list, so it waits for that.
                    continue;
                }
                None
            }
        };
        apply(log, hub, presence, channel, stored, members);
    }
    Ok(Ok(()))
}

/// Reads a part of a list of members that is too long for one reply. Applies it after the last one.
pub(crate) async fn read_list(
    (log, shards): (&RedisLog, &Shards),
    hub: &Hub,
    presence: &mut Presence,
    connection: &mut CommandConnection,
) -> RedisResult<Result<(), LeaseLost>> {
    let list = match presence.read_list(log, hub, connection).await {
        Ok(Some(list)) => list,
        Ok(None) => return Ok(Ok(())),
        Err(error) => return presence.suspend(log, hub, error).map(Ok),
    };
    let MemberList { key, version, nodes, changes } = list;
    let Some(held) = hub.held_channel(&key) else { return Ok(Ok(())) };
    match unless_rejected(presence.has_lost_lease(log, connection).await)? {
        Some(false) => {}
        Some(true) => return Ok(Err(LeaseLost)),
        None => {
            log.requests.postpone(key);
            return Ok(Ok(()));
        }
    }
    let (held, stored) = read(log, vec![held], connection).await?;
    let members = presence.state(log, version, nodes);
    for (held, stored) in held.iter().zip(&stored) {
        let Some(stored) = follow(log, shards, held, stored) else { continue };
        apply(log, hub, presence, held, stored, Some(members.clone()));
    }
    for change in changes {
        presence.apply_change(log, hub, &change);
    }
    Ok(Ok(()))
}

/// Looks where a channel is, and requests what is to be done there. Returns what this shard has of it, if
/// its copy is to be compared with that.
fn follow<'a>(
    log: &RedisLog,
    shards: &Shards,
    channel: &HeldChannel,
    stored: &'a StoredChannel,
) -> Option<&'a StoredChannel> {
    let (position, _, _, _, moved) = stored;
    let (is_absent, is_moved) = (position == ABSENT, !moved.is_empty());
    if is_moved {
        // Also if it moved back and forth: the home then has another name.
        let shard = String::from_utf8_lossy(moved);
        shards.request_at(&shard, &channel.key);
    } else if is_absent && log.owns(&channel.key) {
        log.moves.add(channel.key.clone());
    }
    let is_same_epoch = || {
        let stored: Option<ChannelPosition> =
            str::from_utf8(position).ok().and_then(|position| position.parse().ok());
        stored.zip(channel.position).is_some_and(|(stored, held)| stored.epoch == held.epoch)
    };
    (!is_absent && (!is_moved || is_same_epoch())).then_some(stored)
}

/// Reads channels. Returns those that could be read; the others are compared later.
async fn read(
    log: &RedisLog,
    held: Vec<HeldChannel>,
    connection: &mut CommandConnection,
) -> RedisResult<(Vec<HeldChannel>, Vec<StoredChannel>)> {
    if held.is_empty() {
        return Ok(Default::default());
    }
    let mut pipeline = Pipeline::with_capacity(held.len());
    for channel in &held {
        let creates = !log.may_lack(&channel.key);
        pipeline.add_command(scripts::read(&log.keys, channel, creates));
    }
    let replies: Vec<Value> = pipeline.ignore_errors().query_async(connection).await?;
    let (mut found, mut stored) = (Vec::with_capacity(held.len()), Vec::with_capacity(held.len()));
    for (channel, reply) in held.into_iter().zip(replies) {
        match accepted(reply)? {
            Some(reply) => {
                found.push(channel);
                stored.push(reply);
            }
            None => log.requests.postpone(channel.key),
        }
    }
    Ok((found, stored))
}

/// Reads the subscriptions of channels whose subscribers receive the number.
async fn read_counts(
    log: &RedisLog,
    hub: &Hub,
    presence: &mut Presence,
    held: &[HeldChannel],
    connection: &mut CommandConnection,
) -> RedisResult<()> {
    let counted = held.iter().filter(|channel| channel.has_count && log.owns(&channel.key));
    let keys: Vec<ChannelKey> = counted.map(|channel| channel.key.clone()).collect();
    if keys.is_empty() || presence.suspension.is_active() {
        return Ok(());
    }
    let counts = match unless_rejected(queries::counts(&log.keys, &keys, connection).await) {
        Ok(counts) => counts,
        Err(error) => return presence.suspend(log, hub, error),
    };
    let Some(counts) = counts else {
        keys.into_iter().for_each(|key| log.requests.postpone(key));
        return Ok(());
    };
    for (key, counts) in keys.iter().zip(counts) {
        if hub.deliver_count(key, counts.subscriptions) {
            presence.announce(hub, key);
        }
    }
    Ok(())
}

/// Applies what was read of a channel.
fn apply(
    log: &RedisLog,
    hub: &Hub,
    presence: &mut Presence,
    channel: &HeldChannel,
    stored: &StoredChannel,
    members: Option<MembersState>,
) {
    let (state, unreadable) = channel_state(stored);
    log.metrics.unreadable(unreadable);
    let Some(state) = state else { return };
    let comparison = hub.synchronize(&channel.key, &ChannelState { members, ..state });
    log.metrics.read(comparison.late);
    if !comparison.is_complete {
        log.requests.delay(channel.key.clone());
    } else if stored.3 {
        log.requests.add(channel.key.clone());
    }
    if channel.members != HeldMembers::None {
        presence.announce(hub, &channel.key);
    }
}

/// Returns what can be read, and how many parts can't.
fn channel_state((position, records, cached, ..): &StoredChannel) -> (Option<ChannelState>, u64) {
    let mut unreadable = 0;
    let mut read = |text: &[u8]| {
        let record = str::from_utf8(text).ok().and_then(record::parse).map(|(_, record)| record);
        unreadable += u64::from(record.is_none());
        record
    };
    let text = |value: &Value| match value {
        Value::BulkString(text) => text.clone(),
        _ => Vec::new(),
    };
    let records: Vec<LogRecord> = records.iter().filter_map(|value| read(&text(value))).collect();
    let cached = if cached.is_empty() { None } else { read(cached) };
    let position = str::from_utf8(position).ok().and_then(|position| position.parse().ok());
    unreadable += u64::from(position.is_none());
    (position.map(|position| ChannelState { position, records, cached, members: None }), unreadable)
}
