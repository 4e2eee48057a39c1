//! The lease of this node: taken when it enters Redis, renewed, lost, handed over in order.
//!
//! While a lease is alive, no other node returns its owner's jobs. Redis' clock decides when it ends. A
//! node that loses its lease loses all its reservations and continues under a new epoch.

use std::rc::Rc;

use redis::{AsyncCommands as _, Pipeline};
use tokio::time::Instant;
use weir_jobs::store::StoreError;

use super::link_connection::LinkConnection as MultiplexedConnection;
use super::owner::{LeaseOwner, is_of_node};
use super::store_core::StoreCore;

/// The layout of Weir's keys that this version writes and reads.
pub(super) const LAYOUT: &str = "1";

/// The last epoch of a node, the one that was closed in order, whether that was forgotten now, and
/// the owners of all leases.
type StartsOfNode = (Option<u64>, Option<u64>, u64, Vec<String>);

impl StoreCore {
    /// Returns the connection, once this node has entered Redis.
    pub(super) async fn entered(self: &Rc<Self>) -> Result<MultiplexedConnection, StoreError> {
        let mut connection = self.link.connection().await?;
        if self.owner.borrow().is_some() {
            return Ok(connection);
        }
        let _guard = self.entering.lock().await;
        if self.owner.borrow().is_none() {
            if let Some(error) = self.layout_error(&mut connection).await? {
                return Err(StoreError::Unavailable(error));
            }
            self.enter(&mut connection).await?;
        }
        Ok(connection)
    }

    /// Returns why this version can't use Weir's keys in Redis, if a later one has changed their
    /// layout.
    pub(super) async fn layout_error(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Option<String>, StoreError> {
        let key = self.keys.layout();
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SET").arg(&key).arg(LAYOUT).arg("NX").ignore().get(&key);
        let found: Result<(String,), _> = pipeline.query_async(connection).await;
        let (found,) = found.map_err(|error| self.link.failed(&error))?;
        Ok((found != LAYOUT).then(|| layout_error(&key, &found)))
    }

    async fn enter(
        self: &Rc<Self>,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), StoreError> {
        let (epoch, is_clean) = self.next_epoch(connection).await?;
        let lease_until = Instant::now() + self.lease;
        let owner = LeaseOwner { node: self.node.clone(), epoch, lease_until };
        self.take_lease(connection, &owner, "take").await?;
        *self.owner.borrow_mut() = Some(owner);
        let outcome =
            if is_clean { self.adopt(connection).await } else { self.reap(connection).await };
        if outcome.is_err() {
            // Without its predecessor's reservations this node has not entered.
            *self.owner.borrow_mut() = None;
        }
        outcome
    }

    /// Returns this node's epoch, and whether its predecessor has left the reservations to it.
    async fn next_epoch(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(u64, bool), StoreError> {
        let (epochs, clean) = (self.keys.epochs(), self.keys.clean());
        let mut pipeline = Pipeline::new();
        pipeline.hget(&epochs, &self.node).hget(&clean, &self.node).hdel(&clean, &self.node);
        pipeline.zrange(self.keys.nodes(), 0, -1);
        let found = pipeline.query_async(connection).await;
        let (last, clean, _, owners): StartsOfNode =
            found.map_err(|error| self.link.failed(&error))?;
        if let Some(epoch) = last.filter(|_| last == clean) {
            return Ok((epoch, true));
        }
        // Whatever an earlier start of this node has reserved may return at once.
        let own: Vec<&String> = owners.iter().filter(|it| is_of_node(it, &self.node)).collect();
        let mut pipeline = Pipeline::new();
        pipeline.hincr(&epochs, &self.node, 1);
        if !own.is_empty() {
            pipeline.zrem(self.keys.nodes(), own).ignore();
        }
        let epoch: Result<(u64,), _> = pipeline.query_async(connection).await;
        let (epoch,) = epoch.map_err(|error| self.link.failed(&error))?;
        Ok((epoch, false))
    }

    async fn take_lease(
        &self,
        connection: &mut MultiplexedConnection,
        owner: &LeaseOwner,
        how: &str,
    ) -> Result<bool, StoreError> {
        let mut invocation = self.scripts.lease.key(self.keys.nodes());
        invocation.arg(owner.to_string()).arg(self.lease.as_secs_f64()).arg(how);
        let taken: Result<u8, _> = invocation.invoke_async(connection).await;
        taken.map(|taken| taken == 1).map_err(|error| self.link.failed(&error))
    }

    /// Renews the lease. If it was over, all reservations of this node are lost.
    pub(super) async fn renew_lease(self: &Rc<Self>) -> Result<(), StoreError> {
        let mut connection = self.entered().await?;
        let Some(owner) = self.owner.borrow().clone() else { return Ok(()) };
        let asked = Instant::now();
        let is_alive = self.take_lease(&mut connection, &owner, "renew").await?;
        if self.note_renewal(&owner, asked, is_alive) {
            self.forget_reservations();
            drop(self.entered().await?);
        }
        Ok(())
    }

    /// Notes the outcome of a renewal. Returns whether the lease is lost.
    fn note_renewal(&self, owner: &LeaseOwner, asked: Instant, is_alive: bool) -> bool {
        let mut present = self.owner.borrow_mut();
        // It may have been replaced meanwhile.
        let Some(present_owner) = present.as_mut().filter(|it| it.epoch == owner.epoch) else {
            return false;
        };
        present_owner.lease_until = asked + self.lease;
        if !is_alive {
            *present = None;
        }
        !is_alive
    }

    /// Returns whether the lease is alive by this node's own clock.
    pub(super) fn has_lease(&self) -> bool {
        self.owner.borrow().as_ref().is_some_and(|owner| Instant::now() < owner.lease_until)
    }

    fn forget_reservations(&self) {
        let mut state = self.state.borrow_mut();
        let lost = state.reservations.iter().count();
        state.reservations = Default::default();
        state.undelivered.clear();
        drop(state);
        tracing::warn!(
            jobs = lost,
            "the lease of this node in Redis was over: its jobs are delivered again (jobs.redis.lease)"
        );
    }

    /// Leaves the reservations to the next process of this data directory.
    pub(super) async fn leave(self: &Rc<Self>) -> Result<(), StoreError> {
        let mut connection = self.ready().await?;
        self.flush_statistics(&mut connection).await?;
        let Some(owner) = self.owner.borrow().clone() else { return Ok(()) };
        self.take_lease(&mut connection, &owner, "renew").await?;
        let left: Result<(), _> =
            connection.hset(self.keys.clean(), &owner.node, owner.epoch).await;
        left.map_err(|error| self.link.failed(&error))
    }
}

/// Returns the error of a layout that this version does not know.
pub(super) fn layout_error(key: &str, found: &str) -> String {
    format!(
        "{key} in Redis is {found:?}, and this version of Weir knows layout {LAYOUT} only: upgrade \
         this node, or give it another jobs.redis.prefix"
    )
}
