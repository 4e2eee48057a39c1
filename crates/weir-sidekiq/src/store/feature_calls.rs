//! What happens to features of jobs, in the scripts that end, move and start jobs.
//!
//! Each script uses the keys of all features together with those of the job, so it needs a Redis that is no
//! cluster, and one server: elsewhere jobs that ask for a lock are rejected.

use std::collections::BTreeMap;
use std::rc::Rc;

use redis::AsyncCommands as _;
use weir_base::clock::Timestamp;
use weir_jobs::batches::CallbackKind;
use weir_jobs::custom::UniqueRule;
use weir_jobs::model::{JobLocation, NewJob, QueueName, SetName};
use weir_jobs::store::{Action, CallbackJob, StoreError, StoredJob};
use weir_jobs::tracks::TrackState;

use super::features::{FEATURE_TEXTS, FeatureEvent, StoredFeatures};
use super::link_connection::LinkConnection;
use super::move_run::MovedText;
use super::moves::{MoveSource, MoveTarget};
use super::store_core::StoreCore;

/// The reply of `clear.lua` if jobs may have features.
const NOT_CLEARED: i64 = -1;

/// Passes over a queue to remove that gets jobs with features meanwhile.
const CLEAR_PASSES_MAX: usize = 10;

/// A job that a FETCH drops, because it has expired.
#[derive(Debug)]
pub(super) struct ExpiredJob {
    pub(super) number: u64,
    pub(super) queue: QueueName,
    pub(super) features: Box<StoredFeatures>,
}

impl StoreCore {
    /// Returns whether this store holds unique locks.
    pub(super) fn keeps_features(&self) -> bool {
        !self.is_shard.get() && !self.is_split()
    }

    /// Returns the tag of a job with these features, if scripts need one.
    pub(super) fn tag(&self, features: Option<&StoredFeatures>) -> Option<String> {
        features.filter(|_| self.keeps_features())?.tag(&self.micros_argument())
    }

    /// Returns the tag of a job with this text.
    pub(super) fn tag_of_payload(&self, payload: &[u8]) -> Option<String> {
        self.tag(StoredFeatures::of_payload(payload).as_deref())
    }

    /// Adds the tags of jobs that an operator or a worker moves or ends.
    pub(super) fn tagged(&self, mut texts: Vec<MovedText>, event: FeatureEvent) -> Vec<MovedText> {
        for text in &mut texts {
            text.tag = self.tag_of_payload(&text.old).map(|tag| (event, tag));
        }
        texts
    }

    /// Ends a reserved job. Returns whether it was still there.
    pub(super) async fn end_field(
        &self,
        connection: &mut LinkConnection,
        queue: &str,
        field: &str,
        event: FeatureEvent,
        tag: Option<&str>,
    ) -> Result<bool, StoreError> {
        let reserved = self.keys.reserved(queue);
        let ended: Result<u64, _> = match tag {
            None => connection.hdel(reserved, field).await,
            Some(tag) => {
                let mut invocation = self.scripts.end.key(reserved);
                invocation.key(&self.keys.features()[..]);
                invocation.arg(field).arg(event.as_str()).arg(tag);
                invocation.invoke_async(connection).await
            }
        };
        ended.map(|ended| ended == 1).map_err(|error| self.link.failed(&error))
    }

    /// Ends jobs that have expired. Those that can't be ended now return to their queues and expire there.
    pub(super) async fn end_expired(
        &self,
        connection: &mut LinkConnection,
        jobs: Vec<ExpiredJob>,
    ) -> Result<(), StoreError> {
        let Some(owner) = self.owner.borrow().clone() else { return Ok(()) };
        for ExpiredJob { number, queue, features } in jobs {
            let (field, tag) = (owner.field(number), self.tag(Some(&features)));
            let tag = tag.as_deref();
            let ended = self
                .end_field(connection, queue.as_str(), &field, FeatureEvent::Lost, tag)
                .await
                .inspect_err(|_| self.state.borrow_mut().reply_lost = true)?;
            if ended {
                self.metrics.expired();
                if let Some(jid) = features.tracked_jid() {
                    self.note_track(jid, TrackState::Dead);
                }
            }
        }
        Ok(())
    }

