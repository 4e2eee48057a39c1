//! The store's background tasks, in particular the timer for work that is due ([`super::due`]).

use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinHandle;
use weir_base::clock::Timestamp;
use weir_log::Disk;

use super::due::NextCall;
use super::inner::EngineShared;
use crate::settings::Fsync;
use crate::store::StoreError;

/// Maximum sleep of the timer, because the system clock may be set.
const TIMER_SLEEP_MAX: Duration = Duration::from_secs(30);

/// Delay before the timer retries after an error, such as a full disk.
const TIMER_RETRY: Duration = Duration::from_secs(1);

impl<D: Disk> EngineShared<D> {
    pub(super) fn spawn_tasks(inner: &Rc<Self>) -> Vec<JoinHandle<()>> {
        let mut tasks = vec![
            tokio::task::spawn_local(Rc::clone(inner).run_timer()),
            tokio::task::spawn_local(Rc::clone(inner).run_promises()),
        ];
        if inner.fsync != Fsync::Always {
            tasks.push(tokio::task::spawn_local(Rc::clone(inner).run_flushes()));
        }
        if inner.fsync == Fsync::EverySecond {
            tasks.push(tokio::task::spawn_local(Rc::clone(inner).run_syncs()));
        }
        tasks
    }

    /// Processes what is due and sleeps until more is.
    async fn run_timer(self: Rc<Self>) {
        loop {
            let sleep = match self.tick().await {
                Ok(NextCall::Now) => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Ok(NextCall::At(at)) => at.since(self.clock.now()).min(TIMER_SLEEP_MAX),
                Ok(NextCall::Idle) => TIMER_SLEEP_MAX,
                Err(error) => {
                    tracing::warn!(%error, "due jobs wait");
                    TIMER_RETRY
                }
            };
            self.timer_at.set(self.clock.now() + sleep);
            // Either event leads back to reading the clock.
            let _ = tokio::time::timeout(sleep, self.timer_changed.notified()).await;
        }
    }

    /// Processes one slice of what is due. Returns when to continue.
    pub(super) async fn tick(&self) -> Result<NextCall, StoreError> {
        let start = self.clock.now();
        let ticked = match self.retrying(|engine, now| engine.tick(now)).await {
            Ok(ticked) => ticked,
            Err(error) => {
                let woken = std::mem::take(&mut self.engine.borrow_mut().woken);
                self.offer_freed();
                self.offer_numbered(woken);
                return Err(error);
            }
        };
        self.metrics.tasks().passed(self.clock.now().since(start));
        self.offer_freed();
        self.offer_numbered(ticked.queues);
        Ok(match ticked.next {
            NextCall::Now => NextCall::Now,
            // Jobs that were offered may have changed it: fetches that still wait may wait for a rate.
            NextCall::At(_) | NextCall::Idle => self.engine.borrow().next_time(),
        })
    }

    /// Wakes the timer if something is due before its next wake-up.
    pub(super) fn rearm(&self) {
        let next = self.engine.borrow().next_time();
        let earlier = match next {
            NextCall::Now => true,
            NextCall::At(at) => at < self.timer_at.get(),
            NextCall::Idle => false,
        };
        if earlier {
            self.timer_at.set(Timestamp::default());
            self.timer_changed.notify_one();
        }
    }
}
