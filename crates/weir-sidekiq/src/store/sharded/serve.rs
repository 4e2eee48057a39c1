//! Serves all FETCHes in line, a round at a time.
//!
//! A round reads what the shards have, plans each FETCH and takes its jobs. Rounds end by
//! themselves, also when the FETCH that began one is gone.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::model::{Delivery, QueueName};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{BatchSize, FetchRequest, StoreError};

use super::held::HeldJobs;
use super::plan::{self, FetchStep};
use super::readings::ShardReadings;
use super::sharded_core::ShardedCore;
use crate::store::handover::Handover;
use crate::store::store_core::StoreCore;
use crate::store::waiting::GroupedFetch;

/// A FETCH and where its jobs come from.
struct PlannedFetch {
    fetch: GroupedFetch,
    steps: Vec<FetchStep>,
}

impl ShardedCore {
    /// Reserves jobs, and waits when there are none. The FETCH is in line at once, so dropping the
    /// future loses nothing: what it was handed returns.
    pub(super) async fn fetch(
        self: &Rc<Self>,
        request: FetchRequest<'_>,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.check_open()?;
        let has_room = self.line.waiting() < self.limits.waiting_fetches_max;
        let may_wait = !request.wait.is_zero();
        let asks_alone = self.asks_alone(&request);
        let mut ticket = self.line.add(&request, may_wait && has_room, asks_alone);
        match ticket.first_jobs(|ticket| self.ask_alone(ticket), || self.serve()).await {
            Ok(Some(jobs)) => return Ok(jobs.deliver()),
            Ok(None) => {}
            // The FETCH ends like all that wait.
            Err(StoreError::Closed) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        if may_wait && !has_room {
            return Err(self.too_many_wait());
        }
        if !may_wait {
            return Ok(Vec::new());
        }
        self.work_arrived.notify_one();
        let served = tokio::time::timeout(request.wait, &mut ticket.jobs).await;
        Ok(served.ok().and_then(Result::ok).map(HeldJobs::deliver).unwrap_or_default())
    }

    /// Reports whether a FETCH asks alone first. It does not overtake one that waits.
    fn asks_alone(&self, request: &FetchRequest<'_>) -> bool {
        self.shards.iter().any(|shard| shard.core().rounds.asks_alone(request.max))
            && !self.has_rules(request.queues)
            && !self.line.any_for(request.queues.iter().map(QueueName::as_str))
    }

    /// Takes jobs for one FETCH, which goes on by itself if the future is dropped.
    fn ask_alone(
        self: &Rc<Self>,
        ticket: u64,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        let core = Rc::clone(self);
        let task = tokio::task::spawn_local(async move {
            let Some(group) = core.line.alone(ticket) else { return Ok(()) };
            let mut readings = core.read_queues(&group.queues, false).await?;
            for fetch in group.fetches {
                if let Some(planned) = core.planned(fetch, &group.queues, &mut readings) {
                    core.take(planned).await;
                }
            }
            Ok(())
        });
        async move { task.await.unwrap_or(Err(StoreError::Closed)) }
    }

    fn too_many_wait(&self) -> StoreError {
        self.metrics.limit_hit(JobServerLimit::WaitingFetchesMax);
        let max = self.limits.waiting_fetches_max;
        let setting = JobServerLimits::WAITING_FETCHES_MAX;
        StoreError::Limit(format!("too many FETCHes wait: at most {max} ({setting})"))
    }

    /// Begins a round, which goes on by itself if the future is dropped. Resolves when a round that
    /// began after this call is over.
    pub(super) fn serve(self: &Rc<Self>) -> impl Future<Output = Result<(), StoreError>> + use<> {
        let request = self.rounds.request();
        let core = Rc::clone(self);
        let task = tokio::task::spawn_local(async move { core.round_for(request).await });
        async move { task.await.unwrap_or(Err(StoreError::Closed)) }
    }

    async fn round_for(self: Rc<Self>, request: u64) -> Result<(), StoreError> {
        let _guard = self.rounds.lock.lock().await;
        if self.rounds.served.get() < request {
            let requested = self.rounds.requested.get();
            let outcome = self.round().await;
            self.rounds.served.set(requested);
            *self.rounds.outcome.borrow_mut() = outcome;
        }
        self.rounds.outcome.borrow().clone()
    }

    /// Serves FETCHes until none gets a job. One shard's error ends a round only if there is no
    /// other shard.
    async fn round(&self) -> Result<(), StoreError> {
        loop {
            let groups = self.line.groups();
            let queues: BTreeSet<QueueName> =
                groups.iter().flat_map(|group| group.queues.iter().cloned()).collect();
            if queues.is_empty() {
                return Ok(());
            }
            let queues: Vec<QueueName> = queues.into_iter().collect();
            let in_full = self.has_rules(&queues);
            let mut readings = self.read_queues(&queues, in_full).await?;
            let mut fetches: Vec<_> = groups
                .into_iter()
                .flat_map(|group| {
                    let queues = group.queues;
                    group.fetches.into_iter().map(move |fetch| (fetch, Rc::clone(&queues)))
                })
                .collect();
            fetches.sort_by_key(|(fetch, _)| fetch.ticket);
            let planned: Vec<PlannedFetch> = fetches
                .into_iter()
                .filter_map(|(fetch, queues)| self.planned(fetch, &queues, &mut readings))
                .collect();
            let served = join_all(planned.into_iter().map(|fetch| self.take(fetch))).await;
            if !served.contains(&true) {
                return Ok(());
            }
        }
    }

    fn has_rules(&self, queues: &[QueueName]) -> bool {
        self.allocation.borrow().has_rules_for(queues)
    }

    fn planned(
        &self,
        fetch: GroupedFetch,
        queues: &[QueueName],
        readings: &mut ShardReadings,
    ) -> Option<PlannedFetch> {
        let rotation = self.rotation.get();
        self.rotation.set(rotation.wrapping_add(1));
        let jobs = fetch.max.jobs;
        let steps = if self.has_rules(queues) {
            let (allocation, mut dispatcher) =
                (self.allocation.borrow(), self.dispatcher.borrow_mut());
            let now = self.clock.now();
            plan::by_rules(queues, jobs, readings, rotation, &allocation, &mut dispatcher, now)
        } else {
            plan::in_order(queues, jobs, readings, rotation)
        };
        (!steps.is_empty()).then_some(PlannedFetch { fetch, steps })
    }

    /// Takes the jobs of a FETCH and hands them over. Returns whether there were any.
    async fn take(&self, PlannedFetch { fetch, steps }: PlannedFetch) -> bool {
        let mut held = HeldJobs::new(Rc::clone(&self.work_arrived));
        for step in steps {
            let taken = held.size();
            let shard = &self.shards[step.shard];
            if fetch.max.is_reached(taken) || !shard.is_usable() {
                continue;
            }
            let max = BatchSize {
                jobs: step.jobs.min(fetch.max.jobs - taken.jobs),
                bytes: fetch.max.bytes.saturating_sub(taken.bytes),
            };
            let (wid, queues, wait) = (fetch.wid.as_ref(), &step.queues[..], Duration::ZERO);
            let request = FetchRequest { wid, queues, max, wait };
            // An error leaves the shard out; the others serve the FETCH.
            if let Ok(Some(part)) = shard.note(shard.core().fetch_held(request).await) {
                held.add(part);
            }
        }
        let has_jobs = !held.is_empty();
        if has_jobs {
            self.line.serve(fetch.ticket, held);
        }
        has_jobs
    }
}

impl StoreCore {
    /// Reserves jobs without waiting. They return to their queues unless they are delivered.
    async fn fetch_held(
        self: &Rc<Self>,
        request: FetchRequest<'_>,
    ) -> Result<Option<Handover>, StoreError> {
        self.check_open()?;
        let asks_alone = self.asks_alone(&request);
        let mut ticket = self.waiting.add(&request, false, asks_alone);
        self.first_jobs(&mut ticket).await
    }
}
