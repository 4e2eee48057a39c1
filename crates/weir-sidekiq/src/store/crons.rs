//! Cron jobs: which of their times were handled, and their jobs.
//!
//! All nodes enqueue the jobs of their schedules, and the first one that handles a time is the only one. Redis' clock
//! decides what is due, so the clocks of the nodes do not matter.
//!
//! On a server without slots, one script notes the time and stores the job. Where keys are divided among servers, the two
//! are on different slots. A node claims the time first, with the job's text. The claim decides which queue gets the job,
//! whatever other nodes have in their settings. A script then stores the job and notes the time beside the list, so that it may be
//! repeated by any node, and the claim ends. A claim that was not carried out is found by the next node that handles a
//! time of the cron job. If that is a later time, the claim ends without a job, because only the last of several
//! missed times counts.

use std::collections::BTreeMap;
use std::rc::Rc;

use redis::AsyncCommands as _;
use weir_base::clock::Timestamp;
use weir_jobs::cron::{CRON_KEPT, CronRunOutcome, CronState, CronStates};
use weir_jobs::custom::BatchId;
use weir_jobs::job::JobBatch;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::model::NewJob;
use weir_jobs::store::StoreError;

use super::link_connection::LinkConnection;
use super::push::pushed_features;
use super::push_call::{PlacedJob, PushCall, PushMode, PushReply};
use super::push_memory::PushMemory;
use super::store_core::StoreCore;
use super::unsupported::check_supported;

/// A node notes this often that its settings have a cron job.
const NOTED_EVERY_SECONDS: u64 = 3_600;
/// Claims of other nodes that one call carries out.
const CLAIMS_MAX: usize = 10;

/// Whether a script stores the job of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobStep {
    Push,
    Skip,
}

impl StoreCore {
    /// Registers the names of the cron jobs in the settings of this node. Returns what is remembered.
    pub(super) async fn cron_register(
        self: &Rc<Self>,
        names: &[&str],
    ) -> Result<CronStates, StoreError> {
        let mut connection = self.ready().await?;
        let mut invocation = self.crons.register.key(self.keys.cron());
        invocation.arg(self.micros_argument()).arg(CRON_KEPT.as_secs()).arg(NOTED_EVERY_SECONDS);
        invocation.arg(names);
        let reply: Result<Vec<String>, _> = invocation.invoke_async(&mut connection).await;
        Ok(states_of(&reply.map_err(|error| self.link.failed(&error))?))
    }

    /// Handles the time `at` of a cron job, and stores `job` for it: both or neither.
    pub(super) async fn cron_run(
        self: &Rc<Self>,
        name: &str,
        at: Timestamp,
        job: Option<NewJob<'_>>,
    ) -> Result<CronRunOutcome, StoreError> {
        let mut connection = self.ready().await?;
        if let Some(job) = &job {
            if !self.keeps_features() {
                check_supported(std::slice::from_ref(job))?;
            }
            self.make_room_for_queues(&mut connection, &[job.queue].into()).await?;
            if !self.is_split() {
                return self.cron_step(&mut connection, name, at, job, JobStep::Push).await;
            }
        }
        let json = job.as_ref().map(|job| job.json).unwrap_or_default();
        for _ in 0..CLAIMS_MAX {
            let claimed = self.cron_claim(&mut connection, name, at, json).await?;
            if let Some(outcome) = outcome_of(&claimed) {
                return Ok(outcome);
            }
            let (time, json) = parse_claim(&claimed).ok_or_else(|| unreadable_claim(name))?;
            let step = if time == at && job.is_some() { JobStep::Push } else { JobStep::Skip };
            let outcome = self.carry_out(&mut connection, name, time, json, step).await?;
            if time == at {
                return Ok(outcome);
            }
        }
        Err(StoreError::Unavailable(format!("other nodes claim times of the cron job {name:?}")))
    }

    /// Pauses or resumes a cron job, or replaces its last time as well.
    pub(super) async fn cron_set(
        self: &Rc<Self>,
        name: &str,
        last: Option<Timestamp>,
        paused: bool,
    ) -> Result<(), StoreError> {
        let mut connection = self.ready().await?;
        let last = last.map(|last| last.as_micros().to_string()).unwrap_or_default();
        let mut invocation = self.crons.set.key(self.keys.cron());
        invocation.arg(name).arg(last).arg(u8::from(paused)).arg(self.second_now());
        let set: Result<(), _> = invocation.invoke_async(&mut connection).await;
        set.map_err(|error| self.link.failed(&error))
    }

    pub(super) async fn cron_forget(self: &Rc<Self>, name: &str) -> Result<(), StoreError> {
        let mut connection = self.ready().await?;
        for key in [self.keys.cron_claims(), self.keys.cron()] {
            let deleted: Result<(), _> = connection.hdel(key, name).await;
            deleted.map_err(|error| self.link.failed(&error))?;
        }
        Ok(())
    }

    async fn cron_claim(
        &self,
        connection: &mut LinkConnection,
        name: &str,
        at: Timestamp,
        json: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        let mut invocation = self.crons.claim.key(self.keys.cron());
        invocation.key(self.keys.cron_claims());
        invocation.arg(name).arg(at.as_micros()).arg(self.second_now()).arg(json);
        let claimed = invocation.invoke_async(connection).await;
        claimed.map_err(|error| self.link.failed(&error))
    }

