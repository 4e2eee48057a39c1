//! `[[jobs.store.redis]]`: the Redis of the job store, or each of several shards.

use weir_settings::{Section, TableReader};
use weir_sidekiq::store::{SHARDS_MAX, ShardOptions};

use super::redis;

/// What a shard has beyond the keys of a Redis.
#[derive(Debug, Section)]
#[section(restart)]
struct Shard {
    /// Its name among several, which decides which queues it gets. None: its address, so that queues
    /// move when that changes.
    name: Option<String>,
    /// Whether it gets no more jobs. Those that it has are fetched, and its sets move to the other
    /// shards; it can be removed once it is empty.
    drain: bool,
}

/// Reads the table. None: an error was reported.
pub(super) fn read(table: &mut TableReader<'_>) -> Option<ShardOptions> {
    let mut shard = Shard::default();
    shard.read(table);
    let endpoint = redis::read(table)?;
    let name = shard.name.unwrap_or_else(|| endpoint.to_string());
    Some(ShardOptions { name, endpoint, drain: shard.drain })
}

/// Returns why these shards are no store together.
pub(super) fn problem(shards: &[ShardOptions]) -> Option<String> {
    let named: Vec<_> = shards.iter().map(|shard| (&*shard.name, &shard.endpoint)).collect();
    if let Some(problem) = redis::shards_problem(&named, SHARDS_MAX) {
        return Some(problem);
    }
    let all_drain = !shards.is_empty() && shards.iter().all(|shard| shard.drain);
    all_drain.then(|| "one server at least must be without drain = true, to get jobs".to_owned())
}
