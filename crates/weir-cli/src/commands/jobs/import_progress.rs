//! How much of a file is imported, saved beside it after every batch: `FILE.import.json`. Rejected
//! lines are in `FILE.rejected`.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use weir_base::kept;
use weir_jobs::view::{Pushed, Rejected};

use super::import_input::LineBatch;

/// Rejected lines that are listed; further ones are only counted.
const REJECTED_MAX: usize = 1_000;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ImportProgress {
    /// The Weir into which the file is imported.
    target: String,
    /// Of the imported file.
    sha256: String,
    /// Lines that Weir has confirmed.
    pub(super) lines: u64,
    /// What became of their jobs.
    pub(super) pushed: Pushed,
    /// Bytes of the rejected lines.
    rejected_bytes: u64,
    /// Jobs in the dead set before the import.
    pub(super) dead_before: u64,
    pub(super) finished: bool,
    #[serde(skip)]
    file: Option<PathBuf>,
    #[serde(skip)]
    is_resumed: bool,
}

impl ImportProgress {
    /// Of input that can be read only once.
    pub(super) fn of_stream() -> Self {
        Self::default()
    }

    /// Reads the progress of `file`. Returns an error if all of it is imported, or if another import
    /// of this name was interrupted.
    pub(super) fn of_file(file: &Path, target: &str, sha256: &str) -> anyhow::Result<Self> {
        let path = beside(file, ".import.json");
        let shown = path.display();
        let saved: Option<Self> = match path.exists() {
            true => Some(kept::read(&path).with_context(|| format!("cannot read {shown}"))?),
            false => None,
        };
        let is_same = |saved: &Self| saved.target == target && saved.sha256 == sha256;
        match saved {
            Some(saved) if is_same(&saved) && saved.finished => bail!(
                "all {} lines of {} are imported already; to import them once more, delete {shown}",
                saved.lines,
                file.display()
            ),
            Some(saved) if is_same(&saved) => {
                Ok(Self { file: Some(file.to_owned()), is_resumed: true, ..saved })
            }
            Some(saved) if !saved.finished => bail!(
                "an import of {} into {} was interrupted after {} lines, and this one has other lines or another target; finish that one first, or delete {shown}",
                file.display(),
                saved.target,
                saved.lines
            ),
            _ => Ok(Self {
                target: target.to_owned(),
                sha256: sha256.to_owned(),
                file: Some(file.to_owned()),
                ..Self::default()
            }),
        }
    }

    pub(super) const fn is_new(&self) -> bool {
        !self.is_resumed
    }

    /// Adds a batch that Weir has confirmed, and saves the progress.
    pub(super) fn add(&mut self, batch: &LineBatch, pushed: &Pushed) -> anyhow::Result<()> {
        self.add_rejected(batch, pushed)?;
        self.pushed.accepted += pushed.accepted;
        self.pushed.present += pushed.present;
        self.pushed.entries += pushed.entries;
        self.pushed.rejected_total += pushed.rejected_total;
        let room = REJECTED_MAX.saturating_sub(self.pushed.rejected.len());
        let listed = pushed.rejected.iter().take(room).cloned();
        self.pushed.rejected.extend(
            listed.map(|rejected| Rejected { line: rejected.line + self.lines, ..rejected }),
        );
        self.lines += batch.lines;
        self.save()
    }

    pub(super) fn save(&self) -> anyhow::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let path = beside(file, ".import.json");
        kept::write(&path, self).with_context(|| {
            format!(
                "cannot write {}, which records how much is imported; copy the file to a directory that you can write to",
                path.display()
            )
        })
    }

    pub(super) fn rejected_file(&self) -> Option<PathBuf> {
        self.file.as_deref().map(|file| beside(file, ".rejected"))
    }

    /// Writes the rejected lines over those that an interrupted run did not record.
    fn add_rejected(&mut self, batch: &LineBatch, pushed: &Pushed) -> anyhow::Result<()> {
        let Some(path) = self.rejected_file().filter(|_| !pushed.rejected.is_empty()) else {
            return Ok(());
        };
        let lines: Vec<&[u8]> = batch.text.split_inclusive(|byte| *byte == b'\n').collect();
        let index = |line: u64| usize::try_from(line - 1).unwrap_or(usize::MAX);
        let rejected = pushed.rejected.iter().filter_map(|it| lines.get(index(it.line)));
        let text: Vec<u8> = rejected.flat_map(|line| line.iter().copied()).collect();
        let write = || {
            let mut options = File::options();
            options.write(true).create(true).truncate(false).mode(0o600);
            let mut file = options.open(&path)?;
            file.set_len(self.rejected_bytes)?;
            file.seek(SeekFrom::Start(self.rejected_bytes))?;
            file.write_all(&text)?;
            file.sync_all()
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        self.rejected_bytes += text.len() as u64;
        Ok(())
    }

    /// Says what is imported when an error ends the import.
    pub(super) fn interrupted(&self) -> String {
        let lines = self.lines;
        match self.file {
            Some(_) => format!("stopped after line {lines}; the same command continues there"),
            None => format!("stopped after line {lines}; the lines up to it are imported"),
        }
    }
}

fn beside(file: &Path, extension: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(extension);
    name.into()
}
