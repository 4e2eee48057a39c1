//! Jobs whose worker ended: they return to their queue, or are dead if they have killed too many workers.
//!
//! How often a job did is counted in Redis for all nodes, by jid, and forgotten after three days.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use redis::AsyncCommands as _;
use weir_base::clock::Timestamp;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::model::{FailureCause, QueueName, Wid, WorkerEnd, WorkerKills};
use weir_jobs::rules::{self, Return};
use weir_jobs::store::StoreError;

use super::link_connection::LinkConnection;
use super::store_core::StoreCore;

/// The age at which a count starts again.
pub(super) const COUNT_AGE_MAX: Duration = rules::KILLS_AGE_MAX;

/// How often jobs have killed their workers, by jid.
pub(super) type KillCounts = BTreeMap<Box<str>, WorkerKills>;

fn parse_kills(text: &str) -> Option<WorkerKills> {
    let (times, since) = text.split_once(' ')?;
    let since: u64 = since.parse().ok()?;
    let since = Timestamp::from_millis(since.saturating_mul(1_000));
    Some(WorkerKills { times: times.parse().ok()?, since })
}

impl StoreCore {
    /// Releases the reservations of a worker that is gone. Returns their number.
    pub(super) async fn release(
        self: &Rc<Self>,
        wid: &Wid,
        end: WorkerEnd,
    ) -> Result<usize, StoreError> {
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
        let mut counts = KillCounts::new();
        if end == WorkerEnd::Killed {
            for (queue, jids) in jids {
                counts.extend(self.kill_counts(&mut connection, queue, jids.into_iter()).await?);
            }
        }
        let mut returning: BTreeMap<QueueName, Vec<(u64, Box<str>)>> = BTreeMap::new();
        let (released, now) = (held.len(), self.now());
        for (number, jid, queue) in held {
            let before = counts.get(&jid).copied();
            match rules::after_worker_end(end, before, self.limits.returns_max, now) {
                Return::Dies { times } => {
                    self.metrics.limit_hit(JobServerLimit::ReturnsMax);
                    tracing::warn!(%jid, times, "a job has killed too many workers: it is dead");
                    let report = rules::worker_killed(jid.clone(), times);
                    let cause = FailureCause::WorkerKilled;
                    ignore_lost(self.fail_job(&mut connection, number, report, cause).await)?;
                    self.forget_kills(&mut connection, queue.as_str(), &jid).await?;
                }
                Return::Waits(_) => returning.entry(queue).or_default().push((number, jid)),
            }
        }
        for (queue, jobs) in returning {
            // The script counts the kill of a job with a jid.
            let counted = |jid| if end == WorkerEnd::Killed { jid } else { "" };
            let fields: Vec<_> =
                jobs.iter().map(|(number, jid)| (*number, counted(&**jid))).collect();
            self.put_back(&mut connection, &queue, &fields).await?;
            self.state.borrow_mut().note_returned(&queue, &jobs, now);
        }
        self.wake_waiting_fetches();
        Ok(released)
    }

    /// Reads how often each of these jobs of a queue has killed its worker before.
    async fn kill_counts<'j>(
        &self,
        connection: &mut LinkConnection,
        queue: &str,
        jids: impl Iterator<Item = &'j str>,
    ) -> Result<KillCounts, StoreError> {
        let jids: Vec<&str> = jids.collect();
        if jids.is_empty() {
            return Ok(KillCounts::new());
        }
        let counts = connection.hmget(self.kills_key(queue), &jids).await;
        let counts: Vec<redis::Value> = match counts {
            // Of a key of another type, nothing is known.
            Err(error) if error.code() == Some("WRONGTYPE") => Vec::new(),
            counts => counts.map_err(|error| self.link.failed(&error))?,
        };
        let counts = counts.into_iter().map(|it| redis::from_redis_value::<String>(it).ok());
        let known = jids
            .iter()
            .zip(counts)
            .filter_map(|(jid, count)| Some(((*jid).into(), parse_kills(&count?)?)));
        Ok(known.collect())
    }

    async fn forget_kills(
        &self,
        connection: &mut LinkConnection,
        queue: &str,
        jid: &str,
    ) -> Result<(), StoreError> {
        let forgotten: Result<(), _> = connection.hdel(self.kills_key(queue), jid).await;
        forgotten.map_err(|error| self.link.failed(&error))
    }
}

impl super::store_core::StoreState {
    /// Ends reservations whose jobs wait again, and remembers them for a late ACK.
    fn note_returned(&mut self, queue: &QueueName, jobs: &[(u64, Box<str>)], now: Timestamp) {
        for (number, jid) in jobs {
            let ended = self.reservations.remove(*number);
            if let Some(run) = ended.and_then(|job| job.run) {
                run.returned(jid, now);
            }
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
