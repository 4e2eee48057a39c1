//! Sizes of queues and sets, reservations, and the state of Redis itself.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use redis::{Pipeline, ScriptInvocation, Value, from_redis_value};
use tokio::time::Instant;
use weir_jobs::lanes::BlockedJobs;
use weir_jobs::model::QueueName;
use weir_jobs::resources::ResourceCounts;
use weir_jobs::store::{Counts, QueueCounts, Reserved, Storage, StoreError};

use super::blocked_names;
use super::limits::QueueLimits;
use super::link_connection::LinkConnection;
use super::memory_reading::MemoryReading;
use super::rate_reading::RateReading;
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
        if self.state.borrow().tracks.has_waiting() {
            drop(self.send_tracks(connection).await);
        }
        let visible = self.visible_queues(connection).await?;
        let mut queues = self.reserving_queues(connection).await?;
        queues.extend(visible.iter().cloned());
        queues.extend(self.queues_of_resources());
        let queues: Vec<QueueName> = queues.into_iter().collect();
        let mut pipeline = Pipeline::new();
        pipeline.zcard(self.keys.scheduled()).zcard(self.keys.retries()).zcard(self.keys.dead());
        pipeline.zcard(self.keys.tracks());
        if self.keeps_features() {
            let [locks, _] = self.keys.locks();
            pipeline.hlen(locks).zcard(self.keys.batches()).scard(self.keys.batches_waiting());
            pipeline.get(self.keys.batch_bytes());
        }
        pipeline.ignore_errors();
        let reply = pipeline.query_async(connection).await;
        let reply: Vec<Value> = reply.map_err(|error| self.link.failed(&error))?;
        let limits = QueueLimits::of(&self.state.borrow().allocation, &queues);
        let limits = if self.is_split() { limits.without_resources() } else { limits };
        let (readings, of_limits) =
            self.readings_with_limits(connection, &queues, &limits, false).await?;
        let room = limits.room(&readings, &of_limits);
        let mut sets = reply.into_iter().map(|it| from_redis_value(it).unwrap_or_default());
        let mut set = || sets.next().unwrap_or_default();
        let shown = queues.iter().zip(&readings).enumerate();
        let shown = shown.filter(|(_, (queue, _))| visible.contains(*queue));
        let mut resources = room.counts();
        let mut counts_of = |(place, (queue, reading)): (usize, (&QueueName, &QueueReading))| {
            let mut counts = self.queue_counts(queue, reading);
            let class = self.class_of_list(queue, &limits);
            let blocking: Vec<&str> = match class {
                Some(class) => room.blocking_class(class).collect(),
                None => room.blocking(place).collect(),
            };
            counts.blocked = match class {
                Some(_) if blocking.is_empty() => BlockedJobs::default(),
                Some(_) => BlockedJobs { resource: reading.depth, ..BlockedJobs::default() },
                None => room.blocked(place, reading.depth),
            };
            counts.blocked_by_resource = blocked_by(&blocking, &counts, &mut resources);
            counts
        };
        let shown: Vec<QueueCounts> = shown.map(&mut counts_of).collect();
        let shown = self.with_blocked_jobs(shown, &limits);
        let totals = self.state.borrow().totals;
        let mut counts = Counts {
            queues: shown,
            resources,
            scheduled: set(),
            retries: set(),
            dead: set(),
            tracked: set(),
            unique_locks: set(),
            batches: set(),
            batches_waiting: set(),
            batch_bytes: set(),
            reserved: readings.iter().map(|reading| u64::from(reading.reserved)).sum(),
            processed_total: totals.processed,
            failed_total: totals.failed,
            pushed_total: totals.pushed,
            ..Counts::default()
        };
        self.state.borrow_mut().tracks.set_existing(counts.tracked > 0);
        self.keep_figures_of_absent_nodes(&mut counts);
        Ok(counts)
    }

    /// Returns the class of the blocked jobs in this list. `None`: it is a queue.
    fn class_of_list(&self, list: &QueueName, limits: &QueueLimits) -> Option<usize> {
        let (_, class) = blocked_names::split_name(list.as_str())?;
        limits.classes().place(class).filter(|_| self.shown_queue(list) != *list)
    }

    /// Counts blocked jobs for their queues.
    fn with_blocked_jobs(
        &self,
        counts: Vec<QueueCounts>,
        limits: &QueueLimits,
    ) -> Vec<QueueCounts> {
        let is_queue = |counts: &QueueCounts| self.class_of_list(&counts.name, limits).is_none();
        let (mut queues, lists): (Vec<_>, Vec<_>) = counts.into_iter().partition(is_queue);
        for list in lists {
            let name = self.shown_queue(&list.name);
            let known = queues.iter_mut().find(|queue| queue.name == name);
            let Some(queue) = known else {
                // Its own name was deleted.
                queues.push(QueueCounts { name, ..list });
                continue;
            };
            queue.depth += list.depth;
            queue.oldest = [queue.oldest, list.oldest].into_iter().flatten().min();
            queue.blocked.resource += list.blocked.resource;
            for (resource, jobs) in list.blocked_by_resource {
                let known = queue.blocked_by_resource.iter_mut().find(|(it, _)| *it == resource);
                match known {
                    Some((_, all)) => *all += jobs,
                    None => queue.blocked_by_resource.push((resource, jobs)),
                }
            }
            queue.blocked_by_resource.sort_unstable();
        }
        queues.sort_by(|one, other| one.name.cmp(&other.name));
        queues
    }

    /// Reads what is shown of queues, in their order.
    pub(super) async fn queue_readings(
        &self,
        connection: &mut LinkConnection,
        queues: &[QueueName],
    ) -> Result<Vec<QueueReading>, StoreError> {
        Ok(self.readings_and_rates(connection, queues, &[], &[]).await?.0)
    }

    /// Reads what is shown of queues, and what the rates of these resources owe, in their order. `suffixes`: as of
    /// [`Self::readings_of`].
    pub(super) async fn readings_and_rates(
        &self,
        connection: &mut LinkConnection,
        queues: &[QueueName],
        resources: &[&str],
        suffixes: &[String],
    ) -> Result<(Vec<QueueReading>, Vec<Option<RateReading>>), StoreError> {
        if self.is_split() {
            return Ok((self.queue_readings_by_queue(connection, queues).await?, Vec::new()));
        }
        let (mut readings, mut rates) = (Vec::with_capacity(queues.len()), Vec::new());
        for step in queues.chunks(QUEUES_PER_SCRIPT_MAX) {
            let resources = if rates.is_empty() { resources } else { &[] };
            let invocation = self.readings_of(step, resources, suffixes);
            let reply: Result<Vec<Value>, _> = invocation.invoke_async(connection).await;
            let reply = reply.map_err(|error| self.link.failed(&error))?;
            readings.extend(QueueReading::all_of(&reply, step.len()));
            rates.extend(QueueReading::rates_of(&reply, step.len()));
        }
        Ok((readings, rates))
    }

    /// Returns all queues of resources.
    fn queues_of_resources(&self) -> Vec<QueueName> {
        let state = self.state.borrow();
        let resources = state.allocation.resources.of.values();
        resources.flat_map(|resource| resource.queues.iter().cloned()).collect()
    }

    /// Returns the script that reads what is shown of queues, and what the rates of resources owe. Lists with these
    /// suffixes count for queues without other jobs.
    pub(super) fn readings_of(
        &self,
        queues: &[QueueName],
        resources: &[&str],
        suffixes: &[String],
    ) -> ScriptInvocation<'_> {
        let mut invocation = self.scripts.counts.prepare_invoke();
        for queue in queues {
            let queue = queue.as_str();
            invocation.key(self.keys.list(queue));
            invocation.key(self.keys.reserved(queue)).key(self.keys.control(queue));
        }
        if !resources.is_empty() {
            invocation.key(self.keys.rates());
        }
        invocation.arg(OLDEST_BYTES_MAX).arg(self.micros_argument());
        invocation.arg(suffixes.len()).arg(suffixes).arg(resources);
        invocation
    }

    fn queue_counts(&self, name: &QueueName, reading: &QueueReading) -> QueueCounts {
        let totals = self.state.borrow().queues.get(name).map(|it| it.totals).unwrap_or_default();
        QueueCounts {
            blocked_by_resource: Vec::new(),
            name: name.clone(),
            depth: reading.depth,
            oldest: reading.oldest.filter(|_| reading.depth > 0),
            paused: reading.paused,
            reserved: u64::from(reading.reserved),
            pushed_total: totals.pushed,
            processed_total: totals.processed,
            failed_total: totals.failed,
            lanes: weir_jobs::lanes::LaneCounts::default(),
            arrivals: None,
            blocked: weir_jobs::lanes::BlockedJobs::default(),
            in_time: None,
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
        let (condition, nodes) = (self.link.condition(), self.known_nodes());
        let shards = self.cluster_shards();
        let sidekiq_queues = self.sidekiq_queues().await;
        let kind = "redis";
        Storage { kind, bytes, condition, age, shards, nodes, sidekiq_queues, ..Storage::default() }
    }

    /// Returns Redis' memory as it was read last, at most [`MEMORY_AGE_MAX`] ago unless Redis is away.
    async fn memory_and_age(self: &Rc<Self>) -> (u64, Duration) {
        let is_recent = |reading: &MemoryReading| reading.at.elapsed() < MEMORY_AGE_MAX;
        let is_fresh = self.memory.borrow().as_ref().is_some_and(is_recent);
        if !is_fresh && let Ok(connection) = self.ready().await {
            let read = memory_bytes(&connection).await;
            let mut bytes = self.memory.take().map(|last| last.bytes).unwrap_or_default();
            if let Some(cluster) = self.link.cluster() {
                // A node that is away keeps its figure.
                let nodes = cluster.node_states();
                bytes.retain(|name, _| nodes.iter().any(|node| node.name == *name));
            }
            bytes.extend(read);
            self.memory.replace(Some(MemoryReading { bytes, at: Instant::now() }));
        }
        let memory = self.memory.borrow();
        let sum = |reading: &MemoryReading| (reading.bytes.values().sum(), reading.at.elapsed());
        memory.as_ref().map_or((0, Duration::ZERO), sum)
    }
}

