//! Changes of tracked jobs that are not in Redis yet (`tracks`), and which jobs are tracked.

use std::collections::VecDeque;
use std::rc::Rc;

use redis::Script;
use tokio::sync::{Mutex, Notify};
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::job::is_tracked;
use weir_jobs::tracks::{Track, TrackState, TrackUpdate};

use super::stored::StoredText;

/// Notes that one script gets.
const NOTES_PER_SCRIPT_MAX: usize = 100;
/// Notes that wait while Redis is away. The oldest are dropped.
const NOTES_MAX: usize = 10_000;
/// What scripts and the task of tracks need.
#[derive(Debug)]
pub(super) struct TrackWriter {
    pub(super) script: Script,
    /// Held while notes are sent, so that they stay in order. Across awaits, so tokio's.
    pub(super) sending: Mutex<()>,
}

impl Default for TrackWriter {
    fn default() -> Self {
        Self { script: Script::new(include_str!("scripts/tracks.lua")), sending: Mutex::default() }
    }
}

/// Changes that are not in Redis yet.
#[derive(Debug, Default)]
pub(super) struct TrackNotes {
    waiting: VecDeque<TrackNote>,
    pub(super) noted: Rc<Notify>,
    /// The clock, if it is one that a test moves. Otherwise a change has the time at which Redis writes it.
    manual_clock: Option<Clock>,
    /// Whether Redis has no tracks, as far as this node knows.
    none_exist: bool,
}

/// A change of one tracked job.
#[derive(Debug)]
pub(super) struct TrackNote {
    pub(super) jid: Box<str>,
    pub(super) change: TrackChange,
    /// `None`: the time at which Redis writes it.
    pub(super) at: Option<Timestamp>,
}

/// What changes.
#[derive(Debug)]
pub(super) enum TrackChange {
    State(TrackState),
    Progress(TrackUpdate),
    Import(Track),
}

impl TrackNotes {
    pub(super) fn new(clock: &Clock) -> Self {
        Self { manual_clock: clock.is_manual().then(|| clock.clone()), ..Self::default() }
    }

    /// Notes a new state of a tracked job.
    pub(super) fn add(&mut self, jid: &str, state: TrackState) {
        if self.waiting.len() >= NOTES_MAX {
            self.waiting.pop_front();
        }
        let at = self.manual_clock.as_ref().map(Clock::now);
        self.waiting.push_back(TrackNote {
            jid: jid.into(),
            change: TrackChange::State(state),
            at,
        });
        self.noted.notify_one();
    }

    pub(super) fn set_existing(&mut self, exist: bool) {
        self.none_exist = !exist;
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns whether there is anything to send or to forget.
    pub(super) fn is_needed(&self) -> bool {
        !self.none_exist || self.has_waiting()
    }

    pub(super) fn take(&mut self) -> Vec<TrackNote> {
        let count = self.waiting.len().min(NOTES_PER_SCRIPT_MAX);
        self.waiting.drain(..count).collect()
    }

    pub(super) fn put_back(&mut self, notes: Vec<TrackNote>) {
        let room = NOTES_MAX.saturating_sub(self.waiting.len());
        let newest = notes.into_iter().rev().take(room);
        newest.for_each(|note| self.waiting.push_front(note));
    }
}

impl TrackNote {
    /// Returns its jid, its kind, and its state, percentage, description and time, each empty if it does not change.
    pub(super) fn arguments(&self) -> [String; 6] {
        let percent = |percent: Option<u8>| percent.map(|it| it.to_string()).unwrap_or_default();
        let text = |text: &Option<Box<str>>| text.as_deref().unwrap_or_default().to_owned();
        let (kind, state, percent, description) = match &self.change {
            TrackChange::State(state) => ("state", state.as_str(), String::new(), String::new()),
            TrackChange::Progress(update) => {
                ("progress", "", percent(update.percent), text(&update.description))
            }
            TrackChange::Import(track) => {
                let state = track.state.as_str();
                ("import", state, percent(track.percent), text(&track.description))
            }
        };
        let at = self.at.map(|at| at.as_micros().to_string()).unwrap_or_default();
        [self.jid.to_string(), kind.to_owned(), state.to_owned(), percent, description, at]
    }
}

/// Returns the jid of a job that asks to be tracked.
pub(super) fn tracked_jid(payload: &[u8]) -> Option<String> {
    // Other jobs are not parsed once more.
    std::str::from_utf8(payload).ok().filter(|text| text.contains("\"track\""))?;
    let text = StoredText::parse(payload, usize::MAX).ok()?;
    is_tracked_text(&text).then_some(text.jid)
}

/// Returns whether a job asks to be tracked.
pub(super) fn is_tracked_text(text: &StoredText<'_>) -> bool {
    text.value("custom").is_some_and(is_tracked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_ask_for_it_are_tracked() {
        let jid = |custom: &str| {
            tracked_jid(format!(r#"{{"class":"A","jid":"a","custom":{custom}}}"#).as_bytes())
        };
        assert_eq!(jid(r#"{"track":1}"#).as_deref(), Some("a"));
        for custom in [r#"{"track":0}"#, r#"{"tracks":1}"#, r#"{"x":{"track":1}}"#, "7", "null"] {
            assert_eq!(jid(custom), None, "{custom}");
        }
        assert_eq!(tracked_jid(b"\"track\""), None);
    }

    #[test]
    fn waiting_notes_are_limited_and_stay_in_order() {
        let mut notes = TrackNotes::default();
        for number in 0..=NOTES_MAX {
            notes.add(&number.to_string(), TrackState::Working);
        }
        assert_eq!(notes.waiting.len(), NOTES_MAX);
        let taken = notes.take();
        assert_eq!((&*taken[0].jid, taken.len()), ("1", NOTES_PER_SCRIPT_MAX));
        notes.add("last", TrackState::Success);
        notes.put_back(taken);
        assert_eq!(notes.waiting.len(), NOTES_MAX);
        let again = notes.take();
        assert_eq!((&*again[0].jid, &*notes.waiting.back().unwrap().jid), ("2", "last"));
    }
}
