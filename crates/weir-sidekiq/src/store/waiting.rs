//! The FETCHes that are served by the next round, the longest waiting first.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::oneshot;
use weir_jobs::model::{QueueName, Wid};
use weir_jobs::store::{BatchSize, FetchRequest};

use super::handover::Handover;

/// Workers that one script serves. More are served by the next one, if these all got their jobs.
const WORKERS_PER_SCRIPT_MAX: usize = 100;

/// All FETCHes in line. `T` is what they are handed.
#[derive(Debug)]
pub(super) struct WaitingFetches<T = Handover> {
    next_ticket: Cell<u64>,
    line: RefCell<BTreeMap<u64, FetchInLine<T>>>,
}

impl<T> Default for WaitingFetches<T> {
    fn default() -> Self {
        Self { next_ticket: Cell::default(), line: RefCell::default() }
    }
}

#[derive(Debug)]
struct FetchInLine<T> {
    queues: Rc<[QueueName]>,
    wid: Option<Wid>,
    max: BatchSize,
    /// Whether it stays in line when there is no job.
    waits: bool,
    slot: oneshot::Sender<T>,
}

/// FETCHes that ask for the same queues in the same order.
#[derive(Debug)]
pub(super) struct FetchGroup {
    pub(super) queues: Rc<[QueueName]>,
    pub(super) fetches: Vec<GroupedFetch>,
}

#[derive(Debug)]
pub(super) struct GroupedFetch {
    pub(super) ticket: u64,
    pub(super) wid: Option<Wid>,
    pub(super) max: BatchSize,
}

/// A place in line. Dropping it leaves the line; jobs that were handed over return to their queue.
#[derive(Debug)]
pub(super) struct PlaceInLine<T = Handover> {
    line: Rc<WaitingFetches<T>>,
    ticket: u64,
    pub(super) slot: oneshot::Receiver<T>,
}

impl<T> Drop for PlaceInLine<T> {
    fn drop(&mut self) {
        self.line.line.borrow_mut().remove(&self.ticket);
    }
}

impl<T> WaitingFetches<T> {
    pub(super) fn enter(
        self: &Rc<Self>,
        request: &FetchRequest<'_>,
        waits: bool,
    ) -> PlaceInLine<T> {
        let (sender, slot) = oneshot::channel();
        let ticket = self.next_ticket.get();
        self.next_ticket.set(ticket + 1);
        let (queues, wid, max) = (Rc::from(request.queues), request.wid.cloned(), request.max);
        let fetch = FetchInLine { queues, wid, max, waits, slot: sender };
        self.line.borrow_mut().insert(ticket, fetch);
        PlaceInLine { line: Rc::clone(self), ticket, slot }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.borrow().is_empty()
    }

    /// Returns the number of FETCHes that stay in line when there is no job.
    pub(super) fn waiting(&self) -> usize {
        self.line.borrow().values().filter(|fetch| fetch.waits).count()
    }

    /// Returns whether a FETCH asks for one of these queues.
    pub(super) fn any_for<'a>(&self, mut queues: impl Iterator<Item = &'a str>) -> bool {
        let line = self.line.borrow();
        let mut asked = line.values().flat_map(|fetch| fetch.queues.iter());
        !line.is_empty() && queues.any(|queue| asked.any(|it| it.as_str() == queue))
    }

    /// Returns all FETCHes by their queues, the group with the longest waiting one first.
    pub(super) fn groups(&self) -> Vec<FetchGroup> {
        let mut places: BTreeMap<Rc<[QueueName]>, usize> = BTreeMap::new();
        let mut groups: Vec<FetchGroup> = Vec::new();
        for (ticket, fetch) in self.line.borrow().iter() {
            let place = *places.entry(Rc::clone(&fetch.queues)).or_insert_with(|| {
                groups.push(FetchGroup { queues: Rc::clone(&fetch.queues), fetches: Vec::new() });
                groups.len() - 1
            });
            let fetches = &mut groups[place].fetches;
            if fetches.len() < WORKERS_PER_SCRIPT_MAX {
                let (ticket, wid, max) = (*ticket, fetch.wid.clone(), fetch.max);
                fetches.push(GroupedFetch { ticket, wid, max });
            }
        }
        groups
    }

    /// Hands jobs over to a FETCH. If it has left, they return to their queue.
    pub(super) fn serve(&self, ticket: u64, jobs: T) {
        let fetch = self.line.borrow_mut().remove(&ticket);
        if let Some(fetch) = fetch {
            drop(fetch.slot.send(jobs));
        }
    }

    /// Ends all waits without a job.
    pub(super) fn dismiss(&self) {
        let line = std::mem::take(&mut *self.line.borrow_mut());
        drop(line);
    }
}
