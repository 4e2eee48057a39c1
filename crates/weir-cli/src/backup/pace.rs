//! Limits how fast a backup reads and writes, so that it leaves the disk to the service.

use std::time::Duration;

use weir_base::clock::{Clock, Timestamp};

/// Pauses between chunks so that they pass at a rate.
#[derive(Debug)]
pub(crate) struct Pace {
    clock: Clock,
    /// 0: without a limit.
    bytes_per_second: u64,
    /// When the bytes so far may have passed.
    due: Timestamp,
}

impl Pace {
    pub(crate) fn new(clock: Clock, bytes_per_second: u64) -> Self {
        let due = clock.now();
        Self { clock, bytes_per_second, due }
    }

    /// Waits until `bytes` more may pass. Time in which nothing passed is not made up for.
    pub(crate) fn wait_for(&mut self, bytes: u64) {
        if let Some(pause) = self.pause(bytes) {
            std::thread::sleep(pause);
        }
    }

    fn pause(&mut self, bytes: u64) -> Option<Duration> {
        const MICROS_PER_SECOND: u64 = 1_000_000;
        if self.bytes_per_second == 0 {
            return None;
        }
        let now = self.clock.now();
        let micros = bytes.saturating_mul(MICROS_PER_SECOND) / self.bytes_per_second;
        let begin = self.due.max(now);
        self.due = begin + Duration::from_micros(micros);
        Some(begin.since(now)).filter(|pause| !pause.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_at_the_rate() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let mut pace = Pace::new(clock.clone(), 1_000);
        assert_eq!(pace.pause(500), None);
        assert_eq!(pace.pause(500), Some(Duration::from_millis(500)));
        clock.advance(Duration::from_secs(9));
        assert_eq!(pace.pause(500), None, "an idle time is over");
        assert_eq!(pace.pause(500), Some(Duration::from_millis(500)), "and not made up for");
        assert_eq!(Pace::new(clock, 0).pause(u64::MAX), None);
    }
}
