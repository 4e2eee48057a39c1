//! The lists of blocked jobs: those whose type uses a shared resource without room.
//!
//! They wait beside the list of their queue, one list for each class of types, as queues of Sidekiq's with names such as
//! `default.blocked.payments`: Sidekiq's pages show them, and its processes can serve them. To Weir they are parts of
//! their queue. `take.lua` fills and serves them. What this node's settings do not know returns to its queue, and so do
//! all when the last node stops.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::{AsyncCommands as _, Pipeline};
use tokio::time::Instant;
use weir_jobs::model::{JobLocation, QueueName};
use weir_jobs::store::StoreError;

use super::blocked_names::{INFIX, parse_name, split_name};
use super::limits::QueueLimits;
use super::link_connection::LinkConnection;
use super::store_core::StoreCore;
use super::type_classes::TypeClasses;

/// Jobs and bytes that one script returns.
const RETURNED_JOBS_MAX: usize = 1_000;
const RETURNED_BYTES_MAX: usize = 4 << 20;
/// Scripts of one pass over one list. The next pass goes on.
const SCRIPTS_PER_PASS_MAX: usize = 100;
/// How long a stop may return jobs.
const STOP_MAX: Duration = Duration::from_secs(2);
/// Reservations that one script counts, more or less.
const COUNTED_PER_SCRIPT: usize = 100;
/// After this time, the jobs in progress are counted anew: nothing else ends the counts of settings that no node has.
const COUNT_SECONDS_MAX: i64 = 86_400;
/// Jobs in progress of a resource that are examined for a figure. A resource with more has an estimate.
const EXAMINED_MAX: usize = 1_000;

impl StoreCore {
    fn type_classes(&self) -> TypeClasses {
        TypeClasses::of_allocation(&self.state.borrow().allocation)
    }

    /// Returns the places whose jobs are those of `place`: the lists of its blocked jobs, whose oldest ones are older, and
    /// itself.
    pub(super) fn parts(&self, place: &JobLocation) -> Vec<JobLocation> {
        let mut parts = Vec::new();
        if let JobLocation::Queue(queue) = place {
            parts.extend(self.blocked_lists(queue).into_iter().map(JobLocation::Queue));
        }
        parts.push(place.clone());
        parts
    }

    /// Returns the names of the lists that blocked jobs of a queue may be in.
    pub(super) fn blocked_lists(&self, queue: &QueueName) -> Vec<QueueName> {
        let classes = self.type_classes();
        if self.is_split() || self.queue_of(&classes, queue).is_some() {
            return Vec::new();
        }
        let name = |class: &str| parse_name(&format!("{queue}{INFIX}{class}"));
        classes.names().filter_map(name).collect()
    }

    /// Returns the queue whose blocked jobs are in this list. `None`: it is a queue itself.
    fn queue_of(&self, classes: &TypeClasses, list: &QueueName) -> Option<QueueName> {
        let (queue, class) = split_name(list.as_str())?;
        classes.place(class)?;
        QueueName::parse(queue, &self.limits).ok()
    }

    /// Returns the queue that operators know a place by.
    pub(super) fn shown_queue(&self, list: &QueueName) -> QueueName {
        self.queue_of(&self.type_classes(), list).unwrap_or_else(|| list.clone())
    }
}

impl StoreCore {
    /// Returns the blocked jobs of classes that the settings do not have to their queues.
    pub(super) async fn return_unlimited(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        if self.is_split() {
            return Ok(());
        }
        for list in self.lists_with_jobs(connection).await? {
            let is_known = self.queue_of(&self.type_classes(), &list).is_some();
            // Of a list that is in use, only its name is removed if it is empty.
            let scripts_max = if is_known { 0 } else { SCRIPTS_PER_PASS_MAX };
            self.return_blocked(connection, &list, scripts_max, None).await?;
        }
        self.state.borrow_mut().has_unlimited = false;
        Ok(())
    }

    /// Returns all blocked jobs to their queues, if no other node serves them.
    pub(super) async fn return_all_blocked(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        if self.is_split() || self.has_other_nodes(connection).await? {
            return Ok(());
        }
        let until = Instant::now() + STOP_MAX;
        for list in self.lists_with_jobs(connection).await? {
            let left = self.return_blocked(connection, &list, usize::MAX, Some(until)).await?;
            if left > 0 {
                tracing::warn!(
                    queue = %list,
                    jobs = left,
                    "jobs that wait for a shared resource stay in a queue of their own: Weir serves it again, or let Sidekiq do so"
                );
            }
        }
        Ok(())
    }

