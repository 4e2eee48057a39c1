//! The ends of reservations, each on the shard that the job came from.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::join_all;
use weir_base::clock::Timestamp;
use weir_jobs::metrics::StoreOperation;
use weir_jobs::model::{FailureReport, Wid, WorkerEnd};
use weir_jobs::store::{FailOutcome, ReservationMark, Store as _, StoreError};

use super::shard::Shard;
use super::sharded_core::ShardedCore;

/// Indices of jids by the shard that has reserved or returned the job, and those of other jids.
type JidsByShard = (BTreeMap<usize, Vec<usize>>, Vec<usize>);

impl ShardedCore {
    /// Ends the reservations of `jids` that `reporter` has. Returns the indices of unknown ones.
    pub(super) async fn ack(
        self: &Rc<Self>,
        reporter: Option<&Wid>,
        jids: &[&str],
    ) -> Result<Vec<usize>, StoreError> {
        self.check_open()?;
        let (by_shard, mut unknown) = self.by_shard(reporter, jids);
        let mut failed = None;
        let acked = by_shard.into_iter().map(async |(shard, places): (usize, Vec<usize>)| {
            self.shards[shard].ack_some(reporter, jids, &places).await
        });
        for outcome in join_all(acked).await {
            match outcome {
                Ok(left) => unknown.extend(left),
                Err(error) => failed = Some(error),
            }
        }
        unknown.sort_unstable();
        // Another node may have reserved them.
        for (_, shard) in self.usable() {
            if !unknown.is_empty() {
                unknown = shard.ack_some(reporter, jids, &unknown).await?;
            }
        }
        self.wake_waiting_fetches();
        failed.map_or(Ok(unknown), Err)
    }

    /// Returns who knows which jid. A jid that is given twice ends two reservations, which two
    /// shards may have.
    fn by_shard(&self, reporter: Option<&Wid>, jids: &[&str]) -> JidsByShard {
        let mut by_shard: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut taken: BTreeMap<(usize, &str), usize> = BTreeMap::new();
        let mut unknown = Vec::new();
        for (place, jid) in jids.iter().enumerate() {
            let with_more = self.shards.iter().enumerate().find(|(shard, it)| {
                it.reserved(jid, reporter) > taken.get(&(*shard, *jid)).copied().unwrap_or_default()
            });
            let has_returned = || self.shards.iter().position(|it| it.has_returned(jid));
            match with_more.map(|(shard, _)| shard).or_else(has_returned) {
                Some(shard) => {
                    *taken.entry((shard, jid)).or_default() += 1;
                    by_shard.entry(shard).or_default().push(place);
                }
                None => unknown.push(place),
            }
        }
        (by_shard, unknown)
    }

    /// Ends the reservations of failed jobs that `reporter` has. Returns the outcomes in the order of
    /// `reports`.
    pub(super) async fn fail_all(
        self: &Rc<Self>,
        reporter: Option<&Wid>,
        reports: Vec<FailureReport>,
    ) -> Vec<Result<FailOutcome, StoreError>> {
        let jids: Vec<&str> = reports.iter().map(|report| &*report.jid).collect();
        let (by_shard, unknown) = self.by_shard(reporter, &jids);
        let mut outcomes: Vec<Option<Result<FailOutcome, StoreError>>> =
            reports.iter().map(|_| None).collect();
        let failing = by_shard.into_iter().map(async |(shard, places): (usize, Vec<usize>)| {
            let some = places.iter().map(|place| reports[*place].clone()).collect();
            (self.shards[shard].fail_some(reporter, some).await, places)
        });
        for (failed, places) in join_all(failing).await {
            for (place, outcome) in places.into_iter().zip(failed) {
                outcomes[place] = Some(outcome);
            }
        }
        for place in unknown {
            outcomes[place] = Some(self.fail_unknown(reporter, &reports[place]).await);
        }
        self.wake_waiting_fetches();
        outcomes.into_iter().map(|outcome| outcome.unwrap_or(Err(StoreError::Closed))).collect()
    }

