//! Two stores that are told the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use weir_base::clock::Clock;
use weir_jobs::allocation::{Allocation, QueueAllocation};
use weir_jobs::job::JobBatch;
use weir_jobs::model::{Delivery, EntryKey, SetName, Wid, WorkerEnd};
use weir_jobs::settings::{JobServerLimits, JobServerSettings};
use weir_jobs::store::{Action, BatchSize, FailOutcome, FetchRequest, Selection, Store};

use super::operation::{Operation, PLACES, Pushed, QUEUES, WORKERS};
use super::seen::{seen, seen_job, without_next_at};
use crate::contract::harness::{Durable, EmbeddedHarness, Harness, MemoryHarness};
use crate::contract::world::{START, StuckFetch, World, place, queue_name, report, seconds};

/// FETCHes that wait at once.
const WAITS_MAX: usize = 4;

/// Far more than a sync takes; it only bounds a failure.
const SYNC_MAX: Duration = Duration::from_secs(60);

/// Below the least time that a retry waits (15 s), with room for steps of a microsecond.
const RETRY_AGE_MAX: Duration = Duration::from_secs(14);

/// The embedded store, the model, and what has been done to them.
pub(crate) struct Pair {
    clock: Clock,
    /// None only while it restarts.
    embedded: Option<World<EmbeddedHarness>>,
    memory: World<MemoryHarness>,
    waits: Vec<(StuckFetch, StuckFetch)>,
    jids: Vec<String>,
    allocation: Allocation,
    restarted: bool,
    /// The first answer in which the two differed.
    difference: Option<String>,
}

/// Asks both stores and notes it when the answers differ.
macro_rules! both {
    ($pair:ident, |$world:ident| $ask:expr) => {{
        let embedded = {
            let $world = $pair.embedded();
            $ask
        };
        let memory = {
            let $world = &$pair.memory;
            $ask
        };
        $pair.agree(&embedded, &memory);
    }};
}

impl Pair {
    pub(crate) fn open() -> Self {
        let clock = Clock::manual(START);
        let mut settings = JobServerSettings::default();
        // A restart forgets how often a job came back, the model does not.
        settings.limits.returns_max = u8::MAX;
        let embedded = EmbeddedHarness::open(settings.clone(), clock.clone());
        let memory = MemoryHarness::open(settings, clock.clone());
        Self {
            embedded: Some(World { harness: embedded, clock: clock.clone() }),
            memory: World { harness: memory, clock: clock.clone() },
            clock,
            waits: Vec::new(),
            jids: Vec::new(),
            allocation: Allocation::default(),
            restarted: false,
            difference: None,
        }
    }

    /// Whether both gave the same answers and show the same.
    pub(crate) async fn compare(&mut self) -> Result<(), String> {
        let embedded = seen(self.embedded(), self.restarted).await;
        let memory = seen(&self.memory, self.restarted).await;
        self.agree(&embedded, &memory);
        self.difference.take().map_or(Ok(()), Err)
    }

    fn agree<T: PartialEq + Debug>(&mut self, embedded: &T, memory: &T) {
        if embedded != memory && self.difference.is_none() {
            self.difference = Some(first_difference(embedded, memory));
        }
    }

    fn embedded(&self) -> &World<EmbeddedHarness> {
        self.embedded.as_ref().expect("it is open between operations")
    }

