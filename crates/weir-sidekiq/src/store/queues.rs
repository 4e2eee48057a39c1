//! Operators' actions on queues, and deleting everything.

use std::rc::Rc;

use redis::{AsyncCommands as _, Pipeline};
use weir_jobs::model::QueueName;
use weir_jobs::store::{QueueAction, StoreError};

use super::link_connection::LinkConnection as MultiplexedConnection;
use super::store_core::StoreCore;

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

    async fn act_on_queue(
        &self,
        connection: &mut MultiplexedConnection,
        queue: &QueueName,
        action: QueueAction,
    ) -> Result<u64, StoreError> {
        let name = queue.as_str();
        let (list, control) = (self.keys.list(name), self.keys.control(name));
        let mut pipeline = Pipeline::new();
        pipeline.atomic().llen(&list);
        match action {
            QueueAction::Pause => pipeline.hset(control, "paused", 1).ignore(),
            QueueAction::Resume => pipeline.hdel(control, "paused").ignore(),
            QueueAction::Clear => pipeline.del(list).ignore(),
            QueueAction::Remove => pipeline
                .del(list)
                .ignore()
                .del(control)
                .ignore()
                .srem(self.keys.queues(), name)
                .ignore(),
        };
        let reply = pipeline.query_async(connection).await;
        let (length,): (u64,) = reply.map_err(|error| self.link.failed(&error))?;
        match action {
            QueueAction::Pause | QueueAction::Resume => Ok(0),
            QueueAction::Clear => Ok(length),
            QueueAction::Remove => {
                let mut state = self.state.borrow_mut();
                state.known.remove(name);
                state.queues.remove(queue);
                Ok(length)
            }
        }
    }

    /// Deletes all jobs and queues, Sidekiq's as well. Its statistics stay.
    pub(super) async fn flush(self: &Rc<Self>) -> Result<(), StoreError> {
        let mut connection = self.ready().await?;
        self.flush_statistics(&mut connection).await?;
        let mut keys = vec![
            self.keys.queues(),
            self.keys.scheduled(),
            self.keys.retries(),
            self.keys.dead(),
            self.keys.reserving(),
            self.keys.vanished(),
        ];
        for queue in self.queues_with_reservations(&mut connection).await? {
            let queue = queue.as_str();
            keys.extend([
                self.keys.list(queue),
                self.keys.reserved(queue),
                self.keys.control(queue),
            ]);
        }
        let deleted: Result<(), _> = connection.del(keys).await;
        deleted.map_err(|error| self.link.failed(&error))?;
        let mut state = self.state.borrow_mut();
        state.reservations = Default::default();
        state.undelivered.clear();
        state.returned.clear();
        state.known.clear();
        state.queues.clear();
        state.reserving.clear();
        state.totals = Default::default();
        state.flushed = Default::default();
        Ok(())
    }
}
