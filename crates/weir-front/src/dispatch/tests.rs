use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use weir_net::client::ClientAddress;

use super::*;

const STEP: Duration = Duration::from_secs(1);
const ONE: Slots = Slots { requests: 1, streams: 1 };

fn limits() -> QueueLimits {
    QueueLimits {
        queue_max: 8,
        queue_timeout: 30 * STEP,
        overload_delay: STEP / 5,
        overload_after: 2 * STEP,
        overload_wait: STEP,
    }
}

fn client(number: u8) -> FlowKey {
    ClientAddress::from_ip(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)))
}

fn class(client_number: u8) -> RequestClass {
    RequestClass { priority: Priority::Normal, client: client(client_number) }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_000 * seconds)
}

/// Creates a dispatcher with one worker, which is busy.
fn busy() -> (Dispatcher<u32>, Permit) {
    let mut dispatcher = Dispatcher::new(limits());
    dispatcher.add_worker(ONE, at(0));
    let permit = dispatcher.take(at(0)).expect("a slot");
    (dispatcher, permit)
}

fn queue(dispatcher: &mut Dispatcher<u32>, class: RequestClass, waiter: u32, now: u64) -> Ticket {
    match dispatcher.wait(class, waiter, at(now)) {
        EnqueueOutcome::Queued { ticket, displaced: None } => ticket,
        other => panic!("{other:?}"),
    }
}

/// Releases a slot, and returns the next request.
fn end(dispatcher: &mut Dispatcher<u32>, permit: Permit, now: Timestamp) -> Option<(u32, Permit)> {
    dispatcher.end(permit);
    dispatcher.next(now)
}

/// Serves all waiting requests one after the other, and returns their order.
fn order(dispatcher: &mut Dispatcher<u32>, mut permit: Permit, now: u64) -> Vec<u32> {
    let mut served = Vec::new();
    while let Some((waiter, next)) = end(dispatcher, permit, at(now)) {
        served.push(waiter);
        permit = next;
    }
    served
}

#[test]
fn the_least_loaded_worker_is_chosen_then_the_least_recent() {
    let mut dispatcher = Dispatcher::<u32>::new(limits());
    let two = Slots { requests: 2, streams: 0 };
    let workers: Vec<_> = (0..3).map(|_| dispatcher.add_worker(two, at(0))).collect();
    let permits = [(); 6].map(|()| dispatcher.take(at(0)).expect("a slot"));
    let taken: Vec<_> = permits.iter().map(|permit| permit.worker).collect();
    assert_eq!(taken, [&workers[..], &workers[..]].concat(), "each one, then each a second");
    assert_eq!(dispatcher.take(at(0)), None);
    let [.., fifth, _] = permits;
    assert_eq!(fifth.worker, workers[1]);
    assert_eq!(end(&mut dispatcher, fifth, at(0)), None);
    assert_eq!(dispatcher.take(at(0)).expect("a slot").worker, workers[1]);
}

#[test]
fn a_stream_frees_the_slot_of_its_request() {
    let mut dispatcher = Dispatcher::<u32>::new(limits());
    dispatcher.add_worker(Slots { requests: 1, streams: 1 }, at(0));
    let loads = |dispatcher: &Dispatcher<u32>| {
        dispatcher.loads().iter().map(|(_, load)| (load.requests, load.streams)).collect::<Vec<_>>()
    };
    let first = dispatcher.take(at(0)).expect("a slot");
    queue(&mut dispatcher, class(1), 1, 0);
    queue(&mut dispatcher, class(1), 2, 0);
    assert_eq!(dispatcher.make_stream(&first), Some(StreamSlot::Own));
    assert_eq!(dispatcher.make_stream(&first), Some(StreamSlot::Own), "once");
    let (waiter, second) = dispatcher.next(at(1)).expect("the slot that came free");
    assert_eq!((waiter, loads(&dispatcher)), (1, vec![(1, 1)]));
    assert_eq!(dispatcher.make_stream(&second), None, "there is no room for a second");
    assert_eq!(dispatcher.overdue(STEP, at(9)), [], "nor does it owe anything");
    assert_eq!(end(&mut dispatcher, first, at(2)), None, "that was no request's slot");
    assert_eq!(loads(&dispatcher), [(1, 0)]);
    assert_eq!(end(&mut dispatcher, second, at(3)).map(|(waiter, _)| waiter), Some(2));
}

