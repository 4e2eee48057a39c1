//! Sidekiq's load from two samples. Redis counts neither the jobs of a queue nor, before version 7, those of a class, so
//! these are estimates: only the number of all jobs that ended is counted, and only with each heartbeat.

use std::collections::{BTreeMap, BTreeSet};

use weir_advisor::observation::{Fact, JobProcess, ObservedQueue, SidekiqObservation};
use weir_autopilot::class_estimate::{ClassEstimate, QueueSeen};
use weir_autopilot::load::{ClassFigures, JobsLoad, QueueFigures};

use super::groups::{ObservedWorkers, is_running, threads_of};

/// Classes with figures of their own.
const CLASSES_MAX: usize = 1_000;
/// Heartbeats that are closer together than this are the same.
const BEATS_SECONDS_MIN: f64 = 0.5;

/// What was counted up to the last sample.
#[derive(Debug, Default)]
pub(super) struct SidekiqLoad {
    last: Option<Counted>,
    estimate: ClassEstimate,
    classes: BTreeMap<String, ClassTotals>,
    pushed: BTreeMap<String, f64>,
    /// Queues that threads which can be changed have served.
    managed_queues: BTreeSet<String>,
}

/// A sample, and until when its jobs are counted.
#[derive(Clone, Copy, Debug)]
struct Counted {
    at_seconds: f64,
    /// The time of the heartbeats, on average: each counts the jobs that ended before it.
    until_seconds: f64,
    processed: u64,
}

#[derive(Clone, Debug, Default)]
struct ClassTotals {
    queue: String,
    in_flight: u32,
    ended: f64,
    run_seconds: f64,
}

impl SidekiqLoad {
    /// Adds a sample. `None`: no process has sent a heartbeat since the last one, so nothing is new.
    pub(super) fn add(
        &mut self,
        at_seconds: f64,
        jobs: &SidekiqObservation,
        workers: &ObservedWorkers<'_>,
    ) -> Option<JobsLoad> {
        let processed = jobs.processed.known().copied().unwrap_or_default();
        let until_seconds = at_seconds - beat_age(&jobs.processes);
        let now = Counted { at_seconds, until_seconds, processed };
        let before = self.last.unwrap_or(now);
        let beats_seconds = until_seconds - before.until_seconds;
        if self.last.is_some() && beats_seconds < BEATS_SECONDS_MIN {
            return None;
        }
        self.last = Some(now);
        let span_seconds = (at_seconds - before.at_seconds).max(0.0);
        let counted = processed.saturating_sub(before.processed) as f64;
        let ended = if beats_seconds > 0.0 { counted / beats_seconds * span_seconds } else { 0.0 };
        self.count_classes(jobs, ended, span_seconds, &workers.limited_queues);
        for queue in &jobs.queues {
            *self.pushed.entry(queue.name.clone()).or_default() += arrived(queue, span_seconds);
        }
        self.pushed.retain(|name, _| jobs.queues.iter().any(|queue| queue.name == *name));
        self.note_managed_queues(workers);
        let busy: u64 = workers.processes.iter().map(|(_, process)| process.busy).sum();
        let threads: u32 = workers.processes.iter().map(|(_, process)| threads_of(process)).sum();
        let busy = number(busy);
        Some(JobsLoad {
            queues: jobs.queues.iter().map(|queue| self.queue(queue, workers.are_all)).collect(),
            classes: self.class_figures(),
            other_classes: None,
            busy,
            idle: threads.saturating_sub(busy),
            age_seconds: 0.0,
            groups: workers.groups.clone(),
        })
    }

    /// `limited`: queues of limited classes, whose jobs count as those of the queues that they are from.
    fn count_classes(
        &mut self,
        jobs: &SidekiqObservation,
        ended: f64,
        span_seconds: f64,
        limited: &BTreeMap<String, String>,
    ) {
        let source = |queue: &str| limited.get(queue).map_or(queue, String::as_str).to_owned();
        let mut running: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        for job in jobs.processes.iter().flat_map(|process| &process.in_hand) {
            *running.entry((&job.class, &job.queue)).or_default() += 1;
        }
        let seen: Vec<QueueSeen> =
            jobs.queues.iter().map(|queue| seen(queue, &running, jobs, span_seconds)).collect();
        for totals in self.classes.values_mut() {
            // Half of the span with those of before, half with those of now.
            totals.run_seconds += f64::from(totals.in_flight) * span_seconds / 2.0;
            totals.in_flight = 0;
        }
        for ((class, queue), count) in running {
            if let Some(totals) = self.totals_of(class) {
                totals.queue = source(queue);
                totals.in_flight += count;
                totals.run_seconds += f64::from(count) * span_seconds / 2.0;
            }
        }
        for queue in &seen {
            for (class, _) in &queue.waiting {
                if let Some(totals) = self.totals_of(class).filter(|it| it.queue.is_empty()) {
                    totals.queue = source(&queue.name);
                }
            }
        }
        for (class, share) in self.estimate.divide(ended, &seen) {
            if let Some(totals) = self.totals_of(&class) {
                totals.ended += share;
            }
        }
    }

