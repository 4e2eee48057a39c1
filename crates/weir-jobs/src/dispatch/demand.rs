//! How many workers a queue needs to keep up with its arrivals: their rate times the mean time of its
//! jobs (Little's law), with some headroom.
//!
//! Arrivals are counted in slots of a few seconds. A slot counts at most about twice as much as the
//! median slot, so that one bulk push is not taken for a rate: it is a backlog, which dispatch serves
//! with what the other queues leave.

use std::time::Duration;

use weir_base::clock::Timestamp;

use super::mean_time::MeanTime;

/// Length of a slot. A rate is at most this old.
const SLOT: Duration = Duration::from_secs(6);

/// Slots of which the rate is the mean: arrivals count for about a minute.
const SLOTS: usize = 11;

/// Complete slots before which the rate is simply what has arrived so far: a median of fewer says little.
const SLOTS_MEASURED_MIN: u64 = 3;

/// A slot counts at most this many times the median slot, and this many more arrivals. Twice: the rate
/// follows an increase within a few slots. Three: some arrivals are no bulk push.
const SLOT_MEDIANS_MAX: u32 = 2;
const SLOT_ARRIVALS_MORE: u32 = 3;

/// A queue that gets exactly what it needs on average falls behind with each burst.
const HEADROOM: f64 = 1.25;

/// The measurements of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// Arrivals of the last complete slots, by the number of the slot modulo their count.
    slots: [u32; SLOTS],
    /// Arrivals of the slot in progress.
    arrivals: u32,
    /// `None` before the first arrival.
    measured: Option<MeasuredTime>,
    /// Arrivals per second in the complete slots.
    rate: f64,
    pub(super) service: MeanTime,
}

#[derive(Clone, Copy, Debug)]
struct MeasuredTime {
    /// The first arrival.
    since: Timestamp,
    /// Complete slots since then.
    slots: u64,
}

impl Demand {
    /// Counts a job that starts to wait.
    pub(super) fn arrived(&mut self, now: Timestamp) {
        self.advance(now);
        self.measured.get_or_insert(MeasuredTime { since: now, slots: 0 });
        self.arrivals = self.arrivals.saturating_add(1);
    }

    /// Returns the number of workers that it needs: at least one.
    pub(super) fn workers(&mut self, now: Timestamp) -> u32 {
        self.advance(now);
        let service = self.service.known().unwrap_or_default().as_secs_f64();
        let workers = (self.rate_at(now) * service * HEADROOM).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number above 0; a cast of a larger one is the maximum"
        )]
        let workers = workers as u32;
        workers.max(1)
    }

    fn rate_at(&self, now: Timestamp) -> f64 {
        match self.measured {
            Some(MeasuredTime { since, slots }) if slots < SLOTS_MEASURED_MIN => {
                let arrivals = self.slots.iter().sum::<u32>().saturating_add(self.arrivals);
                // The first second is no basis for a rate.
                f64::from(arrivals) / now.since(since).as_secs_f64().max(1.0)
            }
            Some(_) => self.rate,
            None => 0.0,
        }
    }

    /// Completes the slots that have ended by now.
    fn advance(&mut self, now: Timestamp) {
        let Some(MeasuredTime { since, slots }) = self.measured else { return };
        let ended = now.since(since).as_micros() / SLOT.as_micros();
        let ended = u64::try_from(ended).unwrap_or(u64::MAX);
        if ended <= slots {
            return;
        }
        // Of a long time without arrivals only the last slots matter.
        let empty_from = (slots + 1).max(ended.saturating_sub(SLOTS as u64));
        *self.slot(slots) = self.arrivals;
        for slot in empty_from..ended {
            *self.slot(slot) = 0;
        }
        self.arrivals = 0;
        self.measured = Some(MeasuredTime { since, slots: ended });
        self.rate = self.measured_rate(ended);
    }

    fn slot(&mut self, number: u64) -> &mut u32 {
        let place = number % SLOTS as u64;
        &mut self.slots[usize::try_from(place).unwrap_or_default()]
    }

    /// Returns the rate in the complete slots, of which there were so many.
    fn measured_rate(&self, ended: u64) -> f64 {
        let count = usize::try_from(ended).unwrap_or(SLOTS).min(SLOTS);
        let mut slots = self.slots;
        let complete = &mut slots[..count];
        complete.sort_unstable();
        let median = complete[count / 2];
        let most = median.saturating_mul(SLOT_MEDIANS_MAX).saturating_add(SLOT_ARRIVALS_MORE);
        let arrivals: f64 = complete.iter().map(|slot| f64::from((*slot).min(most))).sum();
        #[expect(clippy::cast_precision_loss, reason = "a dozen slots")]
        let seconds = SLOT.as_secs_f64() * count as f64;
        arrivals / seconds
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
        for for_seconds in [2, 10, 20, 60, 600] {
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
        assert_eq!(first.workers(at(20.0)), 1);
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
