//! The most requests that were in progress at once, by minute.

use weir_base::clock::Timestamp;

const MINUTE_MILLIS: u64 = 60_000;

/// The peaks of the present minute and the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BusyPeak {
    minute: u64,
    present: u32,
    before: u32,
}

impl BusyPeak {
    /// Notes that `busy` requests are in progress, one of which has just begun.
    pub(super) fn note(&mut self, now: Timestamp, busy: u32) {
        let minute = minute(now);
        if minute != self.minute {
            self.before = self.before_minute(minute, busy.saturating_sub(1));
            (self.minute, self.present) = (minute, 0);
        }
        self.present = self.present.max(busy);
    }

    /// Returns the peak of the present minute and the one before; `busy` requests are in progress.
    pub(super) fn of_last_minutes(&self, now: Timestamp, busy: u32) -> u32 {
        match minute(now) {
            minute if minute == self.minute => self.present.max(self.before),
            minute => self.before_minute(minute, busy),
        }
    }

    /// Returns the peak of the minute before `minute`. In a minute in which no request began, those that
    /// still are in progress were.
    fn before_minute(&self, minute: u64, busy: u32) -> u32 {
        if minute == self.minute + 1 { self.present.max(busy) } else { busy }
    }
}

const fn minute(now: Timestamp) -> u64 {
    now.as_millis() / MINUTE_MILLIS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_peak_is_shown_for_its_minute_and_the_next() {
        let mut peak = BusyPeak::default();
        for (second, busy) in [(60, 1), (61, 4), (62, 2)] {
            peak.note(at(second), busy);
        }
        assert_eq!(peak.of_last_minutes(at(119), 0), 4);
        assert_eq!(peak.of_last_minutes(at(179), 0), 4, "no request has begun since");
        assert_eq!(peak.of_last_minutes(at(180), 0), 0);
        assert_eq!(peak.of_last_minutes(at(180), 2), 2, "requests that take long");
        peak.note(at(125), 1);
        assert_eq!(peak.of_last_minutes(at(130), 1), 4);
        peak.note(at(181), 3);
        assert_eq!(peak.of_last_minutes(at(182), 3), 3);
        peak.note(at(600), 1);
        assert_eq!(peak.of_last_minutes(at(600), 1), 1);
    }
}
