//! Measures Sidekiq's goodput by number of busy threads, while jobs are waiting.

use std::time::Duration;

use weir_advisor::levels::{Levels, LoadWindow};
use weir_advisor::observation::{Fact, Observation, SidekiqObservation, Throughput};
use weir_base::clock::Timestamp;

/// Minimum share of busy threads. With fewer, goodput equals the arrival rate.
const BUSY_SHARE_MIN: f64 = 0.9;

pub(super) fn of_sidekiq(
    levels: &mut Levels,
    observation: &Observation,
    now: Timestamp,
) -> Fact<Vec<Throughput>> {
    let Some(jobs) = observation.jobs.known() else { return Fact::NotAsked };
    if let Some(window) = window(jobs, now) {
        levels.note(window);
    }
    let levels = levels.goodput();
    if levels.is_empty() {
        return Fact::NotAsked;
    }
    Fact::Known(vec![Throughput {
        of: "Sidekiq".to_owned(),
        threads_now: jobs.threads(),
        place: "the command lines of Sidekiq's processes".to_owned(),
        levels,
    }])
}

/// Returns the window, or `None` if there were times without waiting jobs.
///
/// While all threads are busy, the jobs taken from the queues are the ones finished. Sidekiq's own
/// counters change only with heartbeats, five or ten seconds apart, but only they include failures.
fn window(jobs: &SidekiqObservation, at: Timestamp) -> Option<LoadWindow> {
    let (threads, flow) = (jobs.threads(), jobs.flow()?);
    let waited = flow.before.min(flow.after) >= u64::from(threads);
    let are_busy = jobs.busy() as f64 >= BUSY_SHARE_MIN * f64::from(threads);
    let done_share = jobs.completed_share();
    let per_second = flow.served_per_second() * done_share;
    (waited && are_busy).then(|| LoadWindow {
        at,
        length: flow.window,
        threads,
        jobs: counted(per_second, flow.window),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate of jobs is no negative, and a cast of a float stays within 64 bits"
)]
fn counted(per_second: f64, length: Duration) -> u64 {
    (per_second * length.as_secs_f64()).round() as u64
}

#[cfg(test)]
mod tests {
    use weir_advisor::Flow;
    use weir_advisor::observation::{Capsule, JobProcess, ObservedQueue};

    use super::*;

    fn observation(before: u64, after: u64, busy: u64) -> Observation {
        let length = Duration::from_secs(15);
        let flow = Flow { window: length, before, after, ..Flow::default() };
        let queue =
            ObservedQueue { flow: Fact::Known(flow), length: after, ..ObservedQueue::default() };
        let capsules = vec![Capsule { concurrency: 10, ..Capsule::default() }];
        let process = JobProcess { busy, capsules, ..JobProcess::default() };
        let jobs = SidekiqObservation {
            queues: vec![queue],
            processes: vec![process],
            failed_share: Fact::Known(0.25),
            ..SidekiqObservation::default()
        };
        Observation { jobs: Fact::Known(jobs), ..Observation::default() }
    }

    fn goodput(before: u64, after: u64, busy: u64) -> Fact<Vec<Throughput>> {
        let mut levels = Levels::default();
        let observation = observation(before, after, busy);
        let samples = (0..3).map(|second| {
            of_sidekiq(&mut levels, &observation, Timestamp::from_millis(second * 15_000))
        });
        samples.last().unwrap()
    }

    #[test]
    fn only_windows_in_which_jobs_waited_for_busy_threads_count() {
        let known = goodput(900, 600, 10);
        let throughput = &known.known().unwrap()[0];
        assert_eq!((throughput.threads_now, throughput.levels[0].jobs_per_second), (10, 15.0));
        assert_eq!(goodput(900, 5, 10), Fact::NotAsked, "it ran empty");
        assert_eq!(goodput(900, 600, 8), Fact::NotAsked, "threads were idle");
    }
}
