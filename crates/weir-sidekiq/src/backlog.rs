//! A queue's backlog, set aside as a queue of its own and brought back: the one thing here that writes.
//!
//! New jobs of a queue run behind its old ones. With the list renamed to `QUEUE_backlog`, which some
//! process serves last, new jobs run at once and the old ones when nothing else is to do. A list is
//! pushed to at its head and taken from at its tail, so what is brought back goes behind the tail:
//! older than all that came since. Each step is one script: all of it happens, or nothing.

use redis::{ErrorKind, Script, ServerErrorKind};

use crate::connection::Connection;
use crate::error::SidekiqError;
use crate::heartbeat::{Capsule, Mode};
use crate::keys;
use crate::snapshot::{ProcessLook, Refusal};

const SUFFIX: &str = "_backlog";

/// What a user of Redis needs beyond [`READ_ONLY_ACL`](crate::READ_ONLY_ACL).
const GRANT: &str = "+eval +evalsha +script|load +exists +llen +rename +sadd +srem +lpop +rpush";

/// -1: there is a backlog already.
const SET_ASIDE: &str = "if redis.call('EXISTS', KEYS[2]) == 1 then return -1 end \
    local length = redis.call('LLEN', KEYS[1]) \
    if length == 0 then return 0 end \
    redis.call('RENAME', KEYS[1], KEYS[2]) \
    redis.call('SADD', KEYS[3], ARGV[1]) \
    return length";

/// The newest of the backlog first, so that its oldest ends up at the tail. What is left is returned;
/// with the last job the name goes as well.
const BRING_BACK: &str = "for step = 1, tonumber(ARGV[2]) do \
      local job = redis.call('LPOP', KEYS[2]) \
      if not job then break end \
      redis.call('RPUSH', KEYS[1], job) \
    end \
    local left = redis.call('LLEN', KEYS[2]) \
    if left == 0 then redis.call('SREM', KEYS[3], ARGV[1]) end \
    return left";

/// Jobs of one step back: below 10 ms of Redis for jobs of 2 kB.
const STEP_JOBS: u64 = 1_000;

/// What became of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAside {
    /// So many jobs wait in its backlog now.
    Done(u64),
    /// It has no jobs.
    Empty,
    /// There is a backlog from before, which is never overwritten.
    Exists,
}

/// A queue and the backlog of it.
#[derive(Debug)]
pub struct Backlog {
    connection: Connection,
    queue: String,
}

impl Backlog {
    /// Of `queue`.
    #[must_use]
    pub fn of(connection: Connection, queue: &str) -> Self {
        Self { connection, queue: queue.to_owned() }
    }

    /// Sets it aside, whatever its length at once.
    ///
    /// # Errors
    /// When Redis can't be reached, or does not allow it.
    pub async fn set_aside(&mut self) -> Result<SetAside, SidekiqError> {
        let answer = self.invoke(SET_ASIDE, 0).await?;
        Ok(match u64::try_from(answer) {
            Err(_) => SetAside::Exists,
            Ok(0) => SetAside::Empty,
            Ok(jobs) => SetAside::Done(jobs),
        })
    }

    /// Brings back some jobs; how many are left. Whoever is killed between two steps goes on later.
    ///
    /// # Errors
    /// When Redis can't be reached, or does not allow it.
    pub async fn bring_back(&mut self) -> Result<u64, SidekiqError> {
        Ok(u64::try_from(self.invoke(BRING_BACK, STEP_JOBS).await?).unwrap_or_default())
    }

    async fn invoke(&mut self, script: &str, jobs: u64) -> Result<i64, SidekiqError> {
        let backlog = backlog_of(&self.queue);
        let script = Script::new(script);
        let mut invocation = script.key(keys::queue(&self.queue));
        invocation.key(keys::queue(&backlog)).key(keys::QUEUES).arg(backlog).arg(jobs);
        let answer = invocation.invoke_async(self.connection.inner()).await;
        answer.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &redis::RedisError) -> SidekiqError {
        let reason = error.detail().map_or_else(|| error.to_string(), str::to_owned);
        // Redis 6 tells a script's missing right with the code, 7 in words, other versions in others.
        let not_allowed = error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
            || ["NOPERM", "The user executing the script can't", "ACL failure in script"]
                .iter()
                .any(|sign| reason.contains(sign));
        if not_allowed {
            let (command, grant) = ("a script".to_owned(), Some(GRANT.to_owned()));
            return self.connection.refused(Refusal { command, reason, grant });
        }
        self.connection.failed(error)
    }
}

