//! Sizes of queues and sets, reservations, and the state of Redis itself.

use std::rc::Rc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, Pipeline, Value, from_redis_value};
use weir_jobs::model::QueueName;
use weir_jobs::store::{Counts, QueueCounts, Reserved, Storage, StoreCondition, StoreError};

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

    async fn read_counts(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Counts, StoreError> {
        let visible: Vec<String> = {
            let names = connection.smembers(self.keys.queues()).await;
            names.map_err(|error| self.link.failed(&error))?
        };
        self.warn_of_odd_names(&visible);
        let queues: Vec<QueueName> =
            self.queues_with_reservations(connection).await?.into_iter().collect();
        let mut pipeline = Pipeline::new();
        pipeline.zcard(self.keys.scheduled()).zcard(self.keys.retries()).zcard(self.keys.dead());
        for queue in &queues {
            QueueReading::add_to(&mut pipeline, &self.keys, queue.as_str());
        }
        pipeline.ignore_errors();
        let reply = pipeline.query_async(connection).await;
        let mut reply: Vec<Value> = reply.map_err(|error| self.link.failed(&error))?;
        let readings = QueueReading::all_of(reply.split_off(SETS));
        let mut sets = reply.into_iter().map(|it| from_redis_value(it).unwrap_or_default());
        let mut set = || sets.next().unwrap_or_default();
        let shown = queues
            .iter()
            .zip(&readings)
            .filter(|(queue, _)| visible.iter().any(|name| name == queue.as_str()));
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

    /// Logs each queue once whose name only Sidekiq allows. Weir leaves it to Sidekiq.
    fn warn_of_odd_names(&self, names: &[String]) {
        for name in names {
            let is_new = QueueName::parse(name, &self.limits).is_err()
                && self.state.borrow_mut().note_odd_name(name);
            if is_new {
                tracing::warn!(
                    queue = name,
                    "Weir does not serve this queue: use letters, digits, '.', '_' and '-' only"
                );
            }
        }
    }

    fn queue_counts(&self, name: &QueueName, reading: &QueueReading) -> QueueCounts {
        let totals = self.state.borrow().queues.get(name).map(|it| it.totals).unwrap_or_default();
        QueueCounts {
            name: name.clone(),
            depth: reading.depth,
            oldest: (reading.depth > 0).then_some(reading.oldest),
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
        let bytes = match self.ready().await {
            Ok(mut connection) => self.memory_bytes(&mut connection).await.unwrap_or_default(),
            Err(_) => 0,
        };
        let condition = match self.link.absence_text() {
            Some(text) => StoreCondition::Unavailable(text),
            None => StoreCondition::Ok,
        };
        Storage { kind: "redis", bytes, condition, ..Storage::default() }
    }

    async fn memory_bytes(&self, connection: &mut MultiplexedConnection) -> Option<u64> {
        let info: String = redis::cmd("INFO").arg("memory").query_async(connection).await.ok()?;
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"))?;
        line.trim().parse().ok()
    }
}

/// Sorted sets whose sizes are read.
const SETS: usize = 3;

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
