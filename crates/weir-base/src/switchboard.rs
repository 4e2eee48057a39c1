//! Switches that an operator turns off and that stay off across restarts, stored in a file.
//!
//! Switches that have expired when the file is read are dropped.
//!
//! Nodes that share switches exchange the changes of their operators: [`Switchboard::take_changes`],
//! [`Switchboard::replace`].

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Timestamp};
use crate::kept;
use crate::switch::{Off, Pattern, SWITCHES_MAX, Switches, TooMany};

/// Switches with their file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Switchboard(Arc<SwitchboardInner>);

#[derive(Debug)]
struct SwitchboardInner {
    switches: Arc<Switches>,
    clock: Clock,
    path: PathBuf,
    /// Held from a change to the end of its write, so that writes are in order.
    writing: Mutex<()>,
    /// Changes for the other nodes. None: there are no others.
    changes: Mutex<Option<SwitchChanges>>,
}

/// Changes by operators: what is off, or None for what was turned on, by pattern.
pub type SwitchChanges = BTreeMap<Pattern, Option<Off>>;

/// Limit of the changes that wait for the other nodes, while these can't be reached.
pub const CHANGES_MAX: usize = 2 * SWITCHES_MAX;

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredSwitches {
    off: Vec<Off>,
}

/// A pattern that is off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchView {
    /// A name in which `*` matches any text.
    pub pattern: String,
    /// When it was turned off, in seconds since the Unix epoch.
    pub since: f64,
    /// When it is turned on again; None: not by itself.
    pub until: Option<f64>,
}

/// Why a switch was not changed, or not stored.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// Too many patterns are off.
    #[error("{0}")]
    TooMany(#[from] TooMany),
    /// The switch is changed, but the file is not.
    #[error(
        "it is done, but a restart will undo it: {} can't be written ({source}); make it writable \
         and do it again", path.display()
    )]
    NotKept { path: PathBuf, source: io::Error },
}

impl Switchboard {
    /// Restores the state in the file at `path`. A file that cannot be read is logged, and
    /// everything is on. Blocks on the disk.
    #[must_use]
    pub fn open(switches: Arc<Switches>, clock: Clock, path: PathBuf) -> Self {
        match kept::read(&path) {
            Ok(stored) => restore(&switches, clock.now(), stored),
            Err(error) => tracing::error!(
                path = %path.display(), %error,
                "the switches can't be read, so everything is on; correct or remove the file"
            ),
        }
        let (writing, changes) = (Mutex::default(), Mutex::default());
        Self(Arc::new(SwitchboardInner { switches, clock, path, writing, changes }))
    }

    /// Reads the file again: the previous process may have changed switches since it was opened.
    /// Blocks on the disk.
    pub fn read_again(&self) {
        let _writing = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // An unreadable file was logged when it was opened.
        let Ok(StoredSwitches { off: stored }) = kept::read(&self.0.path) else { return };
        let (switches, now) = (&self.0.switches, self.0.clock.now());
        for off in switches.list(now) {
            if !stored.iter().any(|stored| stored.pattern == off.pattern) {
                switches.turn_on(&off.pattern, now);
            }
        }
        let known = switches.list(now);
        let new = stored.into_iter().filter(|off| !known.contains(off)).collect();
        restore(switches, now, StoredSwitches { off: new });
    }

    /// Returns the patterns that are off, in the order in which they were turned off.
    #[must_use]
    pub fn list(&self) -> Vec<SwitchView> {
        self.0.switches.list(self.0.clock.now()).iter().map(SwitchView::of).collect()
    }

    /// Turns a pattern off, for some time or until it is turned on. Blocks on the disk.
    ///
    /// # Errors
    /// Too many patterns are off, or the pattern is off but not stored.
    pub fn turn_off(&self, pattern: Pattern, time: Option<Duration>) -> Result<(), SwitchError> {
        let _writing = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.0.clock.now();
        let until_us = time.map(|time| (now + time).as_micros());
        let off = Off { pattern, since_us: now.as_micros(), until_us };
        self.0.switches.turn_off(off.clone(), now)?;
        self.note_change(off.pattern.clone(), Some(off));
        self.store(now)
    }

