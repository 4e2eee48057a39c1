//! Jobs whose worker vanished: they return to their queue, or fail if that happens too often.
//!
//! How often is counted in Redis for all nodes, by jid, and forgotten after three days.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use redis::AsyncCommands as _;
use weir_base::clock::Timestamp;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::model::{QueueName, Wid};
use weir_jobs::rules::{self, Return};
use weir_jobs::store::StoreError;

use super::link_connection::LinkConnection;
use super::store_core::StoreCore;

/// A job that lost its workers further apart is not suspected to be the cause.
pub(super) const COUNT_AGE_MAX: Duration = Duration::from_secs(72 * 3_600);

/// How often jobs were returned, by jid.
pub(super) type ReturnCounts = BTreeMap<Box<str>, ReturnCount>;

/// How often one job was returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReturnCount {
    times: u8,
}

impl ReturnCount {
    fn parse(text: &str, now: Timestamp) -> Option<Self> {
        let (times, since) = text.split_once(' ')?;
        let since: u64 = since.parse().ok()?;
        let age = now.since(Timestamp::from_millis(since.saturating_mul(1_000)));
        Some(Self { times: times.parse().ok()? }).filter(|_| age <= COUNT_AGE_MAX)
    }
}

impl StoreCore {
    /// Releases the reservations of a worker that is gone. Returns their number.
    pub(super) async fn release(self: &Rc<Self>, wid: &Wid) -> Result<usize, StoreError> {
        let mut connection = self.ready().await?;
        let held: Vec<(u64, Box<str>, QueueName)> = {
            let state = self.state.borrow();
            let numbers = state.reservations.of_worker(wid).into_iter();
            let job = |number| state.reservations.get(number).map(|it| (number, it));
            numbers
                .filter_map(job)
                .map(|(number, job)| (number, job.jid.clone(), job.queue.clone()))
                .collect()
        };
        let mut jids: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (_, jid, queue) in &held {
            jids.entry(queue.as_str()).or_default().push(jid);
        }
        let mut counts = ReturnCounts::new();
        for (queue, jids) in jids {
            counts.extend(self.return_counts(&mut connection, queue, jids.into_iter()).await?);
        }
        let mut returning: BTreeMap<QueueName, Vec<(u64, Box<str>)>> = BTreeMap::new();
        let released = held.len();
        for (number, jid, queue) in held {
            if self.is_poison(&counts, &jid) {
                self.metrics.limit_hit(JobServerLimit::ReturnsMax);
                let report = rules::worker_vanished(jid.clone());
                ignore_lost(self.fail_job(&mut connection, number, report).await)?;
                self.forget_returns(&mut connection, queue.as_str(), &jid).await?;
            } else {
                returning.entry(queue).or_default().push((number, jid));
            }
        }
        for (queue, jobs) in returning {
            let counted: Vec<_> = jobs.iter().map(|(number, jid)| (*number, &**jid)).collect();
            self.put_back(&mut connection, &queue, &counted).await?;
            self.state.borrow_mut().note_returned(&queue, &jobs);
        }
        self.wake_waiting_fetches();
        Ok(released)
    }

    /// Reads how often each of these jobs of a queue was returned before.
    pub(super) async fn return_counts<'j>(
        &self,
        connection: &mut LinkConnection,
        queue: &str,
        jids: impl Iterator<Item = &'j str>,
    ) -> Result<ReturnCounts, StoreError> {
        let jids: Vec<&str> = jids.collect();
        if jids.is_empty() {
            return Ok(ReturnCounts::new());
        }
        let counts = connection.hmget(self.vanished_key(queue), &jids).await;
        let counts: Vec<redis::Value> = match counts {
            // Of a key of another type, nothing is known.
            Err(error) if error.code() == Some("WRONGTYPE") => Vec::new(),
            counts => counts.map_err(|error| self.link.failed(&error))?,
        };
        let counts = counts.into_iter().map(|it| redis::from_redis_value::<String>(it).ok());
        let now = self.now();
        let known = jids
            .iter()
            .zip(counts)
            .filter_map(|(jid, count)| Some(((*jid).into(), ReturnCount::parse(&count?, now)?)));
        Ok(known.collect())
    }

    /// Returns whether a job has vanished with its worker too often to be tried again.
    pub(super) fn is_poison(&self, counts: &ReturnCounts, jid: &str) -> bool {
        let times = counts.get(jid).map_or(0, |count| count.times);
        rules::after_vanishing(times, self.limits.returns_max) == Return::Fails
    }

    pub(super) async fn forget_returns(
        &self,
        connection: &mut LinkConnection,
        queue: &str,
        jid: &str,
    ) -> Result<(), StoreError> {
        let forgotten: Result<(), _> = connection.hdel(self.vanished_key(queue), jid).await;
        forgotten.map_err(|error| self.link.failed(&error))
    }
}

impl super::store_core::StoreState {
    /// Ends reservations whose jobs wait again, and remembers them for a late ACK.
    fn note_returned(&mut self, queue: &QueueName, jobs: &[(u64, Box<str>)]) {
        for (number, jid) in jobs {
            self.reservations.remove(*number);
            self.returned.insert(jid, queue.clone());
        }
    }
}

/// A job that has meanwhile ended otherwise is no error.
pub(super) fn ignore_lost<T>(outcome: Result<T, StoreError>) -> Result<(), StoreError> {
    match outcome {
        Ok(_) | Err(StoreError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