/// Reads the memory of each server.
async fn memory_bytes(connection: &LinkConnection) -> BTreeMap<String, u64> {
    let infos = connection.send_to_all(redis::cmd("INFO").arg("memory")).await;
    let bytes = infos.into_iter().filter_map(|(server, info)| {
        let info: String = from_redis_value(info).ok()?;
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"))?;
        Some((server, line.trim().parse::<u64>().ok()?))
    });
    bytes.collect()
}

/// INFO costs Redis more than all other reads together, and its memory changes slowly.
const MEMORY_AGE_MAX: Duration = Duration::from_secs(10);
/// Queues that one script reads.
const QUEUES_PER_SCRIPT_MAX: usize = 100;
/// Of a larger job, only its time of enqueueing is read.
const OLDEST_BYTES_MAX: usize = 64 << 10;

/// Returns the resources that hold back jobs of a queue, which are `blocking`, and counts these jobs for each.
fn blocked_by(
    blocking: &[&str],
    queue: &QueueCounts,
    resources: &mut [ResourceCounts],
) -> Vec<(String, u64)> {
    let jobs = queue.blocked.resource;
    let blocking = blocking.iter().filter(|_| jobs > 0);
    let blocking: Vec<(String, u64)> = blocking.map(|name| ((*name).to_owned(), jobs)).collect();
    for resource in resources {
        let is_it = |(name, _): &&(String, u64)| *name == resource.name;
        resource.blocked += blocking.iter().find(is_it).map_or(0, |(_, jobs)| *jobs);
    }
    blocking
}

fn reserved(job: &Reservation) -> Reserved {
    Reserved {
        jid: job.jid.clone(),
        jobtype: job.class.clone(),
        queue: job.queue.clone(),
        wid: job.wid.clone(),
        since: job.since,
        expires_at: job.expires_at,
    }
}
