//! What changed about when the harm began. A change at the same time is no proof, so each is only named.

use std::collections::BTreeMap;
use std::time::Duration;

use super::harm::{Harm, usual_per_second};
use crate::observation::{
    ClassHistory, DayCounts, FailingClass, JobProcess, ObservedQueue, SidekiqObservation,
};
use crate::wording::{self, count, duration, percent};

/// How long before the harm showed a change may have caused it.
const BEFORE: Duration = Duration::from_secs(900);
/// How much earlier than `since` says a change may have been: `since` is only at least right.
const PRECISION: f64 = 0.9;
/// Errors that are older than the harm by more than this are none of its causes.
const ERROR_BEFORE: Duration = Duration::from_secs(600);
const ERROR_RECENT: Duration = Duration::from_secs(1_800);
/// Factor from which a class runs more often, or longer, than before.
const FACTOR: f64 = 2.0;
const RUNS_MIN: u64 = 10;
/// Share of jobs from which a class is named.
const CLASS_SHARE: f64 = 0.5;
/// Ratio of jobs per hour, today to before, from which it is named.
const FEWER: f64 = 0.5;
const MORE: f64 = 2.0;
/// A round trip that a job feels.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(5);
/// Part of the day from which its counts mean something.
const PASSED_MIN: Duration = Duration::from_secs(600);

/// Returns sentences, one for each change.
pub(super) fn about(
    jobs: &SidekiqObservation,
    harm: &Harm<'_>,
    since: Option<Duration>,
) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(since.map(|since| started(jobs, since)));
    sentences.extend(since.and_then(|since| new_error(jobs, since)));
    sentences.extend(jobs.classes.known().and_then(|classes| changed_class(classes, harm)));
    if let Harm::Late { queue, .. } = harm {
        sentences.extend(waiting_class(queue));
        sentences.extend(running_class(jobs, queue));
    }
    sentences.extend(jobs.days.known().and_then(|days| throughput(days)));
    sentences.extend(round_trip(jobs));
    sentences
}

/// Says which processes were started about then.
fn started(jobs: &SidekiqObservation, since: Duration) -> String {
    let began = |process: &&JobProcess| {
        process.running_for.is_some_and(|age| {
            age >= since.mul_f64(PRECISION) && age <= since.saturating_add(BEFORE)
        })
    };
    let started: Vec<_> = jobs.processes.iter().filter(|it| it.is_alive()).filter(began).collect();
    let Some(first) = started.iter().filter_map(|it| it.running_for).max() else {
        return "No process was started about then.".to_owned();
    };
    let processes = wording::number(started.len() as u64, "process was", "processes were");
    let first_of = if started.len() > 1 { ", the first of them" } else { "" };
    format!("{processes} started about then{first_of} {} ago: a deployment?", duration(first))
}

/// Names an error that began about then.
fn new_error(jobs: &SidekiqObservation, since: Duration) -> Option<String> {
    let sample = jobs.retries.sample.known().filter(|_| jobs.retries.size > 0)?;
    let is_new = |it: &&FailingClass| {
        it.first_before <= since.saturating_add(ERROR_BEFORE) && it.last_before <= ERROR_RECENT
    };
    let error = sample.failing.iter().find(is_new)?;
    let class = if error.class.is_empty() { "some jobs" } else { &error.class };
    let first = duration(error.first_before);
    Some(format!("{class} fails with {}, the first time {first} ago.", error.error))
}

/// Names the class whose runs have changed most in number or in time.
fn changed_class(classes: &ClassHistory, harm: &Harm<'_>) -> Option<String> {
    let changes = classes.recent.iter().filter_map(|(class, recent)| {
        if matches!(harm, Harm::Slower { class: slow, .. } if slow == class) {
            return None;
        }
        let before = classes.earlier.get(class).copied().unwrap_or_default();
        if recent.processed.max(before.processed) < RUNS_MIN {
            return None;
        }
        let (mean, earlier) = (recent.mean(), before.mean());
        let slower = mean.zip(earlier).filter(|(mean, earlier)| *mean >= earlier.mul_f64(FACTOR));
        let is_more = recent.processed as f64 >= FACTOR * before.processed.max(1) as f64;
        let text = match slower {
            Some((mean, earlier)) => format!(
                "A run of {class} takes {} on average, {} an hour before.",
                duration(mean),
                duration(earlier)
            ),
            None if is_more => format!(
                "{class} ran {} times in {}, {} times an hour before.",
                count(recent.processed),
                duration(classes.period),
                count(before.processed)
            ),
            None => return None,
        };
        Some((recent.took, text))
    });
    changes.max_by_key(|(took, _)| *took).map(|(_, text)| text)
}

/// Names the class of most waiting jobs.
fn waiting_class(queue: &ObservedQueue) -> Option<String> {
    let sample = queue.sample.known().filter(|sample| sample.size > 0)?;
    let class = sample.classes.iter().max_by_key(|class| class.count)?;
    let share = class.count as f64 / sample.size as f64;
    (share >= CLASS_SHARE && !class.name.is_empty()).then(|| {
        format!("Of the waiting jobs, {} are {} (sampled).", percent(share.min(1.0)), class.name)
    })
}

/// Names the class of most jobs in progress, with the age of the oldest.
fn running_class(jobs: &SidekiqObservation, queue: &ObservedQueue) -> Option<String> {
    let running: Vec<_> =
        jobs.serving_queue(&queue.name).flat_map(|process| &process.in_hand).collect();
    let mut classes: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
    for job in running.iter().filter(|job| !job.class.is_empty()) {
        let (count, oldest) = classes.entry(&job.class).or_default();
        *count += 1;
        *oldest = (*oldest).max(job.age);
    }
    let (class, (count, oldest)) = classes.into_iter().max_by_key(|(_, (count, _))| *count)?;
    (count as f64 >= CLASS_SHARE * running.len() as f64).then(|| {
        let of = wording::number(running.len() as u64, "job", "jobs");
        format!("Of {of} in progress, {count} are {class}, the oldest for {}.", duration(oldest))
    })
}

/// Compares the jobs per hour of today with those of the days before.
fn throughput(days: &[DayCounts]) -> Option<String> {
    let usual = usual_per_second(days)? * 3_600.0;
    let today = days.first().filter(|day| day.passed >= PASSED_MIN)?;
    let now = today.processed as f64 / today.passed.as_secs_f64() * 3_600.0;
    let differs = now <= FEWER * usual || now >= MORE * usual;
    differs.then(|| {
        format!(
            "Per hour, {} jobs ended today, and {} before.",
            count(whole(now)),
            count(whole(usual))
        )
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and a cast of a float stays within what 64 bits hold"
)]
fn whole(rate: f64) -> u64 {
    rate.max(0.0).round() as u64
}

fn round_trip(jobs: &SidekiqObservation) -> Option<String> {
    let slowest = jobs.serving().filter_map(|process| process.round_trip).max()?;
    (slowest >= ROUND_TRIP_MIN)
        .then(|| format!("A round trip to Redis takes up to {}.", duration(slowest)))
}
