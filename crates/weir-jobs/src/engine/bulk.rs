//! Actions on many jobs, in slices, so that other work continues in between.

use weir_base::clock::Timestamp;
use weir_log::Disk;

use super::arena::JobIndex;
use super::core::{Engine, EngineError};
use super::inner::EngineShared;
use crate::model::{EntryKey, JobLocation, QueueName};
use crate::store::{Action, StoreError};

/// Number of jobs that one action handles before other work continues.
const SLICE_JOBS: usize = 256;

impl<D: Disk> EngineShared<D> {
    pub(super) async fn act_on_entries(
        &self,
        place: &JobLocation,
        keys: &[EntryKey],
        action: Action,
    ) -> Result<u64, StoreError> {
        self.on_entries(place, keys, |engine, job, now| engine.act(job, action, now).map(Some))
            .await
    }

    pub(super) async fn move_entries(
        &self,
        place: &JobLocation,
        keys: &[EntryKey],
        queue: &QueueName,
        paused: bool,
    ) -> Result<u64, StoreError> {
        let act = |engine: &mut Engine<D>, job, now| {
            engine.move_to(job, queue, paused, now).map(|queue| queue.map(Some))
        };
        self.on_entries(place, keys, act).await
    }

    /// Calls `act` for the jobs that are there. It returns `None` if it did nothing, or the queue in which
    /// the job waits now, if it does. Returns the number of jobs affected.
    async fn on_entries(
        &self,
        place: &JobLocation,
        keys: &[EntryKey],
        act: impl Fn(&mut Engine<D>, JobIndex, Timestamp) -> Result<Option<Option<u16>>, EngineError>,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        for slice in keys.chunks(SLICE_JOBS) {
            let mut queues = Vec::new();
            for key in slice {
                let act = |engine: &mut Engine<D>, now| match engine.entry(place, key) {
                    Some(job) => act(engine, job, now),
                    None => Ok(None),
                };
                if let Some(queue) = self.retrying(act).await? {
                    count += 1;
                    queues.extend(queue);
                }
            }
            self.offer_numbered(queues);
            tokio::task::yield_now().await;
        }
        Ok(count)
    }

    /// Requeues or kills all jobs that are in `place` at the time of the call.
    pub(super) async fn act_on_all(
        &self,
        place: &JobLocation,
        action: Action,
    ) -> Result<u64, StoreError> {
        let Some(last) = self.engine.borrow().last_order(place) else {
            return Ok(0);
        };
        if *place == JobLocation::Set(crate::model::SetName::Dead) && action == Action::Kill {
            return Ok(0);
        }
        let mut count = 0;
        loop {
            let mut queues = Vec::new();
            for _ in 0..SLICE_JOBS {
                let act = |engine: &mut Engine<D>, now| match engine.first_up_to(place, last) {
                    Some(job) => engine.act(job, action, now).map(Some),
                    None => Ok(None),
                };
                let Some(queue) = self.retrying(act).await? else {
                    self.offer_numbered(queues);
                    return Ok(count);
                };
                count += 1;
                queues.extend(queue);
            }
            self.offer_numbered(queues);
            tokio::task::yield_now().await;
        }
    }
}
