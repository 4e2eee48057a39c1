//! Moves the waiting jobs of one class to a queue of their own, and back: the limit of a class that Sidekiq does not have.
//! With [`Backlog`](crate::Backlog), the only part of the crate that writes to a stock Sidekiq's Redis.
//!
//! The process that serves the limited queue (`QUEUE_limited_CLASS`) sets how many of these jobs run at once. A step looks
//! at the jobs that are fetched next, at most [`WINDOW_JOBS`] of them, so its cost does not depend on the length of the
//! queue. Jobs of other classes, and what cannot be parsed, keep their places.
//!
//! Each step is a script that checks its permissions before it removes anything, so that no job is lost or duplicated if it
//! is rejected, or if the caller is killed between two steps. [`REGISTRY`] has each limited queue from before its first job
//! until [`forget`](LimitedQueues::forget), and a lease says whether somebody still limits it: where there is none, anyone
//! may bring the jobs back.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Script, ScriptInvocation};

use crate::connection::RedisConnection;
use crate::error::SidekiqError;
use crate::keys;

/// Jobs that a step looks at. For jobs of 2 kB that takes Redis 3 ms if none is of the class, and 9 ms if all are, on a busy
/// machine; half of that is reading them.
pub const WINDOW_JOBS: u64 = 500;
/// Limited queues that are read from the registry.
const LIMITED_QUEUES_MAX: usize = 1_000;
/// Limit of the name of a limited queue in bytes: what `[workers.NAME]` may serve.
const NAME_BYTES_MAX: usize = 128;
const INFIX: &str = "_limited_";
/// A hash: the limited queue, and `CLASS QUEUE`.
const REGISTRY: &str = "weir:limited_queues";
/// The queue of the check of permissions, which has no jobs before and after it.
const PROBED: &str = "weir_limited_probe";

/// The permissions needed in addition to [`READ_ONLY_ACL`](crate::READ_ONLY_ACL).
const GRANT: &str = "+eval +evalsha +script|load +lrange +llen +ltrim +lpush +rpush +sadd +srem +hset +hdel +hexists \
    +hgetall +set +del +exists";

/// Removes the window from the list, and appends the jobs of other classes again; those of the class are the newest of the
/// limited queue. A command that is not permitted is rejected before the first job is removed. Where no job is moved, only the
/// lease is renewed, if there is something to lease.
const MOVE: &str = r"
local function class_of(payload)
  local ok, job = pcall(cjson.decode, payload)
  if not ok or type(job) ~= 'table' then return nil end
  for _, name in ipairs({'display_class', 'wrapped', 'class'}) do
    if type(job[name]) == 'string' then return job[name] end
  end
