//! The recent rate of events on a channel. Two counters that alternate make it cheap: publishing
//! adds to them, and reading stores nothing.

use std::time::Duration;

use weir_base::clock::Timestamp;

/// The time span of the rates.
const STRETCH: Duration = Duration::from_secs(10);

/// Counts a channel's events, and their bytes times the number of subscribers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    total: Amount,
    /// Counted since `span_start`.
    now: Amount,
    /// Counted in the time span before `span_start`.
    before: Amount,
    span_start: Timestamp,
}

/// A number of events and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

/// Events and bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ChannelRates {
    pub(crate) events: f64,
    pub(crate) bytes: f64,
}

impl Meter {
    /// Counts one event.
    pub(crate) fn add(&mut self, bytes: u64, time: Timestamp) {
        self.advance_to(time);
        for amount in [&mut self.total, &mut self.now] {
            amount.events += 1;
            amount.bytes += bytes;
        }
    }

    /// Returns the counts since the channel was created.
    pub(crate) const fn total(&self) -> Amount {
        self.total
    }

    /// Returns the rates over the last [`STRETCH`]. Of the span before `span_start`, counts the
    /// part that overlaps it, in proportion.
    pub(crate) fn rates(&self, time: Timestamp) -> ChannelRates {
        let mut meter = *self;
        meter.advance_to(time);
        let elapsed = time.since(meter.span_start).as_secs_f64() / STRETCH.as_secs_f64();
        let rate = |before, now| {
            (as_float(before) * (1.0 - elapsed) + as_float(now)) / STRETCH.as_secs_f64()
        };
        ChannelRates {
            events: rate(meter.before.events, meter.now.events),
            bytes: rate(meter.before.bytes, meter.now.bytes),
        }
    }

    fn advance_to(&mut self, time: Timestamp) {
        let since = time.since(self.span_start);
        if since < STRETCH {
            return;
        }
        let is_next = since < STRETCH * 2;
        self.before = if is_next { self.now } else { Amount::default() };
        self.now = Amount::default();
        self.span_start = if is_next { self.span_start + STRETCH } else { time };
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates are read by people and charts")]
const fn as_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn time(seconds: u64) -> Timestamp {
        Timestamp::from_millis((1_000 + seconds) * 1_000)
    }

    #[test]
    fn a_steady_stream_has_a_constant_rate() {
        let mut meter = Meter::default();
        for tenth in 0..400 {
            meter.add(20, Timestamp::from_millis(1_000_000 + tenth * 100));
        }
        for second in [40, 42, 47] {
            let rates = meter.rates(time(second));
            assert!(rates.events <= 10.0, "{rates:?} at {second}");
        }
        let ChannelRates { events, bytes } = meter.rates(time(40));
        assert!((9.5..=10.0).contains(&events) && (190.0..=200.0).contains(&bytes), "{events}");
        assert_eq!(meter.total(), Amount { events: 400, bytes: 8_000 });
    }

    #[test]
    fn old_events_do_not_count_for_the_rate() {
        let mut meter = Meter::default();
        meter.add(100, time(0));
        assert_eq!(meter.rates(time(0)).events, 0.1);
        assert_eq!(meter.rates(time(15)), ChannelRates { events: 0.05, bytes: 5.0 });
        assert_eq!(meter.rates(time(20)), ChannelRates::default());
        meter.add(100, time(500));
        assert_eq!(meter.rates(time(500)).events, 0.1);
    }
}
