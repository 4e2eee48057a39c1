//! A child's output: forwarded to the parent's own output, with the last lines kept for the report
//! of its death.
//!
//! Nothing blocks: while the parent's output is full, the child's pipe is not read, so the child
//! blocks (as if it wrote there itself) and the parent continues.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// Lines kept for the report of a death.
const LINES_MAX: usize = 20;
/// Bytes kept of one such line.
const LINE_BYTES_MAX: usize = 500;
/// POSIX: a pipe that polls writable takes this much without blocking (`PIPE_BUF` on Linux).
pub(crate) const CHUNK_BYTES: usize = 4096;

/// The reading end of a child's standard output and error.
#[derive(Debug)]
pub(crate) struct Output {
    pipe: Option<OwnedFd>,
    tail: OutputTail,
}

impl Output {
    /// Creates a reader of `pipe`, which must be non-blocking.
    pub(crate) fn new(pipe: OwnedFd) -> Self {
        Self { pipe: Some(pipe), tail: OutputTail::default() }
    }

    /// Restores a reader whose last lines were read by an earlier program.
    pub(crate) fn resume(pipe: Option<OwnedFd>, last_lines: &[String]) -> Self {
        Self { pipe, tail: OutputTail::resume(last_lines) }
    }

    /// Returns the descriptor to poll for reading, until end of file.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Forwards at most one chunk. Returns false when nothing more can be forwarded now.
    pub(crate) fn forward(&mut self, output: BorrowedFd<'_>) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        if !is_writable(output) {
            return false;
        }
        let mut chunk = [0; CHUNK_BYTES];
        match rustix::io::read(pipe, &mut chunk) {
            Ok(0) => {
                self.pipe = None;
                false
            }
            Ok(bytes) => {
                self.tail.add(&chunk[..bytes]);
                write_all(output, &chunk[..bytes]);
                true
            }
            Err(_) => false,
        }
    }

    /// Returns the last lines, oldest first.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.tail.lines()
    }
}

/// Returns whether a chunk can be written without blocking.
pub(crate) fn is_writable(output: BorrowedFd<'_>) -> bool {
    let mut poll = [PollFd::new(&output, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut poll, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Writes all bytes. Errors are ignored: without an output there is nowhere to report them.
pub(crate) fn write_all(output: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(output, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Keeps the last lines of some output.
#[derive(Debug, Default)]
pub(crate) struct OutputTail {
    lines: VecDeque<String>,
    partial: Vec<u8>,
}

impl OutputTail {
    pub(crate) fn resume(lines: &[String]) -> Self {
        Self { lines: lines.iter().cloned().collect(), partial: Vec::new() }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = LINE_BYTES_MAX.saturating_sub(self.partial.len());
            self.partial.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.partial).trim_end().to_owned();
        self.partial.clear();
        while self.lines.len() >= LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let partial = String::from_utf8_lossy(&self.partial).trim_end().to_owned();
        let rest = (!partial.is_empty()).then_some(partial);
        self.lines.iter().cloned().chain(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_the_last_lines_in_any_chunks() {
        let text: String = (0..50).map(|line| format!("line {line}\n")).collect();
        for chunk in [1, 7, 4096] {
            let mut tail = OutputTail::default();
            text.as_bytes().chunks(chunk).for_each(|bytes| tail.add(bytes));
            tail.add(b"cut off");
            let lines = tail.lines();
            assert_eq!(lines.len(), LINES_MAX + 1);
            assert_eq!(lines.first().map(String::as_str), Some("line 30"));
            assert_eq!(lines.last().map(String::as_str), Some("cut off"));
        }
    }

    #[test]
    fn an_overlong_line_is_truncated() {
        let mut tail = OutputTail::default();
        for _ in 0..1_000 {
            tail.add(&[b'x'; 1_000]);
        }
        tail.add(b"\nnext\n");
        let lines = tail.lines();
        assert_eq!(lines[0].len(), LINE_BYTES_MAX);
        assert_eq!(lines[1], "next");
    }
}
