//! Moves the waiting jobs of a limited class to a queue of their own, and back once the limit has ended, including jobs that
//! another process, or an earlier one, has moved.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use weir_autopilot::metrics::{AutopilotMetrics, Moved};
use weir_sidekiq::{
    BroughtBack, LimitedQueue, LimitedQueueState, LimitedQueues, RedisConnection, RedisEndpoint,
    RedisErrorKind, SampleLimits, SidekiqError, WINDOW_JOBS,
};

use super::groups::WorkerGroups;

/// Steps back of a round for each step that moves jobs out: moving back is cheaper, because no job is parsed.
const STEPS_BACK_PER_STEP: usize = 4;
/// Limit of the time of a round.
const ROUND_TIMEOUT: Duration = Duration::from_secs(20);
/// Time until the next attempt after an error.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The same where permissions are missing, or nothing is known to be moved.
const DENIED_INTERVAL: Duration = Duration::from_secs(60);
/// How long a process that was asked to end may return jobs to its queue. Sidekiq ends within 25 s by default; a process that
/// Weir knows of is waited for in any case.
const SETTLED_AFTER: Duration = Duration::from_secs(120);

/// What is to be moved.
#[derive(Clone, Debug, Default)]
struct Wanted {
    queues: BTreeSet<LimitedQueue>,
    /// How long they stay limited if nobody renews that.
    lease: Duration,
    /// When that ends.
    until: Option<Instant>,
    /// Whether a class may be limited soon.
    is_prepared: bool,
    number: u64,
}

/// What the task reports.
#[derive(Clone, Debug, Default)]
struct Report {
    /// The [`Wanted`] of the last round.
    number: u64,
    /// Why the last round has failed.
    error: Option<String>,
    /// Whether no class can be limited for that reason: permissions are missing, or the check of them has failed.
    is_refused: bool,
}

/// Access to the task.
#[derive(Debug)]
pub(super) struct ClassMover {
    wanted: watch::Sender<Wanted>,
    report: watch::Receiver<Report>,
    task: Option<Moving>,
}

/// What the task needs.
#[derive(Debug)]
pub(super) struct MoverParts {
    pub(super) endpoint: RedisEndpoint,
    pub(super) limits: SampleLimits,
    /// `autopilot.limits.move_interval`.
    pub(super) interval: Duration,
    /// `autopilot.limits.move_steps_max`.
    pub(super) steps_max: usize,
    pub(super) groups: WorkerGroups,
    pub(super) metrics: AutopilotMetrics,
}

/// The task.
#[derive(Debug)]
struct Moving {
    parts: MoverParts,
    wanted: watch::Receiver<Wanted>,
    report: watch::Sender<Report>,
    connection: Option<LimitedQueues>,
    is_checked: bool,
    /// What this process has moved: it may bring that back at once.
    own: BTreeSet<LimitedQueue>,
    /// Since when limited queues are empty, by name.
    empty_since: BTreeMap<String, Instant>,
}

impl ClassMover {
    pub(super) fn new(parts: MoverParts) -> Self {
        let (wanted, is_wanted) = watch::channel(Wanted::default());
        let (reported, report) = watch::channel(Report::default());
        let task = Moving {
            parts,
            wanted: is_wanted,
            report: reported,
            connection: None,
            is_checked: false,
            own: BTreeSet::new(),
            empty_since: BTreeMap::new(),
        };
        Self { wanted, report, task: Some(task) }
    }

    pub(super) fn take_task(&mut self) -> Option<BoxFuture<'static, ()>> {
        self.task.take().map(|task| Box::pin(task.run()) as BoxFuture<'static, ()>)
    }

    /// Lets the task check its permissions.
    pub(super) fn prepare(&self) {
        self.wanted.send_if_modified(|wanted| !std::mem::replace(&mut wanted.is_prepared, true));
    }

    /// Returns why no class can be limited, with the missing permissions, as far as that is known.
    pub(super) fn refusal(&self) -> Option<String> {
        let report = self.report.borrow();
        report.error.clone().filter(|_| report.is_refused)
    }

    /// Returns why jobs are not moved now, although they should be.
    pub(super) fn problem(&self) -> Option<String> {
        let is_wanted = !self.wanted.borrow().queues.is_empty();
        self.report.borrow().error.clone().filter(|_| is_wanted)
    }

    /// Moves the jobs of these limited queues from now on, for `lease` unless that is renewed, and brings others back. Returns
    /// after the first round, if that is something new.
    pub(super) async fn set(
        &mut self,
        queues: BTreeSet<LimitedQueue>,
        lease: Duration,
    ) -> Result<(), String> {
        let is_new = self.wanted.borrow().queues != queues;
        if queues.is_empty() && !is_new {
            return Ok(());
        }
        let awaits_round = is_new && !queues.is_empty();
        // A renewal does not begin a round: those keep their interval.
        self.wanted.send_if_modified(|wanted| {
            (wanted.until, wanted.lease) = (Some(Instant::now() + lease), lease);
            wanted.queues = queues;
            wanted.number += u64::from(is_new);
            is_new
        });
        if !awaits_round {
            return Ok(());
        }
        let number = self.wanted.borrow().number;
        let report = self.report.wait_for(|report| report.number >= number).await;
        let report = report.map_err(|_| "the task that moves jobs has ended")?;
        report.error.clone().map_or(Ok(()), Err)
    }
}