#[test]
fn load_of_other_processes_counts_against_the_slots() {
    let mut dispatcher = Dispatcher::new(limits());
    let slots = Slots { requests: 2, streams: 2 };
    let worker = dispatcher.add_worker(slots, at(0));
    dispatcher.set_external_load(worker, ExternalLoad { requests: 1, streams: 1 });
    let first = dispatcher.take(at(0)).expect("a slot");
    assert!(dispatcher.take(at(0)).is_none(), "one of two is used elsewhere");
    let own = Some(StreamSlot::Own);
    assert_eq!(dispatcher.make_stream(&first), own, "one of two streams is elsewhere");
    let second = dispatcher.take(at(0)).expect("a slot");
    assert_eq!(dispatcher.make_stream(&second), None, "no room for a third");
    queue(&mut dispatcher, class(1), 7, 0);
    assert!(dispatcher.next(at(0)).is_none());
    dispatcher.set_external_load(worker, ExternalLoad::default());
    assert_eq!(dispatcher.next(at(0)).map(|(waiter, _)| waiter), Some(7), "it has ended there");
    assert_eq!(dispatcher.make_stream(&second), own);
}

#[test]
fn among_equal_request_counts_fewer_streams_win() {
    let mut dispatcher = Dispatcher::<u32>::new(limits());
    let slots = Slots { requests: 2, streams: 2 };
    let workers = [dispatcher.add_worker(slots, at(0)), dispatcher.add_worker(slots, at(0))];
    let stream = dispatcher.take(at(0)).expect("a slot");
    assert_eq!(dispatcher.make_stream(&stream), Some(StreamSlot::Own));
    for _ in 0..3 {
        let request = dispatcher.take(at(1)).expect("a slot");
        assert_eq!((stream.worker, request.worker), (workers[0], workers[1]));
        dispatcher.end(request);
    }
}

#[test]
fn a_probable_stream_goes_to_a_worker_with_stream_room() {
    let mut dispatcher = Dispatcher::<u32>::new(limits());
    let slots = Slots { requests: 2, streams: 1 };
    let workers = [dispatcher.add_worker(slots, at(0)), dispatcher.add_worker(slots, at(0))];
    let first = dispatcher.take_for_stream(at(0)).expect("a slot");
    assert_eq!(dispatcher.make_stream(&first), Some(StreamSlot::Own));
    let request = dispatcher.take(at(0)).expect("a slot");
    assert_eq!((first.worker, request.worker), (workers[0], workers[1]));
    // The other worker has fewer requests, but no room for a stream.
    let second = dispatcher.take_for_stream(at(0)).expect("a slot");
    assert_eq!(second.worker, workers[1]);
    assert_eq!(dispatcher.make_stream(&second), Some(StreamSlot::Own));
    // Without room at any worker it gets a slot, but cannot become a stream.
    let third = dispatcher.take_for_stream(at(0)).expect("a slot");
    assert_eq!((third.worker, dispatcher.make_stream(&third)), (workers[0], None));
}

#[test]
fn streams_in_request_slots_leave_one_for_requests() {
    let mut dispatcher = Dispatcher::<u32>::new(limits());
    let slots = Slots { requests: 2, streams: 0 };
    dispatcher.add_worker(slots, at(0));
    dispatcher.add_worker(slots, at(0));
    let permits: Vec<_> = (0..4).map(|_| dispatcher.take(at(0)).expect("a slot")).collect();
    let kept = permits.iter().filter_map(|permit| dispatcher.make_stream(permit));
    assert_eq!(kept.collect::<Vec<_>>(), [StreamSlot::OfRequest; 3]);
    permits.into_iter().for_each(|permit| dispatcher.end(permit));
    assert!(dispatcher.loads().iter().all(|(_, load)| (load.requests, load.streams) == (0, 0)));
    // If there is only one slot, it may hold a stream.
    let mut dispatcher = Dispatcher::<u32>::new(limits());
    dispatcher.add_worker(Slots { requests: 1, streams: 0 }, at(0));
    let only = dispatcher.take(at(0)).expect("a slot");
    assert_eq!(dispatcher.make_stream(&only), Some(StreamSlot::OfRequest));
}

