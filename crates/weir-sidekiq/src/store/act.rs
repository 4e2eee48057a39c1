//! Operators' actions on waiting jobs.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::rc::Rc;

use redis::AsyncCommands as _;
use weir_base::clock::Timestamp;
use weir_jobs::model::{EntryKey, JobLocation, SetName};
use weir_jobs::rules;
use weir_jobs::store::{Action, Selection, StoreError};

use super::entries::RawEntry;
use super::fail::note_left_over;
use super::features::FeatureEvent;
use super::link_connection::LinkConnection;
use super::move_run::MovedText;
use super::moves::{MoveSource, MoveTarget};
use super::seconds;
use super::store_core::StoreCore;
use super::stored::StoredText;

/// Jobs that are read and moved in one step.
const STEP_JOBS: usize = 200;

impl StoreCore {
    /// Applies `action` to waiting jobs. Returns the number of jobs affected.
    pub(super) async fn act(
        self: &Rc<Self>,
        place: &JobLocation,
        what: &Selection,
        action: Action,
    ) -> Result<u64, StoreError> {
        let mut connection = self.ready().await?;
        let mut acted = 0;
        for place in &self.parts(place) {
            acted += match what {
                Selection::All => self.act_on_all(&mut connection, place, action).await?,
                Selection::Entries(keys) => {
                    let entries = self.entries_of(&mut connection, place, keys).await?;
                    self.act_on_entries(&mut connection, place, entries, action).await?
                }
            };
        }
        if action == Action::Kill {
            note_left_over(self.trim_dead(&mut connection, "").await);
        }
        if action == Action::Requeue && !self.waiting.is_empty() {
            self.serve().await?;
        }
        Ok(acted)
    }

    /// Applies `action` to all jobs.
    async fn act_on_all(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        place: &JobLocation,
        action: Action,
    ) -> Result<u64, StoreError> {
        if action == Action::Discard {
            return self.discard_all(connection, place, None).await;
        }
        self.act_on_present(connection, place, action).await
    }

    /// Applies `action` to each of as many jobs as there are now, in order.
    pub(super) async fn act_on_present(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        place: &JobLocation,
        action: Action,
    ) -> Result<u64, StoreError> {
        let mut left = self.length(connection, place).await?;
        let mut acted = 0;
        while left > 0 {
            let entries = self.first_entries(connection, place, STEP_JOBS.min(left)).await?;
            if entries.is_empty() {
                break;
            }
            left -= entries.len();
            acted += self.act_on_entries(connection, place, entries, action).await?;
        }
        Ok(acted)
    }

    async fn act_on_entries(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        place: &JobLocation,
        entries: Vec<RawEntry>,
        action: Action,
    ) -> Result<u64, StoreError> {
        let source = MoveSource::of(place);
        let (target, event) = match action {
            Action::Requeue => {
                let event = Some(FeatureEvent::Freed);
                return Ok(self.requeue(connection, &source, entries, event, "").await?.moved);
            }
            Action::Kill => (MoveTarget::Dead(self.now()), FeatureEvent::FailedUnlocked),
            Action::Discard => (MoveTarget::Nowhere, FeatureEvent::Lost),
            Action::Reschedule(at) => return self.reschedule(connection, place, entries, at).await,
        };
        let texts = entries.into_iter().map(MovedText::unchanged).collect();
        let texts = self.tagged(texts, event);
        let moved = self.shift(connection, &source, &target, &texts, "").await?.moved;
        if action == Action::Kill {
            note_left_over(self.forget_kills_of(connection, place, &texts).await);
        }
        Ok(moved)
    }

