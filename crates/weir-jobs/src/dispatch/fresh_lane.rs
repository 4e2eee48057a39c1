//! The fresh lane of a queue that is late: new jobs are served first, and the backlog gets a fixed
//! part of the workers' time.
//!
//! A fetch is charged the mean time of such a job, and the end of the job corrects the charge to the
//! time that it took. So jobs of the backlog that run ten times as long are served a tenth as often.

use std::time::Duration;

use super::mean_time::{MeanTime, TIME_UNKNOWN};

/// The backlog gets one part of the workers' time in this many.
pub const BACKLOG_PART: u32 = 5;

/// A second of the backlog balances so many seconds of new jobs.
const BACKLOG_WEIGHT: f64 = (BACKLOG_PART - 1) as f64;

/// Every job counts as at least this long, so that the backlog gets its part of jobs that take no time.
const TIME_MIN: Duration = Duration::from_millis(1);

/// The balance stays within this, or within two jobs of the backlog if they take longer, so that a
/// wrong estimate has no effect for longer.
const BALANCE_MAX_SECONDS: f64 = 3_600.0;

/// The end of a queue from which a job is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueEnd {
    Oldest,
    Newest,
}

/// The balance of a queue's fresh lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FreshLane {
    /// Seconds of workers' time for new jobs, less the backlog's time in the proportion that it is to
    /// get.
    balance: f64,
    /// New jobs in progress.
    pub(super) running: u32,
    fresh: MeanTime,
    backlog: MeanTime,
}

impl FreshLane {
    /// Returns the end from which the next job is to be taken.
    pub(super) fn next_end(&self) -> QueueEnd {
        if self.balance >= self.backlog_job() { QueueEnd::Oldest } else { QueueEnd::Newest }
    }

    /// Charges a job that is taken. Returns the estimate of its time.
    pub(super) fn begin(&mut self, end: QueueEnd) -> Duration {
        let estimate = self.estimate(end);
        self.charge(end, estimate.as_secs_f64());
        self.running = self.running.saturating_add(u32::from(end == QueueEnd::Newest));
        estimate
    }

    /// Corrects the charge of a job that has ended.
    pub(super) fn finish(&mut self, end: QueueEnd, estimate: Duration, ran: Duration) {
        let ran = ran.max(TIME_MIN);
        self.mean(end).add(ran);
        self.charge(end, ran.as_secs_f64() - estimate.as_secs_f64());
        self.leave(end);
    }

    /// Takes back the charge of a job that was not delivered.
    pub(super) fn take_back(&mut self, end: QueueEnd, estimate: Duration) {
        self.charge(end, -estimate.as_secs_f64());
        self.leave(end);
    }

    /// Ends a job whose time is not known: its charge remains. The time of its reservation, mostly half an hour, would
    /// keep the backlog from being served because of one worker that died.
    pub(super) fn leave(&mut self, end: QueueEnd) {
        // The lane may have been forgotten by a reload since.
        self.running = self.running.saturating_sub(u32::from(end == QueueEnd::Newest));
    }

    fn charge(&mut self, end: QueueEnd, seconds: f64) {
        let part = match end {
            QueueEnd::Newest => seconds,
            QueueEnd::Oldest => -seconds * BACKLOG_WEIGHT,
        };
        let most = BALANCE_MAX_SECONDS.max(self.backlog_job() * 2.0);
        self.balance = (self.balance + part).clamp(-most, most);
    }

    /// Returns the time of new jobs that balances one job of the backlog.
    fn backlog_job(&self) -> f64 {
        BACKLOG_WEIGHT * self.estimate(QueueEnd::Oldest).as_secs_f64()
    }

    fn estimate(&self, end: QueueEnd) -> Duration {
        let (own, other) = match end {
            QueueEnd::Newest => (self.fresh, self.backlog),
            QueueEnd::Oldest => (self.backlog, self.fresh),
        };
        own.known().or_else(|| other.known()).unwrap_or(TIME_UNKNOWN)
    }

    const fn mean(&mut self, end: QueueEnd) -> &mut MeanTime {
        match end {
            QueueEnd::Newest => &mut self.fresh,
            QueueEnd::Oldest => &mut self.backlog,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Serves so many jobs one after another. Returns the time of new jobs and of the backlog.
    fn serve(fresh: Duration, backlog: Duration, jobs: u32) -> (Duration, Duration) {
        let (mut lane, mut spent) = (FreshLane::default(), (Duration::ZERO, Duration::ZERO));
        for _ in 0..jobs {
            let end = lane.next_end();
            let estimate = lane.begin(end);
            let ran = if end == QueueEnd::Newest { fresh } else { backlog };
            lane.finish(end, estimate, ran);
            match end {
                QueueEnd::Newest => spent.0 += ran,
                QueueEnd::Oldest => spent.1 += ran,
            }
        }
        assert_eq!(lane.running, 0);
        spent
    }

    #[test]
    fn every_fifth_job_is_of_the_backlog_if_all_take_as_long() {
        let (fresh, backlog) = serve(seconds(2.0), seconds(2.0), 1_000);
        assert_eq!((fresh, backlog), (seconds(1_600.0), seconds(400.0)));
    }

    #[test]
    fn jobs_that_take_no_time_leave_the_backlog_its_part() {
        let mut lane = FreshLane::default();
        let mut serve = |_| {
            let end = lane.next_end();
            let estimate = lane.begin(end);
            lane.finish(end, estimate, Duration::ZERO);
            end
        };
        let of_the_backlog =
            (0..1_000).map(&mut serve).filter(|end| *end == QueueEnd::Oldest).count();
        assert!((180..=220).contains(&of_the_backlog), "{of_the_backlog}");
    }

    #[test]
    fn a_job_that_was_not_delivered_costs_nothing() {
        let mut lane = FreshLane::default();
        for _ in 0..100 {
            let estimate = lane.begin(QueueEnd::Newest);
            lane.take_back(QueueEnd::Newest, estimate);
        }
        assert_eq!((lane.next_end(), lane.running), (QueueEnd::Newest, 0));
    }

    proptest! {
        #[test]
        fn the_backlog_gets_a_fifth_of_the_time(fresh in 0.1..10.0_f64, times_longer in 0.01..100.0_f64) {
            let (fresh, backlog) = serve(seconds(fresh), seconds(fresh * times_longer), 20_000);
            let part = backlog.as_secs_f64() / (fresh + backlog).as_secs_f64();
            prop_assert!((0.17..0.23).contains(&part), "{part}");
        }
    }
}