#[test]
fn clients_take_turns_in_the_queue() {
    let (mut dispatcher, permit) = busy();
    for waiter in 1..=4 {
        queue(&mut dispatcher, class(1), waiter, 0);
    }
    queue(&mut dispatcher, class(2), 5, 1);
    queue(&mut dispatcher, class(2), 6, 1);
    queue(&mut dispatcher, class(3), 7, 1);
    assert_eq!(order(&mut dispatcher, permit, 1), [1, 5, 7, 2, 6, 3, 4]);
}

#[test]
fn higher_priority_requests_go_first() {
    let (mut dispatcher, permit) = busy();
    for (waiter, priority) in [(1, Priority::Low), (2, Priority::Normal), (3, Priority::High)] {
        queue(&mut dispatcher, RequestClass { priority, ..class(1) }, waiter, 0);
    }
    assert_eq!(order(&mut dispatcher, permit, 1), [3, 2, 1]);
}

#[test]
fn a_full_queue_rejects_requests_that_displace_nobody() {
    let (mut dispatcher, _permit) = busy();
    for waiter in 0..8 {
        queue(&mut dispatcher, class(1), waiter, 0);
    }
    let rejected = dispatcher.wait(class(1), 8, at(1));
    assert_eq!(rejected, EnqueueOutcome::Rejected(8, QueueError::QueueFull));
    // Requests of another client displace those of the client that fills the queue, until both have
    // as many.
    for waiter in 9..12 {
        match dispatcher.wait(class(2), waiter, at(1)) {
            EnqueueOutcome::Queued {
                displaced: Some((displaced, QueueError::QueueFull)), ..
            } => {
                assert_eq!(displaced, waiter - 9, "the oldest of the one who has most");
            }
            other => panic!("{other:?}"),
        }
    }
    let low = RequestClass { priority: Priority::Low, ..class(3) };
    assert_eq!(
        dispatcher.wait(low, 12, at(1)),
        EnqueueOutcome::Rejected(12, QueueError::QueueFull)
    );
    assert_eq!(dispatcher.waiting(), 8);
}

#[test]
fn a_request_expires_after_the_queue_timeout() {
    let (mut dispatcher, _permit) = busy();
    dispatcher.limits.overload_after = 1_000 * STEP;
    queue(&mut dispatcher, class(1), 1, 0);
    queue(&mut dispatcher, class(2), 2, 1);
    assert_eq!(dispatcher.expire(at(29)), []);
    assert_eq!(dispatcher.expire(at(30)), [(1, QueueError::QueueTimeout)]);
    assert_eq!(dispatcher.expire(at(31)), [(2, QueueError::QueueTimeout)]);
}

#[test]
fn during_an_overload_the_newest_request_goes_first() {
    let (mut dispatcher, permit) = busy();
    for (second, waiter) in [(0, 1), (1, 2), (2, 3)] {
        queue(&mut dispatcher, class(waiter), u32::from(waiter), second);
    }
    assert!(!dispatcher.is_overloaded(at(2)));
    assert!(dispatcher.is_overloaded(at(3)), "never empty for over 2 s");
    let expired = dispatcher.expire(at(3));
    assert_eq!(
        expired,
        [(1, QueueError::Overload), (2, QueueError::Overload), (3, QueueError::Overload)]
    );
    // The overload has ended with the empty queue.
    for waiter in [4, 5, 6] {
        queue(&mut dispatcher, class(waiter), u32::from(waiter), 3);
    }
    assert_eq!(order(&mut dispatcher, permit, 4), [4, 5, 6]);

    let (mut dispatcher, permit) = busy();
    for (client, waiter) in [(1, 1), (2, 2), (2, 22), (3, 3)] {
        queue(&mut dispatcher, class(client), waiter, 0);
    }
    let expected = [3, 22, 1, 2];
    assert_eq!(order(&mut dispatcher, permit, 9), expected, "the newest client, its newest first");
}

