//! Rules about single queues. Each queue gets at most one finding, the first of: not fetched,
//! passed over, a backlog beside new jobs in time, growing, late.

use std::collections::BTreeSet;

use weir_advisor::{Finding, Severity, VerdictFinding, shell};
use weir_base::drain::DrainForecast;
use weir_base::hint::closest;
use weir_jobs::view;

use super::job_facts::JobFacts;
use crate::fetchers::Fetchers;
use crate::figures::{as_float, counted, duration, percent, rate, seconds};
use crate::job_location::JobLocation;
use crate::new_jobs::NewJobs;

/// The source of a queue's latency.
pub(super) const OLDEST_JOB: &str = "time at which its next job began to wait";

/// The latency from which a queue without fetches is reported.
pub(super) const UNSERVED_SECONDS: f64 = 30.0;
/// The latency from which a queue without its own target is late.
const LATE_SECONDS: f64 = 300.0;
/// Growth below this share of the arrival rate is noise of a minute's rates.
const GROWTH_SHARE: f64 = 0.05;
/// Growth needs a backlog of at least this many seconds of pushes: with rates of one minute, a
/// burst in a younger backlog would look like a trend.
const GROWTH_BACKLOG_SECONDS: f64 = 60.0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum QueueCondition {
    None,
    NotFetched,
    PassedOver,
    /// Its backlog is late, and its new jobs start in time.
    Backlog,
    Grows,
    Late,
}

impl QueueCondition {
    const fn rule(self) -> &'static str {
        match self {
            Self::None => "",
            Self::NotFetched => "queue-not-fetched",
            Self::PassedOver => "queue-passed-over",
            Self::Backlog => "queue-backlog",
            Self::Grows => "queue-grows",
            Self::Late => "queue-late",
        }
    }
}

fn condition(
    queue: &view::QueueView,
    fetchers: &Fetchers<'_>,
    facts: &JobFacts<'_>,
) -> QueueCondition {
    if queue.paused || queue.depth == 0 {
        return QueueCondition::None;
    }
    if facts.is_served_by_sidekiq(&queue.name) {
        // Weir does not see the jobs that Sidekiq pushes and runs, so its rates say nothing.
        return if is_late(queue) { QueueCondition::Late } else { QueueCondition::None };
    }
    let is_served = queue.working > 0 || queue.processed_per_second > 0.0;
    let grows = growth(queue).is_some();
    if !is_served && queue.latency_seconds >= UNSERVED_SECONDS {
        let is_left = fetchers.is_certainly_unfetched(&queue.name);
        if is_left { QueueCondition::NotFetched } else { QueueCondition::PassedOver }
    } else if NewJobs::of(queue).is_some_and(NewJobs::are_in_time) {
        QueueCondition::Backlog
    } else if grows && (is_late(queue) || queue.target_latency_seconds.is_none()) {
        QueueCondition::Grows
    } else if is_late(queue) {
        QueueCondition::Late
    } else {
        QueueCondition::None
    }
}

/// Below this arrival rate, ten seconds have too few jobs for a rate: that of the minute counts.
const RECENT_RATE_MIN: f64 = 1.0;

/// The rates at which jobs arrive and are completed now.
struct QueueFlow {
    arriving: f64,
    processed: f64,
}

impl QueueFlow {
    fn of(queue: &view::QueueView) -> Self {
        if queue.pushed_per_second < RECENT_RATE_MIN {
            let (arriving, processed) = (queue.pushed_per_second, queue.processed_per_second);
            return Self { arriving, processed };
        }
        let recent = &queue.recent;
        Self { arriving: recent.arriving_per_second, processed: recent.processed_per_second }
    }
}

/// Returns the present growth in jobs per second. None: it does not grow now, or has not for long enough.
fn growth(queue: &view::QueueView) -> Option<f64> {
    let in_a_minute = queue.pushed_per_second - queue.processed_per_second;
    let is_trend = in_a_minute > queue.pushed_per_second * GROWTH_SHARE
        && as_float(queue.depth) > queue.pushed_per_second * GROWTH_BACKLOG_SECONDS;
    let flow = QueueFlow::of(queue);
    Some(flow.arriving - flow.processed).filter(|growth| is_trend && *growth > 0.0)
}

fn is_late(queue: &view::QueueView) -> bool {
    queue.latency_seconds > queue.target_latency_seconds.unwrap_or(LATE_SECONDS)
}

