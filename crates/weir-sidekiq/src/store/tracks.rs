//! What is known of tracked jobs: their states and their progress (TRACK).
//!
//! A sorted set has the time of each job's last change, a hash its state. Both are on one slot, whatever the job's queue.
//! Steps of jobs that are not tracked pay nothing. A step of one that is notes its new state in memory, and a task sends the
//! notes, in order: no step waits for it. A node that ends in between leaves the state of the step before.

use std::rc::{Rc, Weak};
use std::time::Duration;

use redis::AsyncCommands as _;
use weir_base::clock::Timestamp;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::store::{FailOutcome, StoreError};
use weir_jobs::tracks::{Track, TrackState, TrackUpdate};

use super::link_connection::LinkConnection;
use super::moves::MoveTarget;
use super::reservations::Reservation;
use super::store_core::{StoreCore, StoreState};
use super::track_notes::{TrackChange, TrackNote, tracked_jid};

/// Before the notes are sent again after an error.
const RETRY: Duration = Duration::from_secs(1);
/// Jobs whose states are read in one step.
const PAGE_MAX: usize = 1_000;

impl StoreState {
    /// Notes a new state of a reserved job, if it is tracked.
    pub(super) fn note_reserved(&mut self, job: &Reservation, state: TrackState) {
        if job.is_tracked {
            self.tracks.add(&job.jid, state);
        }
    }
}

impl StoreCore {
    pub(super) fn note_track(&self, jid: &str, state: TrackState) {
        self.state.borrow_mut().tracks.add(jid, state);
    }

    /// Notes a new state of a reserved job, if it is tracked.
    pub(super) fn note_reserved(&self, job: &Reservation, state: TrackState) {
        self.state.borrow_mut().note_reserved(job, state);
    }

    /// Notes the end of a reservation with a failure, if the job is tracked.
    pub(super) fn note_failed(&self, job: &Reservation, outcome: FailOutcome) {
        let state = match outcome {
            FailOutcome::Dead => TrackState::Dead,
            FailOutcome::Retry { .. } | FailOutcome::Discarded => TrackState::Failed,
        };
        self.note_reserved(job, state);
    }

    /// Notes the new state of a job with this text, if it is tracked.
    pub(super) fn note_stored(&self, payload: &[u8], state: TrackState) {
        if let Some(jid) = tracked_jid(payload) {
            self.note_track(&jid, state);
        }
    }

    /// Notes the new states of tracked jobs that were moved.
    pub(super) fn note_moved(&self, jids: &[String], target: &MoveTarget) {
        let state = match target {
            MoveTarget::List(_) => TrackState::Enqueued,
            MoveTarget::Dead(_) => TrackState::Dead,
            MoveTarget::Nowhere => return,
        };
        jids.iter().for_each(|jid| self.note_track(jid, state));
    }

    /// Sends all notes.
    pub(super) async fn send_tracks(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        let _sending = self.tracks.sending.lock().await;
        self.send_noted(connection).await
    }

    /// Sends all notes, and forgets tracks that have expired.
    pub(super) async fn expire_tracks(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        if !self.state.borrow().tracks.is_needed() {
            return Ok(());
        }
        let _sending = self.tracks.sending.lock().await;
        self.send_noted(connection).await?;
        self.write_tracks(connection, &[]).await
    }

    async fn send_noted(&self, connection: &mut LinkConnection) -> Result<(), StoreError> {
        loop {
            let notes = self.state.borrow_mut().tracks.take();
            if notes.is_empty() {
                return Ok(());
            }
            if let Err(error) = self.write_tracks(connection, &notes).await {
                self.state.borrow_mut().tracks.put_back(notes);
                return Err(error);
            }
        }
    }

    /// Sends a note after those that wait.
    async fn send_track(self: &Rc<Self>, jid: &str, change: TrackChange) -> Result<(), StoreError> {
        let mut connection = self.ready().await?;
        let _sending = self.tracks.sending.lock().await;
        self.send_noted(&mut connection).await?;
        let at = match &change {
            TrackChange::Import(track) => Some(track.updated_at),
            TrackChange::State(_) | TrackChange::Progress(_) => None,
        };
        self.write_tracks(&mut connection, &[TrackNote { jid: jid.into(), change, at }]).await
    }

    async fn write_tracks(
        &self,
        connection: &mut LinkConnection,
        notes: &[TrackNote],
    ) -> Result<(), StoreError> {
        let mut invocation = self.tracks.script.key(self.keys.tracks());
        invocation.key(self.keys.track_states());
        invocation
            .arg(self.micros_argument())
            .arg(self.limits.track_age_max.as_micros().to_string());
        invocation.arg(self.limits.tracks_max);
        for note in notes {
            invocation.arg(&note.arguments());
        }
        let removed: Result<u64, _> = invocation.invoke_async(connection).await;
        for _ in 0..removed.map_err(|error| self.link.failed(&error))? {
            self.metrics.limit_hit(JobServerLimit::TracksMax);
        }
        if !notes.is_empty() {
            self.state.borrow_mut().tracks.set_existing(true);
        }
        Ok(())
    }

    /// Returns what is known of a tracked job.
    pub(super) async fn track(self: &Rc<Self>, jid: &str) -> Result<Option<Track>, StoreError> {
        let mut connection = self.ready().await?;
        // What can't be written now may still be read.
        drop(self.send_tracks(&mut connection).await);
        let mut pipeline = redis::pipe();
        pipeline.zscore(self.keys.tracks(), jid).hget(self.keys.track_states(), jid);
        let reply = pipeline.query_async(&mut connection).await;
        let (at, text): (Option<String>, Option<String>) =
            reply.map_err(|error| self.link.failed(&error))?;
        let at = at.and_then(|at| parse_time(&at)).filter(|at| *at > self.oldest_track());
        Ok(at.zip(text).and_then(|(at, text)| parse_track(&text, at)))
    }

