//! The charts of single queues of a Sidekiq that is observed.

use weir_advisor::observation::{Jobs, Queue};
use weir_advisor::{Drain, Forecast};
use weir_base::clock::Timestamp;

use crate::figures::as_float;
use crate::queue_histories::QueueHistories;

/// The series of one queue.
pub(super) const COLUMNS: [&str; 6] = [
    "waiting",
    "in_hand",
    "latency_seconds",
    "arriving_per_second",
    "served_per_second",
    "drain_seconds",
];

/// Writes one row for each queue that has a history. Waits for the disk.
pub(super) fn record(histories: &QueueHistories, at: Timestamp, jobs: &Jobs) {
    let forecast = Forecast::of(jobs);
    let row = |queue: &Queue| row(queue, forecast.queue(&queue.name)).to_vec();
    histories.record(at, &jobs.queues, |queue| &queue.name, row);
}

/// The values of [`COLUMNS`]; NaN: not known, and of the last that there is no end.
fn row(queue: &Queue, drain: Option<Drain>) -> [f64; COLUMNS.len()] {
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
        flow.map_or(f64::NAN, |flow| flow.served_per_second()),
        drain,
    ]
}
