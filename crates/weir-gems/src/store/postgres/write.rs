//! Transactions that write: one at a time, each to its end.

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

/// How soon is asked again what became of a commit.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// What is written one at a time. Nobody takes two turns, so nobody waits for who waits for him.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Gems and all about them.
    Gems,
    /// Webhooks that have come: they are answered when they are on disk, and don't wait for an
    /// import, nor for what is mirrored.
    Hooks,
}

/// tokio's: held while a write waits for Postgres.
#[derive(Debug, Default)]
pub(super) struct Turns {
    gems: Mutex<()>,
    hooks: Mutex<()>,
}

impl Turn {
    /// "weir", with the number of what is locked. Beside it the schema is in the lock.
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

/// What is done in a transaction. It has one type, so that all around it is compiled once.
type Work = Box<dyn for<'a> FnOnce(&'a Transaction<'a>) -> BoxFuture<'a, Worked> + Send>;

/// What work came to: its own `Result`, and whether that is to be committed.
struct Worked {
    result: Box<dyn Any + Send>,
    is_done: bool,
}

impl Inner {
    /// Runs `work` in one transaction, which is on disk when this returns. It goes on to its end
    /// when nobody waits for it any more.
    pub(super) async fn write<T, E, W>(self: &Arc<Self>, limit: Limit, work: W) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        W: for<'a> FnOnce(&'a Transaction<'a>) -> BoxFuture<'a, Result<T, E>> + Send + 'static,
    {
        self.write_in_turn(Turn::Gems, limit, work).await
    }

    /// The same, of the inbox of webhooks and nothing else.
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

    /// What became of a change whose commit was not answered, by looking whether it `is_done` with
    /// the lock of writers, which the transaction in doubt held as long as it could still commit.
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
    // Each statement behind the lock sees what was committed before it was given.
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
