//! When the next event is due, and for how long to wait for the ones before.

use std::time::{Duration, Instant};

use super::crowd::Crowd;
use super::settings::{LoadSettings, Pace};
use crate::clock::now;

/// When events are published, and on which channel.
#[derive(Debug)]
pub(crate) struct Schedule {
    pace: Pace,
    channels: usize,
    published: usize,
    next: Instant,
}

impl Schedule {
    pub(crate) fn new(settings: &LoadSettings, start: Instant) -> Self {
        Self { pace: settings.pace, channels: settings.channels, published: 0, next: start }
    }

    /// Publishes what is due; when to come back at the latest.
    pub(crate) fn publish_due(&mut self, crowd: &mut Crowd) -> Instant {
        /// While no connection is free.
        const WAIT: Duration = Duration::from_millis(1);
        /// Arrivals end the wait for the next event in flight.
        const WAIT_FOR_ARRIVALS: Duration = Duration::from_millis(100);
        while self.is_due(crowd) {
            if !crowd.publish(self.published % self.channels) {
                return now() + WAIT;
            }
            self.published += 1;
            if let Pace::Rate(rate) = self.pace {
                self.next += Duration::from_secs_f64(1.0 / rate);
            }
        }
        match self.pace {
            Pace::Rate(_) => self.next,
            Pace::InFlight(_) => now() + WAIT_FOR_ARRIVALS,
        }
    }

    fn is_due(&self, crowd: &Crowd) -> bool {
        match self.pace {
            Pace::Rate(_) => now() >= self.next,
            Pace::InFlight(count) => crowd.around.ledger.outstanding() < count,
        }
    }
}

/// Runs out when a figure does not change for too long, or at a deadline.
#[derive(Debug)]
pub(crate) struct Patience {
    longest: Duration,
    last: (u64, Instant),
    deadline: Option<Instant>,
}

impl Patience {
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, last: (u64::MAX, now()), deadline: None }
    }

    /// Whatever changes until then.
    pub(crate) fn until(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    pub(crate) fn lasts(&mut self, figure: u64) -> bool {
        let at = now();
        if figure != self.last.0 {
            self.last = (figure, at);
        }
        at - self.last.1 < self.longest && self.deadline.is_none_or(|deadline| at < deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_lasts_while_something_changes_but_not_beyond_its_deadline() {
        const LONG: Duration = Duration::from_secs(3600);
        let mut patience = Patience::new(Duration::ZERO);
        assert!(!patience.lasts(1), "no time is too long already");
        let mut patience = Patience::new(LONG).until(Some(now() + LONG));
        assert!(patience.lasts(1) && patience.lasts(1) && patience.lasts(2));
        let mut patience = Patience::new(LONG).until(Some(now()));
        assert!(!patience.lasts(1) && !patience.lasts(2), "although it changes");
    }
}