    /// Notes the progress of a job; ignored if it is not tracked.
    pub(super) async fn set_track(
        self: &Rc<Self>,
        jid: &str,
        update: TrackUpdate,
    ) -> Result<(), StoreError> {
        self.send_track(jid, TrackChange::Progress(update)).await
    }

    /// Replaces what is known of a tracked job, unless it is older.
    pub(super) async fn import_track(
        self: &Rc<Self>,
        jid: &str,
        track: Track,
    ) -> Result<(), StoreError> {
        // Its worker does not have the job of an import.
        let state = match track.state {
            TrackState::Working => TrackState::Enqueued,
            state => state,
        };
        self.send_track(jid, TrackChange::Import(Track { state, ..track })).await
    }

    /// Returns up to `limit` tracks after `after`, in the order of their last changes and jids.
    pub(super) async fn export_tracks(
        self: &Rc<Self>,
        after: Option<(Timestamp, Box<str>)>,
        limit: usize,
    ) -> Result<Vec<(Box<str>, Track)>, StoreError> {
        let mut connection = self.ready().await?;
        self.send_tracks(&mut connection).await?;
        let oldest = self.oldest_track() + Duration::from_micros(1);
        let from = after.as_ref().map_or(oldest, |(at, _)| (*at).max(oldest));
        let is_after = |entry: &(String, Timestamp)| {
            after.as_ref().is_none_or(|(at, jid)| (entry.1, &*entry.0) > (*at, &**jid))
        };
        let (mut tracks, mut offset) = (Vec::new(), 0);
        while tracks.len() < limit {
            let count = (limit - tracks.len()).min(PAGE_MAX);
            let page = self.updated_from(&mut connection, from, offset, count).await?;
            let is_last = page.len() < count;
            offset += page.len();
            let page: Vec<_> = page.into_iter().filter(is_after).collect();
            tracks.extend(self.tracks_of(&mut connection, page).await?);
            if is_last {
                break;
            }
        }
        Ok(tracks)
    }

    /// Returns jids and the times of their last changes, beginning at a time.
    async fn updated_from(
        &self,
        connection: &mut LinkConnection,
        from: Timestamp,
        offset: usize,
        count: usize,
    ) -> Result<Vec<(String, Timestamp)>, StoreError> {
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(self.keys.tracks()).arg(from.as_micros()).arg("+inf").arg("WITHSCORES");
        command.arg("LIMIT").arg(offset).arg(count);
        let page: Result<Vec<(String, String)>, _> = command.query_async(connection).await;
        let page = page.map_err(|error| self.link.failed(&error))?;
        let timed = page.into_iter().map(|(jid, at)| {
            let at = parse_time(&at).unwrap_or_default();
            (jid, at)
        });
        Ok(timed.collect())
    }

    async fn tracks_of(
        &self,
        connection: &mut LinkConnection,
        jids: Vec<(String, Timestamp)>,
    ) -> Result<Vec<(Box<str>, Track)>, StoreError> {
        if jids.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<&str> = jids.iter().map(|(jid, _)| jid.as_str()).collect();
        let texts = connection.hmget(self.keys.track_states(), names).await;
        let texts: Vec<Option<String>> = texts.map_err(|error| self.link.failed(&error))?;
        let tracks = jids.into_iter().zip(texts);
        let tracks = tracks
            .filter_map(|((jid, at), text)| Some((jid.into_boxed_str(), parse_track(&text?, at)?)));
        Ok(tracks.collect())
    }

    /// Returns the time of the last change at which a track has expired.
    fn oldest_track(&self) -> Timestamp {
        self.now() - self.limits.track_age_max
    }
}

/// Sends notes when there are any, until the store is closed.
pub(super) async fn send_notes(core: Weak<StoreCore>) {
    loop {
        let Some(noted) = core.upgrade().map(|core| Rc::clone(&core.state.borrow().tracks.noted))
        else {
            return;
        };
        // The store may end meanwhile.
        noted.notified().await;
        let Some(core) = core.upgrade() else { return };
        if core.closed.get() {
            return;
        }
        let sent = match core.ready().await {
            Ok(mut connection) => core.send_tracks(&mut connection).await,
            Err(error) => Err(error),
        };
        drop(core);
        if let Err(error) = sent {
            tracing::debug!(%error, "the states of tracked jobs wait");
            tokio::time::sleep(RETRY).await;
            noted.notify_one();
        }
    }
}

fn parse_time(micros: &str) -> Option<Timestamp> {
    micros.parse().ok().map(Timestamp::from_micros)
}

fn parse_track(text: &str, updated_at: Timestamp) -> Option<Track> {
    let mut parts = text.splitn(3, ' ');
    let (state, percent, description) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Track {
        state: TrackState::named(state)?,
        percent: percent.parse().ok(),
        description: Some(description).filter(|text| !text.is_empty()).map(Box::from),
        updated_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_are_read() {
        let at = Timestamp::from_micros(7);
        let track = |percent, description: Option<&str>| Track {
            state: TrackState::Failed,
            percent,
            description: description.map(Box::from),
            updated_at: at,
        };
        assert_eq!(parse_track("failed  ", at), Some(track(None, None)));
        assert_eq!(parse_track("failed 100 a b\n c", at), Some(track(Some(100), Some("a b\n c"))));
        for odd in ["", "failed", "failed 1", "asleep 1 x"] {
            assert_eq!(parse_track(odd, at), None, "{odd}");
        }
    }
}
