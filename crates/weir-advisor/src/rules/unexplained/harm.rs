//! What is wrong, as far as it shows without its cause.

use std::time::Duration;

use crate::finding::Severity;
use crate::flow::Drain;
use crate::forecast::Forecast;
use crate::observation::{
    ClassHistory, DayCounts, Observation, ObservedQueue, RunCounts, SidekiqObservation,
};
use crate::rules::failing_class::{above_usual, small_percent};
use crate::rules::{backlog, waiting_jobs};
use crate::wording::{self, counted_rate, duration};

/// Latency and depth from which a shorter backlog counts that does not shrink.
const SHORT_LATENCY_MIN: Duration = Duration::from_secs(120);
const SHORT_LENGTH_MIN: u64 = 20;
/// The same of a queue that grows. A burst of a minute is no problem: such a young one is a notice.
const YOUNG_LATENCY_MIN: Duration = Duration::from_secs(30);
/// Latency of a queue in an earlier sample from which it was late then.
const LATE: Duration = Duration::from_secs(60);
/// If jobs end at this share of the usual rate or more, the cause is that more of them arrive.
const USUAL_SHARE: f64 = 0.8;
/// How much longer the runs of a class must take.
const SLOWER: f64 = 3.0;
const SLOWER_BY_MIN: Duration = Duration::from_millis(200);
/// Runs in each period that make a mean.
const RUNS_MIN: u64 = 20;
/// Share of the time of all classes from which a slower class matters.
const TIME_SHARE_MIN: f64 = 0.2;
/// Failures between the samples, at least.
const FAILURES_MIN: f64 = 10.0;

/// What is wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum Harm<'a> {
    /// Jobs wait, and do not become fewer.
    Late { queue: &'a ObservedQueue, others: usize, is_young: bool },
    /// More jobs fail than usual.
    Failures { share: f64, usual: f64 },
    /// Runs of a class take much longer than an hour ago.
    Slower { class: &'a str, mean: Duration, earlier: Duration },
}

impl<'a> Harm<'a> {
    pub(super) fn worst(observation: &Observation, jobs: &'a SidekiqObservation) -> Option<Self> {
        late(observation, jobs).or_else(|| failures(jobs)).or_else(|| slower(jobs))
    }

    pub(super) fn severity(&self) -> Severity {
        match self {
            Self::Late { is_young: true, .. } => Severity::Notice,
            _ => Severity::Warning,
        }
    }

    pub(super) fn subject(&self) -> String {
        match self {
            Self::Late { queue, .. } => format!("queue {}", queue.name),
            Self::Failures { .. } => "failed jobs".to_owned(),
            Self::Slower { class, .. } => format!("jobs of {class}"),
        }
    }

    /// Returns how long it has been so, at least, as far as that is known.
    pub(super) fn since(&self, jobs: &SidekiqObservation) -> Option<Duration> {
        match self {
            Self::Late { queue, .. } => Some(queue.latency.max(late_in_the_past(jobs))),
            Self::Failures { .. } => {
                let sample = jobs.retries.sample.known()?;
                sample.failing.first().map(|failing| failing.first_before)
            }
            // It began between the two periods.
            Self::Slower { .. } => None,
        }
    }

    pub(super) fn evidence(&self, jobs: &SidekiqObservation, since: Option<Duration>) -> String {
        let since = since.map(|it| format!("; since at least {} ago", duration(it)));
        let since = since.unwrap_or_default();
        match self {
            Self::Late { queue, others, .. } => {
                let others = match others {
                    0 => String::new(),
                    1 => "; another queue is late as well".to_owned(),
                    others => format!("; {others} other queues are late as well"),
                };
                format!("{}{}{others}{since}", waiting(queue), rates(jobs, queue))
            }
            Self::Failures { share, usual } => {
                let (share, usual) = (small_percent(*share), small_percent(*usual));
                format!("{share} of the jobs fail, {usual} on the days before{since}")
            }
            Self::Slower { mean, earlier, .. } => format!(
                "a run takes {} on average, {} an hour before",
                duration(*mean),
                duration(*earlier)
            ),
        }
    }
}

fn waiting(queue: &ObservedQueue) -> String {
    wording::jobs_wait_since(queue.length, queue.latency)
}

fn rates(jobs: &SidekiqObservation, queue: &ObservedQueue) -> String {
    let Some(flow) = queue.flow.known() else { return String::new() };
    let completed = counted_rate(jobs.completed_per_second(flow), flow.window);
    let arrive = counted_rate(flow.arrivals_per_second, flow.window);
    let threads: u32 = jobs.serving_queue(&queue.name).map(|it| it.concurrency()).sum();
    let busy: u64 = jobs.serving_queue(&queue.name).map(|it| it.busy).sum();
    format!(
        "; arrival rate {arrive}, completion rate {completed}; {busy} of {threads} threads are busy"
    )
}

/// Returns the latest queue whose jobs do not become fewer for a reason that is not known; a young one
/// only if there is no other.
fn late<'a>(observation: &Observation, jobs: &'a SidekiqObservation) -> Option<Harm<'a>> {
    if most_is_done_as_usual(jobs) {
        return None;
    }
    let forecast = Forecast::of(jobs);
    let is_old = |queue: &ObservedQueue| {
        let is_short = queue.length >= SHORT_LENGTH_MIN && queue.latency >= SHORT_LATENCY_MIN;
        waiting_jobs::is_long(queue) || is_short
    };
    let grows = |queue: &ObservedQueue| {
        let is_late = queue.length >= SHORT_LENGTH_MIN && queue.latency >= YOUNG_LATENCY_MIN;
        is_late && forecast.queue(&queue.name) == Some(Drain::Grows)
    };
    let old = latest(observation, jobs, &forecast, is_old);
    let found = old.map(|found| (found, false));
    let (found, is_young) =
        found.or_else(|| latest(observation, jobs, &forecast, grows).map(|found| (found, true)))?;
    let (queue, others) = found;
    Some(Harm::Late { queue, others, is_young })
}

