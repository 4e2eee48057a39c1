//! A worker's output, line by line, prefixed with its name.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::output::{CHUNK_BYTES, OutputTail};
use crate::printer::Printer;

/// A longer line is split: a piece and its prefix must fit into one chunk.
const LINE_BYTES_MAX: usize = CHUNK_BYTES - PREFIX_BYTES_MAX;
/// Group, slot, pid and separators.
const PREFIX_BYTES_MAX: usize = 96;
/// How much is still read after a worker has ended: as much as a pipe holds. A descendant of it
/// could continue to write forever.
const LAST_BYTES_MAX: usize = 64 * 1024;

/// The reading end of a worker's standard output and error.
#[derive(Debug)]
pub(crate) struct WorkerOutput {
    pipe: Option<OwnedFd>,
    prefix: String,
    partial: Vec<u8>,
    tail: OutputTail,
}

impl WorkerOutput {
    /// Creates a reader. `pipe` must be non-blocking; `name` is shorter than [`PREFIX_BYTES_MAX`].
    pub(crate) fn new(pipe: OwnedFd, name: &str, pid: i32) -> Self {
        let prefix = format!("{name}[{pid}] ");
        Self { pipe: Some(pipe), prefix, partial: Vec::new(), tail: OutputTail::default() }
    }

    /// Restores the reader of an earlier program.
    pub(crate) fn resume(
        pipe: Option<OwnedFd>,
        name: &str,
        pid: i32,
        partial: Vec<u8>,
        last_lines: &[String],
    ) -> Self {
        let prefix = format!("{name}[{pid}] ");
        Self { pipe, prefix, partial, tail: OutputTail::resume(last_lines) }
    }

    /// Returns the beginning of an incomplete line.
    pub(crate) fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Returns the descriptor to poll for reading, until end of file.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads at most one chunk. Returns true if a line of it contains `pattern`.
    pub(crate) fn read(&mut self, printer: &mut Printer, pattern: Option<&str>) -> bool {
        let mut chunk = [0; CHUNK_BYTES];
        let bytes = self.read_chunk(&mut chunk);
        self.take(&chunk[..bytes], printer, pattern)
    }

    /// Reads the remaining output of a worker that has ended.
    pub(crate) fn finish(&mut self, printer: &mut Printer) {
        let mut remaining = LAST_BYTES_MAX;
        let mut chunk = [0; CHUNK_BYTES];
        while remaining > 0 {
            let bytes = self.read_chunk(&mut chunk);
            if bytes == 0 {
                break;
            }
            self.take(&chunk[..bytes], printer, None);
            remaining = remaining.saturating_sub(bytes);
        }
        self.pipe = None;
        if !self.partial.is_empty() {
            printer.add(&self.prefix, &self.partial);
            self.partial.clear();
        }
    }

    /// Returns the last lines, oldest first.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.tail.lines()
    }

    fn read_chunk(&mut self, chunk: &mut [u8]) -> usize {
        let Some(pipe) = &self.pipe else { return 0 };
        match rustix::io::read(pipe, chunk) {
            // Closed: polling it again would return at once, in a busy loop.
            Ok(0) => {
                self.pipe = None;
                0
            }
            Ok(bytes) => bytes,
            Err(_) => 0,
        }
    }

    fn take(&mut self, bytes: &[u8], printer: &mut Printer, pattern: Option<&str>) -> bool {
        self.tail.add(bytes);
        let mut is_found = false;
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let mut rest = text;
            while !rest.is_empty() {
                let room = LINE_BYTES_MAX - self.partial.len();
                let (head, tail) = rest.split_at(rest.len().min(room));
                self.partial.extend_from_slice(head);
                rest = tail;
                if self.partial.len() == LINE_BYTES_MAX {
                    is_found |= self.end_line(printer, pattern);
                }
            }
            if text.len() < part.len() {
                is_found |= self.end_line(printer, pattern);
            }
        }
        is_found
    }

    fn end_line(&mut self, printer: &mut Printer, pattern: Option<&str>) -> bool {
        printer.add(&self.prefix, &self.partial);
        let is_found =
            pattern.is_some_and(|pattern| String::from_utf8_lossy(&self.partial).contains(pattern));
        self.partial.clear();
        is_found
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// What comes out of `text` written to a worker's pipe.
    fn pass(text: &[u8], pattern: Option<&str>) -> (String, bool) {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        rustix::io::ioctl_fionbio(&reader, true).expect("non-blocking");
        let mut output = WorkerOutput::new(reader.into(), "shop-0", 12);
        let mut printer = Printer::default();
        let mut is_found = false;
        for bytes in text.chunks(1_000) {
            writer.write_all(bytes).expect("written");
            is_found |= output.read(&mut printer, pattern);
        }
        drop(writer);
        output.finish(&mut printer);
        assert!(output.descriptor().is_none());
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        printer.flush(writer.as_fd());
        drop(writer);
        let mut passed = String::new();
        reader.read_to_string(&mut passed).expect("text");
        (passed, is_found)
    }

    #[test]
    fn every_output_line_gets_the_workers_prefix() {
        let (passed, _) = pass(b"one\n\ntwo\nrest", None);
        assert_eq!(passed, "shop-0[12] one\nshop-0[12] \nshop-0[12] two\nshop-0[12] rest\n");
    }

    #[test]
    fn a_ready_line_is_found_across_pieces() {
        let mut text = vec![b'x'; 995];
        text.extend_from_slice(b"Listening at 80\nmore\n");
        assert!(pass(&text, Some("Listening at")).1);
        assert!(!pass(&text, Some("at 81")).1);
    }

    #[test]
    fn an_endless_output_line_is_split() {
        let (passed, _) = pass(&[b'x'; 10_000], None);
        let lengths: Vec<usize> = passed.lines().map(str::len).collect();
        let prefix = "shop-0[12] ".len();
        assert_eq!(lengths, [4_000 + prefix, 4_000 + prefix, 2_000 + prefix]);
    }
}