impl Wanted {
    /// Returns what is to be limited at this time.
    fn in_force(&self, now: Instant) -> BTreeSet<LimitedQueue> {
        let is_over = self.until.is_none_or(|until| until <= now);
        if is_over { BTreeSet::new() } else { self.queues.clone() }
    }
}

impl Moving {
    async fn run(mut self) {
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            let queues = wanted.in_force(Instant::now());
            let round = timeout(ROUND_TIMEOUT, self.round(&queues, &wanted)).await;
            let number = wanted.number;
            let (pause, report) = match round {
                Ok(Ok(is_idle)) => {
                    let pause = (!is_idle).then_some(self.parts.interval);
                    (pause, Report { number, ..Report::default() })
                }
                Ok(Err(error)) => {
                    let is_denied = is_denied(&error);
                    let pause = if is_denied { DENIED_INTERVAL } else { RETRY_INTERVAL };
                    let is_refused = is_denied || wanted.is_prepared && !self.is_checked;
                    (Some(pause), Report { number, error: Some(error.to_string()), is_refused })
                }
                Err(_) => {
                    let error = format!("Redis {} did not reply in time", self.parts.endpoint);
                    (Some(RETRY_INTERVAL), Report { number, error: Some(error), is_refused: false })
                }
            };
            let has_nothing_to_do = queues.is_empty() && self.own.is_empty();
            let pause = match (&report.error, has_nothing_to_do) {
                (Some(error), true) => {
                    tracing::debug!(error, "limited queues of Sidekiq could not be read");
                    Some(DENIED_INTERVAL)
                }
                _ => pause,
            };
            self.report.send_replace(report);
            let elapsed = async {
                match pause {
                    Some(pause) => sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.wanted.changed() => if changed.is_err() { return },
                () = elapsed => {}
            }
        }
    }

    /// Returns whether there is nothing to do until something else is wanted. A round that fails, or that is dropped, closes the
    /// connection.
    async fn round(
        &mut self,
        queues: &BTreeSet<LimitedQueue>,
        wanted: &Wanted,
    ) -> Result<bool, SidekiqError> {
        let mut redis = match self.connection.take() {
            Some(redis) => redis,
            None => {
                let MoverParts { endpoint, limits, .. } = &self.parts;
                let connection = RedisConnection::open(endpoint, limits).await?;
                LimitedQueues::new(connection)
            }
        };
        if wanted.is_prepared && !self.is_checked {
            redis.check().await?;
            self.is_checked = true;
        }
        self.own.extend(queues.iter().cloned());
        for limited in queues {
            for _ in 0..self.parts.steps_max {
                let moved = redis.move_jobs(limited, wanted.lease).await?;
                self.parts.metrics.count_moved(Moved::Out, moved);
                if moved < WINDOW_JOBS / 2 {
                    break;
                }
            }
        }
        let is_idle = self.bring_back_others(&mut redis, queues).await? && queues.is_empty();
        if !is_idle {
            self.connection = Some(redis);
        }
        Ok(is_idle)
    }

    /// Brings back what nobody limits. Returns whether there are no limited queues.
    async fn bring_back_others(
        &mut self,
        redis: &mut LimitedQueues,
        wanted: &BTreeSet<LimitedQueue>,
    ) -> Result<bool, SidekiqError> {
        let all = redis.all().await?;
        let names = all.iter().map(|it| (it.queue.name.clone(), it.queue.queue.clone()));
        self.parts.groups.note_limited_queues(names.collect());
        for state in all.iter().filter(|state| !wanted.contains(&state.queue)) {
            let (limited, now) = (&state.queue, Instant::now());
            let is_own = self.own.contains(limited);
            if state.is_leased && !is_own {
                continue;
            }
            if state.length > 0 || state.is_leased {
                self.empty_since.remove(&limited.name);
                self.bring_back(redis, state, is_own).await?;
                continue;
            }
            let since = *self.empty_since.entry(limited.name.clone()).or_insert(now);
            if now - since >= SETTLED_AFTER && !self.parts.groups.serves_limited_queue() {
                redis.forget(limited).await?;
                self.empty_since.remove(&limited.name);
            }
        }
        self.own.retain(|own| all.iter().any(|state| state.queue == *own));
        Ok(all.is_empty())
    }

    async fn bring_back(
        &self,
        redis: &mut LimitedQueues,
        state: &LimitedQueueState,
        is_own: bool,
    ) -> Result<(), SidekiqError> {
        for _ in 0..STEPS_BACK_PER_STEP * self.parts.steps_max {
            let BroughtBack::Moved { moved, left } = redis.bring_back(&state.queue, is_own).await?
            else {
                break;
            };
            self.parts.metrics.count_moved(Moved::Back, moved);
            if left == 0 {
                break;
            }
        }
        Ok(())
    }
}

fn is_denied(error: &SidekiqError) -> bool {
    let SidekiqError::Redis(error) = error else { return false };
    matches!(error.kind, RedisErrorKind::NoPermission { .. })
}