    /// Returns the lists that blocked jobs may be in.
    async fn lists_with_jobs(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<BTreeSet<QueueName>, StoreError> {
        self.named_queues(connection, self.keys.blocked()).await
    }

    /// Removes the name of a list from the sets of names if it has no jobs.
    pub(super) async fn forget_empty_list(
        &self,
        connection: &mut LinkConnection,
        list: &QueueName,
    ) -> Result<(), StoreError> {
        self.return_blocked(connection, list, 0, None).await.map(drop)
    }

    /// Returns the jobs of a list to its queue, the newest first. Returns how many are left.
    async fn return_blocked(
        &self,
        connection: &mut LinkConnection,
        list: &QueueName,
        scripts_max: usize,
        until: Option<Instant>,
    ) -> Result<u64, StoreError> {
        let Some((queue, _)) = split_name(list.as_str()) else { return Ok(0) };
        for script in 0.. {
            let token = self.token()?;
            let jobs = if script < scripts_max { RETURNED_JOBS_MAX } else { 0 };
            let mut invocation = self.scripts.release.key(self.keys.list(list.as_str()));
            invocation.key(self.keys.list(queue)).key(self.keys.nodes());
            invocation.key(self.keys.queues()).key(self.keys.blocked());
            invocation.arg(&token).arg(list.as_str()).arg(queue).arg(jobs).arg(RETURNED_BYTES_MAX);
            let reply: Result<Vec<u64>, _> = invocation.invoke_async(connection).await;
            match *reply.map_err(|error| self.link.failed(&error))? {
                [moved, left] => {
                    let is_over = until.is_some_and(|until| Instant::now() >= until);
                    if moved == 0 || left == 0 || is_over {
                        return Ok(left);
                    }
                }
                _ => return Err(self.lose_lease(&token)),
            }
        }
        Ok(0)
    }
}

impl StoreCore {
    /// Counts the jobs in progress that use a resource by their type and were reserved before this node knew of that: by
    /// this node itself, or by any if nobody has counted them. Until then, no such job starts.
    pub(super) async fn count_running(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        let (allocation, allocations) = {
            let state = self.state.borrow();
            if state.has_counted_running {
                return Ok(());
            }
            (state.allocation.clone(), state.allocations)
        };
        let keys = QueueLimits::of(&allocation, &[]).running_keys(&self.keys);
        if !keys.is_empty() && !self.is_split() {
            self.remove_other_types(connection, &keys).await?;
            for queue in self.reserving_queues(connection).await? {
                let limits = QueueLimits::of(&allocation, std::slice::from_ref(&queue));
                self.count_running_of(connection, &queue, &limits, &keys).await?;
            }
            let mut pipeline = Pipeline::new();
            for key in &keys {
                pipeline.sadd(key, "").ignore().expire(key, COUNT_SECONDS_MAX).ignore();
            }
            let noted: Result<(), _> = pipeline.query_async(connection).await;
            noted.map_err(|error| self.link.failed(&error))?;
        }
        let mut state = self.state.borrow_mut();
        state.has_counted_running = state.allocations == allocations;
        Ok(())
    }

    /// Deletes keys of Weir's own that something else has replaced by another type.
    async fn remove_other_types(
        &self,
        connection: &mut LinkConnection,
        keys: &[String],
    ) -> Result<(), StoreError> {
        let mut pipeline = Pipeline::new();
        for key in keys {
            pipeline.cmd("TYPE").arg(key);
        }
        let kinds = pipeline.query_async::<Vec<String>>(connection).await;
        let kinds = kinds.map_err(|error| self.link.failed(&error))?;
        let others = keys.iter().zip(kinds).filter(|(_, kind)| kind != "set" && kind != "none");
        for (key, _) in others {
            let deleted: Result<(), _> = connection.del(key).await;
            deleted.map_err(|error| self.link.failed(&error))?;
        }
        Ok(())
    }

    async fn count_running_of(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        limits: &QueueLimits,
        keys: &[String],
    ) -> Result<(), StoreError> {
        let (mut cursor, limits) = ("0".to_owned(), limits.json(1, 2));
        loop {
            let mut invocation = self.scripts.count.key(self.keys.reserved(queue.as_str()));
            for key in keys {
                invocation.key(key);
            }
            invocation.arg(&limits).arg(&cursor).arg(COUNTED_PER_SCRIPT);
            let next: Result<String, _> = invocation.invoke_async(connection).await;
            cursor = next.map_err(|error| self.link.failed(&error))?;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// Reads how many jobs use each resource by their type, in the order of the resources.
    pub(super) async fn running_by_type(
        &self,
        connection: &mut LinkConnection,
        limits: &QueueLimits,
    ) -> Result<Vec<u64>, StoreError> {
        let keys = limits.running_keys(&self.keys);
        if keys.is_empty() || self.is_split() {
            return Ok(Vec::new());
        }
        self.count_running(connection).await?;
        let mut invocation = self.scripts.running.prepare_invoke();
        for key in &keys {
            invocation.key(key);
        }
        let running = invocation.arg(EXAMINED_MAX).invoke_async::<Vec<u64>>(connection).await;
        let running = running.map_err(|error| self.link.failed(&error))?;
        Ok(limits.of_each_resource(&running))
    }
}
