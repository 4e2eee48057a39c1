//! What all parts of the store share: the link to Redis, the reservations of this node, counters.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;
use weir_base::clock::{Clock, Timestamp};
use weir_base::node::KnownNodes;
use weir_jobs::allocation::Allocation;
use weir_jobs::dispatch::Dispatcher;
use weir_jobs::metrics::{JobsMetrics, QueueMetrics, StoreMetrics};
use weir_jobs::model::QueueName;
use weir_jobs::node::NodeFigures;
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{Counts, LostWorkers, QueueTraffic, StoreError};

use super::adopted::AdoptedWorkers;
use super::class_metrics::ClassMetrics;
use super::confirmed_pushes::ConfirmedPushes;
use super::cron_scripts::CronScripts;
use super::keys::StoreKeys;
use super::link::RedisLink;
use super::link_connection::LinkConnection;
use super::memory_reading::MemoryReading;
use super::metrics_layout::{ClassMetricsLayout, LayoutsRead};
use super::owner::LeaseOwner;
use super::page_end::PageEnd;
use super::push_memory::PushMemory;
use super::reservations::Reservations;
use super::returned::RecentlyReturned;
use super::rounds::Rounds;
use super::scripts::StoreScripts;
use super::seconds;
use super::sleeping::SleepingQueues;
use super::track_notes::{TrackNotes, TrackWriter};
use super::undelivered_job::UndeliveredJob;
use super::waiting::WaitingFetches;

/// Names of queues that are logged once as not served.
const INVALID_NAMES_MAX: usize = 100;

/// The queues that Sidekiq's processes fetched when they were read last.
#[derive(Clone, Debug)]
pub(super) struct SidekiqQueues {
    pub(super) names: Vec<String>,
    pub(super) at: Instant,
}

/// The store, without its tasks.
#[derive(Debug)]
pub(super) struct StoreCore {
    pub(super) link: RedisLink,
    pub(super) keys: StoreKeys,
    pub(super) scripts: StoreScripts,
    pub(super) crons: CronScripts,
    pub(super) tracks: TrackWriter,
    pub(super) push_memory: PushMemory,
    pub(super) confirmed: ConfirmedPushes,
    pub(super) limits: JobServerLimits,
    pub(super) metrics: JobsMetrics,
    /// Of this shard.
    pub(super) measured: StoreMetrics,
    pub(super) class_metrics_layout: ClassMetricsLayout,
    pub(super) clock: Clock,
    pub(super) lease: Duration,
    /// Of this data directory.
    pub(super) node: String,
    pub(super) owner: RefCell<Option<LeaseOwner>>,
    /// Held while the node registers in Redis. Across awaits, so tokio's.
    pub(super) registering: Mutex<()>,
    pub(super) state: RefCell<StoreState>,
    pub(super) waiting: Rc<WaitingFetches>,
    pub(super) rounds: Rounds,
    /// Held while jobs that were not delivered return. Across awaits, so tokio's.
    pub(super) returning: Mutex<()>,
    /// Wakes the task that serves FETCHes.
    pub(super) work_arrived: Rc<Notify>,
    /// Tells that task that a FETCH waits, so that it polls.
    pub(super) wait_began: Rc<Notify>,
    /// Tells that task that a queue sleeps.
    pub(super) sleep_began: Rc<Notify>,
    pub(super) closed: Cell<bool>,
    /// Whether it is one of several independent servers.
    pub(super) is_shard: Cell<bool>,
    /// When others' reservations may be read again.
    pub(super) foreign_search_from: Cell<Option<Instant>>,
    pub(super) last_counts: RefCell<Counts>,
    /// Where the last page of a list ended, for the walk that goes on there.
    pub(super) page_end: RefCell<Option<PageEnd>>,
    pub(super) memory: RefCell<Option<MemoryReading>>,
    /// The queues of Sidekiq's processes.
    pub(super) sidekiq_queues: RefCell<Option<SidekiqQueues>>,
    pub(super) counted_at: Cell<Timestamp>,
}

/// The node's own state.
#[derive(Debug, Default)]
pub(super) struct StoreState {
    pub(super) reservations: Reservations,
    pub(super) adopted_workers: AdoptedWorkers,
    pub(super) lost_workers: LostWorkers,
    pub(super) nodes: KnownNodes<NodeFigures>,
    /// Where the next step of forgetting nodes begins.
    pub(super) forget_cursor: String,
    pub(super) allocation: Allocation,
    /// How often the allocation was changed.
    pub(super) allocations: u64,
    /// Whether the jobs in progress were counted that use resources of the allocation by their type.
    pub(super) has_counted_running: bool,
    /// Whether blocked jobs may have to return to their queues, because the allocation has changed.
    pub(super) has_unlimited: bool,
    pub(super) dispatcher: Dispatcher,
    /// Queues whose next job may start only later, by a rate.
    pub(super) sleeping: SleepingQueues,
    pub(super) next_number: u64,
    /// Greater than every time of enqueueing that this node has written.
    pub(super) next_order: u64,
    pub(super) tracks: TrackNotes,
    pub(super) totals: NodeTotals,
    /// The totals that Sidekiq's counters contain.
    pub(super) flushed: NodeTotals,
    /// Runs that are not in Redis yet.
    pub(super) class_metrics: ClassMetrics,
    pub(super) layouts: Option<LayoutsRead>,
    pub(super) queues: BTreeMap<QueueName, LocalQueue>,
    /// Names of queues to which this node has pushed.
    pub(super) known: BTreeSet<String>,
    pub(super) undelivered: Vec<UndeliveredJob>,
    pub(super) returned: RecentlyReturned,
    /// Jobs that this node had reserved when its lease was lost.
    pub(super) lost: RecentlyReturned,
    /// Whether a script may have reserved jobs that are not in the table.
    pub(super) reply_lost: bool,
    /// The leases of this node beside lists and sets, by their keys, and when each was used last.
    pub(super) leases_beside: BTreeMap<String, Instant>,
    /// Ids of the moves between slots that are in progress.
    pub(super) moving: BTreeSet<String>,
    pub(super) reap_passes: u64,
    /// Where the next step through the counts of kills begins.
    pub(super) prune_cursor: String,
    /// Under which this node's statistics are added since its start, or since all was deleted.
    pub(super) statistics_id: Option<u64>,
    /// Whether it was logged that there are too many names of queues.
    pub(super) has_too_many_queues: bool,
    pub(super) random: fastrand::Rng,
    /// Payloads that were no jobs.
    pub(super) malformed: u64,
    /// Names of queues that Weir can't serve.
    pub(super) invalid_names: BTreeSet<String>,
}

