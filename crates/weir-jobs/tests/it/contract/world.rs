//! A store, its clock, and short words for what clients and operators do to it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinHandle;
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::job::JobBatch;
use weir_jobs::model::{Delivery, EntryKey, FailureReport, JobLocation, QueueName, SetName, Wid};
use weir_jobs::settings::{JobServerLimits, JobServerSettings};
use weir_jobs::store::{
    Action, BatchSize, Counts, FailOutcome, FetchRequest, Filter, QueueAction, QueueCounts,
    ScanPage, ScanRequest, Selection, Store, StoreError, StoredJob,
};

use super::harness::{Durable, Harness};

/// When every test begins: 2026-11-20T19:28:22Z.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_795_202_902_000_000);

/// A wait that a test never sits through: it ends when the work comes.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// Nothing here takes long; a test that hangs is told so.
const TEST_TIME_MAX: Duration = Duration::from_secs(60);

/// Runs a test on a store with the default settings.
pub(crate) fn run<H: Harness, F: Future<Output = ()>>(test: impl FnOnce(World<H>) -> F) {
    run_local(async { test(World::open(JobServerSettings::default())).await });
}

/// Runs `test` where stores live: on one thread, in a `LocalSet`.
pub(crate) fn run_local(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = tokio::task::LocalSet::new();
    let ended = tasks.block_on(&runtime, async { tokio::time::timeout(TEST_TIME_MAX, test).await });
    ended.expect("the test ends in time");
}

/// A store under test.
pub(crate) struct World<H: Harness> {
    pub(crate) harness: H,
    pub(crate) clock: Clock,
}

impl<H: Harness> World<H> {
    pub(crate) fn open(settings: JobServerSettings) -> Self {
        let clock = Clock::manual(START);
        Self { harness: H::open(settings, clock.clone()), clock }
    }

    /// A store whose time passes by itself.
    pub(crate) fn on_the_system_clock() -> Self {
        let clock = Clock::system();
        Self { harness: H::open(JobServerSettings::default(), clock.clone()), clock }
    }

    /// A second store, with other limits.
    pub(crate) fn with_limits(change: impl FnOnce(&mut JobServerLimits)) -> Self {
        let mut settings = JobServerSettings::default();
        change(&mut settings.limits);
        Self::open(settings)
    }

    pub(crate) fn store(&self) -> &H::Store {
        self.harness.store()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Time passes, and what is due happens.
    pub(crate) async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.harness.tick().await;
    }

    // --- Producers ---------------------------------------------------------------------------

    /// Pushes one job as a client writes it.
    pub(crate) async fn push_json(&self, json: &str) -> Result<(), StoreError> {
        let mut batch = JobBatch::new();
        let job =
            batch.parse_one(json.as_bytes(), self.now(), &JobServerLimits::default()).unwrap();
        self.store().push(&[job]).await
    }

    /// Pushes a job with more members: `r#""retry":3"#`.
    pub(crate) async fn push_with(&self, jid: &str, members: &str) {
        self.push_json(&job_with(jid, members)).await.unwrap();
    }

