//! Synchronizations on request, between the scheduled ones.
//!
//! A round is done when each upstream was synchronized after the request. The first round starts by
//! itself.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::look::Scope;

#[derive(Debug)]
pub(super) struct Asked {
    /// A std mutex: it is locked only to change some numbers.
    rounds: Mutex<Rounds>,
    /// One notifier per upstream.
    bells: Vec<Notify>,
}

#[derive(Debug)]
struct Rounds {
    newest: u64,
    /// One entry per upstream.
    looks: Vec<Looks>,
}

/// Synchronizations of one upstream.
#[derive(Clone, Copy, Debug, Default)]
struct Looks {
    /// Requested scope of the next synchronization.
    wanted: Option<Scope>,
    /// Round of the synchronization that was started last.
    begun: u64,
    done: u64,
}

/// The requests for one upstream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane<'a> {
    asked: &'a Asked,
    place: usize,
}

impl Asked {
    pub(super) fn new(upstreams: usize) -> Self {
        Self {
            rounds: Mutex::new(Rounds { newest: 1, looks: vec![Looks::default(); upstreams] }),
            bells: (0..upstreams).map(|_| Notify::new()).collect(),
        }
    }

    /// Requests a synchronization and returns the number of its round. Synchronizations in progress
    /// don't count, as they may have read the upstream before its latest change.
    pub(super) fn request_synchronization(&self, scope: Scope) -> u64 {
        let newest = self.change(|rounds| {
            for looks in &mut rounds.looks {
                looks.wanted = match looks.wanted {
                    Some(Scope::Everything) => Some(Scope::Everything),
                    Some(Scope::Changes) | None => Some(scope),
                };
            }
            if rounds.looks.iter().any(|looks| looks.begun == rounds.newest) {
                rounds.newest += 1;
            }
            rounds.newest
        });
        self.bells.iter().for_each(Notify::notify_one);
        newest
    }

    /// Returns the newest round that is done for all upstreams.
    pub(super) fn rounds_done(&self) -> u64 {
        self.change(|rounds| rounds.looks.iter().map(|looks| looks.done).min().unwrap_or_default())
    }

    /// Returns one lane per upstream, in order.
    pub(super) fn lanes(&self) -> impl Iterator<Item = Lane<'_>> {
        (0..self.bells.len()).map(|place| Lane { asked: self, place })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Rounds) -> T) -> T {
        change(&mut self.rounds.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Lane<'_> {
    /// Resolves when a synchronization is requested, or at once if one was requested since the last
    /// call.
    pub(super) async fn rung(self) {
        self.asked.bells[self.place].notified().await;
    }

    /// Marks the start of a synchronization. Returns the requested scope, if there is one.
    pub(super) fn begin(self) -> Option<Scope> {
        self.asked.change(|rounds| {
            let looks = &mut rounds.looks[self.place];
            looks.begun = rounds.newest;
            looks.wanted.take()
        })
    }

    /// Marks the end of the synchronization.
    pub(super) fn end(self) {
        self.asked.change(|rounds| {
            let looks = &mut rounds.looks[self.place];
            looks.done = looks.begun;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_in_the_middle_of_a_look_is_answered_by_the_next_one() {
        let asked = Asked::new(1);
        let lane = asked.lanes().next().unwrap();
        assert_eq!(asked.request_synchronization(Scope::Changes), 1);
        assert_eq!(lane.begin(), Some(Scope::Changes));
        assert_eq!(asked.request_synchronization(Scope::Changes), 2);
        lane.end();
        assert_eq!((asked.rounds_done(), lane.begin()), (1, Some(Scope::Changes)));
        lane.end();
        assert_eq!((asked.rounds_done(), lane.begin()), (2, None));
    }

    #[test]
    fn a_round_is_over_when_all_upstreams_were_looked_at_since_it_was_asked_for() {
        let asked = Asked::new(2);
        let [one, other] = [0, 1].map(|place| asked.lanes().nth(place).unwrap());
        let look = |lane: Lane<'_>| {
            lane.begin();
            lane.end();
        };
        other.begin();
        look(one);
        assert_eq!((asked.rounds_done(), asked.request_synchronization(Scope::Changes)), (0, 2));
        // It does not wait for the slow upstream, whose synchronization started earlier.
        look(one);
        other.end();
        assert_eq!(asked.rounds_done(), 1);
        look(one);
        look(other);
        assert_eq!((asked.rounds_done(), asked.request_synchronization(Scope::Changes)), (2, 3));
    }

    #[test]
    fn who_asks_for_everything_gets_everything_of_each_upstream_whatever_others_ask_for() {
        let asked = Asked::new(2);
        for scope in [Scope::Changes, Scope::Everything, Scope::Changes] {
            asked.request_synchronization(scope);
        }
        assert!(asked.lanes().all(|lane| lane.begin() == Some(Scope::Everything)));
    }
}
