//! Sets a queue's backlog aside as a separate queue and brings it back. With
//! [`LimitedQueues`](crate::LimitedQueues), the only part of the crate that writes to a stock Sidekiq's
//! Redis.
//!
//! New jobs wait behind a backlog. Once its list is renamed to `QUEUE_backlog`, which a process
//! serves last, new jobs run at once, and old ones when the other queues are empty. Jobs are pushed
//! at the head of a list and taken from its tail, so the backlog is brought back behind the tail,
//! because it is older than all newer jobs. Each step is a script, so it is atomic.

use std::time::Duration;

use redis::Script;
use weir_base::clock::Timestamp;

use crate::connection::RedisConnection;
use crate::error::SidekiqError;
use crate::heartbeat::{Capsule, CapsuleMode, WeightedQueue};
use crate::keys;
use crate::snapshot::ProcessSample;

const SUFFIX: &str = "_backlog";

/// The permissions needed in addition to [`READ_ONLY_ACL`](crate::READ_ONLY_ACL).
const GRANT: &str = "+eval +evalsha +script|load +exists +llen +rename +sadd +srem +lpop +rpush";

/// Returns -1 if there is a backlog already.
const SET_ASIDE: &str = "if redis.call('EXISTS', KEYS[2]) == 1 then return -1 end \
    local length = redis.call('LLEN', KEYS[1]) \
    if length == 0 then return 0 end \
    redis.call('RENAME', KEYS[1], KEYS[2]) \
    redis.call('SADD', KEYS[3], ARGV[1]) \
    return length";

/// Moves the newest jobs of the backlog first, so that the oldest ends up at the tail, and returns
/// the number of remaining jobs. Adds the queue to the set of names, because Sidekiq may have
/// removed it with its last job; removes the backlog's name with its last job.
const BRING_BACK: &str = "if redis.call('LLEN', KEYS[2]) > 0 then redis.call('SADD', KEYS[3], ARGV[3]) end \
    for step = 1, tonumber(ARGV[2]) do \
      local job = redis.call('LPOP', KEYS[2]) \
      if not job then break end \
      redis.call('RPUSH', KEYS[1], job) \
    end \
    local left = redis.call('LLEN', KEYS[2]) \
    if left == 0 then redis.call('SREM', KEYS[3], ARGV[1]) end \
    return left";

/// Jobs moved per step. That takes Redis less than 10 ms for jobs of 2 kB.
const STEP_JOBS: u64 = 1_000;

/// A process sends a heartbeat every 10 s; the key expires after a minute.
const BEAT_AGE_MAX: Duration = Duration::from_secs(30);

/// The outcome of setting a queue aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAside {
    /// The number of jobs now in the backlog.
    Done(u64),
    /// The queue has no jobs.
    Empty,
    /// There is an earlier backlog, which is not overwritten.
    Exists,
}

/// A queue and its backlog.
#[derive(Debug)]
pub struct Backlog {
    connection: RedisConnection,
    queue: String,
}

impl Backlog {
    /// Uses `connection` for the backlog of `queue`.
    #[must_use]
    pub fn of(connection: RedisConnection, queue: &str) -> Self {
        Self { connection, queue: queue.to_owned() }
    }

    /// Sets the whole queue aside in one step.
    ///
    /// # Errors
    /// Returns an error if the Redis is unreachable or denies permission.
    pub async fn set_aside(&mut self) -> Result<SetAside, SidekiqError> {
        let answer = self.invoke(SET_ASIDE, 0).await?;
        Ok(match u64::try_from(answer) {
            Err(_) => SetAside::Exists,
            Ok(0) => SetAside::Empty,
            Ok(jobs) => SetAside::Done(jobs),
        })
    }

    /// Moves some jobs back and returns the number of remaining ones. May be interrupted between
    /// two calls and continued later.
    ///
    /// # Errors
    /// Returns an error if the Redis is unreachable or denies permission.
    pub async fn bring_back(&mut self) -> Result<u64, SidekiqError> {
        Ok(u64::try_from(self.invoke(BRING_BACK, STEP_JOBS).await?).unwrap_or_default())
    }