#[test]
fn an_overloaded_full_queue_keeps_the_newest() {
    let (mut dispatcher, _permit) = busy();
    for waiter in 0..8 {
        queue(&mut dispatcher, class(waiter), u32::from(waiter), 0);
    }
    match dispatcher.wait(class(9), 9, at(3)) {
        EnqueueOutcome::Queued { displaced: Some((0, QueueError::Overload)), .. } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cancelled_request_is_not_served() {
    let (mut dispatcher, permit) = busy();
    let ticket = queue(&mut dispatcher, class(1), 1, 0);
    queue(&mut dispatcher, class(1), 2, 0);
    assert_eq!(dispatcher.cancel(ticket, at(0)), Some(1));
    assert_eq!(dispatcher.cancel(ticket, at(0)), None);
    assert_eq!(order(&mut dispatcher, permit, 0), [2]);
}

#[test]
fn a_pause_grants_no_slots_and_is_no_overload() {
    let (mut dispatcher, permit) = busy();
    dispatcher.pause();
    queue(&mut dispatcher, class(1), 1, 0);
    queue(&mut dispatcher, class(2), 2, 0);
    assert_eq!(end(&mut dispatcher, permit, at(5)), None);
    assert_eq!(dispatcher.take(at(5)), None);
    assert_eq!(dispatcher.expire(at(9)), []);
    dispatcher.resume(at(10));
    let (first, permit) = dispatcher.next(at(10)).expect("a slot");
    assert_eq!(first, 1, "in their order");
    assert_eq!(order(&mut dispatcher, permit, 10), [2]);
}

#[test]
fn a_draining_worker_gets_no_new_requests() {
    let mut dispatcher = Dispatcher::<u32>::new(limits());
    let first = dispatcher.add_worker(ONE, at(0));
    let permit = dispatcher.take(at(0)).expect("a slot");
    dispatcher.drain_worker(first);
    assert_eq!(dispatcher.take(at(0)), None);
    queue(&mut dispatcher, class(1), 1, 0);
    assert_eq!(dispatcher.expire(at(9)), [], "no worker: no overload");
    let second = dispatcher.add_worker(ONE, at(9));
    let (waiter, assigned) = dispatcher.next(at(9)).expect("a slot");
    assert_eq!((waiter, assigned.worker), (1, second));
    let keys = |dispatcher: &Dispatcher<u32>| {
        dispatcher.loads().into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(keys(&dispatcher), [first, second]);
    assert_eq!(end(&mut dispatcher, permit, at(9)), None);
    assert_eq!(keys(&dispatcher), [second], "forgotten");
    let third = dispatcher.add_worker(ONE, at(9));
    assert_ne!(first, third, "its place may be used again, its key not");
}

#[test]
fn overdue_workers_are_reported() {
    let mut dispatcher = Dispatcher::<u32>::new(limits());
    let two = Slots { requests: 2, streams: 1 };
    let workers = [dispatcher.add_worker(two, at(0)), dispatcher.add_worker(two, at(0))];
    let old = dispatcher.take(at(0)).expect("a slot");
    let other = dispatcher.take(at(5)).expect("a slot");
    assert_eq!((old.worker, other.worker), (workers[0], workers[1]));
    let overdue = Overdue { worker: workers[0], oldest: at(0), requests: 1 };
    assert_eq!(dispatcher.overdue(6 * STEP, at(6)), [overdue]);
    dispatcher.ensure_response_timer(&old, at(5));
    assert_eq!(dispatcher.overdue(6 * STEP, at(6)), [overdue], "as long as before");
    dispatcher.stop_response_timer(&old);
    assert_eq!(dispatcher.overdue(6 * STEP, at(6)), [], "it waits for its client");
    dispatcher.ensure_response_timer(&old, at(1));
    assert_eq!(dispatcher.overdue(6 * STEP, at(6)), []);
    assert_eq!(dispatcher.overdue(6 * STEP, at(7)), [Overdue { oldest: at(1), ..overdue }]);
    end(&mut dispatcher, old, at(7));
    assert_eq!(dispatcher.overdue(6 * STEP, at(7)), []);
}

/// A step of a random test.
#[derive(Clone, Debug)]
enum Step {
    Ask { priority: u8, client: u8 },
    MakeStream(usize),
    End(usize),
    Leave(usize),
    Pass(u16),
    AddWorker { requests: u32, streams: u32 },
    DrainWorker(usize),
    Pause,
    Resume,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3_u8, 0..4_u8).prop_map(|(priority, client)| Step::Ask { priority, client }),
        2 => any::<usize>().prop_map(Step::MakeStream),
        5 => any::<usize>().prop_map(Step::End),
        2 => any::<usize>().prop_map(Step::Leave),
        3 => (0..5_000_u16).prop_map(Step::Pass),
        1 => (0..3_u32, 0..3_u32).prop_map(|(requests, streams)| Step::AddWorker { requests, streams }),
        1 => any::<usize>().prop_map(Step::DrainWorker),
        1 => Just(Step::Pause),
        1 => Just(Step::Resume),
    ]
}

/// A dispatcher and the outcomes that it has returned.
struct World {
    dispatcher: Dispatcher<u32>,
    now: Timestamp,
    workers: Vec<WorkerKey>,
    permits: Vec<Permit>,
    tickets: Vec<(Ticket, u32)>,
    waiting: HashSet<u32>,
    asked: u32,
    is_paused: bool,
}

impl World {
    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Ask { priority, client } => self.ask(priority, client),
            Step::MakeStream(which) if !self.permits.is_empty() => {
                let permit = &self.permits[which % self.permits.len()];
                self.dispatcher.make_stream(permit);
            }
            Step::End(which) if !self.permits.is_empty() => {
                let permit = self.permits.swap_remove(which % self.permits.len());
                let next = end(&mut self.dispatcher, permit, self.now);
                self.handed(next);
            }
            Step::Leave(which) if !self.tickets.is_empty() => {
                let (ticket, waiter) = self.tickets.swap_remove(which % self.tickets.len());
                let left = self.dispatcher.cancel(ticket, self.now);
                assert_eq!(left.is_some(), self.waiting.remove(&waiter), "waits or was told");
            }
            Step::Pass(millis) => {
                self.now = self.now + Duration::from_millis(u64::from(millis));
                for (waiter, _) in self.dispatcher.expire(self.now) {
                    assert!(self.waiting.remove(&waiter), "told once");
                }
            }
            Step::AddWorker { requests, streams } => {
                let slots = Slots { requests, streams };
                self.workers.push(self.dispatcher.add_worker(slots, self.now));
            }
            Step::DrainWorker(which) if !self.workers.is_empty() => {
                let worker = self.workers.swap_remove(which % self.workers.len());
                self.dispatcher.drain_worker(worker);
            }
            Step::Pause => {
                self.is_paused = true;
                self.dispatcher.pause();
            }
            Step::Resume => {
                self.is_paused = false;
                self.dispatcher.resume(self.now);
            }
            Step::MakeStream(_) | Step::End(_) | Step::Leave(_) | Step::DrainWorker(_) => {}
        }
        while let Some(next) = self.dispatcher.next(self.now) {
            self.handed(Some(next));
        }
    }

    fn ask(&mut self, priority: u8, client_number: u8) {
        if let Some(permit) = self.dispatcher.take(self.now) {
            assert_eq!(self.dispatcher.waiting(), 0, "nobody is overtaken");
            return self.permits.push(permit);
        }
        self.asked += 1;
        let waiter = self.asked;
        let priority = [Priority::High, Priority::Normal, Priority::Low][usize::from(priority)];
        let class = RequestClass { priority, client: client(client_number) };
        match self.dispatcher.wait(class, waiter, self.now) {
            EnqueueOutcome::Queued { ticket, displaced } => {
                self.waiting.insert(waiter);
                self.tickets.push((ticket, waiter));
                if let Some((displaced, _)) = displaced {
                    assert!(self.waiting.remove(&displaced), "told once");
                }
            }
            EnqueueOutcome::Rejected(rejected, _) => assert_eq!(rejected, waiter),
        }
    }

    fn handed(&mut self, next: Option<(u32, Permit)>) {
        if let Some((waiter, permit)) = next {
            assert!(!self.is_paused && self.waiting.remove(&waiter), "handed once");
            self.permits.push(permit);
        }
    }

    fn check(&mut self) {
        let waiting = self.dispatcher.waiting();
        assert!(waiting <= limits().queue_max);
        assert_eq!(waiting, self.waiting.len(), "nobody is forgotten");
        if waiting > 0 && !self.is_paused {
            assert_eq!(self.dispatcher.take(self.now), None, "nobody waits in vain");
        }
    }
}

proptest! {
    #[test]
    fn every_request_is_served_or_rejected_exactly_once(steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World {
            dispatcher: Dispatcher::new(limits()),
            now: at(1),
            workers: Vec::new(),
            permits: Vec::new(),
            tickets: Vec::new(),
            waiting: HashSet::new(),
            asked: 0,
            is_paused: false,
        };
        for step in steps {
            world.apply(&step);
            world.check();
        }
    }
}