    /// Turns a pattern on. Returns whether it was off. Blocks on the disk.
    ///
    /// # Errors
    /// The pattern is on, but that is not stored.
    pub fn turn_on(&self, pattern: &Pattern) -> Result<bool, SwitchError> {
        let _writing = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.0.clock.now();
        let was_off = self.0.switches.turn_on(pattern, now);
        if was_off {
            self.note_change(pattern.clone(), None);
            self.store(now)?;
        }
        Ok(was_off)
    }

    /// Begins to note changes for the other nodes.
    pub fn share(&self) {
        self.changes().get_or_insert_default();
    }

    /// Takes the changes since the last call.
    #[must_use]
    pub fn take_changes(&self) -> SwitchChanges {
        self.changes().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns changes that did not reach the other nodes. Later ones replace them.
    pub fn return_changes(&self, taken: SwitchChanges) {
        if let Some(changes) = &mut *self.changes() {
            let later = std::mem::replace(changes, taken);
            changes.extend(later);
        }
    }

    /// Returns what is off.
    #[must_use]
    pub fn all_off(&self) -> Vec<Off> {
        self.0.switches.list(self.0.clock.now())
    }

    /// Turns off what is off on the other nodes, and everything else on, except for changes that they
    /// don't have yet. Blocks on the disk.
    ///
    /// # Errors
    /// Too many patterns are off, or the change is not stored.
    pub fn replace(&self, all: Vec<Off>) -> Result<(), SwitchError> {
        let _writing = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (switches, now) = (&self.0.switches, self.0.clock.now());
        let before = switches.list(now);
        let newer = self.changes().clone().unwrap_or_default();
        for off in before.iter().filter(|off| !newer.contains_key(&off.pattern)) {
            if !all.iter().any(|other| other.pattern == off.pattern) {
                switches.turn_on(&off.pattern, now);
            }
        }
        for off in all.into_iter().filter(|off| !newer.contains_key(&off.pattern)) {
            if off.is_active(now) && !before.contains(&off) {
                switches.turn_off(off, now)?;
            }
        }
        if switches.list(now) == before { Ok(()) } else { self.store(now) }
    }

    fn note_change(&self, pattern: Pattern, off: Option<Off>) {
        let Some(changes) = &mut *self.changes() else { return };
        if changes.len() >= CHANGES_MAX && !changes.contains_key(&pattern) {
            tracing::error!(%pattern, "too many switches wait for the other nodes; change it there");
            return;
        }
        changes.insert(pattern, off);
    }

    fn changes(&self) -> MutexGuard<'_, Option<SwitchChanges>> {
        self.0.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self, now: Timestamp) -> Result<(), SwitchError> {
        let stored = StoredSwitches { off: self.0.switches.list(now) };
        let path = &self.0.path;
        kept::write(path, &stored)
            .map_err(|source| SwitchError::NotKept { path: path.clone(), source })
    }
}

impl SwitchView {
    fn of(off: &Off) -> Self {
        let seconds = |micros| Timestamp::from_micros(micros).as_secs_f64();
        Self {
            pattern: off.pattern.to_string(),
            since: seconds(off.since_us),
            until: off.until_us.map(seconds),
        }
    }
}

