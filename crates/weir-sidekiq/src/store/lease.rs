//! The lease of this node: taken when it registers in Redis, renewed, lost, handed over in order.
//!
//! While a lease is alive, no other node returns its owner's jobs. Redis' clock decides when it ends. A
//! node that loses its lease loses all its reservations and continues under a new epoch.

use std::rc::Rc;

use redis::{AsyncCommands as _, Pipeline};
use tokio::time::Instant;
use weir_jobs::store::StoreError;

use super::link_connection::LinkConnection;
use super::owner::LeaseOwner;
use super::store_core::StoreCore;

/// The layout of Weir's keys that this version writes and reads.
const LAYOUT: &str = "1";
/// The same with keys for leases and counts on the slot of each list and set (`split`), which versions
/// without it reject.
const SPLIT_LAYOUT: &str = "1 slots";

impl StoreCore {
    /// Returns the connection, once this node is registered in Redis.
    pub(super) async fn registered(self: &Rc<Self>) -> Result<LinkConnection, StoreError> {
        let mut connection = self.link.connection().await?;
        if self.owner.borrow().is_some() {
            return Ok(connection);
        }
        let _guard = self.registering.lock().await;
        if self.owner.borrow().is_none() {
            if let Some(error) = self.layout_error(&mut connection).await? {
                return Err(StoreError::Unavailable(error));
            }
            self.register(&mut connection).await?;
        }
        Ok(connection)
    }

