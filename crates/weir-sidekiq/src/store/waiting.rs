//! The FETCHes that are served by the next round, the longest waiting first.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::oneshot;
use weir_jobs::model::{QueueName, Wid};
use weir_jobs::store::{BatchSize, FetchRequest, StoreError};

use super::handover::Handover;

/// Workers that one script serves. More are served by the next one, if these all got their jobs.
const WORKERS_PER_SCRIPT_MAX: usize = 100;

/// All waiting FETCHes. `T` is what they are handed.
#[derive(Debug)]
pub(super) struct WaitingFetches<T = Handover> {
    next_ticket: Cell<u64>,
    fetches: RefCell<BTreeMap<u64, WaitingFetch<T>>>,
}

impl<T> Default for WaitingFetches<T> {
    fn default() -> Self {
        Self { next_ticket: Cell::default(), fetches: RefCell::default() }
    }
}

#[derive(Debug)]
struct WaitingFetch<T> {
    queues: Rc<[QueueName]>,
    wid: Option<Wid>,
    max: BatchSize,
    /// Whether it goes on waiting when there is no job.
    waits: bool,
    /// Whether it asks alone first, and is in no group until it has.
    asks_alone: bool,
    jobs: oneshot::Sender<T>,
}

impl<T> WaitingFetch<T> {
    fn grouped(&self, ticket: u64) -> GroupedFetch {
        GroupedFetch { ticket, wid: self.wid.clone(), max: self.max }
    }
}

/// FETCHes that ask for the same queues in the same order.
#[derive(Debug)]
pub(super) struct FetchGroup {
    pub(super) queues: Rc<[QueueName]>,
    pub(super) fetches: Vec<GroupedFetch>,
}

#[derive(Clone, Debug)]
pub(super) struct GroupedFetch {
    pub(super) ticket: u64,
    pub(super) wid: Option<Wid>,
    pub(super) max: BatchSize,
}

/// A waiting FETCH as its caller sees it. Dropping it ends the wait; jobs that were handed over return
/// to their queue.
#[derive(Debug)]
pub(super) struct FetchTicket<T = Handover> {
    waiting: Rc<WaitingFetches<T>>,
    ticket: u64,
    asks_alone: bool,
    pub(super) jobs: oneshot::Receiver<T>,
}

impl<T> Drop for FetchTicket<T> {
    fn drop(&mut self) {
        self.waiting.fetches.borrow_mut().remove(&self.ticket);
    }
}

impl<T> FetchTicket<T> {
    /// Waits for jobs: those that the FETCH gets alone, if it is to ask alone, then those of a round.
    /// `None`: the round has found none.
    ///
    /// # Errors
    ///
    /// The error of the round, or that the store was closed meanwhile.
    pub(super) async fn first_jobs<A, R>(
        &mut self,
        ask_alone: impl FnOnce(u64) -> A,
        begin_round: impl FnOnce() -> R,
    ) -> Result<Option<T>, StoreError>
    where
        A: Future<Output = Result<(), StoreError>>,
        R: Future<Output = Result<(), StoreError>>,
    {
        if self.asks_alone {
            match self.jobs_of(ask_alone(self.ticket)).await {
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Ok(Some(jobs)) => return Ok(Some(jobs)),
                // The round repeats what has failed.
                Ok(None) | Err(_) => self.waiting.join(self.ticket),
            }
        }
        self.jobs_of(begin_round()).await
    }

    /// Waits for jobs or for the end of `round`, whichever comes first: other FETCHes may keep the
    /// round going.
    async fn jobs_of(
        &mut self,
        round: impl Future<Output = Result<(), StoreError>>,
    ) -> Result<Option<T>, StoreError> {
        tokio::select! {
            biased;
            jobs = &mut self.jobs => jobs.map(Some).map_err(|_| StoreError::Closed),
            outcome = round => outcome.map(|()| None),
        }
    }
}

