//! The times of a steady load. After a delay, the operations that were due are not made up for.

use std::time::Duration;

use super::shared::Shared;
use crate::clock::monotonic;

#[derive(Debug)]
pub(super) struct Pace {
    interval: Duration,
    next: Duration,
}

impl Pace {
    pub(super) fn per_second(rate: f64) -> Self {
        let interval = Duration::from_secs_f64(1.0 / rate);
        // So that the threads do not begin all at once.
        Self { interval, next: monotonic() + interval.mul_f64(fastrand::f64()) }
    }

    /// Waits for the next operation. Returns false if the load is over.
    pub(super) fn wait(&mut self, shared: &Shared) -> bool {
        let now = monotonic();
        if now < self.next {
            shared.sleep(self.next - now);
        }
        self.next = (self.next + self.interval).max(monotonic());
        !shared.is_load_over() && !shared.is_over()
    }
}