    /// Changes when scheduled jobs or retries are due, of those that are still there.
    async fn reschedule(
        &self,
        connection: &mut LinkConnection,
        place: &JobLocation,
        entries: Vec<RawEntry>,
        at: Timestamp,
    ) -> Result<u64, StoreError> {
        let JobLocation::Set(SetName::Scheduled | SetName::Retries) = place else { return Ok(0) };
        if entries.is_empty() {
            return Ok(0);
        }
        // XX: a job that has become due and left is not added again.
        let mut command = redis::cmd("ZADD");
        command.arg(self.place_key(place)).arg("XX").arg("CH");
        for entry in entries {
            let due = rules::spread(at, &entry.key().jid);
            command.arg(seconds::text(due)).arg(entry.payload);
        }
        let changed = command.query_async(connection).await;
        changed.map_err(|error| self.link.failed(&error))
    }

    /// Forgets how often jobs that an operator has killed have killed their workers.
    async fn forget_kills_of(
        &self,
        connection: &LinkConnection,
        place: &JobLocation,
        texts: &[MovedText],
    ) -> Result<(), StoreError> {
        for (queue, jids) in jids_by_queue(place, texts) {
            let jids: Vec<&str> = jids.iter().map(String::as_str).collect();
            self.forget_kills(connection.clone(), &queue, &jids).await?;
        }
        Ok(())
    }

    pub(super) fn place_key(&self, place: &JobLocation) -> String {
        match place {
            JobLocation::Queue(queue) => self.keys.list(queue.as_str()),
            JobLocation::Set(set) => self.set_key(*set),
        }
    }

    pub(super) async fn length(
        &self,
        connection: &mut LinkConnection,
        place: &JobLocation,
    ) -> Result<usize, StoreError> {
        let key = self.place_key(place);
        let length = match place {
            JobLocation::Queue(_) => connection.llen(key).await,
            JobLocation::Set(_) => connection.zcard(key).await,
        };
        length.map_err(|error| self.link.failed(&error))
    }

    /// Returns the entries that are first in order.
    async fn first_entries(
        &self,
        connection: &mut LinkConnection,
        place: &JobLocation,
        count: usize,
    ) -> Result<Vec<RawEntry>, StoreError> {
        match place {
            JobLocation::Queue(queue) => self.list_range(connection, queue, 0, count).await,
            JobLocation::Set(set) => {
                let last = isize::try_from(count).unwrap_or(isize::MAX) - 1;
                let range = connection.zrange_withscores(self.set_key(*set), 0, last).await;
                Ok(RawEntry::with_scores(range.map_err(|error| self.link.failed(&error))?))
            }
        }
    }

    /// Returns the entries that `keys` identify, in the order of the keys.
    pub(super) async fn entries_of(
        &self,
        connection: &mut LinkConnection,
        place: &JobLocation,
        keys: &[EntryKey],
    ) -> Result<Vec<RawEntry>, StoreError> {
        let set = match place {
            JobLocation::Queue(queue) => return self.listed_entries(connection, queue, keys).await,
            JobLocation::Set(set) => *set,
        };
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunk_by(|one, next| one.order == next.order) {
            // Many may have one time.
            let mut wanted: HashMap<&EntryKey, Option<RawEntry>> =
                keys.iter().map(|key| (key, None)).collect();
            let mut missing = wanted.len();
            let read = self.each_at(connection, set, keys[0].order, false, |entry| {
                if let Some(place @ None) = wanted.get_mut(&entry.key()) {
                    *place = Some(entry);
                    missing -= 1;
                }
                if missing == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            read.await?;
            found.extend(keys.iter().filter_map(|key| wanted.remove(key).flatten()));
        }
        Ok(found)
    }
}

/// Returns the jids of jobs of `place` by the queues that count how often they have killed their workers.
pub(super) fn jids_by_queue(
    place: &JobLocation,
    texts: &[MovedText],
) -> BTreeMap<String, Vec<String>> {
    let mut by_queue: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for text in texts {
        let Ok(text) = StoredText::parse(&text.old, usize::MAX) else { continue };
        let queue = match place {
            JobLocation::Queue(queue) => Some(queue.to_string()),
            JobLocation::Set(_) => text.string("queue"),
        };
        if let Some(queue) = queue {
            by_queue.entry(queue).or_default().push(text.jid);
        }
    }
    by_queue
}
