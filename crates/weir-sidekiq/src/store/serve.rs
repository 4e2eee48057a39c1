//! Serves all waiting FETCHes, a round at a time.

use std::rc::Rc;

use futures_util::future::join_all;
use weir_jobs::metrics::{JobServerLimit, StoreOperation};
use weir_jobs::model::{Delivery, QueueName};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{FetchRequest, StoreError};

use super::handover::Handover;
use super::store_core::StoreCore;
use super::waiting::FetchTicket;

impl StoreCore {
    /// Reserves jobs, and waits when there are none. The FETCH is registered at once, so
    /// dropping the future loses nothing: what it was handed returns.
    pub(super) async fn fetch(
        self: &Rc<Self>,
        request: FetchRequest<'_>,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.check_open()?;
        let has_room = self.waiting.waiting() < self.limits.waiting_fetches_max;
        let may_wait = !request.wait.is_zero();
        let asks_alone = self.asks_alone(&request);
        let mut ticket = self.waiting.add(&request, may_wait && has_room, asks_alone);
        match self.first_jobs(&mut ticket).await {
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
        self.wait_began.notify_one();
        let served = tokio::time::timeout(request.wait, &mut ticket.jobs).await;
        Ok(served.ok().and_then(Result::ok).map(|jobs| jobs.deliver()).unwrap_or_default())
    }

    /// Returns the first jobs of a FETCH. `None`: there are none now.
    pub(super) async fn first_jobs(
        self: &Rc<Self>,
        ticket: &mut FetchTicket,
    ) -> Result<Option<Handover>, StoreError> {
        let jobs = ticket.first_jobs(|ticket| self.ask_alone(ticket), || self.serve());
        self.measured.timed(StoreOperation::Fetch, jobs).await
    }

    /// Reports whether a FETCH asks alone first. It does not overtake one that waits.
    pub(super) fn asks_alone(&self, request: &FetchRequest<'_>) -> bool {
        self.rounds.asks_alone(request.max)
            && !self.is_split()
            && !self.has_rules(request.queues)
            && !self.waiting.any_for(request.queues.iter().map(QueueName::as_str))
    }

    /// Reserves jobs for one FETCH, which goes on by itself if the future is dropped.
    fn ask_alone(
        self: &Rc<Self>,
        ticket: u64,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        let core = Rc::clone(self);
        let task = tokio::task::spawn_local(async move {
            let connection = core.ready().await?;
            let Some(group) = core.waiting.alone(ticket) else { return Ok(()) };
            core.reserve(&group, connection).await.map(drop)
        });
        async move { task.await.unwrap_or(Err(StoreError::Closed)) }
    }

    fn too_many_wait(&self) -> StoreError {
        self.metrics.limit_hit(JobServerLimit::WaitingFetchesMax);
        let max = self.limits.waiting_fetches_max;
        let setting = JobServerLimits::WAITING_FETCHES_MAX;
        StoreError::Limit(format!("too many FETCHes wait: at most {max} ({setting})"))
    }

    /// Lets the store's task serve FETCHes that wait.
    pub(super) fn wake_waiting_fetches(&self) {
        if !self.waiting.is_empty() {
            self.work_arrived.notify_one();
        }
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
            let mut outcome = self.round().await;
            if outcome.is_err() && !self.has_lease() && self.renew_lease().await.is_ok() {
                // The lease was over: once more under the renewed or a new one.
                outcome = self.round().await;
            }
            self.rounds.served.set(requested);
            *self.rounds.outcome.borrow_mut() = outcome;
        }
        self.rounds.outcome.borrow().clone()
    }

    async fn round(self: &Rc<Self>) -> Result<(), StoreError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let connection = self.ready().await?;
        loop {
            let groups = self.waiting.groups();
            if groups.is_empty() {
                return Ok(());
            }
            let reserved = if self.is_split() {
                self.reserve_in_turn(&groups, &connection).await
            } else {
                let reserving = groups.iter().map(|group| self.reserve(group, connection.clone()));
                join_all(reserving).await
            };
            let mut is_over = true;
            for reserved in reserved {
                is_over &= !reserved?.may_have_more;
            }
            if is_over {
                return Ok(());
            }
        }
    }
}
