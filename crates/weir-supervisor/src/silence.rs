//! Detects a child that was ready and is silent for too long. Pure: times are arguments.
//!
//! Silence is counted in checks, not by the clock alone: while the parent itself does not run (a
//! paused container, a suspended machine) it hears no child, and that must not count as more than
//! one check.

use std::time::Duration;

/// Checks within the allowed time.
const LOOKS: u32 = 4;

/// The silence of one child.
#[derive(Debug)]
pub(crate) struct Silence {
    /// None: no limit.
    allowed: Option<Duration>,
    look_at: Option<Duration>,
    looks: u32,
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
    /// Creates the state. Checks start with the first word: a child may take as long as it needs to
    /// become ready.
    pub(crate) fn new(allowed: Option<Duration>) -> Self {
        Self { allowed, look_at: None, looks: 0 }
    }

    /// Restarts the count after a sign of life.
    pub(crate) fn broken(&mut self, now: Duration) {
        self.looks = 0;
        self.look_at = self.allowed.map(|allowed| now + allowed / LOOKS);
    }

    /// Disables the checks.
    pub(crate) fn ignore(&mut self) {
        self.allowed = None;
        self.look_at = None;
    }

    /// Returns when the next check is due.
    pub(crate) fn look_at(&self) -> Option<Duration> {
        self.look_at
    }

    /// Counts a due check and returns its outcome.
    pub(crate) fn look(&mut self, now: Duration) -> SilenceCheck {
        self.looks += 1;
        self.look_at = self.allowed.map(|allowed| now + allowed / LOOKS);
        match self.looks {
            ..LOOKS => SilenceCheck::Early,
            LOOKS => SilenceCheck::Abort,
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
        assert_eq!(silence.look_at(), None, "it is not ready yet");
        silence.broken(now);
        silence
    }

    #[test]
    fn silence_ends_in_an_abort_and_then_in_a_kill() {
        let mut silence = after_a_word_at(second(100));
        let mut looks = Vec::new();
        while let Some(at) = silence.look_at() {
            looks.push((at.as_secs(), silence.look(at)));
        }
        let early = [102, 104, 106].map(|at| (at, SilenceCheck::Early));
        assert_eq!(
            looks,
            [&early[..], &[(108, SilenceCheck::Abort), (110, SilenceCheck::Kill)]].concat()
        );
    }

    #[test]
    fn a_word_begins_it_anew() {
        let mut silence = after_a_word_at(second(100));
        for at in [102, 104, 106] {
            assert_eq!(silence.look(second(at)), SilenceCheck::Early);
        }
        silence.broken(second(107));
        assert_eq!(silence.look_at(), Some(second(109)));
        assert_eq!(silence.look(second(109)), SilenceCheck::Early);
    }

    #[test]
    fn while_the_parent_does_not_run_nobody_is_heard_and_nobody_is_killed() {
        let mut silence = after_a_word_at(second(100));
        assert_eq!(silence.look(second(90_000)), SilenceCheck::Early);
        assert_eq!(silence.look_at(), Some(second(90_002)));
    }

    #[test]
    fn who_may_be_silent_is_not_looked_at() {
        let mut silence = Silence::new(None);
        silence.broken(second(100));
        assert_eq!(silence.look_at(), None);
    }
}
