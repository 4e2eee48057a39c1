//! Operators' actions on queues, and deleting everything.

use std::rc::Rc;

use redis::{AsyncCommands as _, Pipeline};
use weir_jobs::model::{JobLocation, QueueName, SetName};
use weir_jobs::store::{QueueAction, StoreError};

use super::limits::QueueLimits;
use super::link_connection::LinkConnection;
use super::store_core::StoreCore;

/// Queues that are deleted in one step.
const STEP_QUEUES: usize = 100;

impl StoreCore {
    /// Applies `action` to queues. Ignores unknown names. Returns the number of jobs removed.
    pub(super) async fn act_on_queues(
        self: &Rc<Self>,
        queues: &[QueueName],
        action: QueueAction,
    ) -> Result<u64, StoreError> {
        let mut connection = self.ready().await?;
        let mut removed = 0;
        for queue in queues {
            let known = connection.sismember(self.keys.queues(), queue.as_str()).await;
            if known.map_err(|error| self.link.failed(&error))? {
                removed += self.act_on_queue(&mut connection, queue, action).await?;
            }
        }
        if !self.waiting.is_empty() {
            self.serve().await?;
        }
        Ok(removed)
    }

    /// Pauses or resumes queues, those included that do not exist yet.
    pub(super) async fn set_paused(
        self: &Rc<Self>,
        queues: &[QueueName],
        is_paused: bool,
    ) -> Result<(), StoreError> {
        let mut connection = self.ready().await?;
        for queue in queues {
            let control = self.keys.control(queue.as_str());
            let set: Result<(), _> = match is_paused {
                true => connection.hset(control, "paused", 1).await,
                false => connection.hdel(control, "paused").await,
            };
            set.map_err(|error| self.link.failed(&error))?;
        }
        Ok(())
    }

    async fn act_on_queue(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        queue: &QueueName,
        action: QueueAction,
    ) -> Result<u64, StoreError> {
        if matches!(action, QueueAction::Clear | QueueAction::Remove) && self.keeps_features() {
            let removed = (action == QueueAction::Remove).then_some(queue);
            let mut cleared = 0;
            for list in self.blocked_lists(queue) {
                let place = JobLocation::Queue(list.clone());
                cleared += self.discard_all(connection, &place, None).await?;
                self.forget_empty_list(connection, &list).await?;
            }
            let place = JobLocation::Queue(queue.clone());
            cleared += self.discard_all(connection, &place, removed).await?;
            if action == QueueAction::Remove {
                self.forget_queue(queue);
            }
            return Ok(cleared);
        }
        let name = queue.as_str();
        let (list, control) = (self.keys.list(name), self.keys.control(name));
        let blocked = self.blocked_lists(queue);
        let mut pipeline = Pipeline::new();
        pipeline.atomic().llen(&list);
        if matches!(action, QueueAction::Clear | QueueAction::Remove) {
            for it in &blocked {
                let list = self.keys.list(it.as_str());
                pipeline.llen(&list).del(&list).ignore();
                for names in [self.keys.queues(), self.keys.blocked()] {
                    pipeline.srem(names, it.as_str()).ignore();
                }
            }
        }
        match action {
            QueueAction::Pause => pipeline.hset(control, "paused", 1).ignore(),
            QueueAction::Resume => pipeline.hdel(control, "paused").ignore(),
            QueueAction::Clear => pipeline.del(list).ignore(),
            QueueAction::Remove => pipeline.del(list).ignore().del(control).ignore(),
        };
        if action == QueueAction::Remove && !self.is_split() {
            pipeline.srem(self.keys.queues(), name).ignore();
        }
        let reply = pipeline.query_async(connection).await;
        let lengths: Vec<u64> = reply.map_err(|error| self.link.failed(&error))?;
        let length = lengths.iter().sum();
        match action {
            QueueAction::Pause | QueueAction::Resume => Ok(0),
            QueueAction::Clear => Ok(length),
            QueueAction::Remove => {
                if self.is_split() {
                    let removed = connection.srem(self.keys.queues(), name).await;
                    let () = removed.map_err(|error| self.link.failed(&error))?;
                }
                self.forget_queue(queue);
                Ok(length)
            }
        }
    }

    /// Forgets what this node knows about a queue that was removed.
    fn forget_queue(&self, queue: &QueueName) {
        let mut state = self.state.borrow_mut();
        state.known.remove(queue.as_str());
        state.sleeping.clear();
        state.queues.remove(queue);
    }

    /// Deletes all jobs and queues, Sidekiq's as well. Its statistics stay.
    pub(super) async fn flush(self: &Rc<Self>) -> Result<(), StoreError> {
        let mut connection = self.ready().await?;
        self.flush_statistics(&mut connection).await?;
        // Of more queues than are read at once, each step deletes some.
        loop {
            let queues = self.all_queues(&mut connection).await?;
            let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
            for step in names.chunks(STEP_QUEUES) {
                self.delete_queues(&mut connection, step).await?;
            }
            if queues.len() < self.limits.queues_max {
                break;
            }
        }
        let mut pipeline = Pipeline::new();
        let mut keys =
            QueueLimits::of(&self.state.borrow().allocation, &[]).running_keys(&self.keys);
        keys.extend([self.keys.queues(), self.keys.reserving(), self.keys.kills()]);
        keys.extend([self.keys.rates(), self.keys.blocked()]);
        for key in keys {
            pipeline.del(key).ignore();
        }
        for key in self.keys.locks() {
            pipeline.del(key).ignore();
        }
        pipeline.del(&[self.keys.tracks(), self.keys.track_states()]).ignore();
        for set in SetName::ALL.map(|set| self.keys.set(set)) {
            pipeline.del(&[&self.keys.leaving(&set), &set]).ignore();
        }
        let deleted: Result<(), _> = pipeline.query_async(&mut connection).await;
        deleted.map_err(|error| self.link.failed(&error))?;
        self.delete_batches(&mut connection).await?;
        let mut state = self.state.borrow_mut();
        drop(state.reservations.take_all());
        state.undelivered.clear();
        state.returned.clear();
        state.known.clear();
        state.has_counted_running = false;
        state.sleeping.clear();
        state.queues.clear();
        state.lost.clear();
        state.tracks.clear();
        state.statistics_id = None;
        state.totals = Default::default();
        state.flushed = Default::default();
        Ok(())
    }

    async fn delete_queues(
        &self,
        connection: &mut LinkConnection,
        queues: &[&str],
    ) -> Result<(), StoreError> {
        let mut pipeline = Pipeline::new();
        for queue in queues {
            let (list, reserved) = (self.keys.list(queue), self.keys.reserved(queue));
            let (leaving, kills) = (self.keys.leaving(&list), self.keys.kills_beside(&list));
            let keys = [list, reserved, self.keys.control(queue), leaving, kills];
            pipeline.del(&keys).ignore();
        }
        pipeline.srem(self.keys.queues(), queues).ignore();
        pipeline.srem(self.keys.reserving(), queues).ignore().ignore_errors();
        let deleted: Result<(), _> = pipeline.query_async(connection).await;
        deleted.map_err(|error| self.link.failed(&error))
    }
}
