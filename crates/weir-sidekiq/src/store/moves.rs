//! Moves waiting jobs, each only if it is still where it was read.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use weir_base::clock::Timestamp;
use weir_jobs::model::{JobLocation, QueueName, SetName};
use weir_jobs::store::StoreError;

use super::entries::RawEntry;
use super::features::FeatureEvent;
use super::link_connection::LinkConnection;
use super::move_run::{MOVED, MoveRun, MovedText, NearPositions};
use super::seconds;
use super::settlement::Settlement;
use super::store_core::StoreCore;
use super::stored::StoredText;
use super::track_notes::tracked_jid;
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

impl MoveSource {
    pub(super) fn of(place: &JobLocation) -> Self {
        match place {
            JobLocation::Queue(queue) => Self::List(queue.clone()),
            JobLocation::Set(set) => Self::Set(*set),
        }
    }
}

/// A job was not found before the script had read too much, or it stays because its target can't take it. Other
/// outcomes than [`MOVED`]: it is gone.
const UNSEARCHED: i8 = 2;
const STAYS: i8 = -1;

/// What a move has done.
#[derive(Debug, Default)]
pub(super) struct Shifted {
    /// Number of jobs.
    pub(super) moved: u64,
    /// Jobs that stay where they are, because the key of their target is of another type.
    pub(super) rejected: Vec<Vec<u8>>,
    /// Where those that were moved had been read.
    pub(super) positions: Vec<usize>,
    /// Places of those among the texts that were searched only in part.
    unsearched: Vec<usize>,
    /// The jids of tracked jobs that were moved.
    pub(super) tracked: Vec<String>,
}

impl Shifted {
    pub(super) fn add(&mut self, other: Self) {
        self.moved += other.moved;
        self.rejected.extend(other.rejected);
        self.positions.extend(other.positions);
        self.tracked.extend(other.tracked);
    }

    /// Returns the outcome for `texts`.
    fn of(texts: &[MovedText], outcomes: &[i8]) -> Self {
        let places = |wanted: i8| {
            outcomes
                .iter()
                .enumerate()
                .filter(move |(_, it)| **it == wanted)
                .map(|(place, _)| place)
        };
        let positions: Vec<usize> = places(MOVED).map(|place| texts[place].position).collect();
        let unsearched = places(UNSEARCHED).collect();
        let tracked = places(MOVED).filter_map(|place| tracked_jid(&texts[place].old)).collect();
        let moved = positions.len() as u64;
        Self { moved, rejected: Vec::new(), positions, tracked, unsearched }
    }

    /// Returns the outcome if all stay.
    fn rejected(texts: &[MovedText]) -> Self {
        let rejected = texts.iter().map(|text| text.old.clone()).collect();
        Self { rejected, ..Self::default() }
    }
}

