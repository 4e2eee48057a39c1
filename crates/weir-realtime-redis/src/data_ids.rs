//! Which partitions have lost their data: Redis was emptied, or restarted without them.
//!
//! Each partition has an id, which is lost with its data, and which the next session replaces. So a node that
//! was stalled, and whose subscriptions were removed, is not taken for a Redis that has lost them.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::{Pipeline, RedisResult, Value};

use crate::command_connection::CommandConnection;
use crate::keys::Keys;
use crate::partition::Partition;
use crate::rejections::accepted;
use crate::scripts;

/// The ids of the partitions of one shard, over all connections to Redis.
#[derive(Debug, Default)]
pub(crate) struct DataIds(Mutex<KnownIds>);

#[derive(Debug, Default)]
struct KnownIds {
    ids: HashMap<Partition, String>,
    /// Those whose data was lost since everything of this node was stored.
    lost: HashSet<Partition>,
}

impl DataIds {
    /// Notes the ids with which a session begins.
    pub(crate) fn begin(&self, found: Vec<(Partition, String)>) {
        let mut known = self.lock();
        for (partition, id) in found {
            let before = known.ids.insert(partition, id.clone());
            if before.is_some_and(|before| before != id) {
                known.lost.insert(partition);
            }
        }
    }

    /// Notes that everything of this node is stored.
    pub(crate) fn on_all_stored(&self) {
        self.lock().lost.clear();
    }

    /// Returns those of these partitions whose data was lost. Redis may have been emptied since the session
    /// began, so the ids of the others are read.
    pub(crate) async fn lost(
        &self,
        keys: &Keys,
        partitions: impl Iterator<Item = Partition>,
        connection: &mut CommandConnection,
    ) -> RedisResult<HashSet<Partition>> {
        let all: HashSet<Partition> = partitions.collect();
        let (mut lost, doubtful): (HashSet<_>, Vec<_>) = {
            let known = self.lock();
            let doubtful = all.difference(&known.lost).copied().collect();
            (all.intersection(&known.lost).copied().collect(), doubtful)
        };
        if doubtful.is_empty() {
            return Ok(lost);
        }
        let mut pipeline = Pipeline::with_capacity(doubtful.len());
        for partition in &doubtful {
            pipeline.add_command(scripts::read_data_id(keys, *partition));
        }
        let replies: Vec<Value> = pipeline.ignore_errors().query_async(connection).await?;
        for (partition, reply) in doubtful.into_iter().zip(replies) {
            let is_same = |id: Option<String>| id.as_ref() == self.lock().ids.get(&partition);
            if !accepted(reply)?.is_none_or(is_same) {
                lost.insert(partition);
            }
        }
        Ok(lost)
    }

    fn lock(&self) -> MutexGuard<'_, KnownIds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
