//! The lines that are imported. A file is checked completely before its first line is sent; standard
//! input is checked as it arrives.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use weir_jobs::export_lines::{ExportCheck, ExportTally};

/// A batch is sent once it has this many lines or bytes. A response lists up to 1,000 rejected lines, so
/// that all of a batch are known.
const BATCH_LINES: u64 = 1_000;
const BATCH_BYTES: usize = 1 << 20;
/// Above what `jobs.limits.line_bytes_max` may be set to.
const LINE_BYTES_MAX: u64 = (1 << 30) + 1;

/// What to do if lines are missing or were changed.
const ADVICE: &str = "export again, or import what is there with --unchecked";

/// Whether exported lines must be what their end line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputCheck {
    On,
    Off,
}

/// The lines, at the position from which they are read.
pub(super) struct ImportInput {
    reader: Box<dyn BufRead>,
    /// Bytes and SHA-256 of a file. `None`: of a stream, which can be read once.
    pub(super) bytes: Option<u64>,
    pub(super) sha256: Option<String>,
    check: ExportCheck,
    mode: InputCheck,
}

/// Whole lines that are sent together.
pub(super) struct LineBatch {
    pub(super) text: Vec<u8>,
    pub(super) lines: u64,
}

impl ImportInput {
    pub(super) fn open(path: &Path, mode: InputCheck) -> anyhow::Result<Self> {
        let check = ExportCheck::default();
        if path == Path::new("-") {
            let reader = Box::new(BufReader::new(std::io::stdin()));
            return Ok(Self { reader, bytes: None, sha256: None, check, mode });
        }
        let context = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(context)?;
        let metadata = file.metadata().with_context(context)?;
        let reader = Box::new(BufReader::new(file));
        let mut input = Self { reader, bytes: None, sha256: None, check, mode };
        if metadata.is_file() {
            let sha256 = input.check_whole().with_context(context)?;
            let reader = Box::new(BufReader::new(File::open(path).with_context(context)?));
            let bytes = Some(metadata.len());
            input = Self { reader, bytes, sha256: Some(sha256), ..input };
        }
        Ok(input)
    }

    /// Reads everything once. Returns its SHA-256.
    fn check_whole(&mut self) -> anyhow::Result<String> {
        let (mut whole, mut line) = (ExportTally::default(), Vec::new());
        while read_line(&mut self.reader, &mut line)? {
            whole.add_text(&line);
            self.check_line(&line)?;
            line.clear();
        }
        self.finish()?;
        Ok(whole.end().sha256)
    }

    fn check_line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let checked = self.check.add(line);
        if self.mode == InputCheck::On { checked.context(ADVICE) } else { Ok(()) }
    }

    /// Returns an error if exported lines are missing at the end.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        match self.check.finish() {
            Err(error) if self.mode == InputCheck::On => {
                bail!("{error}; finish it with `weir jobs export --resume`, or {ADVICE}")
            }
            _ => Ok(()),
        }
    }

    /// Skips lines that are imported already.
    pub(super) fn skip(&mut self, lines: u64) -> anyhow::Result<()> {
        let mut line = Vec::new();
        for _ in 0..lines {
            line.clear();
            read_line(&mut self.reader, &mut line)?;
        }
        Ok(())
    }

    pub(super) fn next_batch(&mut self) -> anyhow::Result<Option<LineBatch>> {
        let mut batch = LineBatch { text: Vec::new(), lines: 0 };
        while batch.lines < BATCH_LINES && batch.text.len() < BATCH_BYTES {
            let start = batch.text.len();
            if !read_line(&mut self.reader, &mut batch.text)? {
                break;
            }
            batch.lines += 1;
            if self.sha256.is_none() {
                self.check_line(&batch.text[start..])?;
            }
        }
        Ok((batch.lines > 0).then_some(batch))
    }

    /// Returns the number of jobs that were read.
    pub(super) const fn jobs(&self) -> u64 {
        self.check.jobs()
    }

    /// Returns how many of them belong into the dead set.
    pub(super) fn dead(&self) -> u64 {
        self.check.jobs_of("dead")
    }
}

/// Appends a line. A line longer than any limit of the server is read in part, to be rejected there.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    Ok(reader.take(LINE_BYTES_MAX).read_until(b'\n', line)? > 0)
}
