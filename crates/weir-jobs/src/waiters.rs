//! The list of FETCHes that wait for jobs. Each names several queues; a job in any of them goes to
//! the fetch that has waited longest.
//!
//! A job is assigned to a waiting fetch before its task is woken, so no other fetch can take it in
//! between. If the future is dropped before it takes the job, the job is given back through the
//! function passed to [`Waiters::new`]. Nothing here blocks or polls, and one thread owns the list.
//! The limit on waiting fetches is enforced here for every store.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::metrics::{JobServerLimit, JobsMetrics};
use crate::settings::JobServerLimits;
use crate::store::StoreError;

/// The waiting fetches, longest waiting first. `Q` names a queue, `C` is the store's data about a
/// fetch (its worker and the maximum number of jobs), `T` is the work that is assigned. Clones
/// share the list.
pub(crate) struct Waiters<Q, C, T> {
    line: Rc<RefCell<WaiterList<Q, C, T>>>,
    give_back: Rc<dyn Fn(T)>,
}

/// Tickets are ascending: a lower ticket has waited longer.
type Ticket = u64;

struct WaiterList<Q, C, T> {
    next_ticket: Ticket,
    waiting: BTreeMap<Ticket, Waiter<Q, C, T>>,
    by_queue: BTreeSet<(Q, Ticket)>,
    /// The number of fetches in `by_queue`, for each queue that has any.
    counts: BTreeMap<Q, u32>,
}

struct Waiter<Q, C, T> {
    queues: Box<[Q]>,
    context: C,
    slot: Rc<RefCell<WaiterSlot<T>>>,
}

/// Holds the assigned work until the future takes it.
struct WaiterSlot<T> {
    state: WaiterSlotState<T>,
    waker: Option<Waker>,
}

enum WaiterSlotState<T> {
    Waiting,
    Served(T),
    /// The work was taken, the wait was dismissed, or the future was dropped.
    Ended,
}

impl<Q: Ord + Clone, C, T> Waiters<Q, C, T> {
    /// Returns an empty list. `give_back` receives work that was assigned but not taken, and may
    /// offer it again.
    pub(crate) fn new(give_back: impl Fn(T) + 'static) -> Self {
        let line = WaiterList {
            next_ticket: 0,
            waiting: BTreeMap::new(),
            by_queue: BTreeSet::new(),
            counts: BTreeMap::new(),
        };
        Self { line: Rc::new(RefCell::new(line)), give_back: Rc::new(give_back) }
    }

    /// Adds a fetch at the end of the list. Returns an error if `limits.waiting_fetches_max` is
    /// reached.
    pub(crate) fn register_within(
        &self,
        limits: &JobServerLimits,
        metrics: &JobsMetrics,
        queues: &[Q],
        context: C,
    ) -> Result<WaitingFetch<Q, C, T>, StoreError> {
        let max = limits.waiting_fetches_max;
        if self.len() < max {
            return Ok(self.register(queues, context));
        }
        metrics.limit_hit(JobServerLimit::WaitingFetchesMax);
        let setting = JobServerLimits::WAITING_FETCHES_MAX;
        Err(StoreError::Limit(format!("too many FETCHes wait: at most {max} ({setting})")))
    }

    /// Adds a fetch at the end of the list. Dropping the future removes it.
    pub(crate) fn register(&self, queues: &[Q], context: C) -> WaitingFetch<Q, C, T> {
        let slot =
            Rc::new(RefCell::new(WaiterSlot { state: WaiterSlotState::Waiting, waker: None }));
        let waiter = Waiter { queues: Box::from(queues), context, slot: Rc::clone(&slot) };
        let mut line = self.line.borrow_mut();
        let ticket = line.next_ticket;
        line.next_ticket += 1;
        line.insert(ticket, waiter);
        WaitingFetch { waiters: self.clone(), ticket, slot }
    }

    /// Removes and returns the fetch that has waited longest for `queue`.
    pub(crate) fn pick(&self, queue: &Q) -> Option<Picked<Q, C, T>> {
        let mut line = self.line.borrow_mut();
        let ticket = line.longest(queue)?;
        let waiter = line.remove(ticket)?;
        Some(Picked { waiters: self.clone(), ticket, waiter: Some(waiter) })
    }

    /// Returns the number of waiting fetches.
    pub(crate) fn len(&self) -> usize {
        self.line.borrow().waiting.len()
    }

    /// Returns the number of fetches that wait for `queue`.
    pub(crate) fn waiting_for(&self, queue: &Q) -> u32 {
        self.line.borrow().counts.get(queue).copied().unwrap_or(0)
    }

    /// Ends all waits without a job, because the store is closing.
    pub(crate) fn dismiss(&self) {
        let waiting = {
            let mut line = self.line.borrow_mut();
            line.by_queue.clear();
            line.counts.clear();
            std::mem::take(&mut line.waiting)
        };
        for waiter in waiting.into_values() {
            waiter.slot.borrow_mut().end(WaiterSlotState::Ended);
        }
    }
}