    fn totals_of(&mut self, class: &str) -> Option<&mut ClassTotals> {
        let has_room = self.classes.len() < CLASSES_MAX || self.classes.contains_key(class);
        (has_room && !class.is_empty()).then(|| self.classes.entry(class.to_owned()).or_default())
    }

    fn note_managed_queues(&mut self, workers: &ObservedWorkers<'_>) {
        let served = workers.processes.iter().flat_map(|(_, process)| &process.capsules);
        let served = served.flat_map(|capsule| &capsule.queues).map(|queue| &queue.name);
        self.managed_queues.extend(served.chain(&workers.queues).cloned());
    }

    fn queue(&self, queue: &ObservedQueue, are_all_managed: bool) -> QueueFigures {
        let is_waiting = queue.length > 0 && !queue.paused;
        QueueFigures {
            name: queue.name.clone(),
            waiting: if is_waiting { queue.length } else { 0 },
            oldest_age_seconds: if is_waiting { queue.latency.as_secs_f64() } else { 0.0 },
            pushed_total: whole(self.pushed.get(&queue.name).copied().unwrap_or_default()),
            in_flight: number(queue.in_hand),
            is_unmanaged: !are_all_managed && !self.managed_queues.contains(&queue.name),
            target_seconds: None,
            waiting_by_class: if is_waiting { waiting_by_class(queue) } else { Vec::new() },
        }
    }

    fn class_figures(&self) -> Vec<ClassFigures> {
        let figures = |(name, totals): (&String, &ClassTotals)| ClassFigures {
            name: name.clone(),
            queue: totals.queue.clone(),
            in_flight: totals.in_flight,
            ended_total: whole(totals.ended),
            run_seconds_total: totals.run_seconds,
        };
        self.classes.iter().map(figures).collect()
    }
}

/// Returns the age of the heartbeats on average, by threads; 0 without any.
fn beat_age(processes: &[JobProcess]) -> f64 {
    let running = processes.iter().filter(|process| is_running(process));
    let sums = running.fold((0.0, 0.0), |(ages, threads), process| {
        let own = f64::from(threads_of(process).max(1));
        (ages + own * process.beat_age.as_secs_f64(), threads + own)
    });
    sums.0 / sums.1.max(1.0)
}

/// Returns what a queue shows of its classes.
fn seen(
    queue: &ObservedQueue,
    running: &BTreeMap<(&str, &str), u32>,
    jobs: &SidekiqObservation,
    span_seconds: f64,
) -> QueueSeen {
    let taken = queue.flow.known().map_or(0.0, |flow| flow.served_per_second());
    let classes = queue.sample.known().map(|sample| &sample.classes);
    let waiting = classes.into_iter().flatten().filter(|_| queue.length > 0);
    let here = running.iter().filter(|((_, from), _)| *from == queue.name);
    let in_progress = here.map(|((class, _), count)| {
        // Version 7 and later count the runs of a class: those that run for long are then not counted too often.
        let runs = match &jobs.classes {
            Fact::Known(history) => history.recent.get(*class).map(|runs| runs.processed.max(1)),
            Fact::Unknown(_) | Fact::NotAsked => None,
        };
        ((*class).to_owned(), runs.unwrap_or(u64::from(*count)))
    });
    QueueSeen {
        name: queue.name.clone(),
        taken: taken.max(0.0) * span_seconds,
        waiting: waiting.map(|share| (share.name.clone(), share.count)).collect(),
        in_progress: in_progress.collect(),
    }
}

fn arrived(queue: &ObservedQueue, span_seconds: f64) -> f64 {
    queue.flow.known().map_or(0.0, |flow| flow.arrivals_per_second * span_seconds)
}

fn waiting_by_class(queue: &ObservedQueue) -> Vec<(String, u64)> {
    let Some(sample) = queue.sample.known().filter(|sample| sample.size > 0) else {
        return Vec::new();
    };
    let estimated = |count: u64| whole(queue.length as f64 * count as f64 / sample.size as f64);
    sample.classes.iter().map(|share| (share.name.clone(), estimated(share.count))).collect()
}

fn number(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count is not negative, and a cast of a float stays within 64 bits"
)]
fn whole(count: f64) -> u64 {
    count.floor() as u64
}

#[cfg(test)]
mod tests;
