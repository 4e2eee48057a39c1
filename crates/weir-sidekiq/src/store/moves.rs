//! Moves waiting jobs, each only if it is still where it was read.

use std::collections::BTreeMap;
use std::rc::Rc;

use weir_base::clock::Timestamp;
use weir_jobs::model::{QueueName, SetName};
use weir_jobs::store::StoreError;

use super::entries::RawEntry;
use super::link_connection::LinkConnection;
use super::seconds;
use super::settlement::Settlement;
use super::store_core::StoreCore;
use super::stored::StoredText;
use super::transfer::{TransferOutcome, TransferSource, TransferTarget};
use super::translate;

/// Where jobs are taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MoveSource {
    List(QueueName),
    Set(SetName),
}

/// Where they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MoveTarget {
    /// To the end of a queue. The name may be one that Sidekiq allows and Weir does not serve.
    List(String),
    /// To the dead set, with the time of death.
    Dead(Timestamp),
    Nowhere,
}

/// A job's text and its new text.
pub(super) type TextPair = (Vec<u8>, Vec<u8>);

/// A job was moved, or it stays because its target can't take it. Other outcomes: it is gone.
const MOVED: i8 = 1;
const STAYS: i8 = -1;

/// What a move has done.
#[derive(Debug, Default)]
pub(super) struct Shifted {
    /// Number of jobs.
    pub(super) moved: u64,
    /// Jobs that stay where they are, because the key of their target is of another type.
    pub(super) rejected: Vec<Vec<u8>>,
}

impl Shifted {
    fn add(&mut self, other: Self) {
        self.moved += other.moved;
        self.rejected.extend(other.rejected);
    }
}

impl StoreCore {
    /// Moves jobs to the ends of their queues, in order. Payloads that are no jobs stay where they
    /// are.
    pub(super) async fn requeue(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        source: &MoveSource,
        entries: Vec<RawEntry>,
        token: &str,
    ) -> Result<Shifted, StoreError> {
        let mut moved = Shifted::default();
        let mut queues: BTreeMap<String, Vec<TextPair>> = BTreeMap::new();
        for entry in entries {
            let Some((queue, text)) = self.enqueued_text(source, &entry) else { continue };
            queues.entry(queue).or_default().push((entry.payload, text));
        }
        for (queue, pairs) in queues {
            let target = MoveTarget::List(queue);
            moved.add(self.shift(connection, source, &target, &pairs, token).await?);
        }
        Ok(moved)
    }

    /// Returns the queue of a job and its text with a new time of enqueueing.
    fn enqueued_text(&self, source: &MoveSource, entry: &RawEntry) -> Option<(String, Vec<u8>)> {
        let text = StoredText::parse(&entry.payload, self.limits.line_bytes_max).ok()?;
        let queue = match source {
            MoveSource::List(queue) => queue.as_str().to_owned(),
            MoveSource::Set(_) => {
                text.string("queue").unwrap_or_else(|| QueueName::DEFAULT.to_owned())
            }
        };
        Some((queue, translate::enqueued(&text, self.next_order())))
    }

    /// Moves the jobs that are still there, in one step. With a `token`, only while its lease is
    /// alive; otherwise returns an error.
    pub(super) async fn shift(
        &self,
        connection: &mut LinkConnection,
        source: &MoveSource,
        target: &MoveTarget,
        pairs: &[TextPair],
        token: &str,
    ) -> Result<Shifted, StoreError> {
        if pairs.is_empty() {
            return Ok(Shifted::default());
        }
        let (from, kind) = match source {
            MoveSource::List(queue) => (self.keys.list(queue.as_str()), "list"),
            MoveSource::Set(set) => (self.set_key(*set), "set"),
        };
        if let Some(target) = self.transfer_target(&from, target) {
            return self.shift_between_slots(connection, source, &target, pairs, token).await;
        }
        let mut invocation = self.scripts.shift.key(&from);
        let lease = self.lease_key(&from);
        let (to, target, argument) = match target {
            MoveTarget::List(queue) => (self.keys.list(queue), "list", queue.clone()),
            MoveTarget::Dead(at) => (self.keys.dead(), "set", seconds::text(*at)),
            MoveTarget::Nowhere => (from, "none", String::new()),
        };
        invocation.key(to).key(lease);
        self.add_queues_key(&mut invocation);
        invocation.arg(kind).arg(target).arg(argument).arg(token);
        for (old, new) in pairs {
            invocation.arg(old).arg(new);
        }
        let moved: Result<Vec<i8>, _> = invocation.invoke_async(connection).await;
        let moved = moved.map_err(|error| self.link.failed(&error))?;
        if moved.is_empty() {
            return Err(self.lose_lease(token));
        }
        let count = |outcome| moved.iter().filter(|it| **it == outcome).count() as u64;
        let stay = pairs.iter().zip(&moved).filter(|(_, outcome)| **outcome == STAYS);
        let rejected = stay.map(|((old, _), _)| old.clone()).collect();
        if let MoveSource::List(queue) = source
            && target == "list"
        {
            self.add_queues(connection, &[queue.as_str()]).await?;
        }
        Ok(Shifted { moved: count(MOVED), rejected })
    }

    /// Returns the target of a move that needs a step on each of two slots.
    fn transfer_target(&self, from: &str, target: &MoveTarget) -> Option<TransferTarget> {
        let target = match target {
            MoveTarget::List(queue) if self.keys.list(queue) != from => {
                TransferTarget::Queue(queue.clone())
            }
            MoveTarget::Dead(at) if self.keys.dead() != from => {
                TransferTarget::Set { key: self.keys.dead(), score: seconds::text(*at) }
            }
            _ => return None,
        };
        self.is_split().then_some(target)
    }

    async fn shift_between_slots(
        &self,
        connection: &mut LinkConnection,
        source: &MoveSource,
        target: &TransferTarget,
        pairs: &[TextPair],
        token: &str,
    ) -> Result<Shifted, StoreError> {
        let key = match source {
            MoveSource::List(queue) => self.keys.list(queue.as_str()),
            MoveSource::Set(set) => self.set_key(*set),
        };
        let from = match source {
            MoveSource::List(_) => TransferSource::List(&key),
            MoveSource::Set(_) => TransferSource::Set(&key),
        };
        if let MoveSource::Set(set) = source
            && !token.is_empty()
        {
            self.take_set_lease(connection, *set).await?;
        }
        let by = Settlement { victim: "", token };
        let jobs: Vec<(&[u8], &[u8])> = pairs.iter().map(|(old, new)| (&**old, &**new)).collect();
        match self.transfer(connection, from, target, by, &jobs).await? {
            TransferOutcome::Left(left) => {
                let moved = left.into_iter().filter(|left| *left).count() as u64;
                Ok(Shifted { moved, rejected: Vec::new() })
            }
            TransferOutcome::Rejected => {
                let rejected = pairs.iter().map(|(old, _)| old.clone()).collect();
                Ok(Shifted { moved: 0, rejected })
            }
            TransferOutcome::LeaseOver => Err(self.lose_lease_at(&key, token)),
        }
    }
}
