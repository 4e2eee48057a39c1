//! Why a queue has a backlog that neither more threads nor another order of its jobs would reduce: its
//! jobs return to it, no job ends, or the processes end. And that Redis is far away.

use std::time::Duration;

use crate::finding::{Confidence, Finding};
use crate::observation::{JobProcess, ObservedQueue, SidekiqObservation};
use crate::wording;

/// Jobs that Sidekiq counts in the window, at least, to say that those of a queue end and return to it.
const RETURNED_MIN: f64 = 10.0;

/// Sidekiq adds finished jobs to its count with each heartbeat, so a shorter window shows none.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Round trips to Redis take less than a millisecond in a data center. A job takes several of them.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(100);

/// Returns how many jobs per second Sidekiq counts, if jobs of the queue end although it keeps its
/// length: the threads that serve it run its jobs, some of them have just begun, and more jobs ended than
/// other queues explain.
pub(super) fn returning(jobs: &SidekiqObservation, queue: &ObservedQueue) -> Option<f64> {
    let flow = queue.flow.known().filter(|_| queue.stands())?;
    let per_second = *jobs.processed_per_second.known()?;
    let others = jobs.queues.iter().filter(|other| other.name != queue.name);
    let of_others: f64 =
        others.filter_map(|other| other.flow.known()).map(|flow| flow.served_per_second()).sum();
    let ended = (per_second - of_others) * flow.window.as_secs_f64();
    let in_hand = jobs.serving_queue(&queue.name).flat_map(|process| &process.in_hand);
    let (own, of_other): (Vec<_>, Vec<_>) = in_hand.partition(|job| job.queue == queue.name);
    let is_quick = own.iter().any(|job| job.age < flow.window);
    (ended >= RETURNED_MIN && is_quick && own.len() > of_other.len()).then_some(per_second)
}

/// Reports that jobs of the queue end and are pushed to it again. Setting it aside would only make them
/// go round in another queue.
pub(super) fn returned(finding: Finding, per_second: f64) -> Finding {
    finding.leads_to(format!(
        "Sidekiq counts {} as processed, but the queue keeps its length: its jobs end early and return \
         to it, pushed by themselves, by a throttle or by a lock that is never free. Its oldest jobs \
         keep their age. More threads run them more often, not to their end: see in Sidekiq's log or \
         in the code of the job why it gives up.",
        wording::rate(per_second)
    ))
}

/// Returns a process that serves the queue, if Sidekiq counted no job at all in the window and all
/// threads that serve the queue are busy.
pub(super) fn stuck_server<'a>(
    jobs: &'a SidekiqObservation,
    queue: &'a ObservedQueue,
) -> Option<&'a JobProcess> {
    let flow = queue.flow.known().filter(|flow| flow.window >= HEARTBEAT)?;
    let is_none_done = jobs.processed_per_second.known().is_some_and(|rate| *rate == 0.0);
    let stands = is_none_done && flow.net_per_second() >= 0.0;
    let mut serving = jobs.serving_queue(&queue.name);
    let first = serving.next().filter(|it| stands && is_full(it))?;
    serving.all(is_full).then_some(first)
}

fn is_full(process: &JobProcess) -> bool {
    process.concurrency() > 0 && process.busy >= u64::from(process.concurrency())
}

/// Reports that every thread is busy and no job was completed.
pub(super) fn not_completed(finding: Finding, process: &JobProcess) -> Finding {
    let finding = finding.adding(format_args!(
        "Every thread that serves it is busy, and Sidekiq completed no job in the window: if they \
         hang, new jobs would hang as well, and more threads, too. {}",
        process.where_threads_show()
    ));
    finding.with_confidence(Confidence::Likely).next_if(process.print_threads_command())
}

/// Reports that the processes end again and again, in which new jobs are lost as well.
pub(super) fn ended_again(finding: Finding) -> Finding {
    finding.adding(
        "The processes that serve it end and are started again and again (ghost-process): repair \
         that first.",
    )
}

/// Says that round trips to Redis are slow, if a process has measured that.
pub(super) fn slow_round_trip(jobs: &SidekiqObservation, queue: &ObservedQueue) -> Option<String> {
    let serving = jobs.serving_queue(&queue.name);
    let measured = serving.filter_map(|process| Some((process.round_trip?, process)));
    let (slowest, process) = measured.max_by_key(|(round_trip, _)| *round_trip)?;
    (slowest >= ROUND_TRIP_MIN).then(|| {
        format!(
            "A round trip to Redis takes {} from {}, and a job takes several of them, during which its \
             thread does nothing. Run the process near its Redis, or see what delays Redis (redis-cli \
             --latency); until then, more threads help.",
            wording::duration(slowest),
            process.hostname
        )
    })
}
