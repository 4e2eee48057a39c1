//! `[[realtime.broker.redis]]`: the Redis of the realtime broker, or each of several shards.

use weir_realtime_redis::{SHARDS_MAX, ShardJoining, ShardOptions};
use weir_settings::{Section, TableReader};

use super::redis;

/// What a shard has beyond the keys of a Redis.
#[derive(Debug, Section)]
#[section(restart)]
struct Shard {
    /// Its name among several, the same on all nodes, which decides which channels it has. None: its
    /// address, so that channels move when that changes.
    name: Option<String>,
    /// Whether it is being added to nodes that run: "prepare" on all nodes first, then "move" on all nodes
    /// (docs/realtime.md). "no": it has its share of the channels.
    #[setting(choice)]
    joining: ShardJoining,
}

/// Reads the table. None: an error was reported.
pub(super) fn read(table: &mut TableReader<'_>) -> Option<ShardOptions> {
    let mut shard = Shard::default();
    shard.read(table);
    let endpoint = redis::read(table)?;
    let name = shard.name.unwrap_or_else(|| endpoint.to_string());
    Some(ShardOptions { name, endpoint, joining: shard.joining })
}

/// Returns why these shards are no broker together.
pub(super) fn problem(shards: &[ShardOptions]) -> Option<String> {
    if shards.is_empty() {
        let example = "broker = { redis = [{ url = \"redis://127.0.0.1:6379\" }] }";
        return Some(format!("lacks the address of Redis: {example}"));
    }
    if shards.iter().any(|shard| shard.endpoint.database != 0) {
        return Some("sharded channels know no databases; write no database, or 0".to_owned());
    }
    if shards.iter().all(|shard| shard.joining != ShardJoining::No) {
        return Some("one server at least must be without joining, to have channels".to_owned());
    }
    let named: Vec<_> = shards.iter().map(|shard| (&*shard.name, &shard.endpoint)).collect();
    redis::shards_problem(&named, SHARDS_MAX)
}
