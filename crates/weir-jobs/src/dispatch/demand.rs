//! How many workers a queue needs to keep up with its arrivals: their rate times the mean time of its
//! jobs (Little's law), with some headroom.
//!
//! One bulk push is not taken for a rate ([`ArrivalSlots`]): it is a backlog, which dispatch serves with
//! what the other queues leave.

use std::time::Duration;

use weir_base::clock::Timestamp;

use super::arrival_slots::ArrivalSlots;
use super::mean_time::MeanTime;

/// Slots of which the rate is the mean: arrivals count for about a minute.
const SLOT: Duration = Duration::from_secs(6);
const SLOTS: usize = 11;

/// Shorter slots, of which the rate is the mean until there are enough of the others.
const FIRST_SLOT: Duration = Duration::from_secs(1);
const FIRST_SLOTS: usize = 18;

/// A queue that gets exactly what it needs on average falls behind with each burst.
const HEADROOM: f64 = 1.25;

/// The measurements of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// The first arrival. `None`: there was none.
    since: Option<Timestamp>,
    slots: ArrivalSlots<SLOTS>,
    first_slots: ArrivalSlots<FIRST_SLOTS>,
    pub(super) service: MeanTime,
}

impl Default for Demand {
    fn default() -> Self {
        Self {
            since: None,
            slots: ArrivalSlots::new(SLOT),
            first_slots: ArrivalSlots::new(FIRST_SLOT),
            service: MeanTime::default(),
        }
    }
}

impl Demand {
    /// Counts a job that starts to wait.
    pub(super) fn arrived(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
        self.advance(now);
        self.slots.add();
        self.first_slots.add();
    }

    /// Returns the number of workers that it needs: at least one.
    pub(super) fn workers(&mut self, now: Timestamp) -> u32 {
        self.advance(now);
        let service = self.service.known().unwrap_or_default().as_secs_f64();
        let workers = (self.rate() * service * HEADROOM).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number above 0; a cast of a larger one is the maximum"
        )]
        let workers = workers as u32;
        workers.max(1)
    }

    /// Returns the arrivals per second: none until they are known.
    fn rate(&self) -> f64 {
        self.slots.rate().or_else(|| self.first_slots.rate()).unwrap_or_default()
    }

    fn advance(&mut self, now: Timestamp) {
        let Some(since) = self.since else { return };
        let measured = now.since(since);
        self.slots.advance(measured);
        self.first_slots.advance(measured);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::from_millis(1_000_000) + Duration::from_secs_f64(seconds)
    }

    /// Arrivals at a rate for so many seconds, with jobs of half a second.
    fn demand(per_second: u32, for_seconds: u32) -> Demand {
        let mut demand = Demand::default();
        demand.service.add(Duration::from_millis(500));
        for number in 0..per_second * for_seconds {
            demand.arrived(at(f64::from(number) / f64::from(per_second)));
        }
        demand
    }

    #[test]
    fn a_queue_needs_its_rate_times_the_time_of_its_jobs() {
        for for_seconds in [4, 10, 20, 60, 600] {
            let workers = demand(40, for_seconds).workers(at(f64::from(for_seconds)));
            assert!((24..28).contains(&workers), "{for_seconds} s: {workers}");
        }
    }

    #[test]
    fn sparse_arrivals_count_in_full() {
        let mut demand = Demand::default();
        demand.service.add(Duration::from_secs(40));
        for number in 0..30 {
            demand.arrived(at(f64::from(number) * 20.0));
        }
        // One in 20 s, 40 s each: 2 workers, with the headroom 3.
        assert_eq!(demand.workers(at(600.0)), 3);
    }

    #[test]
    fn a_bulk_push_is_no_rate() {
        let mut demand = demand(40, 60);
        (0..200_000).for_each(|_| demand.arrived(at(60.0)));
        for second in [60, 66, 72, 90, 120] {
            assert!(demand.workers(at(f64::from(second))) <= 30, "{second}");
        }
        let mut first = Demand::default();
        first.service.add(Duration::from_secs(1));
        (0..200_000).for_each(|_| first.arrived(at(0.0)));
        for second in [0.0, 0.5, 1.0, 3.0, 5.0, 17.0, 20.0] {
            assert!(first.workers(at(second)) <= 2, "{second}");
        }
    }

    #[test]
    fn a_higher_rate_is_known_within_a_minute() {
        let mut demand = demand(4, 60);
        for number in 0..40 * 60 {
            demand.arrived(at(60.0 + f64::from(number) / 40.0));
        }
        let workers = demand.workers(at(126.0));
        assert!((23..28).contains(&workers), "{workers}");
    }

    #[test]
    fn a_queue_needs_one_worker_at_least() {
        assert_eq!(Demand::default().workers(at(0.0)), 1);
        let mut silent = demand(40, 60);
        assert_eq!(silent.workers(at(300.0)), 1, "its arrivals are forgotten");
        silent.arrived(at(1e9));
        assert_eq!(silent.workers(at(1e9)), 1);
        let mut unmeasured = Demand::default();
        (0..100).for_each(|_| unmeasured.arrived(at(0.0)));
        assert_eq!(unmeasured.workers(at(1.0)), 1, "no job has ended");
    }
}
