//! One segment file and what is known about it.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::disk::Disk;
use crate::format::{self, Seal, Seed};
use crate::shared::lock;

/// Information about a segment, from `SegmentLog::segments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    pub number: u32,
    /// Bytes in use, header and footer included (without space allocated in advance).
    pub bytes: u32,
    /// Data records.
    pub records: u32,
    /// Whether the segment is complete.
    pub sealed: bool,
}

/// A segment that is part of the log, or about to be.
#[derive(Debug)]
pub(crate) struct Segment<F> {
    pub(crate) number: u32,
    pub(crate) seed: Seed,
    /// Maximum size of the file: what was allocated.
    pub(crate) capacity: u32,
    /// Bytes in the page cache, contiguous from the start. What follows is still in memory.
    written: AtomicU32,
    seal: OnceLock<Seal>,
    file: Mutex<Option<Arc<F>>>,
}

impl<F> Segment<F> {
    pub(crate) fn new(
        number: u32,
        log_id: u64,
        capacity: u32,
        written: u32,
        file: Option<F>,
    ) -> Segment<F> {
        Segment {
            number,
            seed: Seed::new(log_id, number),
            capacity,
            written: AtomicU32::new(written),
            seal: OnceLock::new(),
            file: Mutex::new(file.map(Arc::new)),
        }
    }

    pub(crate) fn name(&self) -> String {
        format::file_name(self.number)
    }

    pub(crate) fn written(&self) -> u32 {
        self.written.load(Ordering::Acquire)
    }

    pub(crate) fn set_written(&self, bytes: u32) {
        self.written.store(bytes, Ordering::Release);
    }

    /// Returns the layout if the segment is sealed.
    pub(crate) fn seal(&self) -> Option<&Seal> {
        self.seal.get()
    }

    pub(crate) fn set_seal(&self, seal: Seal) {
        assert!(self.seal.set(seal).is_ok(), "a segment is sealed once");
    }
}

/// The open files of sealed segments, limited to `files_max`.
///
/// The segment being written and those not yet synced keep their files open without being counted.
#[derive(Debug)]
pub(crate) struct OpenFiles<F> {
    in_order: Mutex<VecDeque<Arc<Segment<F>>>>,
    files_max: usize,
}

impl<F> OpenFiles<F> {
    pub(crate) fn new(files_max: usize) -> OpenFiles<F> {
        OpenFiles { in_order: Mutex::new(VecDeque::new()), files_max }
    }

    /// Returns the segment's file, opening it if necessary.
    pub(crate) fn file<D: Disk<File = F>>(
        &self,
        disk: &D,
        segment: &Arc<Segment<F>>,
    ) -> io::Result<Arc<F>> {
        if let Some(file) = &*lock(&segment.file) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(disk.open(&segment.name())?);
        let raced = lock(&segment.file).replace(Arc::clone(&file)).is_some();
        if !raced {
            self.count(segment);
        }
        Ok(file)
    }

    /// Counts a segment's open file, which may then be closed in favor of another.
    pub(crate) fn count(&self, segment: &Arc<Segment<F>>) {
        let mut in_order = lock(&self.in_order);
        in_order.push_back(Arc::clone(segment));
        let closed = (in_order.len() > self.files_max).then(|| in_order.pop_front()).flatten();
        drop(in_order);
        if let Some(segment) = closed {
            lock(&segment.file).take();
        }
    }

    /// Drops a removed segment from the count, and with it the reference to its file.
    pub(crate) fn forget(&self, number: u32) {
        lock(&self.in_order).retain(|segment| segment.number != number);
    }
}
