//! Stores jobs: all of a batch, or none.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use redis::{AsyncCommands as _, Pipeline};
use weir_base::clock::Timestamp;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::model::{NewJob, QueueName, SetName};
use weir_jobs::store::{Restored, StoreError};

use super::link_connection::LinkConnection as MultiplexedConnection;
use super::seconds;
use super::store_core::StoreCore;
use super::translate;

/// A job and the set that it enters, if it does not enter its queue.
type PlacedJob<'a> = (&'a NewJob<'a>, Option<(SetName, Timestamp)>);

impl StoreCore {
    pub(super) async fn push(self: &Rc<Self>, jobs: &[NewJob<'_>]) -> Result<(), StoreError> {
        let placed = jobs.iter().map(|job| (job, job.at.map(|at| (SetName::Scheduled, at))));
        self.add(&placed.collect::<Vec<_>>()).await
    }

    pub(super) async fn restore(self: &Rc<Self>, jobs: &[Restored<'_>]) -> Result<(), StoreError> {
        let placed = jobs.iter().map(|old| (&old.job, old.set.map(|set| (set, old.at))));
        self.add(&placed.collect::<Vec<_>>()).await?;
        if jobs.iter().any(|old| old.set == Some(SetName::Dead)) {
            self.trim_dead(&mut self.ready().await?).await?;
        }
        Ok(())
    }

    async fn add(self: &Rc<Self>, jobs: &[PlacedJob<'_>]) -> Result<(), StoreError> {
        let mut connection = self.ready().await?;
        self.make_room_for_queues(&mut connection, jobs).await?;
        let (pipeline, queues) = self.additions(jobs);
        let mut sending = connection.clone();
        let adding = async {
            let added: Result<(), _> = pipeline.query_async(&mut sending).await;
            added.map_err(|error| self.failed_push(&error))
        };
        // The round's commands follow those of the push on the same connection, so a FETCH that
        // waits gets the job in the same round trip.
        let added = if self.waiting.any_for(queues.iter().map(String::as_str)) {
            tokio::join!(adding, self.serve()).0
        } else {
            adding.await
        };
        added?;
        for (job, _) in jobs {
            if let Ok(queue) = QueueName::parse(job.queue, &self.limits) {
                self.count(&queue, |totals| totals.pushed += 1);
            }
        }
        Ok(())
    }

    /// Returns the commands that add all jobs in one transaction, and the queues with new jobs.
    fn additions(&self, jobs: &[PlacedJob<'_>]) -> (Pipeline, BTreeSet<String>) {
        let mut pipeline = Pipeline::new();
        pipeline.atomic();
        let mut lists: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
        for (job, set) in jobs {
            match set {
                None => {
                    let text = translate::to_sidekiq(job, Some(self.next_order()));
                    lists.entry(job.queue).or_default().push(text);
                }
                Some((set, at)) => {
                    let text = translate::to_sidekiq(job, None);
                    let key = self.set_key(*set);
                    pipeline.cmd("ZADD").arg(key).arg(seconds::text(*at)).arg(text).ignore();
                }
            }
        }
        for (queue, texts) in &lists {
            pipeline.sadd(self.keys.queues(), queue).ignore();
            pipeline.lpush(self.keys.list(queue), texts).ignore();
        }
        (pipeline, lists.into_keys().map(str::to_owned).collect())
    }

    pub(super) fn set_key(&self, set: SetName) -> String {
        match set {
            SetName::Scheduled => self.keys.scheduled(),
            SetName::Retries => self.keys.retries(),
            SetName::Dead => self.keys.dead(),
        }
    }

    /// A connection that breaks may have carried the push or not.
    fn failed_push(&self, error: &redis::RedisError) -> StoreError {
        let is_cut = error.is_io_error() || error.is_timeout();
        match self.link.failed(error) {
            StoreError::Unavailable(text) if is_cut => StoreError::Uncertain(text),
            error => error,
        }
    }

    /// Returns an error if new queues would exceed `queues_max`.
    async fn make_room_for_queues(
        &self,
        connection: &mut MultiplexedConnection,
        jobs: &[PlacedJob<'_>],
    ) -> Result<(), StoreError> {
        let names: BTreeSet<&str> = jobs.iter().map(|(job, _)| job.queue).collect();
        if names.iter().all(|name| self.state.borrow().known.contains(*name)) {
            return Ok(());
        }
        self.read_known_queues(connection).await?;
        let mut state = self.state.borrow_mut();
        let new = names.iter().filter(|name| !state.known.contains(**name)).count();
        let max = self.limits.queues_max;
        if state.known.len() + new > max {
            self.metrics.limit_hit(JobServerLimit::QueuesMax);
            let text = format!("too many queues: at most {max} (jobs.limits.advanced.queues_max)");
            return Err(StoreError::Limit(text));
        }
        state.known.extend(names.into_iter().map(str::to_owned));
        Ok(())
    }

    /// Adds the names of Redis' queues to those that this node knows.
    async fn read_known_queues(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), StoreError> {
        let names = connection.smembers(self.keys.queues()).await;
        let names: Vec<String> = names.map_err(|error| self.link.failed(&error))?;
        self.state.borrow_mut().known.extend(names);
        Ok(())
    }
}
