//! Moves waiting jobs to another queue, for operators.

use std::collections::BTreeSet;
use std::rc::Rc;

use weir_jobs::model::{EntryKey, JobLocation, QueueName};
use weir_jobs::quarantine;
use weir_jobs::store::StoreError;

use super::act::jids_by_queue;
use super::entries::RawEntry;
use super::features::FeatureEvent;
use super::move_run::MovedText;
use super::moves::{MoveSource, MoveTarget};
use super::store_core::StoreCore;
use super::stored::StoredText;
use super::translate;

impl StoreCore {
    /// Moves waiting jobs to the end of another queue, which is paused before if `paused` says so. Returns the
    /// number of jobs moved. Payloads that are no jobs stay where they are.
    pub(super) async fn move_to(
        self: &Rc<Self>,
        place: &JobLocation,
        keys: &[EntryKey],
        queue: &QueueName,
        paused: bool,
    ) -> Result<u64, StoreError> {
        let mut moved = 0;
        for part in self.parts(place) {
            moved += self.move_part(&part, keys, queue, paused).await?;
        }
        if moved > 0 && !self.waiting.is_empty() {
            self.serve().await?;
        }
        Ok(moved)
    }

    async fn move_part(
        self: &Rc<Self>,
        place: &JobLocation,
        keys: &[EntryKey],
        queue: &QueueName,
        paused: bool,
    ) -> Result<u64, StoreError> {
        let mut connection = self.ready().await?;
        let entries = self.entries_of(&mut connection, place, keys).await?;
        if entries.is_empty() {
            return Ok(0);
        }
        self.make_room_for_queues(&mut connection, &BTreeSet::from([queue.as_str()])).await?;
        if paused {
            self.set_paused(std::slice::from_ref(queue), true).await?;
        }
        let texts = entries.into_iter();
        let texts = texts.filter_map(|entry| self.in_queue(place, entry, queue, paused)).collect();
        let texts = self.tagged(texts, FeatureEvent::Freed);
        for (from, jids) in jids_by_queue(place, &texts) {
            self.copy_kills(&mut connection, &from, queue.as_str(), &jids).await?;
        }
        let target = MoveTarget::List(queue.to_string());
        let source = MoveSource::of(place);
        let shifted = self.shift(&mut connection, &source, &target, &texts, "").await?;
        if !shifted.rejected.is_empty() {
            let list = self.keys.list(queue.as_str());
            return Err(StoreError::Unavailable(format!("{list} in Redis has another type")));
        }
        self.count_traffic(queue, |traffic| traffic.added += shifted.moved);
        if let JobLocation::Queue(from) = place {
            let from = self.shown_queue(from);
            self.count_traffic(&from, |traffic| traffic.taken += shifted.moved);
        }
        Ok(shifted.moved)
    }

    /// Returns the text of a job with its new queue and time of enqueueing. `None`: it can't move there.
    fn in_queue(
        &self,
        place: &JobLocation,
        entry: RawEntry,
        queue: &QueueName,
        is_quarantined: bool,
    ) -> Option<MovedText> {
        let bytes_max = self.limits.line_bytes_max;
        let text = StoredText::parse(&entry.payload, bytes_max).ok()?;
        if let JobLocation::Set(_) = place
            && is_quarantined
            && let Some((_, origin)) = quarantine::parts(queue.as_str())
        {
            // A name that only Sidekiq allows: the job could not be taken back to there.
            let own = text.string("queue");
            own.is_none_or(|own| own == origin).then_some(())?;
        }
        let new = translate::in_queue(&text, queue.as_str(), self.next_order());
        let position = entry.position;
        let moved = MovedText { old: entry.payload, new, position, tag: None };
        (moved.new.len() <= bytes_max).then_some(moved)
    }
}