fn restore(switches: &Switches, now: Timestamp, stored: StoredSwitches) {
    let holds = |off: &Off| off.until_us.is_none_or(|until| now.as_micros() < until);
    for off in stored.off.into_iter().filter(holds) {
        let pattern = off.pattern.to_string();
        match switches.turn_off(off, now) {
            Ok(()) => tracing::warn!(pattern, "still switched off, as before the restart"),
            Err(error) => tracing::error!(pattern, %error, "not switched off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    fn open(clock: &Clock, path: PathBuf) -> Switchboard {
        Switchboard::open(Arc::default(), clock.clone(), path)
    }

    fn patterns(board: &Switchboard) -> Vec<String> {
        board.list().into_iter().map(|switch| switch.pattern).collect()
    }

    #[test]
    fn switches_survive_a_restart_until_their_expiry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switches.json");
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let board = open(&clock, path.clone());
        board.turn_off(pattern("typing*"), None).unwrap();
        board.turn_off(pattern("cursor"), Some(Duration::from_secs(60))).unwrap();
        board.turn_off(pattern("on again"), None).unwrap();
        assert!(board.turn_on(&pattern("on again")).unwrap());
        assert!(!board.turn_on(&pattern("on again")).unwrap());
        let before = board.list();

        clock.advance(Duration::from_secs(30));
        let other = open(&clock, path.clone());
        assert_eq!(other.list(), before);
        assert!(other.0.switches.is_off("typing-start", clock.now()));

        clock.advance(Duration::from_secs(30));
        assert_eq!(patterns(&open(&clock, path)), ["typing*"]);
    }

    #[test]
    fn changes_of_the_previous_process_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switches.json");
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let before = open(&clock, path.clone());
        before.turn_off(pattern("push"), None).unwrap();
        before.turn_off(pattern("info"), None).unwrap();
        let after = open(&clock, path.clone());
        before.turn_on(&pattern("push")).unwrap();
        before.turn_off(pattern("names"), None).unwrap();
        assert_eq!(patterns(&after), ["push", "info"]);
        after.read_again();
        assert_eq!(after.list(), before.list());
        std::fs::write(&path, "{").unwrap();
        after.read_again();
        assert_eq!(patterns(&after), ["info", "names"], "nothing is known that were better");
    }

    #[test]
    fn switches_of_other_nodes_replace_all_but_newer_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switches.json");
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let board = open(&clock, path.clone());
        board.turn_off(pattern("before"), None).unwrap();
        assert!(board.take_changes().is_empty(), "not shared");
        board.share();
        board.turn_off(pattern("mine"), None).unwrap();
        board.turn_on(&pattern("before")).unwrap();
        let taken = board.take_changes();
        let names: Vec<_> = taken.iter().map(|(it, off)| (it.as_str(), off.is_some())).collect();
        assert_eq!(names, [("before", false), ("mine", true)]);
        board.turn_on(&pattern("mine")).unwrap();
        board.return_changes(taken);
        assert_eq!(board.take_changes()[&pattern("mine")], None, "the later one");
        let other = open(&clock, folder.path().join("other.json"));
        other.turn_off(pattern("theirs"), Some(Duration::from_secs(9))).unwrap();
        other.turn_off(pattern("newer"), None).unwrap();
        let theirs = other.all_off();
        board.turn_off(pattern("newer"), None).unwrap();
        board.turn_on(&pattern("newer")).unwrap();
        board.turn_off(pattern("unsent"), None).unwrap();
        board.replace(theirs.clone()).unwrap();
        assert_eq!(patterns(&board), ["unsent", "theirs"]);
        assert_eq!(patterns(&open(&clock, path)), ["unsent", "theirs"], "stored");
        drop(board.take_changes());
        board.replace(theirs).unwrap();
        assert_eq!(patterns(&board), ["theirs", "newer"]);
        clock.advance(Duration::from_secs(9));
        assert_eq!(patterns(&board), ["newer"]);
    }

    #[test]
    fn damaged_file_turns_everything_on_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("switches.json");
        std::fs::write(&path, "{\"off\":[{").unwrap();
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let board = open(&clock, path.clone());
        assert_eq!(patterns(&board), Vec::<String>::new());
        board.turn_off(pattern("typing"), None).unwrap();
        assert_eq!(patterns(&open(&clock, path)), ["typing"]);
    }

    #[test]
    fn switch_changes_even_if_it_cannot_be_stored() {
        let clock = Clock::manual(Timestamp::from_millis(1_000));
        let board = open(&clock, PathBuf::from("/nowhere/switches.json"));
        let error = board.turn_off(pattern("typing"), None).unwrap_err();
        assert!(error.to_string().contains("a restart will undo it"), "{error}");
        assert_eq!(patterns(&board), ["typing"]);
    }
}
