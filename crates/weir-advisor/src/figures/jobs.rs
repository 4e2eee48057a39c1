//! Metrics of Sidekiq.

use std::collections::{BTreeMap, BTreeSet};

use super::CollectedFigures;
use super::admitted::AdmittedNames;
use crate::advice;
use crate::flow::{Drain, Flow};
use crate::forecast::Forecast;
use crate::observation::{JobSet, Observation, ObservedQueue, SidekiqObservation};

pub(super) fn add(
    figures: &mut CollectedFigures,
    observation: &Observation,
    names: &mut AdmittedNames,
) {
    admit(observation, names);
    for (shard, jobs) in observation.each_jobs() {
        let Some(jobs) = jobs.known() else { continue };
        let mut figures = OfSidekiq { figures, shard };
        add_jobs(&mut figures, jobs);
        add_queues(&mut figures, jobs, names);
    }
}

/// Updates the admitted queues. Those of an unreachable Redis stay admitted.
fn admit(observation: &Observation, names: &mut AdmittedNames) {
    let of = |shard: Option<&str>| shard.unwrap_or_default().to_owned();
    let mut away = BTreeSet::new();
    let mut present = BTreeSet::new();
    for (shard, jobs) in observation.each_jobs() {
        match jobs.known() {
            Some(jobs) => {
                present.extend(jobs.queues.iter().map(|queue| (of(shard), queue.name.clone())));
            }
            None => {
                away.insert(of(shard));
            }
        }
    }
    names.admit(&present, |shard| away.contains(shard));
}

/// Collects the metrics of one Sidekiq.
struct OfSidekiq<'a> {
    figures: &'a mut CollectedFigures,
    /// Its Redis, or `None` if there is only one.
    shard: Option<&'a str>,
}

impl OfSidekiq<'_> {
    fn add(&mut self, name: &str, labels: &[&str], value: f64) {
        self.figures.add_of(self.shard, name, labels, value);
    }
}

fn add_jobs(figures: &mut OfSidekiq<'_>, jobs: &SidekiqObservation) {
    let (drain, _, unserved) = advice::drain_of(jobs);
    let never = (!unserved.is_empty()).then_some(f64::INFINITY);
    if let Some(seconds) = never.or_else(|| drain.and_then(seconds)) {
        figures.add("drain_seconds", &[], seconds);
    }
    for (name, set) in
        [("scheduled", &jobs.scheduled), ("retries", &jobs.retries), ("dead", &jobs.dead)]
    {
        add_set(figures, name, set);
    }
    for (name, count) in [("jobs_processed", &jobs.processed), ("jobs_failed", &jobs.failed)] {
        if let Some(count) = count.known() {
            figures.add(name, &[], *count as f64);
        }
    }
    let alive = jobs.processes.iter().filter(|process| process.is_alive());
    let (serving, alive) = (jobs.serving().count(), alive.count());
    // Processes without recent heartbeats count as ghosts.
    let ghosts = jobs.ghosts.len() + jobs.processes.len() - alive;
    figures.add("processes", &["serving"], serving as f64);
    figures.add("processes", &["quiet"], (alive - serving) as f64);
    figures.add("processes", &["ghost"], ghosts as f64);
    figures.add("threads", &[], f64::from(jobs.threads()));
    figures.add("threads_busy", &[], jobs.busy() as f64);
}

fn add_set(figures: &mut OfSidekiq<'_>, name: &str, set: &JobSet) {
    // An unreadable set has no size, rather than 0.
    if set.flow.missing().is_some() {
        return;
    }
    figures.add("set_size", &[name], set.size as f64);
    figures.add("set_overdue", &[name], set.overdue as f64);
}

/// Adds the metrics of queues. Queues that share a label are summed.
fn add_queues(figures: &mut OfSidekiq<'_>, jobs: &SidekiqObservation, names: &AdmittedNames) {
    let forecast = Forecast::of(jobs);
    let mut by_label: BTreeMap<&str, Vec<&ObservedQueue>> = BTreeMap::new();
    for queue in &jobs.queues {
        let label = names.label(figures.shard.unwrap_or_default(), &queue.name);
        by_label.entry(label).or_default().push(queue);
    }
    for (label, queues) in by_label {
        add_queue(figures, (jobs, &forecast), label, &queues);
    }
}

fn add_queue(
    figures: &mut OfSidekiq<'_>,
    (jobs, forecast): (&SidekiqObservation, &Forecast),
    label: &str,
    queues: &[&ObservedQueue],
) {
    let label = &[label];
    let sum =
        |of: fn(&ObservedQueue) -> u64| queues.iter().map(|queue| of(queue)).sum::<u64>() as f64;
    figures.add("queue_size", label, sum(|queue| queue.length));
    figures.add("queue_in_hand", label, sum(|queue| queue.in_hand));
    let latency = queues.iter().map(|queue| queue.latency).max().unwrap_or_default();
    figures.add("queue_latency_seconds", label, latency.as_secs_f64());
    // Of several queues, reports the one with the fewest processes. Prefers queues with jobs, or
    // else empty unserved queues with obsolete names would hide the others.
    let served_by = |waits: bool| {
        let queues = queues.iter().filter(|queue| !waits || queue.length > 0);
        queues.map(|queue| jobs.serving_queue(&queue.name).count()).min()
    };
    let fewest = served_by(true).or_else(|| served_by(false));
    figures.add("queue_served_by", label, fewest.unwrap_or_default() as f64);
    let flows: Option<Vec<&Flow>> = queues.iter().map(|queue| queue.flow.known()).collect();
    if let Some(flow) = flows.and_then(Flow::total) {
        // Rates that are only lower limits are not exported.
        if queues.iter().all(|queue| !queue.flow_is_least) {
            figures.add("queue_arriving_per_second", label, flow.arrivals_per_second);
            figures.add("queue_served_per_second", label, jobs.completed_per_second(&flow));
        }
        let drain = match queues {
            [queue] => forecast.queue_or_own(queue),
            _ => Some(flow.drain()).filter(|_| !forecast.is_withheld),
        };
        if let Some(seconds) = drain.and_then(seconds) {
            figures.add("queue_drain_seconds", label, seconds);
        }
    }
}

fn seconds(drain: Drain) -> Option<f64> {
    match drain {
        Drain::Empty => Some(0.0),
        Drain::After(left) => Some(left.as_secs_f64()),
        Drain::Grows => Some(f64::INFINITY),
        Drain::Stands => None,
    }
}
