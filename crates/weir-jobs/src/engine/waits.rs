//! Waiting for the disk: for durability, and for space for appends, with the tasks that end both
//! waits.

use std::rc::Rc;
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_log::{Disk, Lsn, SyncError};

use super::core::{Engine, EngineError};
use super::inner::EngineShared;
use crate::settings::Fsync;
use crate::store::StoreError;

/// How often `fsync = "everysec"` syncs.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

impl<D: Disk> EngineShared<D> {
    /// Waits until everything done so far is as durable as the settings demand.
    pub(super) async fn promise(&self) -> Result<(), StoreError> {
        self.rearm();
        let end = self.engine.borrow().end();
        match self.fsync {
            Fsync::Always => self.sync.borrow().request(),
            Fsync::EverySecond | Fsync::Never => self.flush_wanted.notify_one(),
        }
        self.promises.until(end).await
    }

    /// Like [`EngineShared::promise`], but waits for ACKs only if `fsync_acks` is set.
    pub(super) async fn promise_of_ack(&self) -> Result<(), StoreError> {
        if self.fsync_acks {
            return self.promise().await;
        }
        self.rearm();
        if !self.sync_is_due.replace(true) {
            self.sync.borrow().request_soon();
        }
        Ok(())
    }

    /// Waits until the sync thread has completed a round, after an append found no space.
    pub(super) async fn room(&self) -> Result<(), StoreError> {
        let over = self.round_over.notified();
        self.sync.borrow().request_room();
        over.await;
        self.check_open()
    }

    /// Runs an operation, and retries it while the sync thread is behind.
    pub(super) async fn retrying<T>(
        &self,
        mut operation: impl FnMut(&mut Engine<D>, Timestamp) -> Result<T, EngineError>,
    ) -> Result<T, StoreError> {
        self.check_open()?;
        loop {
            let result = operation(&mut self.engine.borrow_mut(), self.clock.now());
            self.note_full(&result);
            match result {
                Ok(done) => return Ok(done),
                Err(EngineError::Behind) => self.room().await?,
                Err(EngineError::Store(error)) => return Err(error),
            }
        }
    }

    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.get() { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// Resolves the waits for durability as the sync thread reports progress.
    pub(super) async fn run_promises(self: Rc<Self>) {
        let finished = self.sync.borrow().finished();
        loop {
            finished.notified().await;
            self.after_round();
        }
    }

    fn after_round(&self) {
        let (durable, problem) = {
            let sync = self.sync.borrow();
            (sync.durable(), sync.problem())
        };
        if self.fsync == Fsync::Always {
            self.promises.keep(durable);
        }
        let end = self.engine.borrow().end();
        match problem {
            Some(SyncError::Poisoned(poison)) => self.fail_promises(end, poison.to_string()),
            Some(SyncError::NoSpace) => self.promises.break_up_to(end, StoreError::DiskFull),
            Some(SyncError::Upkeep { .. }) | None => {}
        }
        self.sync_is_due.set(false);
        if durable < end && self.fsync == Fsync::Always {
            self.sync_is_due.set(true);
            self.sync.borrow().request_soon();
        }
        self.round_over.notify_waiters();
        self.offer_held_by_log();
    }

    fn fail_promises(&self, end: Lsn, reason: String) {
        self.promises.break_up_to(end, StoreError::Failed(reason));
    }

    /// Writes what was appended into the page cache, once for all requests that arrived in the
    /// meantime.
    pub(super) async fn run_flushes(self: Rc<Self>) {
        loop {
            self.flush_wanted.notified().await;
            let result = self.engine.borrow_mut().journal.log.flush();
            match result {
                Ok(written) => self.promises.keep(written),
                Err(SyncError::Poisoned(poison)) => {
                    let end = self.engine.borrow().end();
                    self.fail_promises(end, poison.to_string());
                }
                Err(SyncError::NoSpace | SyncError::Upkeep { .. }) => {
                    let end = self.engine.borrow().end();
                    self.promises.break_up_to(end, StoreError::DiskFull);
                }
            }
        }
    }

    pub(super) async fn run_syncs(self: Rc<Self>) {
        loop {
            tokio::time::sleep(SYNC_INTERVAL).await;
            if self.sync.borrow().durable() < self.engine.borrow().end() {
                self.sync.borrow().request();
            }
        }
    }
}
