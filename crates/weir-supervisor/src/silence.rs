//! Detects a child that was ready and is silent for too long. Pure: times are arguments.
//!
//! Silence is counted in checks, not by the clock alone: while the parent itself does not run (a
//! paused container, a suspended machine) it hears no child, and that must not count as more than
//! one check.

use std::time::Duration;

/// Checks within the allowed time.
const CHECKS: u32 = 4;

/// The silence of one child.
#[derive(Debug)]
pub(crate) struct Silence {
    /// None: no limit.
    allowed: Option<Duration>,
    check_at: Option<Duration>,
    checks: u32,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SilenceCheck {
    /// Not silent for too long yet.
    Early,
    /// Abort the child, which leaves a core dump where the system keeps those, to find out why it
    /// hangs.
    Abort,
    /// Kill the child: it did not end after the abort.
    Kill,
}

impl Silence {
    /// Creates the state. Checks start with the first status: a child may take as long as it needs
    /// to become ready.
    pub(crate) fn new(allowed: Option<Duration>) -> Self {
        Self { allowed, check_at: None, checks: 0 }
    }

    /// Restarts the count after a sign of life.
    pub(crate) fn broken(&mut self, now: Duration) {
        self.checks = 0;
        self.check_at = self.allowed.map(|allowed| now + allowed / CHECKS);
    }

    /// Disables the checks.
    pub(crate) fn ignore(&mut self) {
        self.allowed = None;
        self.check_at = None;
    }

    /// Returns when the next check is due.
    pub(crate) fn check_at(&self) -> Option<Duration> {
        self.check_at
    }

    /// Counts a due check and returns its outcome.
    pub(crate) fn check(&mut self, now: Duration) -> SilenceCheck {
        self.checks += 1;
        self.check_at = self.allowed.map(|allowed| now + allowed / CHECKS);
        match self.checks {
            ..CHECKS => SilenceCheck::Early,
            CHECKS => SilenceCheck::Abort,
            _ => {
                self.ignore();
                SilenceCheck::Kill
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn after_a_word_at(now: Duration) -> Silence {
        let mut silence = Silence::new(Some(second(8)));
        assert_eq!(silence.check_at(), None, "it is not ready yet");
        silence.broken(now);
        silence
    }

    #[test]
    fn silence_leads_to_an_abort_and_then_to_a_kill() {
        let mut silence = after_a_word_at(second(100));
        let mut checks = Vec::new();
        while let Some(at) = silence.check_at() {
            checks.push((at.as_secs(), silence.check(at)));
        }
        let early = [102, 104, 106].map(|at| (at, SilenceCheck::Early));
        assert_eq!(
            checks,
            [&early[..], &[(108, SilenceCheck::Abort), (110, SilenceCheck::Kill)]].concat()
        );
    }

    #[test]
    fn a_status_message_restarts_the_silence_count() {
        let mut silence = after_a_word_at(second(100));
        for at in [102, 104, 106] {
            assert_eq!(silence.check(second(at)), SilenceCheck::Early);
        }
        silence.broken(second(107));
        assert_eq!(silence.check_at(), Some(second(109)));
        assert_eq!(silence.check(second(109)), SilenceCheck::Early);
    }

    #[test]
    fn a_suspended_parent_counts_no_silence() {
        let mut silence = after_a_word_at(second(100));
        assert_eq!(silence.check(second(90_000)), SilenceCheck::Early);
        assert_eq!(silence.check_at(), Some(second(90_002)));
    }

    #[test]
    fn a_child_without_a_silence_limit_is_not_checked() {
        let mut silence = Silence::new(None);
        silence.broken(second(100));
        assert_eq!(silence.check_at(), None);
    }
}
