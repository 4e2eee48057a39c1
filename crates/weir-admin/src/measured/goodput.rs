//! The throughput of job workers by concurrency.

use weir_advisor::levels::{Levels, LoadWindow};
use weir_advisor::observation::Throughput;
use weir_base::clock::Timestamp;
use weir_jobs::view::JobServerOverview;

/// Samples of the job server.
#[derive(Debug, Default)]
pub(super) struct JobMeasurements {
    levels: Levels,
    previous: Option<(Timestamp, JobServerOverview)>,
}

impl JobMeasurements {
    pub(super) fn record(&mut self, at: Timestamp, overview: JobServerOverview) {
        if let Some((from, previous)) = &self.previous
            && let Some(window) = window(*from, previous, at, &overview)
        {
            self.levels.note(window);
        }
        self.previous = Some((at, overview));
    }

    pub(super) fn goodput(&self) -> Vec<Throughput> {
        let levels = self.levels.goodput();
        let Some((_, overview)) = self.previous.as_ref().filter(|_| !levels.is_empty()) else {
            return Vec::new();
        };
        vec![Throughput {
            of: "Weir's workers".to_owned(),
            threads_now: u32::try_from(overview.working).unwrap_or(u32::MAX),
            place: "the command lines of the workers ([workers.NAME])".to_owned(),
            levels,
        }]
    }
}

/// Returns the throughput between two samples. None: jobs did not wait all the time, or a restart
/// has reset the counters.
fn window(
    from: Timestamp,
    previous: &JobServerOverview,
    at: Timestamp,
    now: &JobServerOverview,
) -> Option<LoadWindow> {
    let had_backlog =
        previous.enqueued.min(now.enqueued) >= previous.working.max(now.working).max(1);
    let threads = u32::try_from(previous.working.midpoint(now.working)).ok()?;
    let jobs = now.processed_total.checked_sub(previous.processed_total)?;
    had_backlog.then_some(LoadWindow { at, length: at.since(from), threads, jobs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(working: u64, enqueued: u64, processed_total: u64) -> JobServerOverview {
        JobServerOverview { working, enqueued, processed_total, ..JobServerOverview::default() }
    }

    #[test]
    fn goodput_is_measured_while_jobs_wait() {
        let mut jobs = JobMeasurements::default();
        let mut processed = 0;
        for (step, threads) in [10, 10, 10, 10, 40, 40, 40, 40, 40].into_iter().enumerate() {
            processed += if threads == 10 { 300 } else { 100 };
            let at = Timestamp::from_millis(step as u64 * 10_000);
            jobs.record(at, overview(threads, 5_000, processed));
        }
        let throughput = jobs.goodput().remove(0);
        assert_eq!(throughput.threads_now, 40);
        let of = |threads| {
            let mut levels = throughput.levels.iter();
            levels.find(|level| level.threads == threads).map(|level| level.jobs_per_second)
        };
        assert_eq!((of(10), of(40)), (Some(30.0), Some(10.0)));
    }

    #[test]
    fn windows_without_backlog_or_across_restarts_are_ignored() {
        let at = |second: u64| Timestamp::from_millis(second * 1_000);
        let window = |previous: JobServerOverview, now: JobServerOverview| {
            window(at(0), &previous, at(10), &now)
        };
        assert!(window(overview(10, 50, 0), overview(10, 50, 9)).is_some());
        assert_eq!(window(overview(10, 50, 0), overview(10, 9, 9)), None);
        assert_eq!(window(overview(10, 50, 10), overview(10, 50, 9)), None);
    }
}
