//! Channels that move to a shard, when a node uses them first.

use std::convert::Infallible;
use std::time::Duration;

use redis::Value;
use weir_realtime::hub::Hub;
use weir_realtime::shared_log::{AppendError, ChannelKey};

use crate::log::RedisLog;
use crate::scripts;
use crate::shards::Shards;

/// Channels that are moved before the requests are taken again.
const MOVES_MAX: usize = 32;
/// Time between attempts to move channels from a shard that does not respond.
const RETRY: Duration = Duration::from_millis(500);

/// Moves channels to this shard that were not found in it, and compares them then. Other requests do not
/// wait for the previous shard.
pub(crate) async fn run(log: &RedisLog, shards: &Shards, hub: &Hub) -> Infallible {
    loop {
        log.moves.added().await;
        let mut failed = Vec::new();
        for key in log.moves.take(MOVES_MAX) {
            match move_channel(log, shards, hub, &key).await {
                Ok(()) => log.requests.add(key),
                Err(_) => failed.push(key),
            }
        }
        if !failed.is_empty() {
            tokio::time::sleep(RETRY).await;
            failed.into_iter().for_each(|key| log.moves.add(key));
        }
    }
}

/// Moves a channel to this shard, where it exists afterwards.
async fn move_channel(
    log: &RedisLog,
    shards: &Shards,
    hub: &Hub,
    key: &ChannelKey,
) -> Result<(), AppendError> {
    let Some(held) = hub.held_channel(key) else { return Ok(()) };
    if let Some(from) = shards.previous(key) {
        shards.relocate(key, &held.history, from, log).await?;
    }
    let beginning = scripts::read(&log.keys, &held, true);
    log.query::<Value>(&beginning).await.map(|_| ())
}
