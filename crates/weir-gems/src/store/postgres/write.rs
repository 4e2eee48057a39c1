//! Write transactions: serialized, and always run to completion.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::Transaction;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep, timeout_at};

use super::Inner;
use super::failure::{is_lost, sentence};
use super::metrics::{Limit, Outcome};
use super::pool::Lease;
use super::settings::for_server;
use crate::store::StoreError;

/// Interval at which the outcome of an uncertain commit is queried.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Kinds of serialized writes. No task takes both locks, so there are no deadlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Gems and their data.
    Gems,
    /// Received webhooks. They are acknowledged once they are on disk, so they must not wait for an
    /// import or for mirrored gems.
    Hooks,
}

/// Tokio mutexes, each held while a write waits for Postgres.
#[derive(Debug, Default)]
pub(super) struct Turns {
    gems: Mutex<()>,
    hooks: Mutex<()>,
}

impl Turn {
    /// Returns the first number of the advisory lock: "wei", followed by a byte for the kind. The
    /// second number is the schema.
    const fn lock(self) -> i32 {
        match self {
            Self::Gems => 0x7765_6901,
            Self::Hooks => 0x7765_6902,
        }
    }
}

impl Turns {
    async fn take(&self, turn: Turn) -> MutexGuard<'_, ()> {
        match turn {
            Turn::Gems => self.gems.lock().await,
            Turn::Hooks => self.hooks.lock().await,
        }
    }
}

/// The work of a transaction, boxed to one type so that the code around it is compiled once.
type Work = Box<dyn for<'a> FnOnce(&'a Transaction<'a>) -> BoxFuture<'a, Worked> + Send>;

/// The result of the work, and whether to commit it.
struct Worked {
    result: Box<dyn Any + Send>,
    is_done: bool,
}

impl Inner {
    /// Runs `work` in one transaction. It is on disk when this returns. The transaction runs to
    /// completion even if this future is dropped.
    pub(super) async fn write<T, E, W>(self: &Arc<Self>, limit: Limit, work: W) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        W: for<'a> FnOnce(&'a Transaction<'a>) -> BoxFuture<'a, Result<T, E>> + Send + 'static,
    {
        self.write_in_turn(Turn::Gems, limit, work).await
    }

    /// Like [`Self::write`], for the inbox of webhooks only.
    pub(super) async fn write_hooks<T, W>(self: &Arc<Self>, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'a> FnOnce(&'a Transaction<'a>) -> BoxFuture<'a, Result<T, StoreError>>
            + Send
            + 'static,
    {
        self.write_in_turn(Turn::Hooks, Limit::Write, work).await
    }

    async fn write_in_turn<T, E, W>(
        self: &Arc<Self>,
        turn: Turn,
        limit: Limit,
        work: W,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        W: for<'a> FnOnce(&'a Transaction<'a>) -> BoxFuture<'a, Result<T, E>> + Send + 'static,
    {
        let work: Work = Box::new(move |transaction| {
            Box::pin(async move {
                let result = work(transaction).await;
                let is_done = result.is_ok();
                Worked { result: Box::new(result), is_done }
            })
        });
        let result = self.spawn_write(turn, limit, work).await?;
        *result.downcast::<Result<T, E>>().expect("the work's own result")
    }

    async fn spawn_write(
        self: &Arc<Self>,
        turn: Turn,
        limit: Limit,
        work: Work,
    ) -> Result<Box<dyn Any + Send>, StoreError> {
        let inner = Arc::clone(self);
        let done = self.io.spawn(async move { inner.write_here(turn, limit, work).await });
        done.await.unwrap_or_else(|error| Err(StoreError::Abandoned(error.to_string())))
    }

    async fn write_here(
        self: Arc<Self>,
        turn: Turn,
        limit: Limit,
        work: Work,
    ) -> Result<Box<dyn Any + Send>, StoreError> {
        let time = self.time(limit);
        let deadline = Instant::now() + time;
        let Ok(_turn) = timeout_at(deadline, self.turns.take(turn)).await else {
            self.pool.metrics.limit_hit(limit);
            return Err(StoreError::Busy { limit: limit.setting() });
        };
        let mut lease = self.lease().await?;
        let is_committing = AtomicBool::new(false);
        let transaction = transact(&mut lease, turn, time, &is_committing, work);
        let done = timeout_at(deadline, transaction).await;
        if done.is_err() && is_committing.load(Ordering::Relaxed) {
            lease.close();
            self.pool.metrics.limit_hit(limit);
            return Err(StoreError::Unanswered(format!("no answer within {}", limit.setting())));
        }
        self.pool.settle(lease, limit, done)
    }

    fn time(&self, limit: Limit) -> Duration {
        match limit {
            Limit::Maintenance => self.pool.limits.maintenance_timeout,
            _ => self.pool.limits.write_timeout,
        }
    }

    /// Determines the outcome of a change whose commit got no reply. Checks `is_done` while holding
    /// the writers' lock, which the uncertain transaction held as long as it could still commit.
    pub(super) async fn what_became<W>(
        self: &Arc<Self>,
        lost: String,
        is_done: W,
    ) -> Result<(), StoreError>
    where
        W: for<'a> Fn(&'a Transaction<'a>) -> BoxFuture<'a, Result<bool, StoreError>>
            + Clone
            + Send
            + 'static,
    {
        let metrics = &self.pool.metrics;
        let deadline = Instant::now() + self.pool.limits.write_timeout;
        loop {
            match self.write(Limit::Write, is_done.clone()).await {
                Ok(true) => {
                    metrics.unanswered(Outcome::Done);
                    return Ok(());
                }
                Ok(false) => {
                    metrics.unanswered(Outcome::NotDone);
                    return Err(StoreError::Unreachable(format!("{lost}; nothing was changed")));
                }
                Err(error) if Instant::now() >= deadline => {
                    metrics.unanswered(Outcome::Unknown);
                    return Err(StoreError::Unanswered(format!("{lost}; then: {error}")));
                }
                Err(_) => sleep(ASK_AGAIN).await,
            }
        }
    }
}

async fn transact(
    lease: &mut Lease,
    turn: Turn,
    time: Duration,
    is_committing: &AtomicBool,
    work: Work,
) -> Result<Box<dyn Any + Send>, StoreError> {
    let transaction = lease.transaction().await?;
    let (time, lock) = (for_server(time), turn.lock());
    // Each statement after the lock sees everything that was committed before it started.
    let begin = format!(
        "SET LOCAL statement_timeout = {time}; SET LOCAL lock_timeout = {time};
         SET LOCAL idle_in_transaction_session_timeout = {time};
         SELECT pg_advisory_xact_lock({lock}, hashtext(current_schema()))"
    );
    transaction.batch_execute(&begin).await?;
    let Worked { result, is_done } = work(&transaction).await;
    if !is_done {
        return Ok(result);
    }
    is_committing.store(true, Ordering::Relaxed);
    match transaction.commit().await {
        Ok(()) => Ok(result),
        Err(error) if is_lost(&error) => Err(StoreError::Unanswered(sentence(&error))),
        Err(error) => Err(error.into()),
    }
}
