//! What clients, workers and operators may do, at random.

use proptest::prelude::*;
use weir_jobs::store::{Action, QueueAction};

/// Queues that jobs are pushed to.
pub(crate) const QUEUES: [&str; 4] = ["a", "b", "c", "d"];
/// Workers that fetch.
pub(crate) const WORKERS: [&str; 3] = ["w1", "w2", "w3"];
/// Places that are acted on.
pub(crate) const PLACES: [&str; 5] = ["queue:a", "queue:b", "scheduled", "retries", "dead"];

/// One step. Numbers choose among what is there, modulo its size.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Push(Vec<Pushed>),
    Fetch {
        worker: usize,
        queues: Vec<usize>,
        max: usize,
    },
    /// A FETCH joins the line and is not looked at until it is taken or dropped.
    Wait {
        worker: usize,
        queues: Vec<usize>,
    },
    TakeWait(usize),
    DropWait(usize),
    /// Of any job that was ever pushed.
    Ack(Vec<usize>),
    Fail(usize),
    Extend {
        job: usize,
        seconds: u64,
    },
    Release(usize),
    Act {
        place: usize,
        entry: usize,
        action: Action,
    },
    /// On a whole queue, or discarding a whole set.
    ActOnAll {
        place: usize,
        action: Action,
    },
    ActOnQueue {
        queue: usize,
        action: QueueAction,
    },
    Allocate {
        share: u32,
        cap: u32,
        guaranteed: u32,
    },
    Advance(u64),
    Find(usize),
    Flush,
    /// The process ends without a goodbye and starts again.
    Crash,
}

/// A job to push.
#[derive(Clone, Debug)]
pub(crate) struct Pushed {
    pub(crate) queue: usize,
    /// Seconds from now; 0: now.
    pub(crate) after: u64,
    pub(crate) retry: i32,
    pub(crate) reserve_for: u64,
    /// Bytes of payload.
    pub(crate) bytes: usize,
}

impl Pushed {
    pub(crate) const fn plain(queue: usize) -> Self {
        Self { queue, after: 0, retry: 25, reserve_for: 60, bytes: 0 }
    }
}

pub(crate) fn operations(max: usize) -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(operation(), 1..max)
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        12 => prop::collection::vec(pushed(0..1), 1..6).prop_map(Operation::Push),
        4 => pushed(1..400).prop_map(|job| Operation::Push(vec![job])),
        12 => (0..WORKERS.len(), queues(), 1..4_usize)
            .prop_map(|(worker, queues, max)| Operation::Fetch { worker, queues, max }),
        4 => (0..WORKERS.len(), queues())
            .prop_map(|(worker, queues)| Operation::Wait { worker, queues }),
        3 => any::<usize>().prop_map(Operation::TakeWait),
        2 => any::<usize>().prop_map(Operation::DropWait),
        6 => prop::collection::vec(any::<usize>(), 1..4).prop_map(Operation::Ack),
        5 => any::<usize>().prop_map(Operation::Fail),
        1 => (any::<usize>(), 0..200_u64)
            .prop_map(|(job, seconds)| Operation::Extend { job, seconds }),
        2 => (0..WORKERS.len()).prop_map(Operation::Release),
        4 => (0..PLACES.len(), any::<usize>(), action())
            .prop_map(|(place, entry, action)| Operation::Act { place, entry, action }),
        1 => (0..PLACES.len(), action())
            .prop_map(|(place, action)| Operation::ActOnAll { place, action }),
        3 => (0..QUEUES.len(), queue_action())
            .prop_map(|(queue, action)| Operation::ActOnQueue { queue, action }),
        // A restart after a crash takes limits of four and more for lower.
        1 => (0..5_u32, 1..4_u32, 0..3_u32).prop_map(|(share, cap, guaranteed)| {
            Operation::Allocate { share, cap, guaranteed }
        }),
        5 => (0..200_u64).prop_map(Operation::Advance),
        3 => any::<usize>().prop_map(Operation::Find),
        1 => prop::bool::weighted(0.2).prop_map(|flush| {
            if flush { Operation::Flush } else { Operation::Advance(1) }
        }),
        1 => Just(Operation::Crash),
    ]
}

fn pushed(after: std::ops::Range<u64>) -> impl Strategy<Value = Pushed> {
    let bytes = prop_oneof![9 => 0..60_usize, 1 => 0..60_000_usize];
    let retry = prop_oneof![Just(25), Just(1), Just(0), Just(-1)];
    let rules = (retry, prop_oneof![Just(60_u64), Just(1_800)]);
    (0..QUEUES.len(), after, rules, bytes).prop_map(
        |(queue, after, (retry, reserve_for), bytes)| Pushed {
            queue,
            after,
            retry,
            reserve_for,
            bytes,
        },
    )
}

fn queues() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..QUEUES.len(), 1..4)
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![Just(Action::Requeue), Just(Action::Kill), Just(Action::Discard)]
}

fn queue_action() -> impl Strategy<Value = QueueAction> {
    prop_oneof![
        1 => Just(QueueAction::Pause),
        3 => Just(QueueAction::Resume),
        1 => Just(QueueAction::Remove),
        1 => Just(QueueAction::Clear),
    ]
}
