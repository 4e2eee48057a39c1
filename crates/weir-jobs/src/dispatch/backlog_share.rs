//! What a queue gets of the workers' time that late queues share by their weights.
//!
//! A job is charged the mean time of its queue when it is taken, at least the time for which it has run while it runs,
//! and the time that it took when it ends. Late queues are compared by the time charged, relative to their weights. A
//! queue that becomes late begins with what the late queue with the least time has, so it gets nothing in advance.

use std::time::Duration;

use weir_base::clock::Timestamp;

/// The charges of a queue are remembered for so long while it is not late. A queue that is on time for longer begins anew.
const MEMORY: Duration = Duration::from_secs(60);

/// Seconds of workers' time by which the jobs of a queue that have ended may be ahead of the late queue with the least
/// time. A queue gets more than its share because of its guarantee; once that is over, it must not wait for longer.
const AHEAD_MAX_SECONDS: f64 = 3_600.0;

/// The charge of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BacklogCharge {
    since: Timestamp,
    estimate: Duration,
}

/// The share of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BacklogShare {
    /// The time of jobs that have ended, in seconds relative to the weight.
    ended: f64,
    running: RunningJobs,
    /// The last one that is known; at least 1.
    weight: f64,
    pub(super) is_late: bool,
    /// When it was last late. `None`: never.
    left: Option<Timestamp>,
}

/// Jobs in progress, so that the sum of their times is known at any moment.
#[derive(Clone, Copy, Debug, Default)]
struct RunningJobs {
    jobs: u32,
    /// Sum of the times at which they were taken, in microseconds.
    since_micros: u128,
    estimates: Duration,
}

impl BacklogShare {
    /// Returns the workers' time that it got, in seconds relative to its weight.
    pub(super) fn spent(&self, now: Timestamp) -> f64 {
        self.ended + self.running.seconds(now) / self.weight.max(1.0)
    }

    /// Enters the queues that are late. `least`: the time of the late queue that got least.
    pub(super) fn enter(&mut self, least: f64, weight: f64, now: Timestamp) {
        self.weight = weight;
        self.is_late = true;
        let is_recent = self.left.is_some_and(|left| now.since(left) < MEMORY);
        let spent = if is_recent { self.spent(now).max(least) } else { least };
        self.set(spent, now);
        self.limit(least, weight);
    }

    /// Gives up what it did not get because it is at its concurrency: it does not catch up later.
    pub(super) fn keep_up(&mut self, least: f64, weight: f64, now: Timestamp) {
        self.weight = weight;
        self.set(self.spent(now).max(least), now);
        self.limit(least, weight);
    }

    /// Limits the time by which it is ahead of `least`. Jobs in progress don't count: many long jobs that begin at once
    /// are not more than the share of their queue.
    pub(super) fn limit(&mut self, least: f64, weight: f64) {
        self.weight = weight;
        self.ended = self.ended.min(least + AHEAD_MAX_SECONDS / weight.max(1.0));
    }

    pub(super) const fn leave(&mut self, now: Timestamp) {
        self.is_late = false;
        self.left = Some(now);
    }

    /// Charges a job that is taken now.
    pub(super) fn charge(
        &mut self,
        estimate: Duration,
        weight: f64,
        now: Timestamp,
    ) -> BacklogCharge {
        self.weight = weight;
        let charge = BacklogCharge { since: now, estimate };
        self.running.add(charge);
        charge
    }

    /// Corrects the charge of a job that took so long.
    pub(super) fn end(&mut self, charge: BacklogCharge, ran: Duration) {
        self.running.remove(charge);
        self.ended += ran.as_secs_f64() / self.weight.max(1.0);
    }

    /// Takes back the charge of a job that was not delivered.
    pub(super) fn take_back(&mut self, charge: BacklogCharge) {
        self.running.remove(charge);
    }

    /// Forgets all jobs in progress.
    pub(super) fn forget_running(&mut self) {
        self.running = RunningJobs::default();
    }

    fn set(&mut self, spent: f64, now: Timestamp) {
        self.ended += spent - self.spent(now);
    }
}

impl RunningJobs {
    fn add(&mut self, charge: BacklogCharge) {
        self.jobs = self.jobs.saturating_add(1);
        self.since_micros += u128::from(charge.since.as_micros());
        self.estimates = self.estimates.saturating_add(charge.estimate);
    }

    /// A reload may have forgotten the job since.
    fn remove(&mut self, charge: BacklogCharge) {
        if self.jobs <= 1 {
            *self = Self::default();
            return;
        }
        self.jobs -= 1;
        self.since_micros = self.since_micros.saturating_sub(u128::from(charge.since.as_micros()));
        self.estimates = self.estimates.saturating_sub(charge.estimate);
    }

    /// Returns the time for which they have run, or what it was estimated at if that is more.
    fn seconds(&self, now: Timestamp) -> f64 {
        let now_micros = u128::from(now.as_micros()) * u128::from(self.jobs);
        let micros = now_micros.saturating_sub(self.since_micros);
        let ran = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        ran.max(self.estimates).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + seconds * 1_000)
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// Compares to a microsecond.
    fn check(share: &BacklogShare, second: u64, expected: f64) {
        let spent = share.spent(at(second));
        assert!((spent - expected).abs() < 1e-6, "{spent}, not {expected}");
    }

    #[test]
    fn a_job_is_charged_while_it_runs_and_corrected_at_its_end() {
        let mut share = BacklogShare::default();
        let first = share.charge(SECOND * 4, 2.0, at(0));
        check(&share, 0, 2.0);
        check(&share, 10, 5.0);
        let second = share.charge(SECOND * 4, 2.0, at(10));
        check(&share, 20, 15.0);
        share.end(first, SECOND * 20);
        check(&share, 20, 15.0);
        share.take_back(second);
        check(&share, 99, 10.0);
    }

    #[test]
    fn a_queue_that_becomes_late_gets_nothing_in_advance_and_forgets_what_is_old() {
        let spent = |seconds: u32| {
            let mut share = BacklogShare::default();
            let charge = share.charge(SECOND, 1.0, at(0));
            share.end(charge, SECOND * seconds);
            share.enter(0.0, 1.0, at(0));
            share.ended = f64::from(seconds);
            share.leave(at(0));
            share
        };
        let enter = |mut share: BacklogShare, second: u64| {
            share.enter(100.0, 1.0, at(second));
            share
        };
        check(&enter(spent(10), 59), 59, 100.0);
        check(&enter(spent(500), 59), 59, 500.0);
        check(&enter(spent(500), 60), 60, 100.0);
        check(&enter(spent(9_000), 1), 1, 3_700.0);
        check(&enter(BacklogShare::default(), 1), 1, 100.0);
    }
}
