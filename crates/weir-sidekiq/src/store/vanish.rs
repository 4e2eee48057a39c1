//! Jobs whose worker ended: they return to their queue, or are dead if they have killed too many workers.
//!
//! How often a job did is counted in Redis for all nodes, by jid, and forgotten after three days.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use redis::AsyncCommands as _;
use weir_base::clock::Timestamp;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::model::{FailureCause, QueueName, Wid, WorkerEnd, WorkerKills};
use weir_jobs::rules::{self, Return};
use weir_jobs::store::StoreError;
use weir_jobs::tracks::TrackState;

use super::link_connection::LinkConnection;
use super::store_core::StoreCore;
use super::undelivered::{RETURNED_PER_SCRIPT_MAX, ReturningJob};

/// A reserved job: its number, its jid and its queue.
pub(super) type HeldJob = (u64, Box<str>, QueueName);

/// How often jobs have killed their workers, by jid.
type KillCounts = BTreeMap<Box<str>, WorkerKills>;

fn parse_kills(text: &str) -> Option<WorkerKills> {
    let (times, since) = text.split_once(' ')?;
    let since: u64 = since.parse().ok()?;
    let since = Timestamp::from_millis(since.saturating_mul(1_000));
    Some(WorkerKills { times: times.parse().ok()?, since })
}

impl StoreCore {
    /// Releases the reservations of a worker that is gone, of those that entered the table up to the place `last`. Returns
    /// their number.
    pub(super) async fn release(
        self: &Rc<Self>,
        wid: &Wid,
        last: u64,
        end: WorkerEnd,
    ) -> Result<usize, StoreError> {
        let mut connection = self.ready().await?;
        let held: Vec<HeldJob> = {
            let state = self.state.borrow();
            let held = state.reservations.held_until(wid, last);
            held.map(|(number, job)| (number, job.jid.clone(), job.queue.clone())).collect()
        };
        let released = held.len();
        let returned = self.return_held(&mut connection, held, end).await;
        self.wake_waiting_fetches();
        returned.map(|()| released)
    }

    /// Returns the jobs of workers that ended. A job or a queue that can't be written now keeps no other one.
    pub(super) async fn return_held(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        held: Vec<HeldJob>,
        end: WorkerEnd,
    ) -> Result<(), StoreError> {
        let mut by_queue: BTreeMap<QueueName, Vec<(u64, Box<str>)>> = BTreeMap::new();
        for (number, jid, queue) in held {
            by_queue.entry(queue).or_default().push((number, jid));
        }
        let mut failed = None;
        for (queue, jobs) in by_queue {
            let returned = self.return_to_queue(connection, &queue, jobs, end).await;
            failed = failed.or(returned.err());
        }
        failed.map_or(Ok(()), Err)
    }

    async fn return_to_queue(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        queue: &QueueName,
        jobs: Vec<(u64, Box<str>)>,
        end: WorkerEnd,
    ) -> Result<(), StoreError> {
        let is_counted = end == WorkerEnd::Killed;
        let jids = jobs.iter().map(|(_, jid)| &**jid).filter(|_| is_counted);
        let counts = self.kill_counts(connection, queue.as_str(), jids).await?;
        let now = self.now();
        let (mut returning, mut failed) = (Vec::new(), None);
        for (number, jid) in jobs {
            let before = counts.get(&jid).copied();
            match rules::after_worker_end(end, before, self.limits.returns_max, now) {
                Return::Dies { times } => {
                    let died = self.die(connection, queue, number, jid, times).await;
                    failed = failed.or(died.err());
                }
                Return::Waits(_) => returning.push((number, jid)),
            }
        }
        // The lowest number is served first, so it returns last.
        returning.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        let mut counted = BTreeSet::new();
        for step in returning.chunks(RETURNED_PER_SCRIPT_MAX) {
            // The script counts the kill of a job with a jid. Two jobs with one jid were one worker's.
            let jobs = step.iter().map(|(number, jid)| {
                let is_first = is_counted && counted.insert(&**jid);
                let jid = if is_first { &**jid } else { "" };
                ReturningJob { number: *number, jid, lock: None }
            });
            let jobs = jobs.collect();
            self.put_back(connection, queue, jobs).await?;
            self.state.borrow_mut().note_returned(queue, step, now);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Moves a job that has killed too many workers to the dead set.
    async fn die(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        queue: &QueueName,
        number: u64,
        jid: Box<str>,
        times: u8,
    ) -> Result<(), StoreError> {
        let report = rules::worker_killed(jid.clone(), times);
        match self.fail_job(connection, number, report, FailureCause::WorkerKilled).await {
            Ok(_) => {
                self.metrics.limit_hit(JobServerLimit::ReturnsMax);
                tracing::warn!(%jid, times, "a job has killed too many workers: it is dead");
                Ok(())
            }
            // An earlier call has returned it, and the reply was lost: this kill is counted.
            Err(StoreError::NotFound(_)) => {
                self.state.borrow_mut().note_returned(queue, &[(number, jid)], self.now());
                Ok(())
            }
            Err(error) => Err(error),
        }
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

    /// Makes known in another queue how often jobs have killed their workers, where each queue has counts of its
    /// own. Those of the first queue are forgotten with age.
    pub(super) async fn copy_kills(
        &self,
        connection: &mut LinkConnection,
        from: &str,
        to: &str,
        jids: &[String],
    ) -> Result<(), StoreError> {
        if self.kills_key(from) == self.kills_key(to) {
            return Ok(());
        }
        let jids = jids.iter().map(String::as_str);
        let counts = self.kill_counts(connection, from, jids).await?;
        let text =
            |kills: WorkerKills| format!("{} {}", kills.times, kills.since.as_millis() / 1_000);
        let counts: Vec<(String, String)> =
            counts.into_iter().map(|(jid, kills)| (jid.into(), text(kills))).collect();
        if counts.is_empty() {
            return Ok(());
        }
        let mut command = redis::cmd("HSET");
        command.arg(self.kills_key(to)).arg(&counts);
        match command.query_async(connection).await {
            Err(error) if error.code() == Some("WRONGTYPE") => Ok(()),
            copied => copied.map_err(|error| self.link.failed(&error)),
        }
    }

    /// Forgets how often jobs of a queue have killed their workers, because they are dead.
    pub(super) async fn forget_kills(
        &self,
        mut connection: LinkConnection,
        queue: &str,
        jids: &[&str],
    ) -> Result<(), StoreError> {
        match connection.hdel(self.kills_key(queue), jids).await {
            // Nothing is counted in a key of another type.
            Err(error) if error.code() == Some("WRONGTYPE") => Ok(()),
            forgotten => forgotten.map_err(|error| self.link.failed(&error)),
        }
    }
}

impl super::store_core::StoreState {
    /// Ends reservations whose jobs wait again, and remembers them for a late ACK.
    fn note_returned(&mut self, queue: &QueueName, jobs: &[(u64, Box<str>)], now: Timestamp) {
        for (number, jid) in jobs {
            let ended = self.reservations.remove(*number);
            if let Some(job) = &ended {
                self.note_reserved(job, TrackState::Enqueued);
            }
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
