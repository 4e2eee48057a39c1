//! Queues and processes of one Sidekiq, as rows.

use weir_advisor::observation::{JobProcess, ObservedQueue, SidekiqObservation};
use weir_advisor::{Drain, Forecast, wording};

use super::super::displayable;
use crate::address::address;
use crate::figures;

pub(super) struct JobsPart {
    /// Distinguishes elements that several parts have.
    pub(super) key: usize,
    /// Such as " of Redis 10.0.0.5:6379", if there are several.
    pub(super) of_redis: String,
    pub(super) queues: Vec<QueueRow>,
    pub(super) queues_left_out: usize,
    pub(super) processes: Vec<ProcessRow>,
    pub(super) processes_left_out: usize,
}

pub(super) struct QueueRow {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) waiting: u64,
    pub(super) oldest: String,
    pub(super) arriving: String,
    pub(super) completed: String,
    pub(super) time_to_drain: String,
    pub(super) served_by: usize,
    pub(super) is_wrong: bool,
}

pub(super) struct ProcessRow {
    pub(super) name: String,
    pub(super) busy: String,
    pub(super) is_quiet: bool,
    pub(super) heartbeat_age: String,
    pub(super) queues: String,
}

impl JobsPart {
    pub(super) fn new(
        (key, shard): (usize, Option<&str>),
        jobs: &SidekiqObservation,
        (queues_max, processes_max): (usize, usize),
    ) -> Self {
        let mut queues: Vec<&ObservedQueue> = jobs.queues.iter().collect();
        queues.sort_by_key(|queue| std::cmp::Reverse((queue.latency, queue.length)));
        let (shown_queues, forecast) = (queues.iter().take(queues_max), Forecast::of(jobs));
        let processes = jobs.processes.iter().take(processes_max);
        Self {
            key,
            of_redis: shard
                .map(|shard| format!(" of Redis {}", displayable(shard)))
                .unwrap_or_default(),
            queues: shown_queues
                .map(|queue| QueueRow::new(shard, jobs, queue, &forecast))
                .collect(),
            queues_left_out: queues.len().saturating_sub(queues_max),
            processes: processes.map(ProcessRow::new).collect(),
            processes_left_out: jobs.processes.len().saturating_sub(processes_max),
        }
    }
}

/// Formats the time to drain; None: there is only one sample.
pub(in crate::pages::observed) fn time_to_drain(
    queue: &ObservedQueue,
    forecast: &Forecast,
) -> Option<String> {
    forecast.queue_or_own(queue).map(|drain| match drain {
        Drain::Empty => "empty".to_owned(),
        Drain::After(remaining) => wording::about(remaining, forecast.queue_between(&queue.name)),
        Drain::Stands => "stays level".to_owned(),
        Drain::Grows => "grows".to_owned(),
    })
}

impl QueueRow {
    fn new(
        shard: Option<&str>,
        jobs: &SidekiqObservation,
        queue: &ObservedQueue,
        forecast: &Forecast,
    ) -> Self {
        let flow = queue.paced();
        let served_by = jobs.serving_queue(&queue.name).count();
        let unknown = || "–".to_owned();
        Self {
            name: displayable(&queue.name),
            address: address(
                "/observed/queue",
                &[("name", &queue.name), ("redis", shard.unwrap_or_default())],
            ),
            waiting: queue.length,
            oldest: figures::duration(queue.latency.as_secs_f64()),
            arriving: flow.map_or_else(unknown, |flow| figures::rate(flow.arrivals_per_second)),
            completed: flow
                .map_or_else(unknown, |flow| figures::rate(jobs.completed_per_second(flow))),
            time_to_drain: time_to_drain(queue, forecast).unwrap_or_else(unknown),
            served_by,
            is_wrong: served_by == 0 && queue.length > 0,
        }
    }
}

impl ProcessRow {
    fn new(process: &JobProcess) -> Self {
        Self {
            name: displayable(&process.identity),
            busy: format!("{} of {}", figures::count(process.busy), process.concurrency()),
            is_quiet: process.quiet,
            heartbeat_age: figures::whole_duration(process.beat_age.as_secs_f64()),
            queues: displayable(&process.served().collect::<Vec<_>>().join(", ")),
        }
    }
}