    /// Pushes jobs, named by their jids, to one queue.
    pub(crate) async fn push_to(&self, queue: &str, jids: &str) {
        for jid in jids.split_whitespace() {
            self.push_with(jid, &format!(r#""queue":"{queue}""#)).await;
        }
    }

    /// Pushes a job that is due later.
    pub(crate) async fn schedule(&self, jid: &str, after: Duration) {
        let at = weir_jobs::stamp::rfc3339(self.now() + after);
        self.push_with(jid, &format!(r#""at":"{at}""#)).await;
    }

    // --- Workers -----------------------------------------------------------------------------

    /// What is there now for a worker `w1` of these queues; the jid.
    pub(crate) async fn fetch(&self, queues: &str) -> Option<String> {
        self.fetch_as("w1", queues).await.map(|delivery| delivery.jid.into())
    }

    /// What is there now for a worker of these queues.
    pub(crate) async fn fetch_as(&self, worker: &str, queues: &str) -> Option<Delivery> {
        fetch_one(self.store(), worker, queues, Duration::ZERO).await.unwrap()
    }

    /// Fetches all there is; the jids.
    pub(crate) async fn drain(&self, queues: &str) -> String {
        let mut jids = Vec::new();
        while let Some(jid) = self.fetch(queues).await {
            jids.push(jid);
        }
        jids.join(" ")
    }

    /// A FETCH that waits, already in line.
    pub(crate) async fn wait_as(&self, worker: &str, queues: &str) -> Fetching {
        let store = Rc::clone(self.harness.store());
        let (worker, queues) = (worker.to_owned(), queues.to_owned());
        let before = self.store().counts().await.fetches_waiting;
        let fetching = tokio::task::spawn_local(async move {
            fetch_one(&*store, &worker, &queues, LONG).await.unwrap()
        });
        for _ in 0..100 {
            if fetching.is_finished() || self.store().counts().await.fetches_waiting > before {
                return Fetching(fetching);
            }
            tokio::task::yield_now().await;
        }
        panic!("the FETCH neither ended nor waits");
    }

    /// A FETCH that is in line and whose task does not run: whatever it is handed, it never takes.
    pub(crate) async fn stuck_fetch(&self, worker: &str, queues: &str) -> StuckFetch {
        let fetch = self.begin_fetch(worker, queues).await;
        let Ok(stuck) = fetch else {
            panic!("there was something to fetch already");
        };
        stuck
    }

    /// A FETCH that has been looked at once: it waits, or it was answered at once.
    pub(crate) async fn begin_fetch(
        &self,
        worker: &str,
        queues: &str,
    ) -> Result<StuckFetch, Option<Delivery>> {
        let store = Rc::clone(self.harness.store());
        let (worker, queues) = (worker.to_owned(), queues.to_owned());
        let mut fetch: StuckFetch =
            Box::pin(async move { fetch_one(&*store, &worker, &queues, LONG).await.unwrap() });
        let polled = poll_fn(|context| Poll::Ready(fetch.as_mut().poll(context))).await;
        match polled {
            Poll::Pending => Ok(fetch),
            Poll::Ready(answer) => Err(answer),
        }
    }

    pub(crate) async fn ack(&self, jid: &str) -> usize {
        1 - self.store().ack(&[jid]).await.unwrap().len()
    }

    pub(crate) async fn fail(&self, jid: &str) -> FailOutcome {
        self.store().fail(report(jid)).await.unwrap()
    }

    /// Pushes a job, fetches it and fails it.
    pub(crate) async fn push_and_fail(&self, jid: &str, members: &str) -> FailOutcome {
        self.push_with(jid, members).await;
        assert_eq!(self.fetch("default").await.as_deref(), Some(jid));
        self.fail(jid).await
    }

    // --- Operators ---------------------------------------------------------------------------

    pub(crate) async fn queue_action(&self, names: &str, action: QueueAction) -> u64 {
        self.store().act_on_queues(&queue_names(names), action).await.unwrap()
    }

    /// All jobs of a place, a page of three at a time.
    pub(crate) async fn list(&self, place: &JobLocation) -> Vec<StoredJob> {
        self.list_where(place, Filter::default(), false).await
    }

    pub(crate) async fn list_where(
        &self,
        place: &JobLocation,
        filter: Filter,
        newest_first: bool,
    ) -> Vec<StoredJob> {
        let (mut jobs, mut after) = (Vec::new(), None);
        for _page in 0..10_000 {
            let page = self.page(place, after, &filter, newest_first).await;
            jobs.extend(page.jobs);
            match page.next {
                Some(next) => after = Some(next),
                None => return jobs,
            }
        }
        panic!("the walk does not end");
    }

    pub(crate) async fn page(
        &self,
        place: &JobLocation,
        after: Option<EntryKey>,
        filter: &Filter,
        newest_first: bool,
    ) -> ScanPage {
        let (place, filter) = (place.clone(), filter.clone());
        let request = ScanRequest { place, after, newest_first, limit: 3, scan_max: 3, filter };
        self.store().scan(request).await.unwrap()
    }

    /// The jids in a place: `queue:NAME`, `scheduled`, `retries` or `dead`.
    pub(crate) async fn jids(&self, place_name: &str) -> String {
        let jobs = self.list(&place(place_name)).await;
        jobs.iter().map(|job| &*job.key.jid).collect::<Vec<_>>().join(" ")
    }

    /// The key of a job that rests in a place.
    pub(crate) async fn key(&self, place_name: &str, jid: &str) -> EntryKey {
        let jobs = self.list(&place(place_name)).await;
        let job = jobs.into_iter().find(|job| &*job.key.jid == jid);
        job.expect("the job rests there").key
    }

    pub(crate) async fn act(&self, place_name: &str, what: Selection, action: Action) -> u64 {
        self.store().act(&place(place_name), &what, action).await.unwrap()
    }

    pub(crate) async fn act_on(&self, place_name: &str, jid: &str, action: Action) -> u64 {
        let key = self.key(place_name, jid).await;
        self.act(place_name, Selection::Entries(vec![key]), action).await
    }

    pub(crate) async fn found(&self, jid: &str) -> Option<StoredJob> {
        self.store().find(jid).await.unwrap().job()
    }

    // --- What is where -----------------------------------------------------------------------

    pub(crate) async fn counts(&self) -> Counts {
        self.store().counts().await
    }

    pub(crate) async fn queue(&self, name: &str) -> Option<QueueCounts> {
        self.counts().await.queues.into_iter().find(|queue| queue.name.as_str() == name)
    }

    pub(crate) async fn depth(&self, name: &str) -> u64 {
        self.queue(name).await.map_or(0, |queue| queue.depth)
    }

    /// `(waiting, reserved, scheduled, retries, dead)` over all queues, checked against what a
    /// walk through every place finds.
    pub(crate) async fn census(&self) -> (u64, u64, u64, u64, u64) {
        let counts = self.counts().await;
        let mut waiting = 0;
        for queue in &counts.queues {
            let jobs = self.list(&JobLocation::Queue(queue.name.clone())).await;
            assert_eq!(jobs.len() as u64, queue.depth, "depth of {}", queue.name);
            assert_eq!(jobs.first().map(|job| job.at), queue.oldest, "oldest of {}", queue.name);
            waiting += queue.depth;
        }
        for (set, count) in SetName::ALL.iter().zip([counts.scheduled, counts.retries, counts.dead])
        {
            assert_eq!(self.list(&JobLocation::Set(*set)).await.len() as u64, count, "{set:?}");
        }
        assert_eq!(self.store().reservations(usize::MAX).await.len() as u64, counts.reserved);
        (waiting, counts.reserved, counts.scheduled, counts.retries, counts.dead)
    }
}

impl<H: Durable> World<H> {
    /// The process ends without a goodbye and starts again.
    pub(crate) async fn crash(self) -> Self {
        Self { harness: self.harness.reopen(), clock: self.clock }
    }

    /// The process ends in order and starts again.
    pub(crate) async fn restart(self) -> Self {
        self.store().close().await.unwrap();
        self.crash().await
    }
}

/// See [`World::stuck_fetch`].
pub(crate) type StuckFetch = Pin<Box<dyn Future<Output = Option<Delivery>>>>;

/// A FETCH that waits.
pub(crate) struct Fetching(JoinHandle<Option<Delivery>>);

impl Fetching {
    /// The jid that it got.
    pub(crate) async fn jid(self) -> Option<String> {
        self.0.await.unwrap().map(|delivery| delivery.jid.into())
    }

    /// The client hangs up.
    pub(crate) async fn hang_up(self) {
        self.0.abort();
        let _ = self.0.await;
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.0.is_finished()
    }
}

async fn fetch_one<S: Store>(
    store: &S,
    worker: &str,
    queues: &str,
    wait: Duration,
) -> Result<Option<Delivery>, StoreError> {
    let (wid, queues) = (Wid::new(worker), queue_names(queues));
    let request = FetchRequest { wid: Some(&wid), queues: &queues, max: BatchSize::ONE, wait };
    let mut deliveries = store.fetch(request).await?;
    assert!(deliveries.len() <= 1);
    Ok(deliveries.pop())
}

/// A job as a client writes it.
pub(crate) fn job_with(jid: &str, members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"jid":"{jid}","jobtype":"Test","args":[]{comma}{members}}}"#)
}

pub(crate) fn report(jid: &str) -> FailureReport {
    FailureReport {
        jid: Box::from(jid),
        errtype: "Oops".to_owned(),
        message: "it broke".to_owned(),
        backtrace: vec!["line 1".to_owned()],
        is_final: false,
    }
}

pub(crate) fn queue_name(name: &str) -> QueueName {
    QueueName::parse(name, &JobServerLimits::default()).unwrap()
}

pub(crate) fn queue_names(names: &str) -> Vec<QueueName> {
    names.split_whitespace().map(queue_name).collect()
}

pub(crate) fn place(name: &str) -> JobLocation {
    match name {
        "scheduled" => JobLocation::Set(SetName::Scheduled),
        "retries" => JobLocation::Set(SetName::Retries),
        "dead" => JobLocation::Set(SetName::Dead),
        queue => JobLocation::Queue(queue_name(queue.strip_prefix("queue:").unwrap())),
    }
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
