//! One call of the script that stores jobs: all of a batch, or none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::link_connection::LinkConnection;
use redis::{RedisError, RedisResult, ScriptInvocation};
use weir_base::clock::Timestamp;
use weir_jobs::custom::{BatchId, UniqueKey};
use weir_jobs::model::{NewJob, SetName};
use weir_jobs::store::StoreError;

use super::keys::StoreKeys;
use super::push_memory::{self, PushMemory};
use super::scripts::StoreScripts;
use super::seconds;
use super::translate;

/// A job and the set that it enters, if it does not enter its queue.
pub(super) type PlacedJob<'a> = (&'a NewJob<'a>, Option<(SetName, Timestamp)>);

/// Which jobs of a batch are stored if another job has the lock of some, or there is no room for their locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PushMode {
    /// None.
    All,
    /// The others.
    Each,
    /// All, without these locks.
    Import,
}

/// What a job that is pushed asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FeatureRequest {
    /// The index of the job.
    pub(super) place: usize,
    pub(super) lock: Option<LockRequest>,
    /// The batch that it belongs to.
    pub(super) batch: Option<BatchId>,
    /// Whether it counts as failed there.
    pub(super) has_failed: bool,
}

/// The lock that a job asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LockRequest {
    pub(super) key: UniqueKey,
    /// From when it lasts. `None`: from now.
    pub(super) from: Option<Timestamp>,
    pub(super) lasts: Duration,
}

/// The keys and arguments of the script.
#[derive(Debug)]
pub(super) struct PushCall {
    keys: Vec<String>,
    /// The first ones, which are about all jobs.
    head: Vec<Vec<u8>>,
    /// Those of features.
    features: Vec<Vec<u8>>,
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
    /// Indices of the jobs whose lock another job has.
    pub(super) not_unique: BTreeSet<usize>,
    /// Indices of the jobs for whose lock there is no room.
    pub(super) without_room: BTreeSet<usize>,
    /// Indices of the jobs whose batch does not exist.
    pub(super) without_batch: BTreeSet<usize>,
}

impl PushReply {
    /// Returns whether a job was not stored.
    pub(super) fn is_rejected(&self, place: usize) -> bool {
        let rejected = [&self.not_unique, &self.without_room, &self.without_batch];
        rejected.iter().any(|places| places.contains(&place))
    }
}

/// What the script returns.
type ScriptReply = (u8, Vec<usize>, Vec<usize>, Vec<usize>, Vec<usize>);

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
            head: memory.arguments().to_vec(),
            features: Vec::new(),
            arguments: Vec::new(),
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

    /// Adds what jobs ask for. `now` is the time in microseconds, or an empty text for Redis' clock, and
    /// `locks_max` the number of locks that there may be.
    pub(super) fn with_features(
        mut self,
        requests: &[FeatureRequest],
        jobs: &[PlacedJob<'_>],
        mode: PushMode,
        now: &str,
        locks_max: usize,
        keys: &StoreKeys,
    ) -> Self {
        if requests.is_empty() {
            return self;
        }
        let mode = match mode {
            PushMode::All => "all",
            PushMode::Each => "each",
            PushMode::Import => "import",
        };
        let count = requests.len().to_string();
        let texts = [count, mode.to_owned(), now.to_owned(), locks_max.to_string()];
        self.features.extend(texts.map(String::into_bytes));
        let numbers: BTreeMap<usize, usize> = self.places.iter().copied().zip(1..).collect();
        for request in requests {
            self.add_request(numbers[&request.place], jobs[request.place].0.jid, request);
        }
        self.keys.extend(keys.features());
        self
    }

    fn add_request(&mut self, number: usize, jid: &str, request: &FeatureRequest) {
        let (mut lock, mut from, mut lasts) = (String::new(), String::new(), String::new());
        if let Some(asked) = &request.lock {
            lock = asked.key.to_string();
            from = asked.from.map(|from| from.as_micros().to_string()).unwrap_or_default();
            lasts = asked.lasts.as_micros().to_string();
        }
        let batch = request.batch.map(|batch| batch.to_string()).unwrap_or_default();
        let has_failed = u8::from(request.has_failed).to_string();
        let texts = [number.to_string(), jid.to_owned(), lock, from, lasts, batch, has_failed];
        self.features.extend(texts.map(String::into_bytes));
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
        scripts: &StoreScripts,
        connection: &mut LinkConnection,
    ) -> RedisResult<PushReply> {
        let mut invocation = scripts.push.of(self.has_features()).prepare_invoke();
        self.add_to(&mut invocation);
        Ok(self.reply(invocation.invoke_async(connection).await?))
    }

    /// Returns whether the script needs what is for jobs with features.
    pub(super) const fn has_features(&self) -> bool {
        !self.features.is_empty()
    }

    /// Adds the keys and the arguments to a script that contains that of the push.
    pub(super) fn add_to(&self, invocation: &mut ScriptInvocation<'_>) {
        invocation.key(&self.keys);
        invocation.arg(&self.head);
        match self.has_features() {
            true => invocation.arg(&self.features),
            false => invocation.arg(0),
        };
        invocation.arg(&self.arguments);
    }

    fn reply(
        &self,
        (is_full, repeated, not_unique, without_room, without_batch): ScriptReply,
    ) -> PushReply {
        let place = |number: usize| self.places.get(number.wrapping_sub(1)).copied();
        let places = |numbers: Vec<usize>| numbers.into_iter().filter_map(place).collect();
        PushReply {
            repeated: places(repeated),
            is_memory_full: is_full == 1,
            not_unique: places(not_unique),
            without_room: places(without_room),
            without_batch: places(without_batch),
        }
    }
}
