//! When the next event is due, and how long to wait for previous ones.

use std::time::{Duration, Instant};

use super::pool::ClientPool;
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

    /// Publishes the events that are due. Returns when to call it again at the latest.
    pub(crate) fn publish_due(&mut self, pool: &mut ClientPool) -> Instant {
        /// Wait while no connection is free.
        const WAIT: Duration = Duration::from_millis(1);
        /// Longest wait for an event in flight; a delivery ends it.
        const WAIT_FOR_ARRIVALS: Duration = Duration::from_millis(100);
        while self.is_due(pool) {
            if !pool.publish(self.published % self.channels) {
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

    fn is_due(&self, pool: &ClientPool) -> bool {
        match self.pace {
            Pace::Rate(_) => now() >= self.next,
            Pace::InFlight(count) => pool.shared.ledger.outstanding() < count,
        }
    }
}

/// Expires when a figure does not change for too long, or at a deadline.
#[derive(Debug)]
pub(crate) struct StallTimer {
    longest: Duration,
    last: (u64, Instant),
    deadline: Option<Instant>,
}

impl StallTimer {
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, last: (u64::MAX, now()), deadline: None }
    }

    /// Also expires at `deadline`, even if the figure changes.
    pub(crate) fn with_deadline(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    pub(crate) fn keep_waiting(&mut self, figure: u64) -> bool {
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
    fn stall_timer_runs_while_a_figure_changes_up_to_its_deadline() {
        const LONG: Duration = Duration::from_secs(3600);
        let mut stall_timer = StallTimer::new(Duration::ZERO);
        assert!(!stall_timer.keep_waiting(1), "no time is too long already");
        let mut stall_timer = StallTimer::new(LONG).with_deadline(Some(now() + LONG));
        assert!(
            stall_timer.keep_waiting(1)
                && stall_timer.keep_waiting(1)
                && stall_timer.keep_waiting(2)
        );
        let mut stall_timer = StallTimer::new(LONG).with_deadline(Some(now()));
        assert!(
            !stall_timer.keep_waiting(1) && !stall_timer.keep_waiting(2),
            "although it changes"
        );
    }
}
