//! Empties the sets of a shard that drains: scheduled jobs, retries and dead jobs move to the shards
//! that own their queues.
//!
//! A move is two steps on two servers, so a crash in between must lose nothing: an entry is first
//! added to its new shard and then removed from the old one. Adding it again changes nothing, for
//! text and time are the same. Entries that are due soon stay: they enter their queue on the old
//! shard, from which they are fetched.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use redis::Pipeline;
use weir_jobs::model::{QueueName, SetName};
use weir_jobs::store::StoreError;

use super::sharded_core::ShardedCore;
use crate::store::entries::RawEntry;
use crate::store::seconds;
use crate::store::store_core::StoreCore;
use crate::store::stored::StoredText;

/// Entries that are moved in one step.
const STEP_JOBS: usize = 100;
/// Entries that are due within this time stay, so that no copy is run before its original is
/// removed.
const DUE_SOON: Duration = Duration::from_secs(60);

impl ShardedCore {
    /// Moves some entries of each set from the shard at `place`.
    pub(super) async fn evacuate(&self, place: usize) -> Result<(), StoreError> {
        for set in SetName::ALL {
            while self.evacuate_step(place, set).await? == STEP_JOBS {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Moves up to [`STEP_JOBS`] entries of a set. Returns the number of those moved.
    async fn evacuate_step(&self, place: usize, set: SetName) -> Result<usize, StoreError> {
        let shard = &self.shards[place];
        shard.check()?;
        // Each queue has one target, whoever moves its jobs, so no two shards get the same job.
        let all = self.shards.iter().enumerate().filter(|(_, shard)| !shard.drains);
        let all = all.map(|(place, _)| place).collect();
        let entries = shard.note(shard.core().entries_to_move(set).await)?;
        let mut parts: BTreeMap<usize, Vec<RawEntry>> = BTreeMap::new();
        for entry in entries {
            let home = self.placement.home(&queue_of(&entry), all);
            if self.shards[home].is_usable() {
                parts.entry(home).or_default().push(entry);
            }
        }
        let mut moved = 0;
        for (home, entries) in parts {
            let target = &self.shards[home];
            target.note(target.core().add_entries(set, &entries).await)?;
            shard.note(shard.core().remove_entries(set, &entries).await)?;
            moved += entries.len();
        }
        Ok(moved)
    }
}

fn queue_of(entry: &RawEntry) -> String {
    let text = StoredText::parse(&entry.payload, usize::MAX);
    let queue = text.ok().and_then(|text| text.string("queue"));
    queue.unwrap_or_else(|| QueueName::DEFAULT.to_owned())
}

impl StoreCore {
    /// Returns entries that may move: the last ones in time.
    async fn entries_to_move(self: &Rc<Self>, set: SetName) -> Result<Vec<RawEntry>, StoreError> {
        let from = match set {
            SetName::Dead => "-inf".to_owned(),
            SetName::Scheduled | SetName::Retries => seconds::text(self.now() + DUE_SOON),
        };
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(self.set_key(set)).arg(from).arg("+inf").arg("WITHSCORES");
        command.arg("LIMIT").arg(0).arg(STEP_JOBS);
        let reply = command.query_async(&mut self.ready().await?).await;
        Ok(RawEntry::with_scores(reply.map_err(|error| self.link.failed(&error))?))
    }

    async fn add_entries(
        self: &Rc<Self>,
        set: SetName,
        entries: &[RawEntry],
    ) -> Result<(), StoreError> {
        let mut command = redis::cmd("ZADD");
        command.arg(self.set_key(set));
        for entry in entries {
            command.arg(seconds::text(entry.at.unwrap_or_default())).arg(&entry.payload);
        }
        let added: Result<(), _> = command.query_async(&mut self.ready().await?).await;
        added.map_err(|error| self.link.failed(&error))
    }

    async fn remove_entries(
        self: &Rc<Self>,
        set: SetName,
        entries: &[RawEntry],
    ) -> Result<(), StoreError> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("ZREM").arg(self.set_key(set));
        for entry in entries {
            pipeline.arg(&entry.payload);
        }
        pipeline.ignore();
        let removed: Result<(), _> = pipeline.query_async(&mut self.ready().await?).await;
        removed.map_err(|error| self.link.failed(&error))
    }
}