fn each(
    facts: &JobFacts<'_>,
    wanted: QueueCondition,
    describe: impl Fn(&view::QueueView, &Fetchers<'_>) -> (Severity, String, String),
) -> Vec<VerdictFinding> {
    let fetchers = Fetchers::new(facts.workers);
    let matching = facts.queues.iter().filter(|queue| condition(queue, &fetchers, facts) == wanted);
    let finding = |queue: &view::QueueView| {
        let (severity, problem, remedy) = describe(queue, &fetchers);
        found(queue, Finding::new(wanted.rule(), severity, subject(queue), problem), remedy)
    };
    matching.map(finding).collect()
}

fn subject(queue: &view::QueueView) -> String {
    format!("queue {}", queue.name)
}

fn found(queue: &view::QueueView, finding: Finding, remedy: impl Into<String>) -> VerdictFinding {
    let finding = finding.since(seconds(queue.latency_seconds), OLDEST_JOB);
    let page = JobLocation::Queue(queue.name.clone()).address(&[]);
    VerdictFinding::new(finding, remedy, page).affecting(queue.depth)
}

/// Finds queues that no connected worker fetches.
pub(super) fn queue_is_not_fetched(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    let has_no_workers = facts.overview.workers == 0 && facts.overview.fetches_waiting == 0;
    if has_no_workers || facts.are_all_workers_leaving() {
        // `no_worker_is_connected` and `all_are_leaving` report this once for all queues.
        return Vec::new();
    }
    let idle = names_without_jobs(facts);
    each(facts, QueueCondition::NotFetched, |queue, fetchers| {
        let fetchers_text = match fetchers.count(&queue.name).leaving {
            0 => "no worker fetches it".to_owned(),
            1 => "the only worker that fetches it is quiet or stopping".to_owned(),
            all => format!("all {all} workers that fetch it are quiet or stopping"),
        };
        (
            Severity::Critical,
            format!("{}: {fetchers_text}", behind(queue)),
            misconfigured(&queue.name, &idle),
        )
    })
}

/// Formats the backlog: `Queue pull is 9 jobs behind and grows by 2.0/s`.
fn behind(queue: &view::QueueView) -> String {
    let grows = growth(queue).map_or_else(String::new, |by| format!(" and grows by {}", rate(by)));
    format!("Queue {} is {} behind{grows}", queue.name, counted(queue.depth, "job"))
}

/// Returns fetched queue names without jobs: one of them may be misspelt.
fn names_without_jobs<'f>(facts: &JobFacts<'f>) -> Vec<&'f str> {
    let used = |queue: &&view::QueueView| queue.depth > 0 || queue.pushed > 0;
    let used: BTreeSet<&str> =
        facts.queues.iter().filter(used).map(|queue| queue.name.as_str()).collect();
    Fetchers::new(facts.workers).queues().filter(|name| !used.contains(name)).collect()
}

fn misconfigured(name: &str, idle: &[&str]) -> String {
    match closest(name, idle.iter().copied()) {
        Some(like) => {
            format!("Workers fetch {like}, which has no jobs: is one of the two names misspelt?")
        }
        None => format!(
            "Check that a running worker lists {name} among its queues: the usual reasons are a \
             misspelt name and a queue that no process is configured for."
        ),
    }
}

/// Finds queues that workers fetch without having taken a job for a while.
pub(super) fn queue_is_passed_over(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    if facts.overview.workers == 0 && facts.overview.fetches_waiting == 0 {
        return Vec::new();
    }
    each(facts, QueueCondition::PassedOver, |queue, fetchers| {
        let fetchers_text = match fetchers.count(&queue.name).running {
            0 => "no worker takes jobs from it".to_owned(),
            1 => "the only worker that fetches it takes no jobs".to_owned(),
            all => format!("{all} workers fetch it and none takes jobs"),
        };
        let remedy = "Check what they are busy with: a worker that lists other queues first fetches \
                    this one only when those are empty.";
        let severity = if is_late(queue) { Severity::Critical } else { Severity::Warning };
        (severity, format!("{}: {fetchers_text}", behind(queue)), remedy.to_owned())
    })
}

