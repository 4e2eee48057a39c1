//! The connection pool, with its time limits.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Manager, ManagerConfig, Object, Pool as Connections, RecyclingMethod, Runtime,
    Timeouts, Transaction,
};
use tokio::time::error::Elapsed;
use tokio_postgres::{Error, IsolationLevel};
use weir_base::clock::Clock;

use super::connect::{Connector, config};
use super::failure;
use super::metrics::{Counted, Limit, PostgresMetrics};
use super::settings::{PostgresLimits, PostgresSettings, for_server};
use crate::store::StoreError;

#[derive(Debug)]
pub(super) struct Pool {
    connections: Connections,
    pub(super) limits: PostgresLimits,
    clock: Clock,
    pub(super) metrics: PostgresMetrics,
}

/// A connection, which returns to the pool when dropped.
#[derive(Debug)]
pub(super) struct Lease {
    object: Object,
    _in_use: Counted,
}

impl Pool {
    pub(super) fn new(
        settings: &PostgresSettings,
        connector: Connector,
        clock: Clock,
        metrics: PostgresMetrics,
    ) -> Result<Self, StoreError> {
        let limits = settings.limits.within_reason();
        // Closed connections are detected without a query; unresponsive ones by the timeouts.
        let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(config(settings, &limits), connector, manager_config);
        let timeouts = Timeouts {
            wait: Some(limits.acquire_timeout),
            create: Some(limits.connect_timeout),
            recycle: Some(limits.connect_timeout),
        };
        let connections = Connections::builder(manager)
            .max_size(limits.connections_max)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| StoreError::Engine(Box::new(error)))?;
        Ok(Self { connections, limits, clock, metrics })
    }

    /// Returns a connection, or an error once a limit is reached.
    pub(super) async fn lease(&self) -> Result<Lease, StoreError> {
        if self.connections.status().waiting >= self.limits.waiting_max {
            self.metrics.limit_hit(Limit::Waiting);
            return Err(StoreError::Busy { limit: Limit::Waiting.setting() });
        }
        let start = self.clock.now();
        let waiting = Counted::by(&self.metrics.waiting);
        let object = self.connections.get().await.map_err(|error| self.refused(error))?;
        drop(waiting);
        self.metrics.acquired(self.clock.now().since(start));
        Ok(Lease { object, _in_use: Counted::by(&self.metrics.in_use) })
    }

    fn refused(&self, error: deadpool_postgres::PoolError) -> StoreError {
        use deadpool_postgres::{PoolError, TimeoutType};
        match &error {
            PoolError::Timeout(TimeoutType::Wait) => self.metrics.limit_hit(Limit::Acquire),
            PoolError::Timeout(_) => self.metrics.limit_hit(Limit::Connect),
            _ => {}
        }
        failure::of_pool(error)
    }

    /// Returns a connection to the pool after `result`. After a timeout it is closed instead,
    /// because the late reply could be mistaken for that of the next query.
    pub(super) fn settle<T, E: From<StoreError>>(
        &self,
        lease: Lease,
        limit: Limit,
        result: Result<Result<T, E>, Elapsed>,
    ) -> Result<T, E> {
        match result {
            Ok(result) => result,
            Err(Elapsed { .. }) => {
                lease.close();
                self.metrics.limit_hit(limit);
                Err(StoreError::Late { limit: limit.setting() }.into())
            }
        }
    }
}

impl Lease {
    /// Begins a transaction with a snapshot, whose statements may each take up to `time`.
    pub(super) async fn snapshot(&mut self, time: Duration) -> Result<Transaction<'_>, Error> {
        let snapshot = self.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
        let snapshot = snapshot.read_only(true).start().await?;
        let time = for_server(time);
        snapshot.batch_execute(&format!("SET LOCAL statement_timeout = {time}")).await?;
        Ok(snapshot)
    }

    /// Closes the connection, whose state is unknown.
    pub(super) fn close(self) {
        drop(Object::take(self.object));
    }
}

impl Lease {
    /// Returns the client, also for queries within a transaction.
    pub(super) fn client(&self) -> &Object {
        &self.object
    }
}

impl Deref for Lease {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.object
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        &mut self.object
    }
}