    /// Returns why this version can't use Weir's keys in Redis, if a later one has changed their
    /// layout.
    pub(super) async fn layout_error(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<Option<String>, StoreError> {
        let key = self.keys.layout();
        let own = if self.link.is_split() { SPLIT_LAYOUT } else { LAYOUT };
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SET").arg(&key).arg(own).arg("NX").ignore().get(&key);
        let found: Result<(String,), _> = pipeline.query_async(connection).await;
        let (found,) = found.map_err(|error| self.link.failed(&error))?;
        if found == SPLIT_LAYOUT {
            self.link.split();
        } else if found == LAYOUT && own == SPLIT_LAYOUT {
            // It was a server without slots before.
            let written = connection.set(&key, SPLIT_LAYOUT).await;
            let () = written.map_err(|error| self.link.failed(&error))?;
        }
        Ok(layout_error(&key, &found))
    }

    async fn register(self: &Rc<Self>, connection: &mut LinkConnection) -> Result<(), StoreError> {
        let (epoch, is_clean) = self.next_epoch(connection).await?;
        let lease_until = Instant::now() + self.lease;
        let owner = LeaseOwner { node: self.node.clone(), epoch, lease_until };
        self.take_lease(connection, &owner, "take").await?;
        self.state.borrow_mut().leases_beside.clear();
        self.publish_confirmation(connection).await?;
        *self.owner.borrow_mut() = Some(owner);
        let outcome = match is_clean {
            true => self.adopt(connection).await,
            // A node of a cluster that is away has nothing that this node must know now.
            false => self.reap(connection).await.or_else(|error| self.reap_later(error)),
        };
        if outcome.is_err() {
            // Without its predecessor's reservations this node is not registered.
            *self.owner.borrow_mut() = None;
        }
        outcome
    }

    /// Returns this node's epoch, and whether its predecessor has left the reservations to it.
    async fn next_epoch(&self, connection: &mut LinkConnection) -> Result<(u64, bool), StoreError> {
        self.carry_epoch(connection).await?;
        let mut invocation = self.scripts.epoch.key(self.epochs_key());
        invocation.key(self.clean_key()).key(self.nodes_key()).arg(&self.node);
        let begun: Result<(u64, u8), _> = invocation.invoke_async(connection).await;
        let (epoch, is_clean) = begun.map_err(|error| self.link.failed(&error))?;
        Ok((epoch, is_clean == 1))
    }

    pub(super) async fn take_lease(
        &self,
        connection: &mut LinkConnection,
        owner: &LeaseOwner,
        how: &str,
    ) -> Result<bool, StoreError> {
        self.take_lease_at(connection, self.nodes_key(), owner, how).await
    }

    /// Takes or renews a lease in the sorted set `key`.
    pub(super) async fn take_lease_at(
        &self,
        connection: &mut LinkConnection,
        key: String,
        owner: &LeaseOwner,
        how: &str,
    ) -> Result<bool, StoreError> {
        let mut invocation = self.scripts.lease.key(key);
        invocation.arg(owner.to_string()).arg(self.lease.as_secs_f64()).arg(how);
        let taken: Result<u8, _> = invocation.invoke_async(connection).await;
        taken.map(|taken| taken == 1).map_err(|error| self.link.failed(&error))
    }

    /// Renews the lease. If it was over, all reservations of this node are lost.
    pub(super) async fn renew_lease(self: &Rc<Self>) -> Result<(), StoreError> {
        let mut connection = self.registered().await?;
        let Some(owner) = self.owner.borrow().clone() else { return Ok(()) };
        let asked = Instant::now();
        let is_alive = self.take_lease(&mut connection, &owner, "renew").await?;
        if self.note_renewal(&owner, asked, is_alive) {
            self.forget_reservations();
            drop(self.registered().await?);
        }
        self.renew_leases_beside(&mut connection).await
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

    /// Returns this node's fencing token, which the scripts check: its owner.
    pub(super) fn token(&self) -> Result<String, StoreError> {
        self.owner.borrow().as_ref().map(ToString::to_string).ok_or_else(lease_is_over)
    }

    /// Drops all reservations, because Redis has rejected `token`. Returns the error for clients. The
    /// next operation takes a lease under a new epoch.
    pub(super) fn lose_lease(&self, token: &str) -> StoreError {
        // Another operation may have noticed it before.
        if self.token().is_ok_and(|present| present == token) {
            *self.owner.borrow_mut() = None;
            self.forget_reservations();
        }
        lease_is_over()
    }

    fn forget_reservations(&self) {
        let state = &mut *self.state.borrow_mut();
        let reservations = state.reservations.take_all();
        let mut jobs = 0;
        for (_, lost) in reservations.iter() {
            state.lost.insert(&lost.jid, lost.queue.clone());
            jobs += 1;
        }
        state.undelivered.clear();
        state.leases_beside.clear();
        tracing::warn!(
            jobs,
            "the lease of this node in Redis was over: its jobs are delivered again (jobs.redis.lease)"
        );
    }

    /// Leaves the reservations to the next process of this data directory.
    pub(super) async fn deregister(self: &Rc<Self>) -> Result<(), StoreError> {
        let mut connection = self.ready().await?;
        self.flush_statistics(&mut connection).await?;
        self.flush_class_metrics(&mut connection).await?;
        drop(self.send_tracks(&mut connection).await);
        self.report_stop(&mut connection).await?;
        let Some(owner) = self.owner.borrow().clone() else { return Ok(()) };
        self.take_lease(&mut connection, &owner, "renew").await?;
        let left: Result<(), _> = connection.hset(self.clean_key(), &owner.node, owner.epoch).await;
        left.map_err(|error| self.link.failed(&error))?;
        // Last: of nodes that stop at once, at least one sees that the others have stopped.
        self.return_all_blocked(&mut connection).await
    }
}

pub(super) fn lease_is_over() -> StoreError {
    let text = "the lease of this node in Redis is over and is taken again (jobs.redis.lease)";
    StoreError::Unavailable(text.to_owned())
}

/// Returns the error of a layout that this version does not know.
pub(super) fn layout_error(key: &str, found: &str) -> Option<String> {
    (![LAYOUT, SPLIT_LAYOUT].contains(&found)).then(|| {
        format!(
            "{key} in Redis is {found:?}, and this version of Weir knows layout {LAYOUT} only: \
             upgrade this node, or give it another jobs.redis.prefix"
        )
    })
}