    async fn invoke(&mut self, script: &str, jobs: u64) -> Result<i64, SidekiqError> {
        let backlog = backlog_of(&self.queue);
        let script = Script::new(script);
        let mut invocation = script.key(keys::queue(&self.queue));
        invocation
            .key(keys::queue(&backlog))
            .key(keys::QUEUES)
            .arg(backlog)
            .arg(jobs)
            .arg(&self.queue);
        let answer = invocation.invoke_async(self.connection.inner()).await;
        answer.map_err(|error| self.connection.script_failed(&error, GRANT).into())
    }
}

/// Returns the name of a queue's backlog: `pull_backlog`.
#[must_use]
pub fn backlog_of(queue: &str) -> String {
    format!("{queue}{SUFFIX}")
}

/// Reports whether `queue` is a backlog.
#[must_use]
pub fn is_backlog(queue: &str) -> bool {
    queue.ends_with(SUFFIX)
}

/// Why a queue cannot be set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReady<'a> {
    /// This process serves the backlog before other queues.
    Before(&'a ProcessSample),
    /// No process serves the backlog. This process serves the queue.
    OnlyQueue(&'a ProcessSample),
    /// No process serves the queue, so its new jobs would not run either.
    Nobody,
}

/// Returns a process that serves the backlog of `queue`, if every process with the backlog serves
/// it last and some process serves the queue. `now` is the time of the sample of `processes`.
///
/// # Errors
/// Returns the condition that is not met.
pub fn served_last<'a>(
    processes: &'a [ProcessSample],
    queue: &str,
    now: Timestamp,
) -> Result<&'a ProcessSample, NotReady<'a>> {
    let backlog = backlog_of(queue);
    let live = |process: &&ProcessSample| {
        let age = process.beat_age.or_else(|| process.beat.map(|beat| now.since(beat)));
        let beats = age.is_none_or(|age| age <= BEAT_AGE_MAX);
        beats && !process.quiet
    };
    let serving = |name: &str| {
        processes.iter().filter(live).find(|process| process.served().any(|it| it == name))
    };
    let is_first = |process: &&ProcessSample| {
        !process.capsules.iter().all(|capsule| leaves_others_first(capsule, &backlog))
    };
    let own = serving(queue).ok_or(NotReady::Nobody)?;
    match processes.iter().filter(live).find(is_first) {
        Some(process) => Err(NotReady::Before(process)),
        None => serving(&backlog).ok_or(NotReady::OnlyQueue(own)),
    }
}

/// Returns the `-q` flags for the capsule of `process` that serves `queue`, with the backlog last.
/// They include all of its queues, because `-q` replaces those of the configuration file.
#[must_use]
pub fn queues_with_backlog(process: &ProcessSample, queue: &str) -> Vec<String> {
    let serves = |capsule: &&Capsule| capsule.queues.iter().any(|it| it.name == queue);
    let Some(capsule) = process.capsules.iter().find(serves) else { return Vec::new() };
    let backlog = backlog_of(queue);
    let others = || capsule.queues.iter().filter(|it| it.name != backlog);
    if matches!(capsule.mode, CapsuleMode::Strict | CapsuleMode::Unknown) {
        return others().map(|it| it.name.clone()).chain([backlog.clone()]).collect();
    }
    // The lowest possible weight is 1, which must be left to the backlog.
    let least = others().map(|it| it.weight).min().unwrap_or_default();
    let factor = if least < 2 { 2 } else { 1 };
    let weighted =
        |it: &WeightedQueue| format!("{},{}", it.name, it.weight.max(1).saturating_mul(factor));
    others().map(weighted).chain([format!("{backlog},1")]).collect()
}