impl StoreCore {
    /// Moves jobs to the ends of their queues, in order. Payloads that are no jobs stay where they
    /// are. `event` is what the move means for their features, if it means anything.
    pub(super) async fn requeue(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        source: &MoveSource,
        entries: Vec<RawEntry>,
        event: Option<FeatureEvent>,
        token: &str,
    ) -> Result<Shifted, StoreError> {
        let mut moved = Shifted::default();
        let mut queues: BTreeMap<String, Vec<MovedText>> = BTreeMap::new();
        for entry in entries {
            let Some((queue, new)) = self.enqueued_text(source, &entry) else { continue };
            let tag = event.and_then(|event| Some((event, self.tag_of_payload(&entry.payload)?)));
            let text = MovedText { old: entry.payload, new, position: entry.position, tag };
            queues.entry(queue).or_default().push(text);
        }
        for (queue, texts) in queues {
            let target = MoveTarget::List(queue);
            moved.add(self.shift(connection, source, &target, &texts, token).await?);
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

    /// Moves the jobs that are still there, in steps that keep other commands waiting for a bounded time. With a
    /// `token`, only while its lease is alive; otherwise returns an error.
    pub(super) async fn shift(
        &self,
        connection: &mut LinkConnection,
        source: &MoveSource,
        target: &MoveTarget,
        texts: &[MovedText],
        token: &str,
    ) -> Result<Shifted, StoreError> {
        let mut shifted = Shifted::default();
        let mut runs = VecDeque::from(MoveRun::split(texts));
        while let Some(run) = runs.pop_front() {
            let near = match source {
                MoveSource::List(_) => Some(run.near(&shifted.positions)),
                MoveSource::Set(_) => None,
            };
            let near = near.as_ref();
            let step = self.shift_step(connection, source, target, run.texts, near, token);
            let step = step.await?;
            if run.texts.len() > 1 {
                // Large jobs lie between them, so each is searched by itself.
                let alone = step.unsearched.iter().map(|place| run.alone(*place));
                runs.extend(alone);
            }
            shifted.add(step);
        }
        self.note_moved(&shifted.tracked, target);
        if let MoveSource::List(queue) = source
            && let Some(page) = self.page_end.borrow_mut().as_mut()
            && page.queue == *queue
        {
            page.note_left(&shifted.positions);
        }
        Ok(shifted)
    }

    async fn shift_step(
        &self,
        connection: &mut LinkConnection,
        source: &MoveSource,
        target: &MoveTarget,
        texts: &[MovedText],
        near: Option<&NearPositions>,
        token: &str,
    ) -> Result<Shifted, StoreError> {
        let (from, kind) = match source {
            MoveSource::List(queue) => (self.keys.list(queue.as_str()), "list"),
            MoveSource::Set(set) => (self.set_key(*set), "set"),
        };
        if let Some(target) = self.transfer_target(&from, target) {
            return self.shift_between_slots(connection, source, &target, texts, near, token).await;
        }
        let has_features = texts.iter().any(|text| text.tag.is_some());
        let mut invocation = self.scripts.shift.of(has_features).key(&from);
        let lease = self.lease_key(&from);
        let (to, target, argument) = match target {
            MoveTarget::List(queue) => (self.keys.list(queue), "list", queue.clone()),
            MoveTarget::Dead(at) => (self.keys.dead(), "set", seconds::text(*at)),
            MoveTarget::Nowhere => (from, "none", String::new()),
        };
        invocation.key(to).key(lease);
        self.add_queues_key(&mut invocation);
        invocation.arg(kind).arg(target).arg(argument).arg(token);
        if let Some(near) = near {
            near.add_to(&mut invocation);
        }
        MoveRun::add_texts(texts, &mut invocation);
        if has_features {
            invocation.key(&self.keys.features()[..]);
        }
        let moved: Result<Vec<i8>, _> = invocation.invoke_async(connection).await;
        let moved = moved.map_err(|error| self.link.failed(&error))?;
        if moved.is_empty() {
            return Err(self.lose_lease(token));
        }
        if moved.contains(&STAYS) {
            return Ok(Shifted::rejected(texts));
        }
        if let MoveSource::List(queue) = source
            && target == "list"
        {
            self.add_queues(connection, &[queue.as_str()]).await?;
        }
        Ok(Shifted::of(texts, &moved))
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
        texts: &[MovedText],
        near: Option<&NearPositions>,
        token: &str,
    ) -> Result<Shifted, StoreError> {
        let key = match source {
            MoveSource::List(queue) => self.keys.list(queue.as_str()),
            MoveSource::Set(set) => self.set_key(*set),
        };
        let from = match near {
            Some(near) => TransferSource::List { key: &key, near },
            None => TransferSource::Set(&key),
        };
        if let MoveSource::Set(set) = source
            && !token.is_empty()
        {
            self.take_set_lease(connection, *set).await?;
        }
        let by = Settlement { victim: "", token, tag: None };
        let jobs: Vec<(&[u8], &[u8])> = texts.iter().map(|it| (&*it.old, &*it.new)).collect();
        match self.transfer(connection, from, target, by, &jobs).await? {
            TransferOutcome::Left(left) => Ok(Shifted::of(texts, &left)),
            TransferOutcome::Rejected => Ok(Shifted::rejected(texts)),
            TransferOutcome::LeaseOver => Err(self.lose_lease_at(&key, token)),
        }
    }
}
