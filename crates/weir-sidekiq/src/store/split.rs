//! Steps with the keys of one slot: what differs where keys are divided among servers (Redis Cluster,
//! or several servers behind one address). `transfer` moves jobs between slots.
//!
//! **Fencing.** A node's lease in `weir:{nodes}:leases` is the only one that decides whether its jobs return:
//! once it is over, it is over for good. A script on another slot can't read it, so a node takes a second
//! lease there, beside the list or the set, before it uses that slot for the first time, each time after
//! the first lease was renewed. The scripts check the lease beside their keys, and jobs of another node
//! return only when both are over.
//!
//! **Names of queues.** The set of queues and that of queues with reservations are on slots of their own.
//! A queue's name enters them before its jobs are reserved, and together with a push. Jobs whose queue's
//! name is missing, because a node stopped in between, are served all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures_util::StreamExt as _;
use futures_util::stream;
use redis::{AsyncCommands as _, ScriptInvocation};
use tokio::time::Instant;
use weir_jobs::model::{QueueName, SetName};
use weir_jobs::store::StoreError;

use super::lease::lease_is_over;
use super::link_connection::LinkConnection;
use super::store_core::StoreCore;

/// Leases beside lists and sets that are renewed at the same time.
const RENEWALS_AT_ONCE: usize = 50;
/// A lease beside a list that was not used for as many times of a lease is not renewed.
const UNUSED_LEASES_KEPT: u32 = 2;

impl StoreCore {
    /// Returns whether each step may use the keys of one slot only.
    pub(super) fn is_split(&self) -> bool {
        self.link.is_split()
    }

    /// Returns the key of the leases that decide whether jobs return.
    pub(super) fn nodes_key(&self) -> String {
        if self.is_split() { self.keys.of_nodes("leases") } else { self.keys.nodes() }
    }

    /// Returns the key of the epochs.
    pub(super) fn epochs_key(&self) -> String {
        if self.is_split() { self.keys.of_nodes("epochs") } else { self.keys.epochs() }
    }

    /// Returns the key of the epochs that were closed in order.
    pub(super) fn clean_key(&self) -> String {
        if self.is_split() { self.keys.of_nodes("clean") } else { self.keys.clean() }
    }

    /// Returns the key of the reports of nodes.
    pub(super) fn reports_key(&self) -> String {
        if self.is_split() { self.keys.of_nodes("reports") } else { self.keys.reports() }
    }

    /// Returns the key of the beats of workers.
    pub(super) fn beats_key(&self) -> String {
        if self.is_split() { self.keys.of_nodes("beats") } else { self.keys.beats() }
    }

    /// Continues the epochs of a Redis that was used without slots before, so that none comes twice.
    pub(super) async fn carry_epoch(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        if !self.is_split() {
            return Ok(());
        }
        let mut pipeline = redis::pipe();
        pipeline.hget(self.keys.epochs(), &self.node).hget(self.epochs_key(), &self.node);
        let found = pipeline.query_async(connection).await;
        let (before, present): (Option<u64>, Option<u64>) =
            found.map_err(|error| self.link.failed(&error))?;
        let Some(before) = before.filter(|_| present.is_none()) else { return Ok(()) };
        let carried = connection.hset(self.epochs_key(), &self.node, before).await;
        carried.map_err(|error| self.link.failed(&error))
    }

    /// Returns the key of the leases that scripts on the slot of `key` check.
    pub(super) fn lease_key(&self, key: &str) -> String {
        if self.is_split() { self.keys.lease_beside(key) } else { self.nodes_key() }
    }

    /// Returns the key of the counts of killed workers of the jobs of a queue.
    pub(super) fn kills_key(&self, queue: &str) -> String {
        match self.is_split() {
            true => self.keys.kills_beside(&self.keys.list(queue)),
            false => self.keys.kills(),
        }
    }

    /// Adds the set of queues to the keys of a script that has a list.
    pub(super) fn add_queues_key(&self, invocation: &mut ScriptInvocation<'_>) {
        if !self.is_split() {
            invocation.key(self.keys.queues());
        }
    }

    /// Adds the names of queues to Sidekiq's set, unless the scripts do so.
    pub(super) async fn add_queues(
        &self,
        connection: &mut LinkConnection,
        queues: &[&str],
    ) -> Result<(), StoreError> {
        if !self.is_split() || queues.is_empty() {
            return Ok(());
        }
        match connection.sadd(self.keys.queues(), queues).await {
            // A key of another type hides their names, and keeps no job from its queue.
            Err(error) if error.code() == Some("WRONGTYPE") => Ok(()),
            added => added.map_err(|error| self.link.failed(&error)),
        }
    }