    pub(crate) async fn apply(&mut self, operation: &Operation) {
        self.clock.advance(Duration::from_micros(1));
        match operation {
            Operation::Push(jobs) => self.push(jobs).await,
            Operation::Fetch { worker, queues, max } => self.fetch(*worker, queues, *max).await,
            Operation::Wait { worker, queues } => self.wait(*worker, queues).await,
            Operation::TakeWait(nth) => self.take_wait(*nth).await,
            Operation::DropWait(nth) => {
                if let Some(place) = nth.checked_rem(self.waits.len()) {
                    drop(self.waits.remove(place));
                }
            }
            Operation::Ack(jobs) => self.ack(jobs).await,
            Operation::Fail(job) => self.fail(*job).await,
            Operation::Extend { job, seconds: more } => {
                let (jid, until) = (self.jid(*job), self.clock.now() + seconds(*more));
                both!(self, |world| world.store().extend(&jid, until).await);
            }
            Operation::Release(worker) => self.release(WORKERS[*worker]).await,
            Operation::Act { place, entry, action } => {
                self.act(PLACES[*place], *entry, *action).await;
            }
            Operation::ActOnAll { place, action } => self.act_on_all(PLACES[*place], *action).await,
            Operation::ActOnQueue { queue, action } => {
                both!(self, |world| world.queue_action(QUEUES[*queue], *action).await);
            }
            Operation::Allocate { share, cap, guaranteed } => {
                self.allocation = allocation(*share, *cap, *guaranteed);
                self.allocate();
            }
            Operation::Advance(by) => self.advance(*by).await,
            Operation::Find(job) => {
                let jid = self.jid(*job);
                both!(self, |world| world.found(&jid).await.map(seen_job));
            }
            Operation::Flush => {
                both!(self, |world| world.store().flush().await);
            }
            Operation::Crash => self.crash().await,
        }
    }

    /// The jid of some job that was pushed before; one that never was, if none was.
    fn jid(&self, nth: usize) -> String {
        let place = nth.checked_rem(self.jids.len());
        place.map_or("never-pushed".to_owned(), |place| self.jids[place].clone())
    }

    async fn push(&mut self, jobs: &[Pushed]) {
        let mut texts = Vec::new();
        for job in jobs {
            let jid = format!("job-{:05}", self.jids.len());
            let at = weir_jobs::stamp::rfc3339(self.clock.now() + seconds(job.after));
            texts.push(format!(
                r#"{{"jid":"{jid}","jobtype":"T","args":["{}"],"queue":"{}","retry":{},"reserve_for":{},"at":"{at}"}}"#,
                "x".repeat(job.bytes), QUEUES[job.queue], job.retry, job.reserve_for,
            ));
            self.jids.push(jid);
        }
        let array = format!("[{}]", texts.join(","));
        let mut batch = JobBatch::new();
        batch.parse_array(array.as_bytes(), self.clock.now(), &JobServerLimits::default()).unwrap();
        let jobs = batch.jobs();
        both!(self, |world| world.store().push(&jobs).await);
    }

    async fn fetch(&mut self, worker: usize, queues: &[usize], max: usize) {
        let wid = Wid::new(WORKERS[worker]);
        let queues: Vec<_> = queues.iter().map(|nth| queue_name(QUEUES[*nth])).collect();
        let wait = Duration::ZERO;
        let request =
            FetchRequest { wid: Some(&wid), queues: &queues, max: BatchSize::of(max), wait };
        both!(self, |world| {
            world
                .store()
                .fetch(request)
                .await
                .map(|jobs| jobs.iter().map(delivered).collect::<Vec<_>>())
        });
    }

    async fn wait(&mut self, worker: usize, queues: &[usize]) {
        let queues: Vec<_> = queues.iter().map(|nth| QUEUES[*nth]).collect();
        let queues = queues.join(" ");
        if self.waits.len() == WAITS_MAX {
            return;
        }
        let worker = WORKERS[worker];
        let mut embedded = self.embedded().begin_fetch(worker, &queues).await;
        let memory = self.memory.begin_fetch(worker, &queues).await;
        if memory.is_err()
            && let Ok(fetch) = &mut embedded
        {
            embedded = Err(synced(fetch).await);
        }
        match (embedded, memory) {
            (Ok(embedded), Ok(memory)) => self.waits.push((embedded, memory)),
            (embedded, memory) => {
                let done = |result: Result<StuckFetch, Option<Delivery>>| {
                    result.err().flatten().map(|job| delivered(&job))
                };
                self.agree(&done(embedded), &done(memory));
            }
        }
    }