/// Serves one fetch of each queue, and again one of each that was served, until none is left. If a resource has no room
/// left meanwhile, the queues that got none come to wait for it before those that were served.
pub(crate) fn serve_in_turn<Q>(mut queues: Vec<Q>, mut serve_one: impl FnMut(&Q) -> bool) {
    while !queues.is_empty() {
        queues.retain(&mut serve_one);
    }
}

impl<Q: Ord + Clone, C, T> WaiterList<Q, C, T> {
    fn insert(&mut self, ticket: Ticket, waiter: Waiter<Q, C, T>) {
        for queue in &waiter.queues {
            if self.by_queue.insert((queue.clone(), ticket)) {
                *self.counts.entry(queue.clone()).or_default() += 1;
            }
        }
        self.waiting.insert(ticket, waiter);
    }

    fn longest(&self, queue: &Q) -> Option<Ticket> {
        let first = self.by_queue.range((queue.clone(), 0)..).next()?;
        (first.0 == *queue).then_some(first.1)
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Waiter<Q, C, T>> {
        let waiter = self.waiting.remove(&ticket)?;
        for queue in &waiter.queues {
            if self.by_queue.remove(&(queue.clone(), ticket)) {
                self.count_less(queue);
            }
        }
        Some(waiter)
    }

    fn count_less(&mut self, queue: &Q) {
        if let Some(count) = self.counts.get_mut(queue) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(queue);
            }
        }
    }
}

impl<T> WaiterSlot<T> {
    fn end(&mut self, state: WaiterSlotState<T>) {
        self.state = state;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A fetch that was picked to be served. If it is dropped unserved, it returns to its position.
pub(crate) struct Picked<Q: Ord + Clone, C, T> {
    waiters: Waiters<Q, C, T>,
    ticket: Ticket,
    /// `None` once the fetch is served.
    waiter: Option<Waiter<Q, C, T>>,
}

impl<Q: Ord + Clone, C, T> Picked<Q, C, T> {
    /// Returns the store's data about the fetch, and its queues in order of preference.
    pub(crate) fn who(&self) -> Option<(&C, &[Q])> {
        self.waiter.as_ref().map(|waiter| (&waiter.context, &*waiter.queues))
    }

    /// Assigns `work` and wakes the waiting task. If the future was dropped, gives the work back.
    pub(crate) fn serve(mut self, work: T) {
        let Some(waiter) = self.waiter.take() else {
            return;
        };
        let mut slot = waiter.slot.borrow_mut();
        if matches!(slot.state, WaiterSlotState::Waiting) {
            slot.end(WaiterSlotState::Served(work));
        } else {
            drop(slot);
            (self.waiters.give_back)(work);
        }
    }
}

impl<Q: Ord + Clone, C, T> Drop for Picked<Q, C, T> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else {
            return;
        };
        let still_there = matches!(waiter.slot.borrow().state, WaiterSlotState::Waiting);
        if still_there {
            self.waiters.line.borrow_mut().insert(self.ticket, waiter);
        }
    }
}

/// Resolves when work is assigned, or to `None` when the wait is dismissed.
#[must_use = "dropping it leaves the line"]
pub(crate) struct WaitingFetch<Q: Ord + Clone, C, T> {
    waiters: Waiters<Q, C, T>,
    ticket: Ticket,
    slot: Rc<RefCell<WaiterSlot<T>>>,
}

impl<Q: Ord + Clone, C, T> Future for WaitingFetch<Q, C, T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = self.slot.borrow_mut();
        match std::mem::replace(&mut slot.state, WaiterSlotState::Ended) {
            WaiterSlotState::Served(work) => Poll::Ready(Some(work)),
            WaiterSlotState::Ended => Poll::Ready(None),
            WaiterSlotState::Waiting => {
                slot.state = WaiterSlotState::Waiting;
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<Q: Ord + Clone, C, T> Drop for WaitingFetch<Q, C, T> {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut self.slot.borrow_mut().state, WaiterSlotState::Ended);
        match state {
            WaiterSlotState::Waiting => drop(self.waiters.line.borrow_mut().remove(self.ticket)),
            WaiterSlotState::Served(work) => (self.waiters.give_back)(work),
            WaiterSlotState::Ended => {}
        }
    }
}

impl<Q, C, T> Clone for Waiters<Q, C, T> {
    fn clone(&self) -> Self {
        Self { line: Rc::clone(&self.line), give_back: Rc::clone(&self.give_back) }
    }
}