    /// Stores the job of a claim, unless another node has done so, and ends the claim.
    async fn carry_out(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        name: &str,
        at: Timestamp,
        json: &[u8],
        step: JobStep,
    ) -> Result<CronRunOutcome, StoreError> {
        let mut batch = JobBatch::new();
        let job = batch.parse_one(json, self.now(), &self.limits);
        let job = job.map_err(|_| unreadable_claim(name))?;
        if step == JobStep::Push {
            self.add_queues(connection, &[job.queue]).await?;
        }
        let outcome = self.cron_step(connection, name, at, &job, step).await?;
        let mut invocation = self.crons.done.key(self.keys.cron());
        invocation.key(self.keys.cron_claims());
        invocation.arg(name).arg(at.as_micros()).arg(self.second_now());
        let done: Result<(), _> = invocation.invoke_async(connection).await;
        // The job is stored. A node that finds the claim again ends it.
        if let Err(error) = done {
            drop(self.link.failed(&error));
            tracing::debug!(%error, cron = name, "a claim is not ended");
        }
        Ok(outcome)
    }

    /// Notes a time as handled and stores its job, in one script.
    async fn cron_step(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        name: &str,
        at: Timestamp,
        job: &NewJob<'_>,
        step: JobStep,
    ) -> Result<CronRunOutcome, StoreError> {
        let placed = [(job, None)];
        let (times, kept, call) = match self.is_split() {
            true => {
                let call = PushCall::of_one_slot(&placed, &self.keys, PushMemory::OFF, || {
                    self.next_order()
                });
                let times = self.keys.cron_beside(&self.keys.list(job.queue));
                (times, CRON_KEPT.as_secs().to_string(), call)
            }
            false => (self.keys.cron(), String::new(), self.cron_push(&placed)),
        };
        let mode = if step == JobStep::Push { "push" } else { "skip" };
        let mut invocation = self.crons.run.of(call.has_features()).key(times);
        invocation.arg(name).arg(at.as_micros()).arg(self.second_now()).arg(kept).arg(mode);
        call.add_to(&mut invocation);
        let reply: Result<Vec<u8>, _> = invocation.invoke_async(connection).await;
        let reply = reply.map_err(|error| self.link.failed(&error))?;
        match &*reply {
            b"no-room" => {
                self.metrics.limit_hit(JobServerLimit::UniqueLocksMax);
                return Err(StoreError::too_many_unique_jobs(self.limits.unique_locks_max));
            }
            b"no-batch" => {
                return Err(StoreError::NoSuchBatch(job.custom.batch.unwrap_or(BatchId::NONE)));
            }
            _ => {}
        }
        let outcome = outcome_of(&reply).unwrap_or(CronRunOutcome::HandledBefore);
        if step == JobStep::Push && reply == b"handled" {
            self.count_pushed(&placed, &PushReply::default());
            self.wake_waiting_fetches();
        }
        Ok(outcome)
    }

    /// Returns the call that stores the job of a time on a server that has all keys.
    fn cron_push(&self, placed: &[PlacedJob<'_>]) -> PushCall {
        let call = PushCall::new(placed, &self.keys, PushMemory::OFF, || self.next_order());
        let features = placed.first().and_then(|(job, _)| pushed_features(0, job));
        let features = features.as_slice();
        let (now, max) = (self.micros_argument(), self.limits.unique_locks_max);
        call.with_features(features, placed, PushMode::All, &now, max, &self.keys)
    }

    fn second_now(&self) -> u64 {
        self.now().as_micros() / 1_000_000
    }
}

/// Returns what became of a time, unless the reply is a claim.
fn outcome_of(reply: &[u8]) -> Option<CronRunOutcome> {
    match reply {
        b"handled" | b"left-out" => Some(CronRunOutcome::Handled),
        b"paused" => Some(CronRunOutcome::Paused),
        b"before" => Some(CronRunOutcome::HandledBefore),
        _ => None,
    }
}

fn parse_claim(claim: &[u8]) -> Option<(Timestamp, &[u8])> {
    let space = claim.iter().position(|byte| *byte == b' ')?;
    let (micros, json) = claim.split_at(space);
    let micros = std::str::from_utf8(micros).ok()?.parse().ok()?;
    Some((Timestamp::from_micros(micros), &json[1..]))
}

fn unreadable_claim(name: &str) -> StoreError {
    StoreError::Limit(format!("the claim of the cron job {name:?} in Redis is no time and job"))
}

/// Parses the reply of the script that registers cron jobs.
fn states_of(reply: &[String]) -> CronStates {
    let time = |text: &String| Timestamp::from_micros(text.parse().unwrap_or_default());
    let Some((now, parts)) = reply.split_first() else { return CronStates::default() };
    let states = parts
        .chunks_exact(3)
        .map(|part| (part[0].clone(), CronState { last: time(&part[1]), paused: part[2] == "1" }));
    CronStates { now: time(now), by_name: states.collect::<BTreeMap<_, _>>() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read() {
        let reply = ["9000000", "a", "7000001", "0", "b c", "0", "1"].map(str::to_owned);
        let states = states_of(&reply);
        assert_eq!(states.now, Timestamp::from_micros(9_000_000));
        let state = |last, paused| CronState { last: Timestamp::from_micros(last), paused };
        assert_eq!(states.by_name.get("a"), Some(&state(7_000_001, false)));
        assert_eq!(states.by_name.get("b c"), Some(&state(0, true)));
        assert_eq!(states_of(&[]), CronStates::default());
    }

    #[test]
    fn claims_are_read() {
        let at = Timestamp::from_micros(7);
        assert_eq!(parse_claim(br#"7 {"a": 1}"#), Some((at, br#"{"a": 1}"#.as_slice())));
        for odd in ["", "7", "x {}"] {
            assert_eq!(parse_claim(odd.as_bytes()), None, "{odd}");
        }
    }
}