    /// Looks at a waiting FETCH: what it was handed is its worker's now.
    async fn take_wait(&mut self, nth: usize) {
        let Some(place) = nth.checked_rem(self.waits.len()) else {
            return;
        };
        let (embedded, memory) = &mut self.waits[place];
        let mut polled = poll_fn(|context| Poll::Ready(embedded.as_mut().poll(context))).await;
        let memory = poll_fn(|context| Poll::Ready(memory.as_mut().poll(context))).await;
        if memory.is_ready() && polled.is_pending() {
            polled = Poll::Ready(synced(embedded).await);
        }
        let embedded = polled;
        let done = |polled: &Poll<Option<Delivery>>| match polled {
            Poll::Ready(job) => Some(job.as_ref().map(delivered)),
            Poll::Pending => None,
        };
        let (embedded, memory) = (done(&embedded), done(&memory));
        self.agree(&embedded, &memory);
        if embedded.is_some() || memory.is_some() {
            drop(self.waits.remove(place));
        }
    }

    async fn ack(&mut self, jobs: &[usize]) {
        let jids: Vec<String> = jobs.iter().map(|nth| self.jid(*nth)).collect();
        let jids: Vec<&str> = jids.iter().map(String::as_str).collect();
        both!(self, |world| world.store().ack(&jids).await);
    }

    async fn fail(&mut self, job: usize) {
        let held = self.memory.store().reservations(usize::MAX).await;
        let place = job.checked_rem(held.len() + 1);
        let held = place.and_then(|place| held.get(place)).map(|held| held.jid.to_string());
        let jid = held.unwrap_or_else(|| self.jid(job));
        both!(self, |world| world.store().fail(report(&jid)).await.map(kind));
    }

    /// A worker that held jobs of several queues while others wait is left alone: whose queue is
    /// offered first is not promised.
    async fn release(&mut self, worker: &str) {
        let wid = Wid::new(worker);
        let held = self.memory.store().reservations(usize::MAX).await;
        let held = held.into_iter().filter(|held| held.wid.as_ref() == Some(&wid));
        let queues: BTreeSet<_> = held.map(|held| held.queue).collect();
        if self.waits.is_empty() || queues.len() < 2 {
            both!(self, |world| world.store().release(&wid, WorkerEnd::Killed).await);
        }
    }

    async fn act(&mut self, place_name: &str, entry: usize, action: Action) {
        let jids = sorted_jids(&self.memory, place_name).await;
        if let Some(nth) = entry.checked_rem(jids.len()) {
            self.act_on_one(place_name, &jids[nth], action).await;
        }
    }

    async fn act_on_one(&mut self, place_name: &str, jid: &str, action: Action) {
        both!(self, |world| world.act_on(place_name, jid, action).await);
    }

    /// Sets are acted on one by one in the order of jids, because equal times have none.
    async fn act_on_all(&mut self, place_name: &str, action: Action) {
        if action == Action::Discard || place_name.starts_with("queue:") && action != Action::Kill {
            both!(self, |world| world.act(place_name, Selection::All, action).await);
            return;
        }
        for jid in sorted_jids(&self.memory, place_name).await {
            self.clock.advance(Duration::from_micros(1));
            self.act_on_one(place_name, &jid, action).await;
        }
    }

    fn allocate(&self) {
        self.embedded().store().allocate(self.allocation.clone());
        self.memory.store().allocate(self.allocation.clone());
    }

    async fn advance(&mut self, by: u64) {
        let by = seconds(by);
        let now = self.clock.now();
        let retries = self.memory.list(&place("retries")).await;
        let failed_at = |job: &weir_jobs::store::StoredJob| job.failure.as_ref().unwrap().failed_at;
        let due: Vec<_> = retries
            .iter()
            .filter(|job| (now + by).since(failed_at(job)) > RETRY_AGE_MAX)
            .map(|job| job.key.jid.to_string())
            .collect();
        let mut due = due;
        due.sort_unstable();
        for jid in due {
            self.act_on_one("retries", &jid, Action::Requeue).await;
        }
        self.clock.advance(by);
        self.embedded().harness.tick().await;
        self.memory.harness.tick().await;
    }

