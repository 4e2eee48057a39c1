//! Returns the jobs of nodes whose lease is over to their queues.
//!
//! Every node does so at its own pace. A step checks in Redis that the lease is over and that the
//! job is still reserved, and moves it: two nodes, or one that was stopped in between, move no job
//! twice.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use redis::{AsyncCommands as _, Pipeline};
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::model::{FailureReport, FailureState, QueueName};
use weir_jobs::rules;
use weir_jobs::store::StoreError;

use super::link_connection::LinkConnection as MultiplexedConnection;
use super::owner::parse_field;
use super::store_core::StoreCore;
use super::stored::StoredText;
use super::translate;

/// Jobs that are returned in one step.
const STEP_JOBS: usize = 100;

/// Reserved jobs of one owner in one queue, by number.
type OwnedJobs = BTreeMap<String, Vec<u64>>;

impl StoreCore {
    /// Returns the jobs of all owners without a lease, and those that this node has reserved without
    /// knowing it, because the reply to a script was lost.
    pub(super) async fn reap(
        self: &Rc<Self>,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), StoreError> {
        let known_below = self.settled_below();
        let alive = self.owners_alive(connection).await?;
        let own = self.owner.borrow().as_ref().map(ToString::to_string).unwrap_or_default();
        for queue in self.queues_with_reservations(connection).await? {
            for (owner, mut numbers) in self.owned_jobs(connection, &queue).await? {
                numbers.sort_unstable_by(|one, other| other.cmp(one));
                if owner == own {
                    self.retain_lost(&mut numbers, known_below);
                    self.put_back(connection, &queue, &numbers).await?;
                } else if !alive.contains(&owner) {
                    for step in numbers.chunks(STEP_JOBS) {
                        self.reap_step(connection, &queue, &owner, step).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps the numbers below `known_below` that are not in the table of this node.
    fn retain_lost(&self, numbers: &mut Vec<u64>, known_below: u64) {
        let state = self.state.borrow();
        numbers.retain(|number| *number < known_below && !state.knows(*number));
    }

    /// Returns a number: all jobs below it that this node has reserved are in its table, unless the
    /// reply was lost.
    fn settled_below(&self) -> u64 {
        if self.rounds.is_running() { 0 } else { self.state.borrow().next_number }
    }

    async fn owners_alive(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<BTreeSet<String>, StoreError> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("TIME").zrange_withscores(self.keys.nodes(), 0, -1);
        let reply = pipeline.query_async(connection).await;
        let ((seconds, _), owners): ((f64, f64), Vec<(String, f64)>) =
            reply.map_err(|error| self.link.failed(&error))?;
        Ok(owners.into_iter().filter(|(_, end)| *end > seconds).map(|(owner, _)| owner).collect())
    }

    async fn owned_jobs(
        &self,
        connection: &mut MultiplexedConnection,
        queue: &QueueName,
    ) -> Result<OwnedJobs, StoreError> {
        let fields = connection.hkeys(self.keys.reserved(queue.as_str())).await;
        let fields: Vec<String> = fields.map_err(|error| self.link.failed(&error))?;
        let mut owned = OwnedJobs::new();
        for (owner, number) in fields.iter().filter_map(|field| parse_field(field)) {
            owned.entry(owner.to_owned()).or_default().push(number);
        }
        Ok(owned)
    }

    /// Returns some jobs of an owner whose lease is over, the last one to be served first. Those
    /// that have vanished too often go to the dead set.
    async fn reap_step(
        self: &Rc<Self>,
        connection: &mut MultiplexedConnection,
        queue: &QueueName,
        owner: &str,
        numbers: &[u64],
    ) -> Result<(), StoreError> {
        let fields: Vec<String> =
            numbers.iter().map(|number| format!("{owner}:{number}")).collect();
        let values = connection.hmget(self.keys.reserved(queue.as_str()), &fields).await;
        let values: Vec<Option<Vec<u8>>> = values.map_err(|error| self.link.failed(&error))?;
        let jids: Vec<Option<String>> =
            values.iter().map(|value| jid_of(value.as_deref()?)).collect();
        let counts =
            self.return_counts(connection, jids.iter().flatten().map(String::as_str)).await?;
        let (mut returning, mut returned) = (Vec::new(), Vec::new());
        for ((field, value), jid) in fields.into_iter().zip(&values).zip(&jids) {
            match (value, jid) {
                (Some(value), Some(jid)) if self.is_poison(&counts, jid) => {
                    self.move_poison_to_dead_set(connection, queue, owner, &field, value, jid)
                        .await?;
                }
                _ => {
                    returning.push(field);
                    returned.push(jid.as_deref().unwrap_or_default());
                }
            }
        }
        let moved = self.put_fields_back(connection, queue.as_str(), owner, &returning).await?;
        let moved = returned.into_iter().zip(moved).filter(|(_, moved)| *moved);
        let jids: Vec<&str> = moved.map(|(jid, _)| jid).filter(|jid| !jid.is_empty()).collect();
        for jid in &jids {
            self.state.borrow_mut().returned.insert(jid, queue.clone());
        }
        self.count_returns(connection, &counts, jids.into_iter()).await
    }

    async fn move_poison_to_dead_set(
        &self,
        connection: &mut MultiplexedConnection,
        queue: &QueueName,
        owner: &str,
        field: &str,
        value: &[u8],
        jid: &str,
    ) -> Result<(), StoreError> {
        let text = payload_of(value).and_then(|it| StoredText::parse(it, usize::MAX).ok());
        let text = text.map(|text| translate::failed(&text, &self.poison_failure(&text, jid)));
        let (dead, now) = (self.keys.dead(), self.now());
        let text = text.unwrap_or_default();
        let queue_name = queue.as_str();
        let moved =
            self.settle_field(connection, queue_name, field, owner, &dead, now, &text).await?;
        if moved {
            self.metrics.limit_hit(JobServerLimit::ReturnsMax);
            tracing::warn!(%queue, jid, "a job has lost too many workers: moved to the dead set");
            self.forget_returns(connection, jid).await?;
            self.trim_dead(connection).await?;
        }
        Ok(())
    }

    fn poison_failure(&self, text: &StoredText<'_>, jid: &str) -> FailureState {
        let FailureReport { errtype, message, .. } = rules::worker_vanished(jid.into());
        let previous = text.previous_failure();
        FailureState {
            retry_count: previous.map_or(0, |last| last.retry_count.saturating_add(1)),
            failed_at: self.now(),
            errtype,
            message,
            ..FailureState::default()
        }
    }
}

fn payload_of(value: &[u8]) -> Option<&[u8]> {
    let end = value.iter().position(|byte| *byte == b'\n')?;
    Some(&value[end + 1..])
}

fn jid_of(value: &[u8]) -> Option<String> {
    let text = StoredText::parse(payload_of(value)?, usize::MAX).ok()?;
    Some(text.jid)
}
