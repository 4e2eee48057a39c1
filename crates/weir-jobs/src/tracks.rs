//! The progress of jobs that ask for it (`custom.track`), as TRACK GET reports it.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use weir_base::clock::Timestamp;

/// Maximum length of a progress description, in characters.
pub(crate) const DESCRIPTION_CHARACTERS_MAX: usize = 1_000;

/// The state of a tracked job, as the protocol names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackState {
    Enqueued,
    Working,
    Success,
    Failed,
    Dead,
}

impl TrackState {
    const ALL: [Self; 5] = [Self::Enqueued, Self::Working, Self::Success, Self::Failed, Self::Dead];

    /// Returns the name that the protocol uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enqueued => "enqueued",
            Self::Working => "working",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Dead => "dead",
        }
    }

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the state that the protocol names so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// What is known of a tracked job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    pub state: TrackState,
    /// 0 to 100. `None`: the job has not reported its progress.
    pub percent: Option<u8>,
    pub description: Option<Box<str>>,
    pub updated_at: Timestamp,
}

/// A progress report of a job: TRACK SET.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackUpdate {
    pub percent: Option<u8>,
    /// At most 1,000 characters.
    pub description: Option<Box<str>>,
}

/// All tracked jobs, by jid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracks {
    by_jid: HashMap<Box<str>, Track>,
    by_update: BTreeSet<(Timestamp, Box<str>)>,
}

impl Tracks {
    pub(crate) fn len(&self) -> usize {
        self.by_jid.len()
    }

    pub(crate) fn get(&self, jid: &str) -> Option<&Track> {
        self.by_jid.get(jid)
    }

    /// Notes a new state of a job, which is tracked from now on. With more than `max` jobs, the one
    /// that was updated longest ago is no longer tracked; returns its jid.
    pub(crate) fn note(
        &mut self,
        jid: &str,
        state: TrackState,
        max: usize,
        now: Timestamp,
    ) -> Option<Box<str>> {
        let before = self.remove(jid);
        let (percent, description) =
            before.map_or((None, None), |track| (track.percent, track.description));
        self.insert(jid, Track { state, percent, description, updated_at: now });
        self.trim(max)
    }

    /// Adds an imported track. Returns the jid of a job that is no longer tracked, as
    /// [`Tracks::note`] does. Progress since the export remains.
    pub(crate) fn import(&mut self, jid: &str, track: Track, max: usize) -> Option<Box<str>> {
        // The import of the job itself is noted as `enqueued`.
        let is_newer =
            |own: &Track| own.state != TrackState::Enqueued && own.updated_at > track.updated_at;
        if self.by_jid.get(jid).is_some_and(is_newer) {
            return None;
        }
        // Its worker does not have the job of an import.
        let state = match track.state {
            TrackState::Working => TrackState::Enqueued,
            state => state,
        };
        self.insert(jid, Track { state, ..track });
        self.trim(max)
    }

    /// Returns up to `limit` tracks with their jids, in the order of their updates after `after`.
    pub(crate) fn export(
        &self,
        after: Option<&(Timestamp, Box<str>)>,
        limit: usize,
    ) -> Vec<(Box<str>, Track)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let tracks = self.by_update.range((from, Bound::Unbounded)).take(limit);
        let track = |jid: &str| Some((Box::from(jid), self.by_jid.get(jid)?.clone()));
        tracks.filter_map(|(_, jid)| track(jid)).collect()
    }

    fn trim(&mut self, max: usize) -> Option<Box<str>> {
        let (_, oldest) = self.by_update.first().filter(|_| self.by_jid.len() > max)?;
        let oldest = oldest.clone();
        self.remove(&oldest);
        Some(oldest)
    }

    /// Notes the progress of a job. Returns false if it is not tracked.
    pub(crate) fn update(&mut self, jid: &str, update: TrackUpdate, now: Timestamp) -> bool {
        let Some(mut track) = self.remove(jid) else { return false };
        track.percent = update.percent.or(track.percent);
        track.description = update.description.or(track.description);
        track.updated_at = now;
        self.insert(jid, track);
        true
    }

    /// Adds a track that was stored.
    pub(crate) fn insert(&mut self, jid: &str, track: Track) {
        self.remove(jid);
        self.by_update.insert((track.updated_at, Box::from(jid)));
        self.by_jid.insert(Box::from(jid), track);
    }

    /// Removes a track that was updated `kept` ago or earlier. Returns its jid; the caller repeats this
    /// until there is none.
    pub(crate) fn expire(&mut self, now: Timestamp, kept: Duration) -> Option<Box<str>> {
        let (_, jid) = self.by_update.first().filter(|(updated, _)| *updated + kept <= now)?;
        let jid = jid.clone();
        self.remove(&jid);
        Some(jid)
    }

    /// Returns when the next track expires.
    pub(crate) fn next_expiry(&self, kept: Duration) -> Option<Timestamp> {
        self.by_update.first().map(|(updated, _)| *updated + kept)
    }

    fn remove(&mut self, jid: &str) -> Option<Track> {
        let (jid, track) = self.by_jid.remove_entry(jid)?;
        self.by_update.remove(&(track.updated_at, jid));
        Some(track)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_track_has_the_last_state_and_the_last_progress() {
        let mut tracks = Tracks::default();
        let percent = |percent| TrackUpdate { percent: Some(percent), description: None };
        assert!(!tracks.update("a", percent(1), at(0)), "it is not tracked");
        tracks.note("a", TrackState::Enqueued, 9, at(1));
        assert!(tracks.update("a", percent(30), at(2)));
        let description = Some(Box::from("half"));
        assert!(tracks.update("a", TrackUpdate { percent: None, description }, at(3)));
        tracks.note("a", TrackState::Success, 9, at(4));
        let track = tracks.get("a").unwrap();
        assert_eq!((track.state.as_str(), track.percent), ("success", Some(30)));
        assert_eq!((track.description.as_deref(), track.updated_at), (Some("half"), at(4)));
        assert_eq!(tracks.by_update.len(), 1);
    }

    #[test]
    fn tracks_expire_and_are_limited() {
        let mut tracks = Tracks::default();
        for (second, jid) in (1..).zip(["a", "b", "c"]) {
            assert_eq!(tracks.note(jid, TrackState::Enqueued, 3, at(second)), None);
        }
        assert!(tracks.update("a", TrackUpdate::default(), at(4)));
        let removed = tracks.note("d", TrackState::Enqueued, 3, at(5));
        assert_eq!(removed.as_deref(), Some("b"), "it was updated longest ago");
        assert_eq!(tracks.next_expiry(KEPT), Some(at(63)));
        assert_eq!(tracks.expire(at(62), KEPT), None);
        assert_eq!(tracks.expire(at(64), KEPT).as_deref(), Some("c"));
        assert_eq!(tracks.expire(at(64), KEPT).as_deref(), Some("a"));
        assert_eq!((tracks.expire(at(64), KEPT), tracks.len()), (None, 1));
    }

    #[test]
    fn codes_come_back() {
        for state in TrackState::ALL {
            assert_eq!(TrackState::from_code(state.code()), Some(state));
        }
        assert_eq!(TrackState::from_code(5), None);
    }
}
