//! Producers and workers of one node, and an account of what they were told.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinHandle;
use weir_jobs::model::Wid;
use weir_jobs::store::{BatchSize, FetchRequest, Store, StoreError};

use crate::store::rig::{Node, queue_name};

const PRODUCERS: usize = 8;
const WORKERS: usize = 4;
/// Workers serve it all the time.
pub(super) const SERVED: &str = "served";
/// Nobody serves it until the end.
pub(super) const BACKLOG: &str = "backlog";
/// Between two jobs of a producer.
const PAUSE: Duration = Duration::from_millis(1);

/// What was acknowledged, and what has run.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) acknowledged: BTreeSet<String>,
    pub(super) starts: BTreeMap<String, u64>,
    /// Pushes that ended with "the job may be stored", and were sent again.
    pub(super) uncertain: u64,
    /// Errors of any kind.
    pub(super) errors: u64,
}

impl Account {
    fn rejected(&mut self, error: &StoreError) {
        self.uncertain += u64::from(matches!(error, StoreError::Uncertain(_)));
        self.errors += 1;
    }

    /// Jobs whose push was acknowledged and that never ran.
    pub(super) fn lost(&self) -> Vec<&String> {
        self.acknowledged.iter().filter(|jid| !self.starts.contains_key(*jid)).collect()
    }

    /// Jobs of the backlog, which were fetched once at the end, that ran twice.
    pub(super) fn stored_twice(&self) -> usize {
        let of_backlog = self.starts.iter().filter(|(jid, _)| jid.starts_with(BACKLOG));
        of_backlog.filter(|(_, starts)| **starts > 1).count()
    }
}

pub(super) struct Load {
    pub(super) node: Rc<Node>,
    pub(super) account: Rc<RefCell<Account>>,
    stopping: Rc<Cell<bool>>,
    producers: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

impl Load {
    pub(super) fn start(node: Node) -> Self {
        let load = Self {
            node: Rc::new(node),
            account: Rc::default(),
            stopping: Rc::default(),
            producers: Vec::new(),
            workers: Vec::new(),
        };
        let producer = |number| tokio::task::spawn_local(load.clone_state().produce(number));
        let worker = |number| tokio::task::spawn_local(load.clone_state().work(number));
        let (producers, workers) =
            ((0..PRODUCERS).map(producer).collect(), (0..WORKERS).map(worker).collect());
        Self { producers, workers, ..load }
    }

    fn clone_state(&self) -> LoadState {
        LoadState {
            node: Rc::clone(&self.node),
            account: Rc::clone(&self.account),
            stopping: Rc::clone(&self.stopping),
        }
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.account.borrow().acknowledged.len()
    }

    /// Resolves when this many more jobs have been acknowledged than now.
    pub(super) async fn acknowledge_more(&self, jobs: usize) {
        let wanted = self.acknowledged() + jobs;
        while self.acknowledged() < wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops the producers and workers, then runs all jobs that are stored.
    pub(super) async fn finish(self, stored: impl Fn() -> u64) -> Account {
        let stopped = self.stop().await;
        let node = Rc::clone(&stopped.node);
        stopped.drain_by(node, stored).await
    }

    /// Stops the producers and workers. A push that is not acknowledged now never is.
    pub(super) async fn stop(self) -> StoppedLoad {
        self.stopping.set(true);
        for task in self.producers.into_iter().chain(self.workers) {
            task.await.unwrap();
        }
        StoppedLoad { node: self.node, account: self.account }
    }
}

/// A load that has ended.
pub(super) struct StoppedLoad {
    node: Rc<Node>,
    account: Rc<RefCell<Account>>,
}

impl StoppedLoad {
    /// Runs all jobs that are stored, by another node.
    pub(super) async fn drain(self, node: Node, stored: impl Fn() -> u64) -> Account {
        self.drain_by(Rc::new(node), stored).await
    }

    async fn drain_by(self, node: Rc<Node>, stored: impl Fn() -> u64) -> Account {
        let stopping = Rc::default();
        let state = LoadState { node, account: Rc::clone(&self.account), stopping };
        while stored() > 0 {
            state.work_once("drain", &[SERVED, BACKLOG], 100).await;
        }
        self.account.take()
    }
}

#[derive(Clone)]
struct LoadState {
    node: Rc<Node>,
    account: Rc<RefCell<Account>>,
    stopping: Rc<Cell<bool>>,
}

impl LoadState {
    async fn produce(self, producer: usize) {
        for number in 0.. {
            if self.stopping.get() {
                return;
            }
            let queue = if number % 2 == 0 { SERVED } else { BACKLOG };
            let jid = format!("{queue}-{producer}-{number:06}");
            let job = format!(r#"{{"jid":"{jid}","jobtype":"T","args":[],"queue":"{queue}"}}"#);
            // A client that does not know sends the same job again.
            while let Err(error) = self.node.push(&job).await {
                self.account.borrow_mut().rejected(&error);
                if self.stopping.get() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            self.account.borrow_mut().acknowledged.insert(jid);
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn work(self, worker: usize) {
        while !self.stopping.get() {
            self.work_once(&format!("worker-{worker}"), &[SERVED], 1).await;
        }
    }

    /// Runs what is there, or waits a little.
    async fn work_once(&self, worker: &str, queues: &[&str], jobs: usize) {
        let queues: Vec<_> = queues.iter().map(|name| queue_name(name)).collect();
        let (wid, wait) = (Wid::new(worker), Duration::from_millis(100));
        let request =
            FetchRequest { wid: Some(&wid), queues: &queues, max: BatchSize::of(jobs), wait };
        let Ok(jobs) = self.node.store.fetch(request).await else {
            self.account.borrow_mut().errors += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
            return;
        };
        let jids: Vec<&str> = jobs.iter().map(|job| &*job.jid).collect();
        for jid in &jids {
            *self.account.borrow_mut().starts.entry((*jid).to_owned()).or_default() += 1;
        }
        while !jids.is_empty() && self.node.store.ack(&jids).await.is_err() {
            self.account.borrow_mut().errors += 1;
            if self.stopping.get() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
