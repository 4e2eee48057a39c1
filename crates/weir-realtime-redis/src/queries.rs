//! Counts of channels on all nodes, as requests of the HTTP API need them.

use redis::{Pipeline, RedisResult};
use weir_realtime::shared_log::{ChannelKey, SharedCounts};
use weir_redis::acl;

use crate::command_connection::CommandConnection;
use crate::keys::Keys;
use crate::partition::Partition;

/// Partitions whose channels are listed in one round trip, and channels of each, about.
const PARTITIONS_MAX: usize = 16;
const CHANNELS_MAX: usize = 1_000;
/// What the names of presence channels begin with.
const PRESENCE_PREFIX: &str = "presence-";

/// Returns the counts of channels, in this order.
pub(crate) async fn counts(
    keys: &Keys,
    channels: &[ChannelKey],
    connection: &mut CommandConnection,
) -> RedisResult<Vec<SharedCounts>> {
    let mut pipeline = Pipeline::with_capacity(2 * channels.len());
    for key in channels {
        pipeline.cmd("HGET").arg(keys.occupied(&key.app, Partition::of(key))).arg(&*key.channel);
        pipeline.cmd("HLEN").arg(keys.users(key));
    }
    let replies: Vec<Option<usize>> = pipeline.query_async(connection).await?;
    let number = |reply: Option<usize>| reply.unwrap_or_default();
    let pairs = replies.chunks_exact(2);
    Ok(pairs
        .map(|pair| SharedCounts { subscriptions: number(pair[0]), users: number(pair[1]) })
        .collect())
}

/// Returns all channels of an app with subscriptions whose names begin with `prefix`. Counts the users of
/// presence channels only if `counts_users`.
pub(crate) async fn channels(
    keys: &Keys,
    app: &str,
    prefix: &str,
    counts_users: bool,
    connection: &mut CommandConnection,
) -> RedisResult<Vec<(String, SharedCounts)>> {
    let mut found = scan(keys, app, prefix, connection).await?;
    // A channel may be found twice while its hash grows.
    found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    found.dedup_by(|(one, _), (other, _)| one == other);
    let counts = |subscriptions| SharedCounts { subscriptions, users: 0 };
    let mut channels: Vec<(String, SharedCounts)> =
        found.into_iter().map(|(name, count)| (name, counts(count))).collect();
    if counts_users {
        count_users(keys, app, &mut channels, connection).await?;
    }
    Ok(channels)
}

async fn count_users(
    keys: &Keys,
    app: &str,
    channels: &mut [(String, SharedCounts)],
    connection: &mut CommandConnection,
) -> RedisResult<()> {
    let mut rooms: Vec<&mut (String, SharedCounts)> =
        channels.iter_mut().filter(|(name, _)| name.starts_with(PRESENCE_PREFIX)).collect();
    for some in rooms.chunks_mut(CHANNELS_MAX) {
        let mut pipeline = Pipeline::with_capacity(some.len());
        for (name, _) in some.iter() {
            let key = ChannelKey { app: app.into(), channel: name.as_str().into() };
            pipeline.cmd("HLEN").arg(keys.users(&key));
        }
        let users: Vec<usize> = pipeline.query_async(connection).await?;
        for ((_, counts), users) in some.iter_mut().zip(users) {
            counts.users = users;
        }
    }
    Ok(())
}

async fn scan(
    keys: &Keys,
    app: &str,
    prefix: &str,
    connection: &mut CommandConnection,
) -> RedisResult<Vec<(String, usize)>> {
    let pattern = format!("{}*", acl::escaped(prefix));
    let mut found = Vec::new();
    let mut left: Vec<(Partition, u64)> =
        Partition::all().map(|partition| (partition, 0)).collect();
    while !left.is_empty() {
        let some = left.split_off(left.len().saturating_sub(PARTITIONS_MAX));
        let mut pipeline = Pipeline::with_capacity(some.len());
        for (partition, cursor) in &some {
            let scan = pipeline.cmd("HSCAN").arg(keys.occupied(app, *partition)).arg(cursor);
            scan.arg("MATCH").arg(&pattern).arg("COUNT").arg(CHANNELS_MAX);
        }
        let replies: Vec<(u64, Vec<(String, usize)>)> = pipeline.query_async(connection).await?;
        for ((partition, _), (cursor, channels)) in some.into_iter().zip(replies) {
            found.extend(channels);
            if cursor != 0 {
                left.push((partition, cursor));
            }
        }
    }
    Ok(found)
}
