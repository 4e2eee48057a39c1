//! Errors that clients have seen, with their times, until the faults are known that explain them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::window::Windows;
use crate::clock::monotonic;

/// More errors than this are only counted, as unexplained ones.
const ENTRIES_MAX: usize = 200_000;
/// Unexplained errors that the report shows.
const EXAMPLES_MAX: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Part {
    Jobs,
    Realtime,
    Front,
    Gems,
    Console,
}

#[derive(Debug)]
struct Entry {
    part: Part,
    began: Duration,
    ended: Duration,
    text: String,
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    entries: Mutex<Vec<Entry>>,
}

/// Errors of one part.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct ErrorCounts {
    pub(super) explained: u64,
    pub(super) unexplained: u64,
}

/// All errors of a run, assigned to the faults.
#[derive(Debug, Default)]
pub(super) struct Errors {
    pub(super) parts: BTreeMap<Part, ErrorCounts>,
    pub(super) examples: Vec<String>,
}

impl Errors {
    pub(super) fn unexplained(&self) -> u64 {
        self.parts.values().map(|counts| counts.unexplained).sum()
    }
}

impl Journal {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an error of an operation that began at `began`.
    pub(super) fn record(&self, part: Part, began: Duration, text: impl Into<String>) {
        self.record_at(part, began, monotonic(), text);
    }

    pub(super) fn record_at(
        &self,
        part: Part,
        began: Duration,
        ended: Duration,
        text: impl Into<String>,
    ) {
        let mut entries = self.entries();
        let text = if entries.len() < ENTRIES_MAX { text.into() } else { String::new() };
        entries.push(Entry { part, began, ended, text });
    }

    /// `start`: the beginning of the load, which times in examples refer to.
    pub(super) fn assign(&self, windows: &Windows, start: Duration) -> Errors {
        let mut errors = Errors::default();
        for entry in self.entries().iter() {
            let counts = errors.parts.entry(entry.part).or_default();
            if windows.explain(entry.began, entry.ended) {
                counts.explained += 1;
                continue;
            }
            counts.unexplained += 1;
            if errors.examples.len() < EXAMPLES_MAX {
                let Entry { part, ended, text, .. } = entry;
                let after = ended.saturating_sub(start).as_secs_f64();
                errors.examples.push(format!("{after:.1} s: {part:?}: {text}"));
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::fault::Fault;
    use crate::soak::window::Window;

    #[test]
    fn errors_outside_of_all_faults_are_unexplained() {
        let at = Duration::from_secs;
        let mut windows = Windows::default();
        let (fault, detail) = (Fault::WeirKill, String::new());
        windows.push(Window {
            fault,
            detail,
            began: at(100),
            undone: at(101),
            recovered: Some(at(102)),
        });
        let journal = Journal::default();
        journal.record_at(Part::Front, at(99), at(101), "503");
        journal.record_at(Part::Front, at(140), at(141), "502");
        journal.record_at(Part::Jobs, at(100), at(100), "closed");
        let errors = journal.assign(&windows, at(90));
        assert_eq!(errors.parts[&Part::Front], ErrorCounts { explained: 1, unexplained: 1 });
        assert_eq!(errors.parts[&Part::Jobs], ErrorCounts { explained: 1, unexplained: 0 });
        assert_eq!((errors.unexplained(), errors.examples), (1, vec!["51.0 s: Front: 502".into()]));
    }
}
