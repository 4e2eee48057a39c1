//! What all parts of the sharded store share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::join_all;
use tokio::sync::Notify;
use weir_base::clock::Clock;
use weir_jobs::allocation::Allocation;
use weir_jobs::dispatch::Dispatcher;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::StoreError;

use super::held::HeldJobs;
use super::placement::{Placement, ShardSet};
use super::shard::Shard;
use crate::store::rounds::Rounds;
use crate::store::waiting::WaitingFetches;

/// The sharded store, without its tasks.
#[derive(Debug)]
pub(super) struct ShardedCore {
    pub(super) shards: Vec<Shard>,
    pub(super) placement: Placement,
    pub(super) limits: JobServerLimits,
    pub(super) metrics: JobsMetrics,
    pub(super) clock: Clock,
    /// The FETCHes of all shards.
    pub(super) line: Rc<WaitingFetches<HeldJobs>>,
    pub(super) rounds: Rounds,
    /// Wakes the task that serves FETCHes.
    pub(super) work_arrived: Rc<Notify>,
    pub(super) allocation: RefCell<Allocation>,
    pub(super) dispatcher: RefCell<Dispatcher>,
    /// The shard that is asked first, one further with each FETCH.
    pub(super) rotation: Cell<usize>,
    pub(super) closed: Cell<bool>,
}

/// The outcomes of one operation on all shards.
#[derive(Debug)]
pub(super) struct ShardOutcomes<T> {
    pub(super) done: Vec<(usize, T)>,
    pub(super) missing: Vec<StoreError>,
}

impl ShardedCore {
    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.get() { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// Returns the shards that can be used now.
    pub(super) fn usable(&self) -> impl Iterator<Item = (usize, &Shard)> {
        self.shards.iter().enumerate().filter(|(_, shard)| shard.is_usable())
    }

    /// Returns the shards that get pushed jobs now.
    pub(super) fn pushable(&self) -> ShardSet {
        self.usable().filter(|(_, shard)| !shard.drains).map(|(place, _)| place).collect()
    }

    /// Runs `operation` on all shards at once, except those that can't be used.
    pub(super) async fn on_all<T>(
        &self,
        operation: impl AsyncFn(&Shard) -> Result<T, StoreError>,
    ) -> ShardOutcomes<T> {
        let operation = &operation;
        let on_shard = |shard| async move {
            Shard::check(shard)?;
            let outcome = operation(shard).await;
            shard.note(outcome)
        };
        let outcomes = join_all(self.shards.iter().map(on_shard)).await;
        let mut all = ShardOutcomes { done: Vec::new(), missing: Vec::new() };
        for (place, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(done) => all.done.push((place, done)),
                Err(error) => all.missing.push(error),
            }
        }
        all
    }

    /// Returns the error of an operation that no shard can do now.
    pub(super) fn none_usable(&self) -> StoreError {
        let reasons = self.shards.iter().filter_map(|shard| shard.check().err());
        let reasons: Vec<String> = reasons.map(|error| error.to_string()).collect();
        let why =
            if reasons.is_empty() { "all of them drain".to_owned() } else { reasons.join("; ") };
        StoreError::Unavailable(format!("no shard of the job store can be used: {why}"))
    }

    /// Does everything that is due, then serves FETCHes that wait.
    pub(super) async fn run_due(self: &Rc<Self>) -> Result<(), StoreError> {
        self.on_all(async |shard| shard.core().run_due().await).await.any_done()?;
        if self.line.is_empty() { Ok(()) } else { self.serve().await }
    }

    /// Lets the store's task serve FETCHes that wait.
    pub(super) fn wake_waiting_fetches(&self) {
        if !self.line.is_empty() {
            self.work_arrived.notify_one();
        }
    }
}

impl<T> ShardOutcomes<T> {
    /// Returns an error only if no shard has done it.
    pub(super) fn any_done(self) -> Result<Vec<(usize, T)>, StoreError> {
        match self.missing.into_iter().next() {
            Some(error) if self.done.is_empty() => Err(error),
            _ => Ok(self.done),
        }
    }

    /// Returns what the shards left out mean for an answer, or `None` if all have answered.
    pub(super) fn missing_text(&self) -> Option<String> {
        let texts: Vec<String> = self.missing.iter().map(ToString::to_string).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

impl ShardOutcomes<u64> {
    /// Returns whether the shards that were reached have done all there was to do.
    pub(super) fn has_done(&self, jobs: usize) -> bool {
        self.done.iter().map(|(_, done)| done).sum::<u64>() == jobs as u64
    }

    /// Returns the sum. If a shard is missing, returns an error that says what was done.
    pub(super) fn sum(self) -> Result<u64, StoreError> {
        let sum = self.done.iter().map(|(_, jobs)| jobs).sum();
        if self.missing.contains(&StoreError::Closed) {
            return Err(StoreError::Closed);
        }
        match self.missing_text() {
            None => Ok(sum),
            Some(text) if self.done.is_empty() => Err(StoreError::Unavailable(text)),
            Some(text) => Err(StoreError::Unavailable(format!(
                "done on the other shards ({sum} jobs), try again later: {text}"
            ))),
        }
    }
}