/// What this node knows about a queue.
#[derive(Debug)]
pub(super) struct LocalQueue {
    pub(super) metrics: QueueMetrics,
    pub(super) totals: NodeTotals,
    pub(super) traffic: QueueTraffic,
}

/// Totals of this node since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeTotals {
    pub(super) pushed: u64,
    /// Jobs that finished, including failed ones.
    pub(super) processed: u64,
    pub(super) failed: u64,
}

impl StoreState {
    /// Notes a name of a queue that Weir can't serve. Returns whether it is new.
    pub(super) fn note_invalid_name(&mut self, name: &str) -> bool {
        self.invalid_names.len() < INVALID_NAMES_MAX && self.invalid_names.insert(name.to_owned())
    }

    /// Returns whether this node knows the reserved job with this number.
    pub(super) fn knows(&self, number: u64) -> bool {
        let is_it = |it: &UndeliveredJob| it.number == number;
        self.reservations.get(number).is_some() || self.undelivered.iter().any(is_it)
    }
}

impl StoreCore {
    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.get() { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// Returns the connection, once this node is registered in Redis and jobs that were not delivered
    /// are back. Each operation begins with it.
    pub(super) async fn ready(self: &Rc<Self>) -> Result<LinkConnection, StoreError> {
        self.check_open()?;
        let connection = self.registered().await?;
        self.return_undelivered(&connection).await?;
        Ok(connection)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the time in microseconds for a script, or an empty text for Redis' own clock. Only
    /// tests move a clock.
    pub(super) fn micros_argument(&self) -> String {
        if self.clock.is_manual() { self.now().as_micros().to_string() } else { String::new() }
    }

    /// Like [`StoreCore::micros_argument`], in seconds.
    pub(super) fn seconds_argument(&self) -> String {
        if self.clock.is_manual() { seconds::text(self.now()) } else { String::new() }
    }

    /// Returns a time of enqueueing that differs from all others of this node.
    pub(super) fn next_order(&self) -> Timestamp {
        let now = self.now().as_micros();
        let mut state = self.state.borrow_mut();
        let order = now.max(state.next_order);
        state.next_order = order + 1;
        Timestamp::from_micros(order)
    }

    /// Changes the totals of this node and of one queue.
    pub(super) fn count(&self, queue: &QueueName, change: impl Fn(&mut NodeTotals)) {
        let mut state = self.state.borrow_mut();
        change(&mut state.totals);
        change(&mut self.local_queue(&mut state, queue).totals);
    }

    /// Counts what this node does to a queue.
    pub(super) fn count_traffic(&self, queue: &QueueName, change: impl Fn(&mut QueueTraffic)) {
        let mut state = self.state.borrow_mut();
        change(&mut self.local_queue(&mut state, queue).traffic);
    }

    /// Returns what this node has done to a queue.
    pub(super) fn traffic(&self, queue: &str) -> QueueTraffic {
        self.state.borrow().queues.get(queue).map(|queue| queue.traffic).unwrap_or_default()
    }

    /// Counts payloads that no worker could run.
    pub(super) fn count_malformed(&self, payloads: u64) {
        self.state.borrow_mut().malformed += payloads;
        self.measured.malformed(payloads);
    }

    pub(super) fn observe_run(&self, queue: &QueueName, since: Timestamp) {
        let seconds = self.now().since(since).as_secs_f64();
        let mut state = self.state.borrow_mut();
        self.local_queue(&mut state, queue).metrics.run.observe(seconds);
    }

    pub(super) fn observe_wait(&self, queue: &QueueName, enqueued_at: Timestamp) {
        let seconds = self.now().since(enqueued_at).as_secs_f64();
        let mut state = self.state.borrow_mut();
        self.local_queue(&mut state, queue).metrics.wait.observe(seconds);
    }

    fn local_queue<'s>(&self, state: &'s mut StoreState, queue: &QueueName) -> &'s mut LocalQueue {
        state.queues.entry(queue.clone()).or_insert_with(|| LocalQueue {
            metrics: self.metrics.queue(queue.as_str()),
            totals: NodeTotals::default(),
            traffic: QueueTraffic::default(),
        })
    }
}
