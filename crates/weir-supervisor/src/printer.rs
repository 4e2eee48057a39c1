//! Buffers lines of workers for the parent's own output.
//!
//! Nothing blocks: while the output is full, lines are buffered up to a limit. Beyond it, workers'
//! pipes are not read, so workers block as if they wrote to the output themselves.

use std::os::fd::BorrowedFd;

use crate::output::{CHUNK_BYTES, is_writable, write_all};

/// Above this, workers' pipes are not read.
const WAITING_BYTES_HIGH: usize = 64 * 1024;
/// Hard limit, also for the last lines of workers that died: enough for a crash of all workers of a
/// large group.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

/// A buffer of whole lines.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    waiting: Vec<u8>,
    /// How much of `waiting` is written.
    written: usize,
    pub(crate) lines_dropped: u64,
    is_dropping: bool,
}

impl Printer {
    /// Restores the buffer of an earlier program.
    pub(crate) fn resume(waiting: Vec<u8>, lines_dropped: u64) -> Self {
        Self { waiting, written: 0, lines_dropped, is_dropping: false }
    }

    /// Returns the bytes that are not written yet.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.waiting[self.written..]
    }

    /// Returns whether to read more output from workers.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() - self.written < WAITING_BYTES_HIGH
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Appends a line, or drops and counts it when the buffer is full. `prefix` and `line` together
    /// must be shorter than [`CHUNK_BYTES`].
    pub(crate) fn add(&mut self, prefix: &str, line: &[u8]) {
        if self.waiting.len() + prefix.len() + line.len() >= WAITING_BYTES_MAX {
            self.lines_dropped += 1;
            self.is_dropping = true;
            return;
        }
        self.waiting.extend_from_slice(prefix.as_bytes());
        self.waiting.extend_from_slice(line);
        self.waiting.push(b'\n');
    }

    /// Writes whole lines until `output` is full.
    pub(crate) fn flush(&mut self, output: BorrowedFd<'_>) {
        while self.written < self.waiting.len() && is_writable(output) {
            let rest = &self.waiting[self.written..];
            // A pipe takes a chunk atomically, so lines of other writers are not mixed in.
            let chunk = &rest[..rest.len().min(CHUNK_BYTES)];
            let end = chunk
                .iter()
                .rposition(|&byte| byte == b'\n')
                .map_or(chunk.len(), |index| index + 1);
            write_all(output, &chunk[..end]);
            self.written += end;
        }
        if self.written == self.waiting.len() {
            self.waiting.clear();
            self.written = 0;
            if std::mem::take(&mut self.is_dropping) {
                tracing::warn!(
                    self.lines_dropped,
                    "output of workers was dropped: it was not read in time"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn lines_are_printed_whole_and_in_order() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut printer = Printer::default();
        for number in 0..1_000 {
            printer.add("shop-0[1] ", format!("line {number}").as_bytes());
        }
        printer.flush(writer.as_fd());
        assert!(printer.is_empty());
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        let expected: String =
            (0..1_000).map(|number| format!("shop-0[1] line {number}\n")).collect();
        assert_eq!(text, expected);
    }

    #[test]
    fn unread_output_is_bounded() {
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let mut printer = Printer::default();
        for _ in 0..10_000 {
            printer.add("", &[b'x'; 1_000]);
            printer.flush(writer.as_fd());
        }
        assert!(!printer.has_room());
        assert!(printer.waiting.len() <= WAITING_BYTES_MAX);
        assert!(printer.lines_dropped > 0);
    }
}
