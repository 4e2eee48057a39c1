//! The charts of single queues of an observed Sidekiq.

use std::borrow::Cow;

use weir_advisor::observation::{Observation, ObservedQueue, SidekiqObservation};
use weir_advisor::{Drain, Forecast};
use weir_base::clock::Timestamp;

use crate::figures::as_float;
use crate::queue_histories::{Extent, QueueHistories};

/// The series of one queue.
pub(super) const COLUMNS: [&str; 6] = [
    "waiting",
    "in_hand",
    "latency_seconds",
    "arriving_per_second",
    "served_per_second",
    "drain_seconds",
];

/// Returns the key of a queue's history: its name, and its Redis if there are several.
pub(crate) fn key<'a>(shard: Option<&str>, queue: &'a str) -> Cow<'a, str> {
    // No address contains NUL.
    shard.map_or(Cow::Borrowed(queue), |shard| Cow::Owned(format!("{shard}\0{queue}")))
}

/// Writes one row for each queue that has a history. Blocks on the disk.
pub(super) fn record(histories: &QueueHistories, at: Timestamp, observation: &Observation) {
    let mut extent = Extent::All;
    let mut rows = Vec::new();
    for (shard, jobs) in observation.each_jobs() {
        let Some(jobs) = jobs.known() else {
            extent = Extent::Part;
            continue;
        };
        let forecast = Forecast::of(jobs);
        for queue in &jobs.queues {
            let drain = forecast.queue(&queue.name);
            rows.push((key(shard, &queue.name), row(jobs, queue, drain)));
        }
    }
    histories.record(at, (&rows, extent), |(key, _)| key.as_ref(), |(_, row)| row.to_vec());
}

/// Returns the values of [`COLUMNS`]; NaN: unknown, and for the last one that the queue never
/// drains.
fn row(
    jobs: &SidekiqObservation,
    queue: &ObservedQueue,
    drain: Option<Drain>,
) -> [f64; COLUMNS.len()] {
    let flow = queue.paced();
    let drain = match drain {
        Some(Drain::Empty) => 0.0,
        Some(Drain::After(left)) => left.as_secs_f64(),
        Some(Drain::Stands | Drain::Grows) | None => f64::NAN,
    };
    [
        as_float(queue.length),
        as_float(queue.in_hand),
        queue.latency.as_secs_f64(),
        flow.map_or(f64::NAN, |flow| flow.arrivals_per_second),
        flow.map_or(f64::NAN, |flow| jobs.completed_per_second(flow)),
        drain,
    ]
}