    /// Frees the locks of those of these reserved jobs whose locks end at their start.
    pub(super) async fn free_locks_of_started(
        &self,
        connection: &mut LinkConnection,
        numbers: &[u64],
    ) -> Result<(), StoreError> {
        let started: Vec<(u64, String)> = {
            let state = self.state.borrow();
            let features = numbers.iter().filter_map(|number| {
                let features = state.reservations.get(*number)?.features.as_deref();
                let features = features.filter(|features| features.ends_at_start());
                Some((*number, self.tag(features)?))
            });
            features.collect()
        };
        if started.is_empty() {
            return Ok(());
        }
        let mut invocation = self.scripts.start.prepare_invoke();
        invocation.key(&self.keys.features()[..]);
        for (_, tag) in &started {
            invocation.arg(tag);
        }
        let ends = invocation.invoke_async(connection).await;
        let ends: Vec<String> = ends.map_err(|error| self.link.failed(&error))?;
        let mut state = self.state.borrow_mut();
        for ((number, _), ends_at) in started.iter().zip(ends) {
            let ends_at = ends_at.parse().ok().map(Timestamp::from_micros);
            state.reservations.note_freed_lock(*number, ends_at);
        }
        Ok(())
    }

    /// Deletes all jobs of a place, and removes the queue if `removed` names it. Returns the number of jobs.
    pub(super) async fn discard_all(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        place: &JobLocation,
        removed: Option<&QueueName>,
    ) -> Result<u64, StoreError> {
        let mut discarded = 0;
        for _ in 0..CLEAR_PASSES_MAX {
            if let Some(cleared) = self.clear(connection, place, removed).await? {
                return Ok(discarded + cleared);
            }
            discarded += self.act_on_present(connection, place, Action::Discard).await?;
            if removed.is_none() {
                return Ok(discarded);
            }
        }
        let text =
            "the queue gets unique jobs or jobs of batches faster than they are deleted: try again";
        Err(StoreError::Unavailable(text.to_owned()))
    }

    /// Like [`StoreCore::discard_all`]. Returns `None` and deletes nothing if jobs may have features.
    async fn clear(
        &self,
        connection: &mut LinkConnection,
        place: &JobLocation,
        removed: Option<&QueueName>,
    ) -> Result<Option<u64>, StoreError> {
        let kind = if matches!(place, JobLocation::Queue(_)) { "list" } else { "set" };
        let mut invocation = self.scripts.clear.key(self.place_key(place));
        if let Some(queue) = removed {
            invocation.key(self.keys.control(queue.as_str())).key(self.keys.queues());
        }
        if self.keeps_features() {
            let [locks, _] = self.keys.locks();
            invocation.key(locks).key(self.keys.batches());
        }
        invocation.arg(kind).arg(removed.map_or("", QueueName::as_str));
        let cleared = invocation.invoke_async(connection).await;
        let cleared: i64 = cleared.map_err(|error| self.link.failed(&error))?;
        Ok((cleared != NOT_CLEARED).then_some(cleared.unsigned_abs()))
    }

