//! One of the Redis servers, and whether it can be used.
//!
//! After an error of its connection a shard is left out, so that no command waits for it. It is used
//! again after a probe that has written to it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use weir_base::clock::{Clock, Timestamp};
use weir_jobs::metrics::StoreOperation;
use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::store::StoreError;
use weir_redis::RedisEndpoint;

use crate::store::RedisStore;
use crate::store::store_core::StoreCore;

/// One of several Redis servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardOptions {
    /// Its name, which decides about the queues that it gets.
    pub name: String,
    pub endpoint: RedisEndpoint,
    /// Whether it gets no more jobs, so that it can be removed.
    pub drain: bool,
}

#[derive(Debug)]
pub(super) struct Shard {
    pub(super) name: String,
    pub(super) address: String,
    database: i64,
    pub(super) drains: bool,
    pub(super) store: RedisStore,
    clock: Clock,
    absence: RefCell<Option<ShardAbsence>>,
    /// Workers that vanished while the shard could not be used: what they had up to a place in the order of arrival
    /// returns with it.
    pub(super) owed_releases: RefCell<BTreeMap<Wid, (u64, WorkerEnd)>>,
    /// When it was last read.
    pub(super) memory_bytes: Cell<u64>,
}

/// Since when a shard can't be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardAbsence {
    pub(super) since: Timestamp,
    pub(super) reason: String,
}

impl Shard {
    pub(super) fn new(options: &ShardOptions, store: RedisStore, clock: Clock) -> Self {
        Self {
            name: options.name.clone(),
            address: options.endpoint.to_string(),
            database: options.endpoint.database,
            drains: options.drain,
            store,
            clock,
            absence: RefCell::default(),
            owed_releases: RefCell::default(),
            memory_bytes: Cell::default(),
        }
    }

    pub(super) fn core(&self) -> &Rc<StoreCore> {
        &self.store.core
    }

    pub(super) fn is_usable(&self) -> bool {
        self.absence().is_none()
    }

    /// Returns since when it can't be used, and why.
    pub(super) fn absence(&self) -> Option<ShardAbsence> {
        if self.absence.borrow().is_none()
            && let Some(reason) = self.core().link.absence_text()
        {
            self.leave_out(reason);
        }
        self.absence.borrow().clone()
    }

    /// Returns an error if it can't be used.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let Some(ShardAbsence { since, reason }) = self.absence() else { return Ok(()) };
        let seconds = self.clock.now().since(since).as_secs();
        let name = &self.name;
        Err(StoreError::Unavailable(format!(
            "shard {name} is left out since {seconds} s: {reason}"
        )))
    }

    /// Leaves the shard out if `outcome` is an error of its connection.
    pub(super) fn note<T>(&self, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
        if outcome.is_err() {
            drop(self.absence());
        }
        outcome
    }

    /// Counts and times an operation on this shard, and leaves the shard out as `note` does.
    pub(super) async fn timed<T>(
        &self,
        operation: StoreOperation,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.note(self.core().measured.timed(operation, work).await)
    }

    /// Leaves the shard out until a probe succeeds.
    pub(super) fn leave_out(&self, reason: String) {
        let since = self.clock.now();
        let mut absence = self.absence.borrow_mut();
        if absence.is_none() {
            tracing::warn!(shard = self.name, reason, "a shard of the job store is left out");
        }
        let since = absence.as_ref().map_or(since, |absence| absence.since);
        *absence = Some(ShardAbsence { since, reason });
    }

    /// Checks that a shard that is left out accepts writes again: it renews the lease of this node
    /// there, or takes it anew.
    pub(super) async fn probe(&self) {
        match self.core().renew_lease().await {
            // A full Redis serves its jobs.
            Ok(()) | Err(StoreError::Full(_)) => {}
            Err(error) => return self.leave_out(error.to_string()),
        }
        if let Err(error) = self.release_owed().await {
            return self.leave_out(error.to_string());
        }
        if self.absence.borrow_mut().take().is_some() {
            tracing::info!(shard = self.name, "a shard of the job store is used again");
        }
    }

    /// Returns what identifies its database, if it can be read.
    pub(super) async fn identity(&self) -> Option<(String, i64)> {
        let mut connection = self.core().link.connection().await.ok()?;
        let info = redis::cmd("INFO").arg("server").query_async(&mut connection).await;
        let info: String = info.ok()?;
        let line = info.lines().find_map(|line| line.strip_prefix("run_id:"))?;
        Some((line.trim().to_owned(), self.database))
    }

    /// Returns the jobs of workers that vanished meanwhile, before anybody can fetch new ones.
    async fn release_owed(&self) -> Result<(), StoreError> {
        loop {
            let first = |owed: &BTreeMap<Wid, (u64, WorkerEnd)>| {
                owed.first_key_value().map(|(wid, release)| (wid.clone(), *release))
            };
            let owed = first(&self.owed_releases.borrow());
            let Some((wid, (last, end))) = owed else { return Ok(()) };
            self.core().release(&wid, last, end).await?;
            // Unless it vanished once more.
            let mut owed = self.owed_releases.borrow_mut();
            if owed.get(&wid).is_some_and(|(of, _)| *of == last) {
                owed.remove(&wid);
            }
        }
    }
}
