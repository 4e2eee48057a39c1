//! What the publisher of a channel was told about each of its events.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::realtime::target::App;

/// Number of an event that does not exist.
const NONE: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Publication {
    /// No response yet.
    Sent,
    Acknowledged,
    /// There was no response, or an error: it may be delivered or not, and late.
    Unknown,
}

#[derive(Debug)]
pub(in crate::soak) struct Channel {
    pub(super) name: String,
    pub(super) app: App,
    pub(super) is_durable: bool,
    publications: Mutex<Vec<Publication>>,
    last: AtomicU64,
}

impl Channel {
    pub(in crate::soak) fn new(name: String, app: App, is_durable: bool) -> Self {
        let (publications, last) = (Mutex::new(Vec::new()), AtomicU64::new(NONE));
        Self { name, app, is_durable, publications, last }
    }

    pub(in crate::soak) const fn app(&self) -> &App {
        &self.app
    }

    fn publications(&self) -> MutexGuard<'_, Vec<Publication>> {
        self.publications.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the next event.
    pub(super) fn begin(&self) -> u64 {
        let mut publications = self.publications();
        publications.push(Publication::Sent);
        publications.len() as u64 - 1
    }

    pub(super) fn end(&self, number: u64, is_acknowledged: bool) {
        let mut publications = self.publications();
        let publication =
            usize::try_from(number).ok().and_then(|number| publications.get_mut(number));
        if let Some(publication) = publication {
            *publication =
                if is_acknowledged { Publication::Acknowledged } else { Publication::Unknown };
        }
    }

    pub(super) fn publication(&self, number: u64) -> Option<Publication> {
        self.publications().get(usize::try_from(number).ok()?).copied()
    }

    /// Returns how many of the events from `from` up to and without `to` were acknowledged, and the first of them.
    pub(super) fn acknowledged_between(&self, from: u64, to: u64) -> (u64, Option<u64>) {
        let publications = self.publications();
        let is_acknowledged = |number: &u64| {
            let publication = usize::try_from(*number).ok().and_then(|it| publications.get(it));
            publication == Some(&Publication::Acknowledged)
        };
        let mut numbers = (from..to).filter(is_acknowledged);
        let first = numbers.next();
        (numbers.count() as u64 + u64::from(first.is_some()), first)
    }

    /// Counts acknowledged and unknown publications.
    pub(super) fn counts(&self) -> (u64, u64) {
        let publications = self.publications();
        let acknowledged =
            publications.iter().filter(|it| **it == Publication::Acknowledged).count() as u64;
        (acknowledged, publications.len() as u64 - acknowledged)
    }

    /// Nothing is published after this event, which was acknowledged.
    pub(super) fn close(&self, last: u64) {
        self.last.store(last, Ordering::SeqCst);
    }

    pub(super) fn last(&self) -> Option<u64> {
        Some(self.last.load(Ordering::SeqCst)).filter(|last| *last != NONE)
    }
}
