//! Deletes what Weir's own keys hold and nobody needs any more, so that none of them grows.

use std::collections::BTreeSet;

use redis::AsyncCommands as _;

use super::link_connection::LinkConnection;
use weir_jobs::model::QueueName;
use weir_jobs::store::StoreError;

use super::store_core::StoreCore;
use super::undelivered::COUNT_AGE_MAX;

/// Counts of kills that are kept. Each takes some 50 bytes.
const COUNTS_KEPT_MAX: usize = 100_000;
/// Counts that are examined in one step, more or less.
const COUNTS_PER_STEP: usize = 1_000;
/// Queues in one step.
const QUEUES_PER_STEP: usize = 100;

/// What a pass over all reservations has found to be of no use.
#[derive(Debug, Default)]
pub(super) struct Unused {
    /// Queues without reservations.
    pub(super) queues: Vec<QueueName>,
    /// Queues with reservations, of which only counts may be of no use.
    pub(super) in_use: Vec<QueueName>,
    /// Owners without reservations whose lease has ended.
    pub(super) owners: BTreeSet<String>,
}

impl StoreCore {
    /// Deletes what is unused, counts of kills that are too old or too many, and nodes that are gone.
    /// Each step checks that it still is.
    pub(super) async fn prune(
        &self,
        connection: &mut LinkConnection,
        unused: &Unused,
    ) -> Result<(), StoreError> {
        if self.is_split() {
            return self.prune_by_queue(connection, unused).await;
        }
        let mut owners = Some(&unused.owners);
        let mut queues = unused.queues.chunks(QUEUES_PER_STEP);
        let first = queues.next().unwrap_or_default();
        for step in std::iter::once(first).chain(queues) {
            self.prune_step(connection, step, owners.take()).await?;
        }
        self.forget_nodes(connection).await
    }

    async fn prune_step(
        &self,
        connection: &mut LinkConnection,
        queues: &[QueueName],
        owners: Option<&BTreeSet<String>>,
    ) -> Result<(), StoreError> {
        let mut invocation = self.scripts.prune.key(self.keys.nodes());
        invocation.key(self.keys.kills()).key(self.keys.earlier_kills());
        invocation.key(self.keys.reserving());
        for queue in queues {
            invocation.key(self.keys.reserved(queue.as_str()));
        }
        let cursor = self.state.borrow().prune_cursor.clone();
        invocation.arg(self.token()?).arg(self.seconds_argument()).arg(COUNT_AGE_MAX.as_secs());
        invocation.arg(COUNTS_KEPT_MAX).arg(if cursor.is_empty() { "0" } else { &cursor });
        invocation.arg(COUNTS_PER_STEP);
        for queue in queues {
            invocation.arg("queue").arg(queue.as_str());
        }
        for owner in owners.into_iter().flatten() {
            invocation.arg("owner").arg(owner);
        }
        let reply = invocation.invoke_async(connection).await;
        let reply: Vec<String> = reply.map_err(|error| self.link.failed(&error))?;
        self.state.borrow_mut().prune_cursor = reply.into_iter().next().unwrap_or_default();
        Ok(())
    }

    /// Does the same with a step for each queue.
    async fn prune_by_queue(
        &self,
        connection: &mut LinkConnection,
        unused: &Unused,
    ) -> Result<(), StoreError> {
        let mut failed = None;
        for queue in &unused.queues {
            let pruned = self.prune_queue(connection, queue).await;
            failed = failed.or(pruned.err());
        }
        for queue in &unused.in_use {
            let pruned = self.prune_beside(connection, queue).await;
            failed = failed.or(pruned.err());
        }
        if !unused.owners.is_empty() && failed.is_none() {
            // A lease that is over is never renewed.
            let owners: Vec<&String> = unused.owners.iter().collect();
            let pruned = connection.zrem(self.nodes_key(), owners).await;
            let () = pruned.map_err(|error| self.link.failed(&error))?;
        }
        failed.map_or(Ok(()), Err)
    }

    async fn prune_queue(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
    ) -> Result<(), StoreError> {
        let is_used = self.prune_beside(connection, queue).await?;
        let list = self.keys.list(queue.as_str());
        let moving = connection.exists(self.keys.leaving(&list)).await;
        let moving: bool = moving.map_err(|error| self.link.failed(&error))?;
        if is_used || moving {
            return Ok(());
        }
        let forgotten = connection.srem(self.keys.reserving(), queue.as_str()).await;
        forgotten.map_err(|error| self.link.failed(&error))
    }

    /// Deletes what is of no use beside the list of a queue. Returns whether something is left.
    async fn prune_beside(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
    ) -> Result<bool, StoreError> {
        let list = self.keys.list(queue.as_str());
        let mut cursor = "0".to_owned();
        loop {
            let mut invocation = self.scripts.prune.key(self.lease_key(&list));
            invocation.key(self.keys.kills_beside(&list));
            invocation.key(self.keys.earlier_kills_beside(&list));
            invocation.arg("").arg(self.seconds_argument());
            invocation.arg(COUNT_AGE_MAX.as_secs()).arg(COUNTS_KEPT_MAX).arg(&cursor);
            let reply = invocation.arg(COUNTS_PER_STEP).invoke_async(connection).await;
            let (next, counts, leases): (String, u64, u64) =
                reply.map_err(|error| self.link.failed(&error))?;
            if next == "0" {
                return Ok(counts > 0 || leases > 0);
            }
            cursor = next;
        }
    }
}