/// Returns the latest of the queues that are late, without those that shrink or have a known cause, and
/// the number of the others that are late.
fn latest<'a>(
    observation: &Observation,
    jobs: &'a SidekiqObservation,
    forecast: &Forecast,
    is_late: impl Fn(&ObservedQueue) -> bool,
) -> Option<(&'a ObservedQueue, usize)> {
    let is_served = |name: &str| jobs.serving_queue(name).next().is_some();
    let is_late = |queue: &&ObservedQueue| {
        is_late(queue) && is_served(&queue.name) && !queue.paused && !queue.is_set_aside()
    };
    let late: Vec<&ObservedQueue> = jobs.queues.iter().filter(is_late).collect();
    let shrinks = |queue: &ObservedQueue| {
        matches!(forecast.queue(&queue.name), Some(Drain::After(_) | Drain::Empty))
    };
    let is_unknown = |queue: &&&ObservedQueue| {
        !shrinks(queue) && !backlog::has_known_cause(observation, jobs, queue)
    };
    let queue = late.iter().filter(is_unknown).max_by_key(|queue| queue.latency)?;
    Some((queue, late.len() - 1))
}

/// Reports whether jobs end about as often, and as fast, as they usually do. Then more of them arrive,
/// which `backlog` reports.
fn most_is_done_as_usual(jobs: &SidekiqObservation) -> bool {
    if let Some(classes) = jobs.classes.known() {
        let (recent, earlier) = (total(classes, true), total(classes, false));
        let is_slower = recent.mean() > earlier.mean().map(|it| it.mul_f64(SLOWER / 2.0));
        let as_often = recent.processed as f64 >= USUAL_SHARE * earlier.processed as f64;
        return earlier.processed >= RUNS_MIN && as_often && !is_slower;
    }
    let usual = jobs.days.known().and_then(|days| usual_per_second(days));
    let now = jobs.processed_per_second.known().copied();
    usual.zip(now).is_some_and(|(usual, now)| now > 0.0 && now >= USUAL_SHARE * usual)
}

fn total(classes: &ClassHistory, recent: bool) -> RunCounts {
    let runs = if recent { &classes.recent } else { &classes.earlier };
    runs.values().fold(RunCounts::default(), |one, other| RunCounts {
        processed: one.processed.saturating_add(other.processed),
        failed: one.failed.saturating_add(other.failed),
        took: one.took.saturating_add(other.took),
    })
}

/// Returns the jobs per second of the days before today.
pub(super) fn usual_per_second(days: &[DayCounts]) -> Option<f64> {
    let before = days.get(1..)?.iter().filter(|day| day.processed > 0);
    let (processed, seconds) = before.fold((0.0, 0.0), |(processed, seconds), day| {
        (processed + day.processed as f64, seconds + day.passed.as_secs_f64())
    });
    (seconds > 0.0).then(|| processed / seconds)
}

/// Returns how long the samples before this one have shown late queues without a break.
fn late_in_the_past(jobs: &SidekiqObservation) -> Duration {
    let run = jobs.past.iter().rev().take_while(|sample| sample.latency >= LATE);
    run.map(|sample| sample.before).max().unwrap_or_default()
}

/// Reports that more jobs fail than usual, and still do.
fn failures(jobs: &SidekiqObservation) -> Option<Harm<'_>> {
    let (_, usual) = above_usual(jobs.days.known()?)?;
    let window = jobs.retries.flow.known()?.window.as_secs_f64();
    let share = *jobs.failed_share.known()?;
    let failed = share * jobs.processed_per_second.known()? * window;
    let is_so_now = failed >= FAILURES_MIN && share >= 3.0 * usual;
    is_so_now.then_some(Harm::Failures { share, usual })
}

/// Returns the class whose runs take much longer than an hour ago, with the most time of all such.
fn slower(jobs: &SidekiqObservation) -> Option<Harm<'_>> {
    let classes = jobs.classes.known()?;
    let all = total(classes, true).took.as_secs_f64();
    let slow = classes.recent.iter().filter_map(|(class, recent)| {
        let before = classes.earlier.get(class)?;
        let (mean, earlier) = (recent.mean()?, before.mean()?);
        let is_much = mean >= earlier.mul_f64(SLOWER) && mean >= earlier + SLOWER_BY_MIN;
        let has_runs = recent.processed >= RUNS_MIN && before.processed >= RUNS_MIN;
        let matters = recent.took.as_secs_f64() >= TIME_SHARE_MIN * all;
        (is_much && has_runs && matters).then_some((class, recent.took, mean, earlier))
    });
    let (class, _, mean, earlier) = slow.max_by_key(|(_, took, ..)| *took)?;
    Some(Harm::Slower { class, mean, earlier })
}