/// Finds queues with a higher arrival rate than completion rate.
pub(super) fn queue_grows(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    each(facts, QueueCondition::Grows, |queue, _| {
        let flow = QueueFlow::of(queue);
        let growth = flow.arriving - flow.processed;
        let problem = format!(
            "Queue {} is {} behind and grows by {}: {} arrive, {} are completed{}",
            queue.name,
            counted(queue.depth, "job"),
            rate(growth),
            rate(flow.arriving),
            rate(flow.processed),
            share_in_time(queue),
        );
        let remedy = if queue.processed_per_second > 0.0 {
            let missing = rate(growth);
            let missing = missing.trim_end_matches("/s");
            format!(
                "Give it more workers ({missing} more jobs per second would keep it level), or pause \
                 the clients that push to it."
            )
        } else {
            "No job was completed within a minute: check what its workers are busy with.".to_owned()
        };
        let severity = if is_late(queue) { Severity::Critical } else { Severity::Warning };
        (severity, problem, remedy)
    })
}

/// Describes how many new jobs of a late queue its fresh lane serves in time.
fn share_in_time(queue: &view::QueueView) -> String {
    NewJobs::of(queue).map_or_else(String::new, |new_jobs| {
        let (share, wait) = (percent(new_jobs.in_time_share), duration(new_jobs.wait_seconds));
        format!("; {share} of its new jobs start in time, after {wait}")
    })
}

/// Describes when a late queue will be empty.
fn time_to_drain(queue: &view::QueueView) -> String {
    if let Some(growth) = growth(queue) {
        return format!(" and grows by {}", rate(growth));
    }
    match queue.drain {
        DrainForecast::Drains(range) => {
            format!(", drains in {} at the present rates", range.describe(duration))
        }
        _ if queue.recent.growth_per_second() < 0.0 => " and has begun to shrink".to_owned(),
        _ if queue.processed_per_second <= 0.0 => " and no job is completed".to_owned(),
        DrainForecast::Grows => " and does not shrink".to_owned(),
        _ => " and there is not enough data to tell when it is empty".to_owned(),
    }
}

/// Finds queues whose backlog is late while their fresh lane serves new jobs in time.
pub(super) fn backlog_is_late(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    each(facts, QueueCondition::Backlog, |queue, _| {
        let wait = NewJobs::of(queue).map_or(0.0, |new_jobs| new_jobs.wait_seconds);
        let problem = format!(
            "New jobs of queue {} wait {} (target {}); its backlog of {} is {} old{}",
            queue.name,
            duration(wait),
            duration(queue.target_latency_seconds.unwrap_or_default()),
            counted(queue.depth, "job"),
            duration(queue.latency_seconds),
            time_to_drain(queue),
        );
        let remedy = "No action needed for new jobs: the fresh lane of the queue serves them first, \
                    and the backlog with a fifth of the workers' time. Add workers to drain it faster.";
        (Severity::Notice, problem, remedy.to_owned())
    })
}

/// Finds queues with a high latency that do not grow.
pub(super) fn queue_is_late(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    each(facts, QueueCondition::Late, |queue, _| {
        let target = queue.target_latency_seconds;
        let target =
            target.map_or(String::new(), |target| format!(" (target {})", duration(target)));
        let is_of_sidekiq = facts.is_served_by_sidekiq(&queue.name);
        let over = if is_of_sidekiq {
            "; processes of Sidekiq fetch it".to_owned()
        } else {
            time_to_drain(queue) + &share_in_time(queue)
        };
        let problem = format!(
            "Queue {} has a latency of {}{target} with {}{over}",
            queue.name,
            duration(queue.latency_seconds),
            counted(queue.depth, "job"),
        );
        let remedy = match queue.drain.range() {
            Some(_) if !is_of_sidekiq => "No action needed. Add workers to drain the queue faster.",
            _ => "Check what its workers are busy with.",
        };
        (Severity::Warning, problem, remedy.to_owned())
    })
}

/// Finds paused queues with jobs.
pub(super) fn queue_is_paused(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    let paused = facts.queues.iter().filter(|queue| queue.paused && queue.depth > 0);
    let finding = |queue: &view::QueueView| {
        let problem =
            format!("Queue {} is paused with {}", queue.name, counted(queue.depth, "job"));
        let finding = Finding::new("queue-paused", Severity::Warning, subject(queue), problem)
            .next(format!("weir jobs resume -- {}", shell::word(&queue.name)));
        found(queue, finding, "Resume it once the reason for the pause is gone.")
    };
    paused.map(finding).collect()
}