fn leaves_others_first(capsule: &Capsule, backlog: &str) -> bool {
    let Some(at) = capsule.queues.iter().position(|queue| queue.name == backlog) else {
        return true;
    };
    let (own, others) = (capsule.queues[at].weight, capsule.queues.len() > 1);
    match capsule.mode {
        // Sidekiq 6 reports only the order. In strict order, the backlog would be last.
        CapsuleMode::Strict | CapsuleMode::Unknown => at + 1 == capsule.queues.len(),
        CapsuleMode::Random => !others,
        CapsuleMode::Weighted => {
            capsule.queues.iter().all(|queue| queue.name == backlog || queue.weight > own)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeat::WeightedQueue;

    fn process(identity: &str, mode: CapsuleMode, queues: &[(&str, u32)]) -> ProcessSample {
        let queue = |(name, weight): &(&str, u32)| WeightedQueue {
            name: (*name).to_owned(),
            weight: *weight,
        };
        let queues = queues.iter().map(queue).collect();
        let capsules = vec![Capsule { mode, queues, ..Capsule::default() }];
        ProcessSample { identity: identity.to_owned(), capsules, ..ProcessSample::default() }
    }

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn queue_owner(processes: &[ProcessSample]) -> Result<&str, NotReady<'_>> {
        served_last(processes, "pull", NOW).map(|process| process.identity.as_str())
    }

    #[test]
    fn a_backlog_must_be_the_last_of_whoever_serves_it() {
        let strict = |queues| process("strict", CapsuleMode::Strict, queues);
        let pull = strict(&[("pull", 0)]);
        let ready = strict(&[("push", 0), ("pull", 0), ("pull_backlog", 0)]);
        assert_eq!(queue_owner(std::slice::from_ref(&ready)), Ok("strict"));
        let first = strict(&[("pull_backlog", 0), ("pull", 0)]);
        assert_eq!(queue_owner(std::slice::from_ref(&first)), Err(NotReady::Before(&first)));
        assert_eq!(queue_owner(std::slice::from_ref(&pull)), Err(NotReady::OnlyQueue(&pull)));
        assert_eq!(queue_owner(&[]), Err(NotReady::Nobody));
        let own = strict(&[("pull_backlog", 0)]);
        assert_eq!(queue_owner(&[own.clone(), pull.clone()]), Ok("strict"));
        let before = process("before", CapsuleMode::Strict, &[("pull_backlog", 0), ("push", 0)]);
        let all = [own.clone(), pull.clone(), before];
        assert_eq!(queue_owner(&all), Err(NotReady::Before(&all[2])), "all of them");
        assert_eq!(queue_owner(&[ProcessSample { quiet: true, ..ready }]), Err(NotReady::Nobody));
        assert_eq!(queue_owner(&[own]), Err(NotReady::Nobody), "new jobs would not run either");
    }

    #[test]
    fn who_has_not_beaten_for_long_serves_nothing() {
        let beaten = |millis| ProcessSample {
            beat: Some(Timestamp::from_millis(millis)),
            ..process("p", CapsuleMode::Strict, &[("pull", 0), ("pull_backlog", 0)])
        };
        assert_eq!(queue_owner(&[beaten(975_000)]), Ok("p"));
        assert_eq!(queue_owner(&[beaten(1_004_000)]), Ok("p"), "its clock is ahead");
        assert_eq!(queue_owner(&[beaten(945_000)]), Err(NotReady::Nobody));
    }

    #[test]
    fn by_chance_it_must_have_the_least_of_it() {
        let weighted =
            |own| process("w", CapsuleMode::Weighted, &[("pull", 4), ("pull_backlog", own)]);
        assert_eq!(queue_owner(&[weighted(1)]), Ok("w"));
        assert!(matches!(queue_owner(&[weighted(4)]), Err(NotReady::Before(_))));
        let random = process("r", CapsuleMode::Random, &[("pull", 1), ("pull_backlog", 1)]);
        assert!(matches!(queue_owner(&[random]), Err(NotReady::Before(_))));
    }

    #[test]
    fn the_way_there_names_all_queues_and_is_one() {
        let flags = |mode, queues| queues_with_backlog(&process("p", mode, queues), "pull");
        assert_eq!(
            flags(CapsuleMode::Strict, &[("push", 0), ("pull", 0)]),
            ["push", "pull", "pull_backlog"]
        );
        assert_eq!(
            flags(CapsuleMode::Unknown, &[("pull_backlog", 0), ("pull", 0)]),
            ["pull", "pull_backlog"]
        );
        assert_eq!(
            flags(CapsuleMode::Weighted, &[("push", 8), ("pull", 1)]),
            ["push,16", "pull,2", "pull_backlog,1"]
        );
        assert_eq!(flags(CapsuleMode::Random, &[("pull", 1)]), ["pull,2", "pull_backlog,1"]);
        assert_eq!(flags(CapsuleMode::Weighted, &[("pull", 3)]), ["pull,3", "pull_backlog,1"]);
    }
}
