//! Pushes jobs to their shards.
//!
//! If a shard turns out to be away before anything was sent to it, the next one of the ring gets its
//! jobs. After an error whose outcome is uncertain, no other shard gets them.

use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::join_all;
use redis::AsyncCommands as _;
use weir_jobs::metrics::{JobServerLimit, StoreOperation};
use weir_jobs::model::NewJob;
use weir_jobs::store::{Restored, StoreError};

use super::shard::Shard;
use super::sharded_core::ShardedCore;
use crate::store::store_core::StoreCore;

/// A job that can be added to a shard.
pub(super) trait AddedJob: Clone {
    fn queue(&self) -> &str;

    async fn add(core: &Rc<StoreCore>, jobs: &[Self]) -> Result<(), StoreError>;
}

impl AddedJob for NewJob<'_> {
    fn queue(&self) -> &str {
        self.queue
    }

    async fn add(core: &Rc<StoreCore>, jobs: &[Self]) -> Result<(), StoreError> {
        core.push(jobs).await
    }
}

impl AddedJob for Restored<'_> {
    fn queue(&self) -> &str {
        self.job.queue
    }

    async fn add(core: &Rc<StoreCore>, jobs: &[Self]) -> Result<(), StoreError> {
        core.restore(jobs).await
    }
}

/// Why jobs were not added to a shard.
enum AddError {
    /// Nothing was sent: another shard may have them.
    NotSent,
    Failed(StoreError),
}

impl ShardedCore {
    /// Adds jobs to their shards, then serves FETCHes that wait for them.
    pub(super) async fn add<T: AddedJob>(self: &Rc<Self>, jobs: &[T]) -> Result<(), StoreError> {
        self.check_open()?;
        self.make_room_for_queues(&jobs.iter().map(T::queue).collect()).await?;
        self.add_to_shards(jobs).await?;
        if self.line.any_for(jobs.iter().map(T::queue)) {
            // The jobs are stored, whatever becomes of the FETCHes.
            drop(self.serve().await);
        }
        Ok(())
    }

    async fn add_to_shards<T: AddedJob>(&self, jobs: &[T]) -> Result<(), StoreError> {
        let (mut left, mut stored) = (jobs.to_vec(), 0);
        // Each further attempt is one shard short.
        while !left.is_empty() {
            let among = self.pushable();
            let (parts, mut error) = if among.is_empty() {
                (Vec::new(), Some(self.none_usable()))
            } else {
                let parts = self.placement.split(std::mem::take(&mut left), T::queue, among);
                (parts.into_iter().collect(), None)
            };
            let adding = parts.into_iter().map(async |(place, part): (usize, Vec<T>)| {
                let outcome = self.shards[place].add(&part).await;
                (part, outcome)
            });
            for (part, outcome) in join_all(adding).await {
                match outcome {
                    Ok(()) => stored += part.len(),
                    Err(AddError::NotSent) => left.extend(part),
                    Err(AddError::Failed(failed)) => error = error.or(Some(failed)),
                }
            }
            if let Some(error) = error {
                return Err(of_batch(error, stored, jobs.len()));
            }
        }
        Ok(())
    }

    /// Returns an error if new queues would exceed `queues_max` over all shards.
    pub(super) async fn make_room_for_queues(
        &self,
        names: &BTreeSet<&str>,
    ) -> Result<(), StoreError> {
        let is_known = |name: &&str| {
            self.shards.iter().any(|it| it.core().state.borrow().known.contains(*name))
        };
        if names.iter().all(&is_known) {
            return Ok(());
        }
        drop(self.on_all(async |shard| shard.core().read_names_of_queues().await).await);
        let known = self
            .shards
            .iter()
            .flat_map(|it| it.core().state.borrow().known.iter().cloned().collect::<Vec<_>>());
        let known = known.collect::<BTreeSet<String>>().len();
        let new = names.iter().filter(|name| !is_known(name)).count();
        let max = self.limits.queues_max;
        if new > 0 && known + new > max {
            self.metrics.limit_hit(JobServerLimit::QueuesMax);
            let text = format!("too many queues: at most {max} (jobs.limits.advanced.queues_max)");
            return Err(StoreError::Limit(text));
        }
        Ok(())
    }
}

impl Shard {
    async fn add<T: AddedJob>(&self, jobs: &[T]) -> Result<(), AddError> {
        match self.core().ready().await {
            Ok(_) => {
                let added = self.timed(StoreOperation::Push, T::add(self.core(), jobs)).await;
                added.map_err(AddError::Failed)
            }
            Err(StoreError::Closed) => Err(AddError::Failed(StoreError::Closed)),
            Err(error) => {
                self.leave_out(error.to_string());
                Err(AddError::NotSent)
            }
        }
    }
}

impl StoreCore {
    async fn read_names_of_queues(self: &Rc<Self>) -> Result<(), StoreError> {
        let names = self.ready().await?.smembers(self.keys.queues()).await;
        let names: Vec<String> = names.map_err(|error| self.link.failed(&error))?;
        self.state.borrow_mut().known.extend(names);
        Ok(())
    }
}

/// Returns the error of a whole batch, of which some jobs may be stored on other shards.
fn of_batch(error: StoreError, stored: usize, jobs: usize) -> StoreError {
    match error {
        error if stored == 0 => error,
        error => StoreError::Uncertain(format!("{stored} of {jobs} jobs are stored: {error}")),
    }
}