    /// Takes leases beside the lists of queues where this node has none, and notes that these queues
    /// may have reservations.
    pub(super) async fn take_queue_leases<'q>(
        &self,
        connection: &mut LinkConnection,
        queues: impl Iterator<Item = &'q str>,
    ) -> Result<(), StoreError> {
        if !self.is_split() {
            return Ok(());
        }
        let queues: Vec<&str> = queues.collect();
        let is_new = |queue: &&str| !self.note_lease_use(&self.keys.list(queue));
        let new: Vec<&str> = queues.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        self.note_reserving(connection, &new).await;
        self.take_leases_beside(connection, new.iter().map(|queue| self.keys.list(queue))).await
    }

    /// Takes a lease beside a set where this node has none.
    pub(super) async fn take_set_lease(
        &self,
        connection: &mut LinkConnection,
        set: SetName,
    ) -> Result<(), StoreError> {
        let key = self.keys.set(set);
        if !self.is_split() || self.note_lease_use(&key) {
            return Ok(());
        }
        self.take_leases_beside(connection, std::iter::once(key)).await
    }

    /// Returns whether this node has a lease beside `key`.
    fn note_lease_use(&self, key: &str) -> bool {
        let mut state = self.state.borrow_mut();
        let used = state.leases_beside.get_mut(key);
        used.map(|used| *used = Instant::now()).is_some()
    }

    /// Notes that queues may have reservations. If that fails, they are found by their names in Sidekiq's
    /// set, and noted with the next renewal.
    async fn note_reserving(&self, connection: &mut LinkConnection, queues: &[&str]) {
        let noted: Result<(), _> = connection.sadd(self.keys.reserving(), queues).await;
        if let Err(error) = noted {
            tracing::debug!(%error, "names of queues with reservations can't be noted");
        }
    }

    async fn take_leases_beside(
        &self,
        connection: &mut LinkConnection,
        keys: impl Iterator<Item = String>,
    ) -> Result<(), StoreError> {
        let owner = self.owner.borrow().clone().ok_or_else(lease_is_over)?;
        if !self.take_lease(connection, &owner, "renew").await? {
            return Err(self.lose_lease(&owner.to_string()));
        }
        let taking = keys.map(|key| {
            let (mut connection, owner) = (connection.clone(), &owner);
            async move {
                let lease = self.keys.lease_beside(&key);
                let taken = self.take_lease_at(&mut connection, lease, owner, "take").await;
                (key, taken)
            }
        });
        let mut failed = None;
        let taken: Vec<_> = stream::iter(taking).buffered(RENEWALS_AT_ONCE).collect().await;
        for (key, taken) in taken {
            match taken {
                // The owner may have been replaced meanwhile.
                Ok(_) if self.token().is_ok_and(|token| token == owner.to_string()) => {
                    self.state.borrow_mut().leases_beside.insert(key, Instant::now());
                }
                Ok(_) => failed = Some(lease_is_over()),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Renews the leases beside lists and sets, after the lease of this node was renewed. Those on a
    /// server that is away are taken again when they are needed.
    pub(super) async fn renew_leases_beside(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        if !self.is_split() {
            return Ok(());
        }
        let unused = Instant::now().checked_sub(self.lease * UNUSED_LEASES_KEPT);
        let mut leases = std::mem::take(&mut self.state.borrow_mut().leases_beside);
        let in_use: BTreeSet<String> = {
            let state = self.state.borrow();
            let reservations = state.reservations.iter();
            reservations.map(|(_, job)| self.keys.list(job.queue.as_str())).collect()
        };
        leases.retain(|key, used| in_use.contains(key) || unused.is_none_or(|it| *used > it));
        if leases.is_empty() {
            return Ok(());
        }
        let lists: BTreeMap<String, QueueName> = {
            let state = self.state.borrow();
            let queues = state.queues.keys();
            queues.map(|queue| (self.keys.list(queue.as_str()), queue.clone())).collect()
        };
        let queues = leases.keys().filter_map(|key| lists.get(key)).map(QueueName::as_str);
        // In case that their names were deleted while they had no reservations.
        let queues: Vec<&str> = queues.collect();
        if !queues.is_empty() {
            self.note_reserving(connection, &queues).await;
        }
        let outcome = self.take_leases_beside(connection, leases.keys().cloned()).await;
        let mut state = self.state.borrow_mut();
        for (key, renewed) in &mut state.leases_beside {
            if let Some(used) = leases.get(key) {
                *renewed = *used;
            }
        }
        outcome
    }

    /// Handles the rejection of `token` by a script on the slot of `key`. Returns the error for
    /// clients. The next operation takes the lease there again if that of the node is alive.
    pub(super) fn lose_lease_at(&self, key: &str, token: &str) -> StoreError {
        if !self.is_split() {
            return self.lose_lease(token);
        }
        self.state.borrow_mut().leases_beside.remove(key);
        lease_is_over()
    }

    /// Leaves orphaned jobs that can't be read now to the next pass.
    pub(super) fn reap_later(&self, error: StoreError) -> Result<(), StoreError> {
        if !self.link.is_cluster() || self.link.absence_text().is_some() {
            return Err(error);
        }
        self.state.borrow_mut().reply_lost = true;
        Ok(())
    }
}