    /// Fails a job that another node may have reserved.
    async fn fail_unknown(
        &self,
        reporter: Option<&Wid>,
        report: &FailureReport,
    ) -> Result<FailOutcome, StoreError> {
        self.check_open()?;
        let not_found = Err(StoreError::NotFound(report.jid.clone()));
        for (_, shard) in self.usable() {
            let outcome = shard.fail_some(reporter, vec![report.clone()]).await.pop();
            match outcome {
                Some(Err(StoreError::NotFound(_))) | None => {}
                Some(outcome) => return outcome,
            }
        }
        not_found
    }

    /// Releases the reservations of a worker that is gone. Those on a shard that can't be used
    /// follow when it can. Returns the number of jobs released now.
    pub(super) async fn release(
        self: &Rc<Self>,
        wid: &Wid,
        mark: &ReservationMark,
        end: WorkerEnd,
    ) -> Result<usize, StoreError> {
        self.check_open()?;
        let shards = self.shards.iter().enumerate();
        let with_jobs = shards.filter(|(_, shard)| shard.store.busy(wid) > 0);
        let releasing = with_jobs.map(async |(place, shard): (usize, &Shard)| {
            let last = mark.last_in(place);
            let outcome = match shard.check() {
                Ok(()) => {
                    let releasing = shard.core().release(wid, last, end);
                    shard.timed(StoreOperation::Release, releasing).await
                }
                Err(error) => Err(error),
            };
            if outcome.is_err() && !shard.is_usable() {
                let mut owed = shard.owed_releases.borrow_mut();
                let end = end.after(owed.get(wid).map(|(_, earlier)| *earlier));
                owed.insert(wid.clone(), (last, end));
                return Ok(0);
            }
            outcome
        });
        let released = join_all(releasing).await.into_iter().sum();
        self.wake_waiting_fetches();
        released
    }

    /// Extends a reservation; never shortens it.
    pub(super) async fn extend(&self, jid: &str, until: Timestamp) -> Result<bool, StoreError> {
        self.check_open()?;
        match self.shards.iter().find(|shard| shard.reserved(jid, None) > 0) {
            Some(shard) => shard.store.extend(jid, until).await,
            None => Ok(false),
        }
    }
}

impl Shard {
    /// Returns how many jobs with this jid `reporter` has reserved on the shard through this node.
    pub(super) fn reserved(&self, jid: &str, reporter: Option<&Wid>) -> usize {
        self.core().state.borrow().reservations.reported(jid, reporter).count()
    }

    /// Returns whether this node has put the job back into its queue.
    fn has_returned(&self, jid: &str) -> bool {
        self.core().state.borrow().returned.queue_of(jid).is_some()
    }

    /// Acknowledges the jids at `places`. Returns the places of unknown ones.
    async fn ack_some(
        &self,
        reporter: Option<&Wid>,
        jids: &[&str],
        places: &[usize],
    ) -> Result<Vec<usize>, StoreError> {
        self.check()?;
        let some: Vec<&str> = places.iter().map(|place| jids[*place]).collect();
        let unknown = self.timed(StoreOperation::Ack, self.core().ack(reporter, &some)).await?;
        Ok(unknown.into_iter().map(|place| places[place]).collect())
    }

    async fn fail_some(
        &self,
        reporter: Option<&Wid>,
        reports: Vec<FailureReport>,
    ) -> Vec<Result<FailOutcome, StoreError>> {
        if let Err(error) = self.check() {
            return reports.iter().map(|_| Err(error.clone())).collect();
        }
        let failing = self.core().fail_all(reporter, reports);
        let outcomes = self.core().measured.timed(StoreOperation::Fail, failing).await;
        outcomes.into_iter().map(|outcome| self.note(outcome)).collect()
    }
}