impl<T> WaitingFetches<T> {
    /// Adds a FETCH. One that asks alone must be added to the groups by [`WaitingFetches::join`] then.
    pub(super) fn add(
        self: &Rc<Self>,
        request: &FetchRequest<'_>,
        waits: bool,
        asks_alone: bool,
    ) -> FetchTicket<T> {
        let (sender, jobs) = oneshot::channel();
        let ticket = self.next_ticket.get();
        self.next_ticket.set(ticket + 1);
        let (queues, wid, max) = (Rc::from(request.queues), request.wid.cloned(), request.max);
        let fetch = WaitingFetch { queues, wid, max, waits, asks_alone, jobs: sender };
        self.fetches.borrow_mut().insert(ticket, fetch);
        FetchTicket { waiting: Rc::clone(self), ticket, asks_alone, jobs }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fetches.borrow().is_empty()
    }

    /// Returns the number of FETCHes that go on waiting when there is no job.
    pub(super) fn waiting(&self) -> usize {
        self.fetches.borrow().values().filter(|fetch| fetch.waits).count()
    }

    /// Returns whether a FETCH asks for one of these queues.
    pub(super) fn any_for<'a>(&self, queues: impl Iterator<Item = &'a str>) -> bool {
        let fetches = self.fetches.borrow();
        let in_groups = fetches.values().filter(|fetch| !fetch.asks_alone);
        let mut requested = in_groups.flat_map(|fetch| fetch.queues.iter());
        !fetches.is_empty() && {
            let pushed: Vec<&str> = queues.collect();
            requested.any(|it| pushed.contains(&it.as_str()))
        }
    }

    /// Returns all FETCHes by their queues, the group with the longest waiting one first.
    pub(super) fn groups(&self) -> Vec<FetchGroup> {
        let mut places: BTreeMap<Rc<[QueueName]>, usize> = BTreeMap::new();
        let mut groups: Vec<FetchGroup> = Vec::new();
        for (ticket, fetch) in self.fetches.borrow().iter().filter(|(_, fetch)| !fetch.asks_alone) {
            let place = *places.entry(Rc::clone(&fetch.queues)).or_insert_with(|| {
                groups.push(FetchGroup { queues: Rc::clone(&fetch.queues), fetches: Vec::new() });
                groups.len() - 1
            });
            let fetches = &mut groups[place].fetches;
            if fetches.len() < WORKERS_PER_SCRIPT_MAX {
                fetches.push(fetch.grouped(*ticket));
            }
        }
        groups
    }

    /// Returns a group of one FETCH. `None`: it has left.
    pub(super) fn alone(&self, ticket: u64) -> Option<FetchGroup> {
        let fetches = self.fetches.borrow();
        let fetch = fetches.get(&ticket)?;
        Some(FetchGroup { queues: Rc::clone(&fetch.queues), fetches: vec![fetch.grouped(ticket)] })
    }

    /// Adds a FETCH that has asked alone to the groups.
    pub(super) fn join(&self, ticket: u64) {
        if let Some(fetch) = self.fetches.borrow_mut().get_mut(&ticket) {
            fetch.asks_alone = false;
        }
    }

    /// Hands jobs over to a FETCH. If it has left, they return to their queue.
    pub(super) fn serve(&self, ticket: u64, jobs: T) {
        let fetch = self.fetches.borrow_mut().remove(&ticket);
        if let Some(fetch) = fetch {
            drop(fetch.jobs.send(jobs));
        }
    }

    /// Ends all waits without a job.
    pub(super) fn dismiss(&self) {
        let fetches = std::mem::take(&mut *self.fetches.borrow_mut());
        drop(fetches);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_jobs::settings::JobServerLimits;

    use super::*;

    #[test]
    fn a_fetch_is_found_for_any_queue_of_a_push() {
        let queue = |name: &str| QueueName::parse(name, &JobServerLimits::default()).unwrap();
        let waiting = Rc::new(WaitingFetches::<()>::default());
        assert!(!waiting.any_for(["a"].into_iter()));
        let queues = [queue("x"), queue("b")];
        let (max, wait) = (BatchSize::ONE, Duration::ZERO);
        let request = FetchRequest { wid: None, queues: &queues, max, wait };
        let ticket = waiting.add(&request, true, false);
        assert!(waiting.any_for(["a", "b"].into_iter()));
        assert!(waiting.any_for(["x", "a"].into_iter()));
        assert!(!waiting.any_for(["a", "c"].into_iter()));
        drop(ticket);
        assert!(!waiting.any_for(["b"].into_iter()));
    }
}