end
local function push(command, key, jobs)
  for first = 1, #jobs, 100 do
    redis.call(command, key, unpack(jobs, first, math.min(first + 99, #jobs)))
  end
end
local window = redis.call('LRANGE', KEYS[1], -tonumber(ARGV[1]), -1)
local is_class, newest, taken = {}, nil, 0
for place, payload in ipairs(window) do
  if string.find(payload, ARGV[3], 1, true) and class_of(payload) == ARGV[2] then
    is_class[place] = true
    newest = newest or place
    taken = taken + 1
  end
end
if taken == 0 then
  if redis.call('HEXISTS', KEYS[4], ARGV[4]) == 1 then redis.call('SET', KEYS[5], '1', 'PX', ARGV[6]) end
  return 0
end
local own, others = {}, {}
for place = newest, #window do
  if not is_class[place] then others[#others + 1] = window[place] end
end
for place = #window, newest, -1 do
  if is_class[place] then own[#own + 1] = window[place] end
end
redis.call('LTRIM', KEYS[1], 0, -1)
redis.call('RPUSH', KEYS[2], '')
redis.call('LTRIM', KEYS[2], 0, -2)
redis.call('HSET', KEYS[4], ARGV[4], ARGV[2] .. ' ' .. ARGV[5])
redis.call('SADD', KEYS[3], ARGV[4])
redis.call('SET', KEYS[5], '1', 'PX', ARGV[6])
push('LPUSH', KEYS[2], own)
redis.call('LTRIM', KEYS[1], 0, -(#window - newest + 2))
push('RPUSH', KEYS[1], others)
return taken";

/// Moves the newest jobs first, so that the oldest ends up at the tail, which is fetched next. Returns the numbers of moved and
/// of remaining jobs; nothing: somebody holds the lease.
const BRING_BACK: &str = r"
if ARGV[4] == '1' and redis.call('EXISTS', KEYS[5]) == 1 then return {} end
local jobs = redis.call('LRANGE', KEYS[2], 0, tonumber(ARGV[1]) - 1)
if #jobs > 0 then
  redis.call('LTRIM', KEYS[2], 0, -1)
  redis.call('SADD', KEYS[3], ARGV[3])
  for first = 1, #jobs, 100 do
    redis.call('RPUSH', KEYS[1], unpack(jobs, first, math.min(first + 99, #jobs)))
  end
  redis.call('LTRIM', KEYS[2], #jobs, -1)
end
redis.call('DEL', KEYS[5])
local left = redis.call('LLEN', KEYS[2])
if left == 0 then redis.call('SREM', KEYS[3], ARGV[2]) end
return {#jobs, left}";

/// Removes an empty limited queue from the registry, unless somebody limits it again.
const FORGET: &str = r"
if redis.call('EXISTS', KEYS[5]) == 1 or redis.call('LLEN', KEYS[2]) > 0 then return 0 end
redis.call('SREM', KEYS[3], ARGV[1])
return redis.call('HDEL', KEYS[4], ARGV[1])";

/// Uses each command of the other scripts on keys that nobody else uses, and leaves none of them: first those that remove.
const PROBE: &str = r"
redis.call('LTRIM', KEYS[1], 0, -1)
redis.call('LRANGE', KEYS[1], 0, 0)
redis.call('LLEN', KEYS[1])
redis.call('DEL', KEYS[1], KEYS[5])
redis.call('SREM', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('HEXISTS', KEYS[4], ARGV[1])
redis.call('EXISTS', KEYS[5])
local failed
for _, command in ipairs({
  {'SET', KEYS[5], '1', 'PX', '1000'}, {'HSET', KEYS[4], ARGV[1], ''}, {'SADD', KEYS[3], ARGV[1]},
  {'RPUSH', KEYS[1], ''}, {'LPUSH', KEYS[1], ''}
}) do
  local reply = redis.pcall(unpack(command))
  if type(reply) == 'table' and reply.err then failed = failed or reply end
end
redis.call('DEL', KEYS[1], KEYS[5])
redis.call('SREM', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1])
return failed or 'OK'";

/// A queue with the jobs of one class of another queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitedQueue {
    /// Its name.
    pub name: String,
    /// The class.
    pub class: String,
    /// The queue that the jobs are from, and go back to.
    pub queue: String,
}

/// What is known of a limited queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitedQueueState {
    /// The queue.
    pub queue: LimitedQueue,
    /// Its jobs.
    pub length: u64,
    /// Whether somebody limits the class now.
    pub is_leased: bool,
}

/// The outcome of a step back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BroughtBack {
    /// So many jobs were moved, and so many remain in the limited queue.
    Moved { moved: u64, left: u64 },
    /// Somebody limits the class now.
    Leased,
}

/// The limited queues in one Redis.
#[derive(Debug)]
pub struct LimitedQueues(RedisConnection);

impl LimitedQueue {
    /// Returns the limited queue of a class' jobs in `queue`.
    ///
    /// # Errors
    /// The class or the queue has a name that no queue can have.
    pub fn of(queue: &str, class: &str) -> Result<Self, String> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_:.-".contains(letter);
        let name = format!("{queue}{INFIX}{class}");
        if class.is_empty() || !name.chars().all(is_plain) || name.starts_with('-') {
            return Err(format!(
                "the jobs of {class} in {queue} can't get a queue of their own: names of queues have letters, digits, _ : . - only"
            ));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(format!(
                "{name} would be a queue with a name of more than {NAME_BYTES_MAX} bytes"
            ));
        }
        Ok(Self { name, class: class.to_owned(), queue: queue.to_owned() })
    }

    /// Parses an entry of the registry.
    fn parse(name: String, value: &str) -> Option<Self> {
        let (class, queue) = value.split_once(' ')?;
        Some(Self { name, class: class.to_owned(), queue: queue.to_owned() })
    }

    fn lease(&self) -> String {
        format!("{REGISTRY}:{}", self.name)
    }
}

impl LimitedQueues {
    /// Uses `connection`.
    #[must_use]
    pub const fn new(connection: RedisConnection) -> Self {
        Self(connection)
    }

    /// Checks that jobs may be moved, without moving any.
    ///
    /// # Errors
    /// Returns an error with the missing permissions, or if the Redis cannot be used for it.
    pub async fn check(&mut self) -> Result<(), SidekiqError> {
        let probed = LimitedQueue {
            name: PROBED.to_owned(),
            class: String::new(),
            queue: PROBED.to_owned(),
        };
        let script = Script::new(PROBE);
        let mut invocation = on_keys_of(&script, &probed);
        invocation.arg(&probed.name);
        let outcome: redis::RedisResult<String> = invocation.invoke_async(self.0.inner()).await;
        outcome.map(drop).map_err(|error| self.failed(&error))
    }

    /// Moves the jobs of the class among those that are fetched next, and returns their number. The limited queue is leased
    /// for `lease` if it has, or had, any.
    ///
    /// # Errors
    /// Returns an error if the Redis is unreachable or denies permission; then nothing was moved.
    pub async fn move_jobs(
        &mut self,
        limited: &LimitedQueue,
        lease: Duration,
    ) -> Result<u64, SidekiqError> {
        let script = Script::new(MOVE);
        let mut invocation = on_keys_of(&script, limited);
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX).max(1);
        // A class with other characters may be escaped in the job.
        let is_literal = |letter: char| letter.is_ascii_alphanumeric() || "_:.-".contains(letter);
        let contained = if limited.class.chars().all(is_literal) { &limited.class } else { "" };
        invocation
            .arg(WINDOW_JOBS)
            .arg(&limited.class)
            .arg(contained)
            .arg(&limited.name)
            .arg(&limited.queue)
            .arg(lease_ms);
        let moved = invocation.invoke_async(self.0.inner()).await;
        moved.map_err(|error| self.failed(&error))
    }

    /// Moves some jobs back, ahead of newer ones. May be interrupted between two calls and continued by anyone.
    /// `is_own`: also if the lease is in force.
    ///
    /// # Errors
    /// Returns an error if the Redis is unreachable or denies permission.
    pub async fn bring_back(
        &mut self,
        limited: &LimitedQueue,
        is_own: bool,
    ) -> Result<BroughtBack, SidekiqError> {
        let script = Script::new(BRING_BACK);
        let mut invocation = on_keys_of(&script, limited);
        invocation.arg(WINDOW_JOBS).arg(&limited.name).arg(&limited.queue).arg(u8::from(!is_own));
        let counts: redis::RedisResult<Vec<u64>> = invocation.invoke_async(self.0.inner()).await;
        Ok(match counts.map_err(|error| self.failed(&error))?[..] {
            [moved, left] => BroughtBack::Moved { moved, left },
            _ => BroughtBack::Leased,
        })
    }

    /// Removes a limited queue from the registry once no process can return jobs to it any more. Nothing happens if it has
    /// jobs, or a lease.
    ///
    /// # Errors
    /// Returns an error if the Redis is unreachable or denies permission.
    pub async fn forget(&mut self, limited: &LimitedQueue) -> Result<(), SidekiqError> {
        let script = Script::new(FORGET);
        let mut invocation = on_keys_of(&script, limited);
        invocation.arg(&limited.name);
        let forgotten: redis::RedisResult<i64> = invocation.invoke_async(self.0.inner()).await;
        forgotten.map(drop).map_err(|error| self.failed(&error))
    }

    /// Returns the limited queues of the registry.
    ///
    /// # Errors
    /// Returns an error if the Redis is unreachable or denies permission.
    pub async fn all(&mut self) -> Result<Vec<LimitedQueueState>, SidekiqError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(REGISTRY);
        let read: redis::RedisResult<BTreeMap<String, String>> =
            command.query_async(self.0.inner()).await;
        let read = read.map_err(|error| self.failed(&error))?;
        let queues: Vec<LimitedQueue> = read
            .into_iter()
            .filter_map(|(name, value)| LimitedQueue::parse(name, &value))
            .take(LIMITED_QUEUES_MAX)
            .collect();
        if queues.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = redis::pipe();
        for queue in &queues {
            pipeline.cmd("LLEN").arg(keys::queue(&queue.name));
            pipeline.cmd("EXISTS").arg(queue.lease());
        }
        let values: redis::RedisResult<Vec<u64>> = pipeline.query_async(self.0.inner()).await;
        let values = values.map_err(|error| self.failed(&error))?;
        let states = queues.into_iter().zip(values.chunks(2)).map(|(queue, values)| {
            let value = |place: usize| values.get(place).copied().unwrap_or_default();
            LimitedQueueState { queue, length: value(0), is_leased: value(1) > 0 }
        });
        Ok(states.collect())
    }

    fn failed(&self, error: &redis::RedisError) -> SidekiqError {
        self.0.script_failed(error, GRANT).into()
    }
}

/// The keys of all scripts: the queue, the limited queue, the names of queues, the registry, the lease.
fn on_keys_of<'a>(script: &'a Script, limited: &LimitedQueue) -> ScriptInvocation<'a> {
    let mut invocation = script.key(keys::queue(&limited.queue));
    invocation.key(keys::queue(&limited.name)).key(keys::QUEUES).key(REGISTRY).key(limited.lease());
    invocation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_queue_has_a_name_that_can_be_served() {
        let limited = LimitedQueue::of("default", "Shop::Import").unwrap();
        assert_eq!(limited.name, "default_limited_Shop::Import");
        let value = format!("{} {}", limited.class, limited.queue);
        assert_eq!(LimitedQueue::parse(limited.name.clone(), &value), Some(limited));
        for (queue, class) in
            [("default", ""), ("default", "a b"), ("a,2", "Import"), ("default", "É"), ("-q", "A")]
        {
            assert!(LimitedQueue::of(queue, class).is_err(), "{queue} {class}");
        }
        let error = LimitedQueue::of("default", &"x".repeat(120)).unwrap_err();
        assert!(error.contains("more than 128 bytes"), "{error}");
    }
}
