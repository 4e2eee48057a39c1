//! Pushes jobs at a steady rate. A push without a reply is not repeated, so that no job is pushed twice.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::ledger::Ledger;
use super::{JOB_TYPE, JobId, ORDERED_QUEUE, REPLY_TIMEOUT, queue_of, time_stamp};
use crate::clock::monotonic;
use crate::jobs::connect::Control;
use crate::jobs::server_url::ServerUrl;
use crate::soak::journal::Part;
use crate::soak::pace::Pace;
use crate::soak::shared::Shared;

/// Between an error and the next attempt.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(200);
/// One job of so many is unique, fails once, is scheduled, is slow.
const UNIQUE_EVERY: usize = 25;
const FAILING_EVERY: usize = 40;
const SCHEDULED_EVERY: usize = 20;
const SLOW_EVERY: usize = 50;
const UNIQUE_KEYS: usize = 5;
/// Longer than a run with its retries.
const UNIQUE_FOR_SECONDS: u64 = 3_600;
const SLOW_MS: usize = 800;
/// A job whose FETCH had no reply returns to its queue after this. The least that the protocol allows.
pub(super) const RESERVE_FOR_SECONDS: u64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::soak) enum ProducerKind {
    /// Jobs that run one after the other.
    Ordered,
    /// Plain, slow, failing, scheduled and unique jobs.
    Mixed,
}

#[derive(Debug)]
pub(in crate::soak) struct Producer {
    shared: Arc<Shared>,
    ledger: Arc<Ledger>,
    kind: ProducerKind,
    number: usize,
    queue: String,
    rate: f64,
}

impl Producer {
    pub(in crate::soak) fn new(
        shared: &Arc<Shared>,
        ledger: &Arc<Ledger>,
        kind: ProducerKind,
        rate: f64,
    ) -> Self {
        let number = ledger.add_producer(kind == ProducerKind::Ordered);
        let queue = match kind {
            ProducerKind::Ordered => ORDERED_QUEUE.to_owned(),
            ProducerKind::Mixed => queue_of(number),
        };
        Self { shared: Arc::clone(shared), ledger: Arc::clone(ledger), kind, number, queue, rate }
    }

    pub(in crate::soak) fn queue(&self) -> &str {
        &self.queue
    }

    pub(in crate::soak) fn run(self) {
        let mut client = Client::new(&self.shared, self.number);
        let mut pace = Pace::per_second(self.rate);
        while pace.wait(&self.shared) {
            let id = self.ledger.begin_push(self.number, monotonic());
            let job = self.job(id);
            let outcome = client.command(&format!("PUSH {job}"));
            let is_stored = matches!(&outcome, Some(reply) if reply == b"OK");
            self.ledger.end_push(id, is_stored, monotonic());
            if is_stored && let Some(key) = self.unique_key(id) {
                self.ledger.record_unique(key, id);
            }
        }
    }

    fn unique_key(&self, JobId { number, .. }: JobId) -> Option<usize> {
        let is_unique = self.kind == ProducerKind::Mixed && number % UNIQUE_EVERY == 5;
        // Each producer has keys of its own, because locks belong to a queue.
        is_unique.then(|| self.number * UNIQUE_KEYS + number / UNIQUE_EVERY % UNIQUE_KEYS)
    }

    fn job(&self, id: JobId) -> Value {
        let number = id.number;
        let is_mixed = self.kind == ProducerKind::Mixed;
        let is_slow = is_mixed && number % SLOW_EVERY == 11;
        let mut job = json!({
            "jid": id.jid(),
            "jobtype": JOB_TYPE,
            "queue": self.queue,
            "reserve_for": RESERVE_FOR_SECONDS,
            "args": [number, if is_slow { SLOW_MS } else { 0 }, is_mixed && number % FAILING_EVERY == 3],
        });
        if let Some(key) = self.unique_key(id) {
            // Equal jobs have equal arguments. The work takes long enough for the next push to be rejected.
            job["args"] = json!([key, SLOW_MS, false]);
            job["custom"] = json!({ "unique_for": UNIQUE_FOR_SECONDS });
        } else if is_mixed && number % SCHEDULED_EVERY == 7 {
            job["at"] = time_stamp::seconds_from_now(1 + number as u64 % 10).into();
        }
        job
    }
}

/// A producer's connection, which goes to the next node after an error.
#[derive(Debug)]
pub(super) struct Client {
    shared: Arc<Shared>,
    node: usize,
    connection: Option<Control>,
}

impl Client {
    pub(super) fn new(shared: &Arc<Shared>, node: usize) -> Self {
        Self { shared: Arc::clone(shared), node, connection: None }
    }

    /// Returns the reply, or `None` if there was none. `NOTUNIQUE` is an empty reply.
    pub(super) fn command(&mut self, command: &str) -> Option<Vec<u8>> {
        let began = monotonic();
        match self.try_command(command) {
            Ok(reply) => Some(reply),
            Err(error) if format!("{error:#}").contains("NOTUNIQUE") => Some(Vec::new()),
            Err(error) => {
                let text = format!("node {}: {error:#}", self.node % self.shared.nodes.len());
                self.shared.journal.record(Part::Jobs, began, text);
                self.connection = None;
                self.node += 1;
                self.shared.sleep(RETRY_AFTER);
                None
            }
        }
    }

    fn try_command(&mut self, command: &str) -> anyhow::Result<Vec<u8>> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let address = self.shared.node(self.node).jobs;
                let url = ServerUrl { address, password: None };
                self.connection.insert(Control::open(&url, REPLY_TIMEOUT)?)
            }
        };
        connection.command(command)
    }
}
