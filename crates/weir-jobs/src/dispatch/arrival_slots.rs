//! Arrivals counted in slots of equal length, and their rate.
//!
//! A slot counts at most about twice as much as the median slot, so that one bulk push is not taken for a rate.

use std::time::Duration;

/// A slot counts at most this many times the median slot, and this many more arrivals. Twice: the rate
/// follows an increase within a few slots. Three: some arrivals are no bulk push.
const SLOT_MEDIANS_MAX: u32 = 2;
const SLOT_ARRIVALS_MORE: u32 = 3;

/// Complete slots without which there is no rate: a median of fewer says little.
const SLOTS_MIN: u64 = 3;

/// The last `N` complete slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivalSlots<const N: usize> {
    length: Duration,
    /// Arrivals of the last complete slots, by the number of the slot modulo their count.
    slots: [u32; N],
    /// Arrivals of the slot in progress.
    arrivals: u32,
    /// Complete slots since the first arrival.
    ended: u64,
    /// Arrivals per second in the complete slots.
    rate: f64,
}

impl<const N: usize> ArrivalSlots<N> {
    pub(super) const fn new(length: Duration) -> Self {
        Self { length, slots: [0; N], arrivals: 0, ended: 0, rate: 0.0 }
    }

    pub(super) fn add(&mut self) {
        self.arrivals = self.arrivals.saturating_add(1);
    }

    /// Returns the arrivals per second, or `None` before a few slots are complete.
    pub(super) fn rate(&self) -> Option<f64> {
        (self.ended >= SLOTS_MIN).then_some(self.rate)
    }

    /// Completes the slots that have ended so long after the first arrival.
    pub(super) fn advance(&mut self, measured: Duration) {
        let ended = measured.as_micros() / self.length.as_micros();
        let ended = u64::try_from(ended).unwrap_or(u64::MAX);
        if ended <= self.ended {
            return;
        }
        // Of a long time without arrivals only the last slots matter.
        let empty_from = (self.ended + 1).max(ended.saturating_sub(N as u64));
        *self.slot(self.ended) = self.arrivals;
        for slot in empty_from..ended {
            *self.slot(slot) = 0;
        }
        self.arrivals = 0;
        self.ended = ended;
        self.rate = self.measured_rate();
    }

    fn slot(&mut self, number: u64) -> &mut u32 {
        let place = number % N as u64;
        &mut self.slots[usize::try_from(place).unwrap_or_default()]
    }

    fn measured_rate(&self) -> f64 {
        let count = usize::try_from(self.ended).unwrap_or(N).min(N);
        let mut slots = self.slots;
        let complete = &mut slots[..count];
        complete.sort_unstable();
        let median = complete[count / 2];
        let most = median.saturating_mul(SLOT_MEDIANS_MAX).saturating_add(SLOT_ARRIVALS_MORE);
        let arrivals: f64 = complete.iter().map(|slot| f64::from((*slot).min(most))).sum();
        #[expect(clippy::cast_precision_loss, reason = "a dozen slots")]
        let seconds = self.length.as_secs_f64() * count as f64;
        arrivals / seconds
    }
}