    async fn crash(&mut self) {
        self.waits.clear();
        // What was promised survives, and with it all that came before it in the log: an ACK's or a
        // timer's record alone may be lost, and its job is served again.
        // One in each queue, because a removed queue that has jobs elsewhere is back after a restart.
        let carriers = [0, 1, 2, 3].map(Pushed::plain);
        self.push(&carriers).await;
        let old = self.embedded.take().expect("it is open between operations");
        self.embedded = Some(World { harness: old.harness.reopen(), clock: self.clock.clone() });
        for worker in WORKERS {
            // Jobs under a limit are still reserved.
            self.embedded().store().release(&Wid::new(worker), WorkerEnd::Killed).await.unwrap();
            self.memory.store().release(&Wid::new(worker), WorkerEnd::Killed).await.unwrap();
        }
        self.restarted = true;
        // Whose turn it is is forgotten by a restart; the model forgets it with the allocation.
        self.memory.store().allocate(Allocation::default());
        self.allocate();
    }
}

/// The first lines that differ, with the one where their job or queue begins.
fn first_difference(embedded: &impl Debug, memory: &impl Debug) -> String {
    let (embedded, memory) = (format!("{embedded:#?}"), format!("{memory:#?}"));
    let pairs = embedded.lines().zip(memory.lines().chain(std::iter::repeat("")));
    let mut context = "";
    for (left, right) in pairs {
        if left != right {
            let (left, right) = (left.trim(), right.trim());
            return format!("embedded: {left}, model: {right}, in {context}");
        }
        if left.contains("jid:") || left.contains("name:") {
            context = left.trim();
        }
    }
    format!("the model has more: {memory}")
}

async fn sorted_jids<H: Harness>(world: &World<H>, place_name: &str) -> Vec<String> {
    let mut jobs: Vec<EntryKey> =
        world.list(&place(place_name)).await.into_iter().map(|job| job.key).collect();
    let is_retries = place(place_name) == weir_jobs::model::JobLocation::Set(SetName::Retries);
    jobs.sort_by(|a, b| {
        let order = if is_retries { std::cmp::Ordering::Equal } else { a.order.cmp(&b.order) };
        order.then_with(|| a.jid.cmp(&b.jid))
    });
    jobs.into_iter().map(|key| key.jid.into()).collect()
}

fn delivered(delivery: &Delivery) -> (String, String) {
    (delivery.jid.to_string(), without_next_at(&delivery.json))
}

/// An outcome without its time, which the jitter decides.
fn kind(outcome: FailOutcome) -> &'static str {
    match outcome {
        FailOutcome::Retry { .. } => "retry",
        FailOutcome::Dead => "dead",
        FailOutcome::Discarded => "discarded",
    }
}

/// Returns what a FETCH was handed once its reservation is durable, as that of a job under a limit must be.
async fn synced(fetch: &mut StuckFetch) -> Option<Delivery> {
    tokio::time::timeout(SYNC_MAX, fetch).await.ok().flatten()
}

/// `a` and `b` share, `c` has a cap, `d` a guarantee.
fn allocation(share: u32, cap: u32, guaranteed_slots: u32) -> Allocation {
    let rules = [
        ("a", QueueAllocation { share: Some(share), ..QueueAllocation::default() }),
        ("b", QueueAllocation { share: Some(2), ..QueueAllocation::default() }),
        ("c", QueueAllocation { concurrency: Some(cap), ..QueueAllocation::default() }),
        ("d", QueueAllocation { guaranteed_slots, ..QueueAllocation::default() }),
    ];
    let rules = rules.map(|(name, rules)| (queue_name(name), rules));
    Allocation { queues: BTreeMap::from(rules), ..Allocation::default() }
}
