//! One call of the script that stores jobs: all of a batch, or none.

use std::collections::{BTreeMap, BTreeSet};

use super::link_connection::LinkConnection;
use redis::{RedisError, RedisResult, Script, ScriptInvocation};
use weir_base::clock::Timestamp;
use weir_jobs::model::{NewJob, SetName};
use weir_jobs::store::StoreError;

use super::keys::StoreKeys;
use super::push_memory::{self, PushMemory};
use super::seconds;
use super::translate;

/// A job and the set that it enters, if it does not enter its queue.
pub(super) type PlacedJob<'a> = (&'a NewJob<'a>, Option<(SetName, Timestamp)>);

/// The keys and arguments of the script.
#[derive(Debug)]
pub(super) struct PushCall {
    keys: Vec<String>,
    arguments: Vec<Vec<u8>>,
    memory: PushMemory,
    /// The index of each job in the batch, in the order of the arguments.
    places: Vec<usize>,
}

/// What the script did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PushReply {
    /// Indices of the jobs that were stored before.
    pub(super) repeated: BTreeSet<usize>,
    /// A push memory was full and forgot its oldest jobs early.
    pub(super) is_memory_full: bool,
}

/// Returns whether the connection broke, so that nobody knows what Redis has executed.
pub(super) fn is_cut(error: &RedisError) -> bool {
    error.is_io_error() || error.is_timeout()
}

/// The key that jobs are added to. Lists come before sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PushTarget<'a> {
    List(&'a str),
    Set(SetName),
}

/// Returns the target of a job.
fn target_of<'a>((job, set): &PlacedJob<'a>) -> PushTarget<'a> {
    set.map_or(PushTarget::List(job.queue), |(set, _)| PushTarget::Set(set))
}

/// Divides a batch by the lists and sets that its jobs enter.
pub(super) fn by_target<'a>(jobs: &[PlacedJob<'a>]) -> Vec<Vec<PlacedJob<'a>>> {
    let mut parts: BTreeMap<PushTarget<'_>, Vec<PlacedJob<'a>>> = BTreeMap::new();
    for job in jobs {
        parts.entry(target_of(job)).or_default().push(*job);
    }
    parts.into_values().collect()
}

impl PushCall {
    /// Returns the call for jobs with one target. The names of queues are added with a step of their
    /// own.
    pub(super) fn of_one_slot(
        jobs: &[PlacedJob<'_>],
        keys: &StoreKeys,
        memory: PushMemory,
        next_order: impl Fn() -> Timestamp,
    ) -> Self {
        let mut call = Self::new(jobs, keys, memory, next_order);
        call.keys.remove(0);
        call
    }

    /// Returns the call for a batch. `next_order` returns a unique time of enqueueing.
    pub(super) fn new(
        jobs: &[PlacedJob<'_>],
        keys: &StoreKeys,
        memory: PushMemory,
        next_order: impl Fn() -> Timestamp,
    ) -> Self {
        let mut targets: BTreeMap<PushTarget<'_>, Vec<usize>> = BTreeMap::new();
        for (place, job) in jobs.iter().enumerate() {
            targets.entry(target_of(job)).or_default().push(place);
        }
        let mut call = Self {
            keys: vec![keys.queues()],
            arguments: memory.arguments().to_vec(),
            memory,
            places: Vec::with_capacity(jobs.len()),
        };
        for (target, places) in targets {
            call.add_target(target, keys, places.len());
            for place in places {
                let (job, set) = jobs[place];
                call.add_job(job, set.map(|(_, at)| at), &next_order);
                call.places.push(place);
            }
        }
        call
    }

    fn add_target(&mut self, target: PushTarget<'_>, keys: &StoreKeys, jobs: usize) {
        let (key, queue) = match target {
            PushTarget::List(queue) => (keys.list(queue), queue),
            PushTarget::Set(set) => (keys.set(set), ""),
        };
        self.keys.extend(keys.pushed(&key));
        self.keys.insert(self.keys.len() - 2, key);
        self.arguments.extend([queue.as_bytes().to_vec(), jobs.to_string().into_bytes()]);
    }

    fn add_job(
        &mut self,
        job: &NewJob<'_>,
        score: Option<Timestamp>,
        next_order: impl Fn() -> Timestamp,
    ) {
        let enqueued_at = if score.is_none() { Some(next_order()) } else { None };
        let mark = if self.memory.is_on() { push_memory::mark(job) } else { Vec::new() };
        let score = score.map(seconds::text).unwrap_or_default().into_bytes();
        self.arguments.extend([mark, score, translate::to_sidekiq(job, enqueued_at)]);
    }

    /// Returns the number of jobs.
    pub(super) const fn jobs(&self) -> usize {
        self.places.len()
    }

    /// Returns the error for a push that may be stored.
    pub(super) fn uncertain(&self, text: &str) -> StoreError {
        StoreError::Uncertain(format!("{text}; {}", self.memory.advice()))
    }

    /// Returns the error for the client after `error` of its connection, which `failed` describes. A
    /// connection that broke may have carried the push or not.
    pub(super) fn failed(&self, error: &RedisError, failed: StoreError) -> StoreError {
        match failed {
            StoreError::Unavailable(text) if is_cut(error) => self.uncertain(&text),
            error => error,
        }
    }

    /// Runs the script.
    pub(super) async fn run(
        &self,
        script: &Script,
        connection: &mut LinkConnection,
    ) -> RedisResult<PushReply> {
        let mut invocation = script.key(&self.keys);
        invocation.arg(&self.arguments);
        let numbers: Vec<usize> = invocation.invoke_async(connection).await?;
        Ok(self.reply(&numbers))
    }

    /// Adds the keys and the arguments to a script that contains that of the push.
    pub(super) fn add_to(&self, invocation: &mut ScriptInvocation<'_>) {
        for key in &self.keys {
            invocation.key(key);
        }
        invocation.arg(&self.arguments);
    }

    fn reply(&self, numbers: &[usize]) -> PushReply {
        let Some((is_full, repeated)) = numbers.split_first() else { return PushReply::default() };
        let place = |number: &usize| self.places.get(number.wrapping_sub(1)).copied();
        PushReply {
            repeated: repeated.iter().filter_map(place).collect(),
            is_memory_full: *is_full == 1,
        }
    }
}
