//! Operators' actions on jobs and queues, and the search for a job.

use std::collections::BTreeSet;
use std::rc::Rc;

use weir_jobs::metrics::StoreOperation;
use weir_jobs::model::{EntryKey, JobLocation, QueueName};
use weir_jobs::store::{
    Action, FindOutcome, QueueAction, Reserved, Selection, Store as _, StoreError,
};

use super::shard::Shard;
use super::sharded_core::ShardedCore;
use crate::store::store_core::StoreCore;

impl ShardedCore {
    /// Applies `action` to waiting jobs, each on its shard. Returns the number of jobs affected.
    pub(super) async fn act(
        self: &Rc<Self>,
        location: &JobLocation,
        what: &Selection,
        action: Action,
    ) -> Result<u64, StoreError> {
        self.check_open()?;
        let acted = self.on_all(async |shard: &Shard| {
            shard.timed(StoreOperation::Act, shard.core().act(location, what, action)).await
        });
        let acted = acted.await;
        self.serve_waiting().await?;
        match what {
            Selection::Entries(keys) if acted.has_done(keys.len()) => Ok(keys.len() as u64),
            _ => acted.sum(),
        }
    }

    /// Moves waiting jobs to the end of another queue, each on its shard. Returns the number of jobs moved.
    pub(super) async fn move_to(
        self: &Rc<Self>,
        location: &JobLocation,
        keys: &[EntryKey],
        queue: &QueueName,
        paused: bool,
    ) -> Result<u64, StoreError> {
        self.check_open()?;
        self.make_room_for_queues(&BTreeSet::from([queue.as_str()])).await?;
        if paused {
            // Any of them may get jobs of this queue later.
            let queues = std::slice::from_ref(queue);
            let paused = self.on_all(async |it: &Shard| it.core().set_paused(queues, true).await);
            paused.await.any_done()?;
        }
        let moved = self.on_all(async |shard: &Shard| {
            let moving = shard.core().move_to(location, keys, queue, paused);
            shard.timed(StoreOperation::Act, moving).await
        });
        let moved = moved.await;
        self.serve_waiting().await?;
        if moved.has_done(keys.len()) { Ok(keys.len() as u64) } else { moved.sum() }
    }

    /// Applies `action` to queues. Returns the number of jobs removed.
    pub(super) async fn act_on_queues(
        self: &Rc<Self>,
        queues: &[QueueName],
        action: QueueAction,
    ) -> Result<u64, StoreError> {
        self.check_open()?;
        let acted = match action {
            QueueAction::Pause | QueueAction::Resume => self.pause(queues, action).await,
            QueueAction::Remove | QueueAction::Clear => {
                let acted = self.on_all(async |shard: &Shard| {
                    let acting = shard.core().act_on_queues(queues, action);
                    let removed = shard.timed(StoreOperation::Act, acting).await?;
                    if action == QueueAction::Remove {
                        // The pause is on shards that do not have the queue as well.
                        shard.core().set_paused(queues, false).await?;
                    }
                    Ok(removed)
                });
                acted.await.sum()
            }
        };
        self.serve_waiting().await?;
        acted
    }

    /// Pauses or resumes queues on all shards, those included that do not have the queue yet: they
    /// may get its jobs while another one is away.
    async fn pause(&self, queues: &[QueueName], action: QueueAction) -> Result<u64, StoreError> {
        let known = self.on_all(async |shard: &Shard| shard.core().known_among(queues).await);
        let known: Vec<Vec<bool>> =
            known.await.any_done()?.into_iter().map(|(_, known)| known).collect();
        let is_known = |place: usize| known.iter().any(|known| known[place]);
        let queues = queues.iter().enumerate().filter(|(place, _)| is_known(*place));
        let queues: Vec<QueueName> = queues.map(|(_, queue)| queue.clone()).collect();
        let set = self.on_all(async |shard: &Shard| {
            shard.core().set_paused(&queues, action == QueueAction::Pause).await.map(|()| 0)
        });
        set.await.sum()
    }

    /// Deletes all jobs. Deletes nothing while a shard can't be used.
    pub(super) async fn flush(&self) -> Result<(), StoreError> {
        self.check_open()?;
        self.shards.iter().try_for_each(Shard::check)?;
        let queues = self.on_all(async |shard: &Shard| shard.core().read_all_queues().await);
        let queues: BTreeSet<QueueName> =
            queues.await.any_done()?.into_iter().flat_map(|(_, queues)| queues).collect();
        let queues: Vec<QueueName> = queues.into_iter().collect();
        let flushed = self.on_all(async |shard: &Shard| {
            shard.core().flush().await?;
            shard.core().set_paused(&queues, false).await.map(|()| 0)
        });
        flushed.await.sum().map(drop)
    }

    /// Finds a job: first among the reservations of this node, then on one shard after the other.
    pub(super) async fn find(&self, jid: &str) -> Result<FindOutcome, StoreError> {
        self.check_open()?;
        let mut shards: Vec<&Shard> = self.shards.iter().collect();
        shards.sort_by_key(|shard| shard.reserved(jid, None) == 0);
        let (mut searched, mut is_complete, mut failed) = (0, true, None);
        let mut answers = 0;
        for shard in shards {
            let found = match shard.check() {
                Ok(()) => shard.timed(StoreOperation::Find, shard.core().find(jid)).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(found @ FindOutcome::Found(_)) => return Ok(found),
                Ok(FindOutcome::NotFound) => answers += 1,
                Ok(FindOutcome::NotSearched { searched: more }) => {
                    answers += 1;
                    searched += more;
                    is_complete = false;
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if answers == 0 => Err(error),
            None if is_complete => Ok(FindOutcome::NotFound),
            _ => Ok(FindOutcome::NotSearched { searched }),
        }
    }

    /// Returns up to `limit` reservations, oldest first. On a shard that can't be used, those of this
    /// node.
    pub(super) async fn reservations(&self, limit: usize) -> Vec<Reserved> {
        let read = self.shards.iter().map(async |shard: &Shard| match shard.is_usable() {
            true => shard.store.reservations(limit).await,
            false => shard.core().own_reservations(),
        });
        let mut all: Vec<Reserved> =
            futures_util::future::join_all(read).await.into_iter().flatten().collect();
        all.sort_by_key(|reserved| reserved.since);
        all.truncate(limit);
        all
    }

    async fn serve_waiting(self: &Rc<Self>) -> Result<(), StoreError> {
        if self.line.is_empty() { Ok(()) } else { self.serve().await }
    }
}

impl StoreCore {
    async fn read_all_queues(self: &Rc<Self>) -> Result<BTreeSet<QueueName>, StoreError> {
        self.all_queues(&mut self.ready().await?).await
    }

    /// Returns which of these queues the shard has.
    async fn known_among(self: &Rc<Self>, queues: &[QueueName]) -> Result<Vec<bool>, StoreError> {
        let mut pipeline = redis::Pipeline::new();
        for queue in queues {
            pipeline.sismember(self.keys.queues(), queue.as_str());
        }
        let known = pipeline.query_async(&mut self.ready().await?).await;
        known.map_err(|error| self.link.failed(&error))
    }
}
