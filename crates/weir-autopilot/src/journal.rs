//! The journal: what the autopilot did, said and saw of it, one JSON object a line.
//!
//! The lines are in `journal.jsonl` and `journal.1.jsonl` ([`LineLog`]). A line that a crash has cut off is skipped when
//! they are read. The newest entries are in memory as well.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::line_log::LineLog;

use crate::mode::Mode;

/// What an entry is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// A change that is carried out.
    #[default]
    Decision,
    /// A change that would be carried out in the mode `on`.
    Advice,
    /// What a decision has led to.
    Outcome,
    /// A decision that could not be carried out.
    Failure,
    /// A change of the mode.
    Mode,
    /// A value that an operator has set, or its end.
    Override,
    /// Limits that were in force before a restart, and what becomes of them.
    Restart,
    /// The end of limits without a decision: by a mode, or because there were no data.
    End,
    /// Which of several autopilots acts.
    Lease,
}

impl EntryKind {
    /// The name in JSON, on the command line and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Advice => "advice",
            Self::Outcome => "outcome",
            Self::Failure => "failure",
            Self::Mode => "mode",
            Self::Override => "override",
            Self::Restart => "restart",
            Self::End => "end",
            Self::Lease => "lease",
        }
    }
}

/// Whether a decision did what it was expected to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntryOutcome {
    /// It helped.
    Helped,
    /// It did not help, and is taken back.
    DidNotHelp,
    /// Its effect cannot be told.
    Unclear,
}

/// A change of a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EntryChange {
    /// The job type. `None`: all queues together.
    pub class: Option<String>,
    /// The limit before; `None`: none.
    pub from: Option<u32>,
    /// The limit from now on; `None`: none.
    pub to: Option<u32>,
}

/// What a change is expected to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EntryForecast {
    /// The value that changes.
    pub measure: String,
    /// Before the change.
    pub before: f64,
    /// After it.
    pub expected: f64,
    /// When the outcome is judged.
    pub within_seconds: f64,
}

/// An entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JournalEntry {
    /// Its number; each is one more than the one before.
    pub id: u64,
    /// When, in seconds since the Unix epoch.
    pub at: f64,
    /// What it is about.
    pub kind: EntryKind,
    /// The mode at that time.
    pub mode: Mode,
    /// All of it in one sentence.
    pub text: String,
    /// The change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<EntryChange>,
    /// What it is expected to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<EntryForecast>,
    /// The decision that an outcome is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EntryOutcome>,
    /// The operator who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The journal. Its functions block on the disk.
#[derive(Debug)]
pub struct Journal {
    log: LineLog,
    next_id: u64,
    entries: VecDeque<JournalEntry>,
    entries_max: usize,
}

impl Journal {
    /// Opens the journal in a folder, which is made when missing.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn open(directory: &Path, bytes_max: u64, entries_max: usize) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let log = LineLog::new(directory, "journal", bytes_max);
        let texts = log.read()?;
        let (entries, entries_max) = (VecDeque::new(), entries_max.max(1));
        let mut journal = Self { log, next_id: 1, entries, entries_max };
        let lines = texts.iter().flat_map(|text| text.split(|byte| *byte == b'\n'));
        lines.for_each(|line| journal.remember_line(line));
        Ok(journal)
    }

    fn remember_line(&mut self, line: &[u8]) {
        if let Ok(entry) = serde_json::from_slice::<JournalEntry>(line) {
            self.next_id = self.next_id.max(entry.id + 1);
            self.remember(entry);
        }
    }

    fn remember(&mut self, entry: JournalEntry) {
        self.entries.push_back(entry);
        if self.entries.len() > self.entries_max {
            self.entries.pop_front();
        }
    }

    /// Appends an entry, which gets the next number. It is remembered even if it cannot be written.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append(&mut self, mut entry: JournalEntry) -> io::Result<u64> {
        entry.id = self.next_id;
        self.next_id += 1;
        let id = entry.id;
        let line = serde_json::to_vec(&entry)?;
        self.remember(entry);
        self.log.append(&line)?;
        Ok(id)
    }

    /// Returns the newest entries, the oldest of them first.
    #[must_use]
    pub fn entries(&self) -> &VecDeque<JournalEntry> {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESENT: &str = "journal.jsonl";
    const EARLIER: &str = "journal.1.jsonl";

    fn entry(text: &str) -> JournalEntry {
        JournalEntry { text: text.to_owned(), ..JournalEntry::default() }
    }

    fn texts(journal: &Journal) -> Vec<(u64, &str)> {
        journal.entries().iter().map(|it| (it.id, it.text.as_str())).collect()
    }

    #[test]
    fn kinds_have_the_same_names_everywhere() {
        use EntryKind::{Advice, Decision, End, Failure, Lease, Mode, Outcome, Override, Restart};
        for kind in [Decision, Advice, Outcome, Failure, Mode, Override, Restart, End, Lease] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn entries_survive_and_a_torn_line_costs_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), 1 << 20, 10).unwrap();
        journal.append(entry("first")).unwrap();
        journal.append(entry("second")).unwrap();
        drop(journal);
        let path = folder.path().join(PRESENT);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 20]).unwrap();
        let mut journal = Journal::open(folder.path(), 1 << 20, 10).unwrap();
        assert_eq!(texts(&journal), [(1, "first")]);
        journal.append(entry("third")).unwrap();
        let journal = Journal::open(folder.path(), 1 << 20, 10).unwrap();
        assert_eq!(texts(&journal), [(1, "first"), (2, "third")]);
    }

    #[test]
    fn bytes_and_entries_are_bounded_and_the_newest_stay() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), 2_000, 3).unwrap();
        for number in 1..=100 {
            journal.append(entry(&format!("entry {number}"))).unwrap();
        }
        assert_eq!(texts(&journal).last(), Some(&(100, "entry 100")));
        assert_eq!(journal.entries().len(), 3);
        let sizes = [PRESENT, EARLIER].map(|name| fs::metadata(folder.path().join(name)).unwrap());
        assert!(sizes.iter().all(|file| file.len() <= 1_000 && file.len() > 0));
        let journal = Journal::open(folder.path(), 2_000, 1_000).unwrap();
        let texts = texts(&journal);
        assert_eq!(texts.last(), Some(&(100, "entry 100")));
        assert!(texts.len() > 3 && texts.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0));
    }

    #[test]
    fn an_entry_that_cannot_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), 1 << 20, 10).unwrap();
        fs::create_dir(folder.path().join(PRESENT)).unwrap();
        assert!(journal.append(entry("lost")).is_err());
        fs::remove_dir(folder.path().join(PRESENT)).unwrap();
        assert_eq!(journal.append(entry("stored")).unwrap(), 2);
    }
}
