//! Looks that somebody asks for, between those that come by themselves.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::look::Scope;

#[derive(Debug, Default)]
pub(super) struct Asked {
    /// std: held to change some numbers.
    rounds: Mutex<Rounds>,
    bell: Notify,
}

/// Looks at all upstreams.
#[derive(Debug, Default)]
struct Rounds {
    /// What the next one is to be.
    wanted: Option<Scope>,
    begun: u64,
    done: u64,
}

impl Asked {
    /// Answers the number of the round that will have looked. One that has begun already may have
    /// read what has changed since.
    pub(super) fn ask(&self, scope: Scope) -> u64 {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.wanted = match rounds.wanted {
            Some(Scope::Everything) => Some(Scope::Everything),
            Some(Scope::Changes) | None => Some(scope),
        };
        self.bell.notify_one();
        rounds.begun + 1
    }

    /// Resolves when somebody asks, or has asked since the last round.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// A round begins; what is it to look at?
    pub(super) fn begin(&self) -> Option<Scope> {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.begun += 1;
        rounds.wanted.take()
    }

    /// That round has ended.
    pub(super) fn end(&self) {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.done = rounds.begun;
    }

    pub(super) fn rounds_done(&self) -> u64 {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_in_the_middle_of_a_round_is_answered_by_the_next_one() {
        let asked = Asked::default();
        assert_eq!(asked.ask(Scope::Changes), 1);
        assert_eq!(asked.begin(), Some(Scope::Changes));
        assert_eq!(asked.ask(Scope::Changes), 2);
        asked.end();
        assert_eq!((asked.rounds_done(), asked.begin()), (1, Some(Scope::Changes)));
        asked.end();
        assert_eq!((asked.rounds_done(), asked.begin()), (2, None));
    }

    #[test]
    fn who_asks_for_everything_gets_everything_whatever_others_ask_for() {
        let asked = Asked::default();
        for scope in [Scope::Changes, Scope::Everything, Scope::Changes] {
            asked.ask(scope);
        }
        assert_eq!(asked.begin(), Some(Scope::Everything));
    }
}
