//! How long a child that was ready may say nothing. Pure: times come as arguments.
//!
//! It is counted in looks, not by the clock alone: while the parent itself does not run (a container
//! that is paused, a machine that sleeps) nobody is heard, and that must not count for more than one
//! look.

use std::time::Duration;

/// How often the parent looks within the time that is allowed.
const LOOKS: u32 = 4;

/// A child's silence.
#[derive(Debug)]
pub(crate) struct Silence {
    /// None: for ever.
    allowed: Option<Duration>,
    look_at: Option<Duration>,
    looks: u32,
}

/// What a look shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SilenceCheck {
    /// It may still say something.
    Early,
    /// It is to end, and to leave a core dump where the system keeps those: why it hangs is worth
    /// knowing.
    Abort,
    /// It did not end.
    Kill,
}

impl Silence {
    /// Counts from the first word on: a child may take as long as it needs to get ready.
    pub(crate) fn new(allowed: Option<Duration>) -> Self {
        Self { allowed, look_at: None, looks: 0 }
    }

    /// It said something.
    pub(crate) fn broken(&mut self, now: Duration) {
        self.looks = 0;
        self.look_at = self.allowed.map(|allowed| now + allowed / LOOKS);
    }

    /// Nobody listens any more.
    pub(crate) fn ignore(&mut self) {
        self.allowed = None;
        self.look_at = None;
    }

    /// When to look.
    pub(crate) fn look_at(&self) -> Option<Duration> {
        self.look_at
    }

    /// Looks, which was due.
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
