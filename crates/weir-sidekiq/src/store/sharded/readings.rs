//! What the shards have of the queues that FETCHes in line ask for.

use std::collections::BTreeMap;
use std::rc::Rc;

use redis::{Pipeline, Value};
use weir_jobs::model::QueueName;
use weir_jobs::store::StoreError;

use super::sharded_core::ShardedCore;
use crate::store::replies::QueueReading;
use crate::store::store_core::StoreCore;

/// What each shard has of each queue.
#[derive(Debug, Default)]
pub(super) struct ShardReadings(BTreeMap<QueueName, QueueOnShards>);

/// One queue: the shards that have it, by place.
#[derive(Debug, Default)]
pub(super) struct QueueOnShards {
    pub(super) shards: Vec<(usize, QueueReading)>,
}

impl QueueOnShards {
    /// A queue that is paused on one shard is paused on all: the others may not know it.
    pub(super) fn is_paused(&self) -> bool {
        self.shards.iter().any(|(_, reading)| reading.paused)
    }

    pub(super) fn depth(&self) -> u64 {
        self.shards.iter().map(|(_, reading)| reading.depth).sum()
    }
}

impl ShardReadings {
    pub(super) fn add(&mut self, shard: usize, queue: QueueName, reading: QueueReading) {
        self.0.entry(queue).or_default().shards.push((shard, reading));
    }

    /// Returns a queue that has jobs and is not paused.
    pub(super) fn open(&self, queue: &QueueName) -> Option<&QueueOnShards> {
        self.0.get(queue).filter(|it| it.depth() > 0 && !it.is_paused())
    }

    pub(super) fn open_mut(&mut self, queue: &QueueName) -> Option<&mut QueueOnShards> {
        self.0.get_mut(queue).filter(|it| it.depth() > 0 && !it.is_paused())
    }
}

impl ShardedCore {
    /// Reads queues on all shards at once. With `in_full`, reads what the rules of an allocation
    /// need as well.
    pub(super) async fn read_queues(
        &self,
        queues: &[QueueName],
        in_full: bool,
    ) -> Result<ShardReadings, StoreError> {
        let read =
            async |shard: &super::shard::Shard| shard.core().read_queues(queues, in_full).await;
        let mut all = ShardReadings::default();
        for (shard, readings) in self.on_all(read).await.any_done()? {
            for (queue, reading) in queues.iter().zip(readings) {
                all.add(shard, queue.clone(), reading);
            }
        }
        Ok(all)
    }
}

impl StoreCore {
    async fn read_queues(
        self: &Rc<Self>,
        queues: &[QueueName],
        in_full: bool,
    ) -> Result<Vec<QueueReading>, StoreError> {
        let mut connection = self.ready().await?;
        if in_full {
            return self.queue_readings(&mut connection, queues).await;
        }
        let mut pipeline = Pipeline::new();
        pipeline.ignore_errors();
        for queue in queues {
            let queue = queue.as_str();
            pipeline.llen(self.keys.list(queue)).hget(self.keys.control(queue), "paused");
        }
        let reply = pipeline.query_async(&mut connection).await;
        let reply: Vec<Value> = reply.map_err(|error| self.link.failed(&error))?;
        Ok(short_readings(&reply))
    }
}

/// Parses pairs of a length and a pause.
fn short_readings(reply: &[Value]) -> Vec<QueueReading> {
    let reading = |pair: &[Value]| QueueReading {
        depth: match pair {
            [Value::Int(length), _] => u64::try_from(*length).unwrap_or_default(),
            _ => 0,
        },
        paused: matches!(pair, [_, Value::BulkString(text)] if text == b"1"),
        ..QueueReading::default()
    };
    reply.chunks(2).map(reading).collect()
}
