//! What the threads of the load share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::journal::Journal;

/// Longest sleep of a thread, after which it checks whether the run is over.
const SLEEP_MAX: Duration = Duration::from_millis(200);

/// Where the parts of one node listen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Endpoints {
    pub(super) jobs: SocketAddr,
    /// The app and realtime.
    pub(super) front: SocketAddr,
    pub(super) console: SocketAddr,
    pub(super) gems: Option<SocketAddr>,
}

/// Operations that succeeded.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: AtomicU64,
    pub(super) gem_reads: AtomicU64,
    pub(super) gem_pushes: AtomicU64,
    pub(super) page_reads: AtomicU64,
    /// Connections of slow clients that Weir has closed with 4100.
    pub(super) slow_closed: AtomicU64,
    pub(super) slow_connections: AtomicU64,
    /// Responses with a body that is not the one of the request.
    pub(super) wrong_responses: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) nodes: Vec<Endpoints>,
    pub(super) journal: Journal,
    pub(super) counts: Counts,
    is_load_over: AtomicBool,
    is_over: AtomicBool,
}

impl Shared {
    pub(super) fn new(nodes: Vec<Endpoints>) -> Self {
        Self {
            nodes,
            journal: Journal::default(),
            counts: Counts::default(),
            is_load_over: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns a node; clients go from one to the next when theirs fails.
    pub(super) fn node(&self, number: usize) -> Endpoints {
        self.nodes[number % self.nodes.len()]
    }

    /// No more load is generated from now on.
    pub(super) fn end_load(&self) {
        self.is_load_over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_load_over(&self) -> bool {
        self.is_load_over.load(Ordering::SeqCst)
    }

    /// All threads end from now on.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Sleeps, but not much longer than the run lasts.
    pub(super) fn sleep(&self, mut duration: Duration) {
        while !duration.is_zero() && !self.is_over() {
            let next = duration.min(SLEEP_MAX);
            std::thread::sleep(next);
            duration -= next;
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