/// As a backlog is called: `pull_backlog`.
#[must_use]
pub fn backlog_of(queue: &str) -> String {
    format!("{queue}{SUFFIX}")
}

/// Whether `queue` is a backlog itself.
#[must_use]
pub fn is_backlog(queue: &str) -> bool {
    queue.ends_with(SUFFIX)
}

/// Who serves the backlog of a queue, which must be nobody before anything else.
///
/// # Errors
/// The process that serves it before other queues; none: nobody serves it at all.
pub fn served_last<'a>(
    processes: &'a [ProcessLook],
    queue: &str,
) -> Result<&'a ProcessLook, Option<&'a ProcessLook>> {
    let backlog = backlog_of(queue);
    let serves = |process: &&ProcessLook| process.served().any(|served| served == backlog);
    let is_last = |process: &&ProcessLook| {
        process.capsules.iter().all(|capsule| leaves_others_first(capsule, &backlog))
    };
    let serving = || processes.iter().filter(|process| !process.quiet).filter(serves);
    match serving().find(|process| !is_last(process)) {
        Some(process) => Err(Some(process)),
        None => serving().next().ok_or(None),
    }
}

fn leaves_others_first(capsule: &Capsule, backlog: &str) -> bool {
    let Some(at) = capsule.queues.iter().position(|queue| queue.name == backlog) else {
        return true;
    };
    let (own, others) = (capsule.queues[at].weight, capsule.queues.len() > 1);
    match capsule.mode {
        // Sidekiq 6 tells the order only; in that of a strict process it is the last.
        Mode::Strict | Mode::Unknown => at + 1 == capsule.queues.len(),
        Mode::Random => !others,
        Mode::Weighted => {
            capsule.queues.iter().all(|queue| queue.name == backlog || queue.weight > own)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeat::WeightedQueue;

    fn process(identity: &str, mode: Mode, queues: &[(&str, u32)]) -> ProcessLook {
        let queue = |(name, weight): &(&str, u32)| WeightedQueue {
            name: (*name).to_owned(),
            weight: *weight,
        };
        let queues = queues.iter().map(queue).collect();
        let capsules = vec![Capsule { mode, queues, ..Capsule::default() }];
        ProcessLook { identity: identity.to_owned(), capsules, ..ProcessLook::default() }
    }

    fn who(processes: &[ProcessLook]) -> Result<&str, Option<&str>> {
        let identity = |process: &ProcessLook| process.identity.as_str().to_owned();
        match served_last(processes, "pull") {
            Ok(process) => Ok(&process.identity),
            Err(process) => {
                assert!(process.is_none_or(|it| !identity(it).is_empty()));
                Err(process.map(|it| it.identity.as_str()))
            }
        }
    }

    #[test]
    fn a_backlog_must_be_the_last_of_whoever_serves_it() {
        let strict = |queues| process("strict", Mode::Strict, queues);
        assert_eq!(who(&[strict(&[("push", 0), ("pull", 0), ("pull_backlog", 0)])]), Ok("strict"));
        assert_eq!(who(&[strict(&[("pull_backlog", 0), ("pull", 0)])]), Err(Some("strict")));
        assert_eq!(who(&[strict(&[("pull", 0)])]), Err(None));
        assert_eq!(who(&[]), Err(None));
        let own = strict(&[("pull_backlog", 0)]);
        let before = process("before", Mode::Strict, &[("pull_backlog", 0), ("push", 0)]);
        assert_eq!(who(&[own.clone(), before]), Err(Some("before")), "all of them");
        assert_eq!(who(&[ProcessLook { quiet: true, ..own }]), Err(None));
    }

    #[test]
    fn by_chance_it_must_have_the_least_of_it() {
        let weighted = |own| process("w", Mode::Weighted, &[("pull", 4), ("pull_backlog", own)]);
        assert_eq!(who(&[weighted(1)]), Ok("w"));
        assert_eq!(who(&[weighted(4)]), Err(Some("w")));
        let random = process("r", Mode::Random, &[("pull", 1), ("pull_backlog", 1)]);
        assert_eq!(who(&[random]), Err(Some("r")));
    }
}
