//! Sums up the reports: over the demo, and over each flood until all of its jobs have started. Pure.

use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::figures::Counts;
use crate::flood_jobs::FloodJobCounts;
use crate::summary::{DemoSummary, FloodSummary, Totals};
use crate::traffic::Flood;

/// Reports in a row without a waiting job, after which jobs that have not started are lost. More than one, because a job is on
/// its way to its worker for a moment.
const EMPTY_REPORTS: u32 = 2;

/// What is known at the end of an interval.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    pub(crate) now: Timestamp,
    pub(crate) interval: Duration,
    pub(crate) counts: &'a Counts,
    /// Jobs in queues. None: the admin API did not respond.
    pub(crate) waiting: Option<u64>,
    /// The flood in progress, or the last one.
    pub(crate) flood: Option<Flood>,
    pub(crate) flood_jobs: FloodJobCounts,
}

/// The sums.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    demo: DemoSummary,
    /// The flood that is not summarized yet.
    open: Option<OpenFlood>,
    /// The last one that was.
    closed: Option<Timestamp>,
}

#[derive(Debug)]
struct OpenFlood {
    flood: Flood,
    totals: Totals,
    jobs: FloodJobCounts,
    empty_reports: u32,
}

impl Observer {
    /// Adds an interval. Returns the summary of a flood that is over.
    pub(crate) fn observe(&mut self, seen: &Observation<'_>) -> Option<FloodSummary> {
        self.demo.totals.add(seen.interval, seen.counts, seen.waiting);
        self.demo.jobs_waiting = seen.waiting;
        let flood = seen.flood.filter(|flood| self.closed != Some(flood.began));
        let is_same = |open: &OpenFlood| flood.is_some_and(|flood| flood.began == open.flood.began);
        // A new flood may begin while jobs of the one before wait.
        let replaced = self.open.take_if(|open| !is_same(open)).map(|open| open.summary(None));
        if let Some(flood) = flood {
            self.demo.floods += u64::from(self.open.is_none());
            let open = self.open.get_or_insert_with(|| OpenFlood::new(flood));
            open.add(seen);
            let is_over = open.is_over(seen.now);
            if let Some(open) = self.open.take_if(|_| is_over) {
                self.closed = Some(open.flood.began);
                return Some(open.summary(Some(seen.now)));
            }
        }
        replaced
    }

    /// Returns the summary of a flood that is not over, and that of the demo.
    pub(crate) fn finish(self) -> (Option<FloodSummary>, DemoSummary) {
        (self.open.map(|open| open.summary(None)), self.demo)
    }
}

impl OpenFlood {
    fn new(flood: Flood) -> Self {
        Self { flood, totals: Totals::default(), jobs: FloodJobCounts::default(), empty_reports: 0 }
    }

    fn add(&mut self, seen: &Observation<'_>) {
        self.totals.add(seen.interval, seen.counts, seen.waiting);
        self.jobs = seen.flood_jobs;
        let is_empty = seen.waiting == Some(0) && seen.now >= self.flood.until;
        self.empty_reports = if is_empty { self.empty_reports + 1 } else { 0 };
    }

    fn is_over(&self, now: Timestamp) -> bool {
        now >= self.flood.until && (self.jobs.waiting == 0 || self.has_lost())
    }

    const fn has_lost(&self) -> bool {
        self.empty_reports >= EMPTY_REPORTS
    }

    /// `over_at`: None if it is not over.
    fn summary(self, over_at: Option<Timestamp>) -> FloodSummary {
        let drain_seconds = over_at.map(|at| at.since(self.flood.until).as_secs_f64());
        let is_lost = self.has_lost();
        let summary = FloodSummary {
            times: self.flood.request.times,
            flood_seconds: self.flood.request.seconds,
            drain_seconds,
            flood_jobs: 0,
            flood_jobs_waiting: 0,
            flood_jobs_lost: 0,
            totals: self.totals,
        };
        summary.with_jobs(self.jobs, is_lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::FloodRequest;

    fn flood(began_second: u64) -> Flood {
        Flood::begin(
            FloodRequest { seconds: 10, times: 50 },
            Timestamp::from_millis(began_second * 1_000),
        )
    }

    /// Observes a report at this second with so many jobs in queues, and of the flood.
    fn observe(
        observer: &mut Observer,
        second: u64,
        flood: Option<Flood>,
        waiting: [u64; 2],
    ) -> Option<FloodSummary> {
        observer.observe(&Observation {
            now: Timestamp::from_millis(second * 1_000),
            interval: Duration::from_secs(5),
            counts: &Counts { pushed: 10, ..Counts::default() },
            waiting: Some(waiting[0]),
            flood,
            flood_jobs: FloodJobCounts { acknowledged: 100, waiting: waiting[1] },
        })
    }

    #[test]
    fn flood_is_summarized_once_when_its_jobs_have_started() {
        let (mut observer, first) = (Observer::default(), Some(flood(10)));
        assert_eq!(observe(&mut observer, 5, None, [3, 0]), None);
        assert_eq!(observe(&mut observer, 15, first, [80, 70]), None);
        assert_eq!(observe(&mut observer, 20, first, [90, 80]), None);
        let summary = observe(&mut observer, 25, first, [2, 0]).unwrap();
        assert_eq!((summary.drain_seconds, summary.flood_jobs), (Some(5.0), 100));
        assert_eq!((summary.totals.jobs_pushed, summary.totals.jobs_waiting_max), (30, 90));
        assert_eq!(observe(&mut observer, 30, first, [2, 0]), None);
        let (open, demo) = observer.finish();
        assert_eq!((open, demo.floods, demo.totals.jobs_pushed), (None, 1, 50));
    }

    #[test]
    fn jobs_that_no_queue_holds_are_lost() {
        let (mut observer, first) = (Observer::default(), Some(flood(10)));
        assert_eq!(observe(&mut observer, 20, first, [0, 4]), None, "on their way to workers");
        let summary = observe(&mut observer, 25, first, [0, 4]).unwrap();
        assert_eq!((summary.flood_jobs_lost, summary.flood_jobs_waiting), (4, 0));
    }

    #[test]
    fn flood_that_is_followed_by_another_is_summarized_as_it_is() {
        let mut observer = Observer::default();
        assert_eq!(observe(&mut observer, 20, Some(flood(10)), [50, 40]), None);
        let summary = observe(&mut observer, 25, Some(flood(22)), [500, 30]).unwrap();
        assert_eq!((summary.drain_seconds, summary.flood_jobs_waiting), (None, 40));
        let (open, demo) = observer.finish();
        assert_eq!((open.unwrap().flood_jobs_waiting, demo.floods), (30, 2));
    }
}
