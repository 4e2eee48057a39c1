//! Sizes of queues and sets, reservations, and the state of Redis itself.

use std::rc::Rc;
use std::time::Duration;

use redis::{Pipeline, Value, from_redis_value};
use tokio::time::Instant;
use weir_jobs::model::QueueName;
use weir_jobs::store::{Counts, QueueCounts, Reserved, Storage, StoreCondition, StoreError};

use super::link_connection::LinkConnection;
use super::replies::QueueReading;
use super::reservations::Reservation;
use super::store_core::StoreCore;

impl StoreCore {
    /// Returns the counts, or the last known ones with their age while Redis is away.
    pub(super) async fn counts(self: &Rc<Self>) -> Counts {
        let counted = match self.ready().await {
            Ok(mut connection) => self.read_counts(&mut connection).await,
            Err(error) => Err(error),
        };
        let counts = match counted {
            Ok(counts) => {
                *self.last_counts.borrow_mut() = counts.clone();
                self.counted_at.set(self.now());
                counts
            }
            Err(_) => self.last_known_counts(),
        };
        Counts { fetches_waiting: self.waiting.waiting() as u64, ..counts }
    }

    /// Returns the counts that were read last, with their age.
    pub(super) fn last_known_counts(&self) -> Counts {
        let age = self.now().since(self.counted_at.get());
        Counts { age, ..self.last_counts.borrow().clone() }
    }

    /// Returns the reservations of this node.
    pub(super) fn own_reservations(&self) -> Vec<Reserved> {
        self.state.borrow().reservations.iter().map(|it| reserved(it.1)).collect()
    }

    async fn read_counts(&self, connection: &mut LinkConnection) -> Result<Counts, StoreError> {
        let visible = self.visible_queues(connection).await?;
        let mut queues = self.reserving_queues(connection).await?;
        queues.extend(visible.iter().cloned());
        let queues: Vec<QueueName> = queues.into_iter().collect();
        let mut pipeline = Pipeline::new();
        pipeline.zcard(self.keys.scheduled()).zcard(self.keys.retries()).zcard(self.keys.dead());
        pipeline.ignore_errors();
        let reply = pipeline.query_async(connection).await;
        let reply: Vec<Value> = reply.map_err(|error| self.link.failed(&error))?;
        let readings = self.queue_readings(connection, &queues).await?;
        let mut sets = reply.into_iter().map(|it| from_redis_value(it).unwrap_or_default());
        let mut set = || sets.next().unwrap_or_default();
        let shown = queues.iter().zip(&readings).filter(|(queue, _)| visible.contains(*queue));
        let totals = self.state.borrow().totals;
        Ok(Counts {
            queues: shown.map(|(queue, reading)| self.queue_counts(queue, reading)).collect(),
            scheduled: set(),
            retries: set(),
            dead: set(),
            reserved: readings.iter().map(|reading| u64::from(reading.reserved)).sum(),
            processed_total: totals.processed,
            failed_total: totals.failed,
            pushed_total: totals.pushed,
            ..Counts::default()
        })
    }

    /// Reads what is shown of queues, in their order.
    pub(super) async fn queue_readings(
        &self,
        connection: &mut LinkConnection,
        queues: &[QueueName],
    ) -> Result<Vec<QueueReading>, StoreError> {
        let mut readings = Vec::with_capacity(queues.len());
        for step in queues.chunks(QUEUES_PER_SCRIPT_MAX) {
            let mut invocation = self.scripts.counts.prepare_invoke();
            for queue in step {
                let queue = queue.as_str();
                invocation.key(self.keys.list(queue));
                invocation.key(self.keys.reserved(queue)).key(self.keys.control(queue));
            }
            invocation.arg(OLDEST_BYTES_MAX);
            let reply: Result<Vec<Value>, _> = invocation.invoke_async(connection).await;
            readings.extend(QueueReading::all_of(reply.map_err(|error| self.link.failed(&error))?));
        }
        Ok(readings)
    }

    fn queue_counts(&self, name: &QueueName, reading: &QueueReading) -> QueueCounts {
        let totals = self.state.borrow().queues.get(name).map(|it| it.totals).unwrap_or_default();
        QueueCounts {
            name: name.clone(),
            depth: reading.depth,
            oldest: reading.oldest.filter(|_| reading.depth > 0),
            paused: reading.paused,
            reserved: u64::from(reading.reserved),
            pushed_total: totals.pushed,
            processed_total: totals.processed,
            failed_total: totals.failed,
        }
    }

    /// Returns up to `limit` reservations of all nodes, oldest first. While Redis is away, those of
    /// this node.
    pub(super) async fn reservations(self: &Rc<Self>, limit: usize) -> Vec<Reserved> {
        let stored = match self.ready().await {
            Ok(mut connection) => self.stored_reservations(&mut connection).await.ok(),
            Err(_) => None,
        };
        let own = self.owner.borrow().as_ref().map(ToString::to_string).unwrap_or_default();
        let mut all = self.own_reservations();
        let foreign = stored.iter().flatten().filter(|it| it.owner != own);
        all.extend(foreign.map(|it| reserved(&it.job)));
        all.sort_by_key(|reserved| reserved.since);
        all.truncate(limit);
        all
    }

    pub(super) async fn storage(self: &Rc<Self>) -> Storage {
        let (bytes, age) = self.memory_and_age().await;
        let condition = match self.link.absence_text() {
            Some(text) => StoreCondition::Unavailable(text),
            None => StoreCondition::Ok,
        };
        let nodes = self.known_nodes();
        Storage { kind: "redis", bytes, condition, age, nodes, ..Storage::default() }
    }

    /// Returns Redis' memory as it was read last, at most [`MEMORY_AGE_MAX`] ago unless Redis is away.
    async fn memory_and_age(self: &Rc<Self>) -> (u64, Duration) {
        let is_fresh = |(_, read): &(u64, Instant)| read.elapsed() < MEMORY_AGE_MAX;
        if !self.memory.get().as_ref().is_some_and(is_fresh)
            && let Ok(mut connection) = self.ready().await
        {
            let last = self.memory.get().map_or(0, |(bytes, _)| bytes);
            let bytes = self.memory_bytes(&mut connection).await.unwrap_or(last);
            self.memory.set(Some((bytes, Instant::now())));
        }
        self.memory.get().map_or((0, Duration::ZERO), |(bytes, read)| (bytes, read.elapsed()))
    }

    async fn memory_bytes(&self, connection: &mut LinkConnection) -> Option<u64> {
        let info: String = redis::cmd("INFO").arg("memory").query_async(connection).await.ok()?;
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"))?;
        line.trim().parse().ok()
    }
}

/// INFO costs Redis more than all other reads together, and its memory changes slowly.
const MEMORY_AGE_MAX: Duration = Duration::from_secs(10);
/// Queues that one script reads.
const QUEUES_PER_SCRIPT_MAX: usize = 100;
/// Of a larger job, only its time of enqueueing is read.
const OLDEST_BYTES_MAX: usize = 64 << 10;

fn reserved(job: &Reservation) -> Reserved {
    Reserved {
        jid: job.jid.clone(),
        jobtype: job.jobtype.clone(),
        queue: job.queue.clone(),
        wid: job.wid.clone(),
        since: job.since,
        expires_at: job.expires_at,
    }
}