    /// Returns the texts by which scripts recognize jobs that may have features.
    pub(super) fn feature_texts(&self) -> &'static [&'static str] {
        if self.keeps_features() { &FEATURE_TEXTS } else { &[] }
    }

    /// Deletes dead jobs that may have features.
    pub(super) async fn delete_dead(
        &self,
        connection: &mut LinkConnection,
        payloads: Vec<Vec<u8>>,
        token: &str,
    ) -> Result<(), StoreError> {
        let texts = payloads.into_iter().map(|old| MovedText { old, ..MovedText::default() });
        let texts = self.tagged(texts.collect(), FeatureEvent::Lost);
        let source = MoveSource::Set(SetName::Dead);
        self.shift(connection, &source, &MoveTarget::Nowhere, &texts, token).await.map(drop)
    }

    /// Returns for each job that a store which holds locks would reject it: another job has its lock.
    pub(super) async fn locked_jobs(
        self: &Rc<Self>,
        jobs: &[NewJob<'_>],
    ) -> Result<Vec<bool>, StoreError> {
        let mut locked = vec![false; jobs.len()];
        let asked: Vec<(usize, UniqueRule)> = jobs
            .iter()
            .enumerate()
            .filter_map(|(place, job)| Some((place, job.custom.unique?)))
            .collect();
        if asked.is_empty() {
            return Ok(locked);
        }
        let mut connection = self.ready().await?;
        if !self.keeps_features() {
            return Ok(locked);
        }
        let keys: Vec<String> = asked.iter().map(|(_, rule)| rule.key.to_string()).collect();
        let holders = self.lock_holders(&mut connection, &keys).await?;
        let now = self.now();
        for ((place, _), key) in asked.iter().zip(&keys) {
            locked[*place] = holders.get(key).is_some_and(|(ends_at, _)| *ends_at > now);
        }
        Ok(locked)
    }

    /// Returns when these locks end, and the jids of the jobs that hold them.
    async fn lock_holders(
        &self,
        connection: &mut LinkConnection,
        locks: &[String],
    ) -> Result<BTreeMap<String, (Timestamp, String)>, StoreError> {
        let [held, _] = self.keys.locks();
        let holders = connection.hmget(held, locks).await;
        let holders: Vec<Option<String>> = match holders {
            // Nobody holds a lock in a key of another type.
            Err(error) if error.code() == Some("WRONGTYPE") => Vec::new(),
            holders => holders.map_err(|error| self.link.failed(&error))?,
        };
        let parse = |text: String| {
            let (ends_at, jid) = text.split_once(' ')?;
            Some((Timestamp::from_micros(ends_at.parse().ok()?), jid.to_owned()))
        };
        let holders = locks.iter().zip(holders);
        Ok(holders.filter_map(|(lock, text)| Some((lock.clone(), parse(text?)?))).collect())
    }

    /// Adds what is known of the features of jobs that are shown. Each has its text as it is stored.
    pub(super) async fn add_features(
        &self,
        connection: &mut LinkConnection,
        jobs: &mut [StoredJob],
        payloads: &[&[u8]],
    ) -> Result<(), StoreError> {
        if !self.keeps_features() {
            return Ok(());
        }
        let features = payloads.iter().map(|payload| StoredFeatures::of_payload(payload));
        let features: Vec<Option<Box<StoredFeatures>>> = features.collect();
        if features.iter().all(Option::is_none) {
            return Ok(());
        }
        let locks: Vec<Option<String>> =
            features.iter().map(|features| features.as_ref()?.lock()).collect();
        let asked: Vec<String> = locks.iter().flatten().cloned().collect();
        if !asked.is_empty() {
            let holders = self.lock_holders(connection, &asked).await?;
            for (job, lock) in jobs.iter_mut().zip(locks) {
                let holder = lock.and_then(|lock| holders.get(&lock));
                let own = holder.filter(|(_, jid)| **jid == *job.key.jid);
                job.features.lock_until = own.map(|(ends_at, _)| *ends_at);
            }
        }
        self.add_batch_features(connection, jobs, &features).await
    }

    /// Adds which jobs have failed in their batches, and which are callbacks.
    async fn add_batch_features(
        &self,
        connection: &mut LinkConnection,
        jobs: &mut [StoredJob],
        features: &[Option<Box<StoredFeatures>>],
    ) -> Result<(), StoreError> {
        let (mut asked, mut pipeline) = (Vec::new(), redis::pipe());
        for (place, features) in features.iter().enumerate() {
            let Some(features) = features else { continue };
            if let Some(batch) = features.batch() {
                pipeline.hget(self.keys.batch_jobs(batch), &*jobs[place].key.jid);
                asked.push((place, None));
            }
            if let Some(batch) = features.callback() {
                for kind in [CallbackKind::Complete, CallbackKind::Success] {
                    pipeline.hget(self.keys.batch(batch), format!("{}_jid", kind.as_str()));
                    asked.push((place, Some(CallbackJob { batch, kind })));
                }
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let found = pipeline.query_async(connection).await;
        let found: Vec<Option<String>> = found.map_err(|error| self.link.failed(&error))?;
        for ((place, callback), found) in asked.into_iter().zip(found) {
            let job = &mut jobs[place];
            match callback {
                None => job.features.has_failed = found.as_deref() == Some("f"),
                Some(_) if found.as_deref() == Some(&*job.key.jid) => {
                    job.features.callback = callback
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}