impl<Q, C, T> fmt::Debug for Waiters<Q, C, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.line.borrow().waiting.len();
        formatter.debug_struct("Waiters").field("waiting", &waiting).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type WaiterList = Waiters<&'static str, &'static str, u32>;

    struct Fixture {
        waiters: WaiterList,
        given_back: Rc<RefCell<Vec<u32>>>,
    }

    fn fixture() -> Fixture {
        let given_back = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&given_back);
        Fixture { waiters: Waiters::new(move |work| sink.borrow_mut().push(work)), given_back }
    }

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn picked(waiters: &WaiterList, queue: &'static str) -> Option<&'static str> {
        waiters.pick(&queue).map(|picked| *picked.who().unwrap().0)
    }

    #[test]
    fn who_waited_longest_is_served_first() {
        let Fixture { waiters, .. } = fixture();
        let mut first = waiters.register(&["a", "b"], "first");
        let mut second = waiters.register(&["b"], "second");
        assert_eq!(poll(&mut first), Poll::Pending);
        waiters.pick(&"b").unwrap().serve(1);
        waiters.pick(&"b").unwrap().serve(2);
        assert_eq!(poll(&mut first), Poll::Ready(Some(1)));
        assert_eq!(poll(&mut second), Poll::Ready(Some(2)));
        assert!(waiters.pick(&"b").is_none());
        assert!(waiters.pick(&"a").is_none(), "the first left all its queues");
        assert_eq!(waiters.len(), 0);
    }

    #[test]
    fn only_those_who_named_the_queue_are_picked() {
        let Fixture { waiters, .. } = fixture();
        let _a = waiters.register(&["a"], "a only");
        let _c = waiters.register(&["c", "b"], "c and b");
        assert_eq!(picked(&waiters, "b"), Some("c and b"));
        assert_eq!(picked(&waiters, "aa"), None);
        assert_eq!(picked(&waiters, "a"), Some("a only"));
        assert_eq!(["a", "b", "c", "aa"].map(|queue| waiters.waiting_for(&queue)), [1, 1, 1, 0]);
    }

    #[test]
    fn a_queue_named_twice_is_waited_for_once() {
        let Fixture { waiters, .. } = fixture();
        let waiting = waiters.register(&["a", "a"], "x");
        assert_eq!(waiters.waiting_for(&"a"), 1);
        drop(waiting);
        assert!(waiters.line.borrow().by_queue.is_empty());
        assert!(waiters.line.borrow().counts.is_empty());
    }

    #[test]
    fn a_dropped_wait_leaves_the_line() {
        let Fixture { waiters, given_back } = fixture();
        let first = waiters.register(&["a"], "first");
        let _second = waiters.register(&["a"], "second");
        drop(first);
        assert_eq!(picked(&waiters, "a"), Some("second"));
        assert!(given_back.borrow().is_empty());
    }

    #[test]
    fn work_that_was_not_taken_is_given_back() {
        let Fixture { waiters, given_back } = fixture();
        let waiting = waiters.register(&["a"], "x");
        waiters.pick(&"a").unwrap().serve(7);
        drop(waiting);
        assert_eq!(*given_back.borrow(), [7]);
    }

    #[test]
    fn work_that_was_taken_is_not_given_back() {
        let Fixture { waiters, given_back } = fixture();
        let mut waiting = waiters.register(&["a"], "x");
        waiters.pick(&"a").unwrap().serve(7);
        assert_eq!(poll(&mut waiting), Poll::Ready(Some(7)));
        drop(waiting);
        assert!(given_back.borrow().is_empty());
    }

    #[test]
    fn who_was_picked_and_not_served_keeps_its_place() {
        let Fixture { waiters, .. } = fixture();
        let _first = waiters.register(&["a"], "first");
        let _second = waiters.register(&["a"], "second");
        drop(waiters.pick(&"a"));
        assert_eq!(picked(&waiters, "a"), Some("first"));
    }

    #[test]
    fn work_for_somebody_who_left_while_picked_is_given_back() {
        let Fixture { waiters, given_back } = fixture();
        let waiting = waiters.register(&["a"], "x");
        let picked = waiters.pick(&"a").unwrap();
        drop(waiting);
        picked.serve(9);
        assert_eq!(*given_back.borrow(), [9]);
        assert_eq!(waiters.len(), 0);
    }

    #[test]
    fn giving_back_may_offer_the_work_to_the_next() {
        let line: Rc<RefCell<Option<WaiterList>>> = Rc::default();
        let again = Rc::clone(&line);
        let waiters = WaiterList::new(move |work| {
            let next = again.borrow().as_ref().and_then(|line| line.pick(&"a"));
            if let Some(next) = next {
                next.serve(work);
            }
        });
        *line.borrow_mut() = Some(waiters.clone());
        let first = waiters.register(&["a"], "first");
        let mut second = waiters.register(&["a"], "second");
        waiters.pick(&"a").unwrap().serve(3);
        drop(first);
        assert_eq!(poll(&mut second), Poll::Ready(Some(3)));
    }

    #[test]
    fn closing_ends_every_wait() {
        let Fixture { waiters, .. } = fixture();
        let mut waiting = waiters.register(&["a"], "x");
        waiters.dismiss();
        assert_eq!(poll(&mut waiting), Poll::Ready(None));
        assert_eq!(waiters.len(), 0);
    }

    #[test]
    fn serving_wakes_the_task() {
        let Fixture { waiters, .. } = fixture();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let served = tokio::task::LocalSet::new().block_on(&runtime, async {
            let waiting = waiters.register(&["a"], "x");
            let task = tokio::task::spawn_local(waiting);
            tokio::task::yield_now().await;
            waiters.pick(&"a").unwrap().serve(5);
            task.await.unwrap()
        });
        assert_eq!(served, Some(5));
    }
}
