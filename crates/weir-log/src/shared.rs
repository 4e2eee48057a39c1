//! State shared by the owner, the readers and the syncer, and the one function that writes to
//! files.
//!
//! Locks, always acquired in this order: `syncing` (one sync at a time), `writer` (one write at a
//! time), then one of `pending` and `catalogue` (both held briefly, never during I/O).

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crate::damage::DamageLog;
use crate::disk::{self, Disk};
use crate::error::{Poison, SyncError};
use crate::options::SegmentLogOptions;
use crate::pending::Pending;
use crate::position::{Lsn, RecordPosition};
use crate::segment::{OpenFiles, Segment};
use crate::times::TimeIndex;

#[derive(Debug)]
pub(crate) struct SegmentLogShared<D: Disk> {
    pub(crate) disk: D,
    pub(crate) options: SegmentLogOptions,
    pub(crate) log_id: u64,
    pub(crate) syncing: Mutex<()>,
    pub(crate) writer: Mutex<UnsyncedWrites<D::File>>,
    pub(crate) pending: Mutex<Pending<D::File>>,
    pub(crate) catalogue: Mutex<Catalogue<D::File>>,
    pub(crate) open_files: OpenFiles<D::File>,
    pub(crate) damage: DamageLog<D>,
    pub(crate) times: TimeIndex<D>,
    durable: AtomicU64,
    poison: OnceLock<Poison>,
    /// A write found the disk full; its bytes are still pending.
    pub(crate) write_blocked: AtomicBool,
}

/// Data that was written but not yet synced.
#[derive(Debug)]
pub(crate) struct UnsyncedWrites<F> {
    pub(crate) dirty: Vec<Arc<Segment<F>>>,
    pub(crate) lsn: Lsn,
    pub(crate) position: RecordPosition,
}

/// The segments of the log.
#[derive(Debug)]
pub(crate) struct Catalogue<F> {
    /// Oldest first, numbered without gaps. The last one may be the one being written.
    pub(crate) segments: VecDeque<Arc<Segment<F>>>,
    pub(crate) next: NextSegment<F>,
    pub(crate) next_number: u32,
    /// Removed segments. Each file is deleted once the log is durable up to the number beside it.
    pub(crate) removed: VecDeque<(Arc<Segment<F>>, Lsn)>,
}

/// The segment that the owner continues with once the present one is full.
#[derive(Debug)]
pub(crate) enum NextSegment<F> {
    /// Not yet allocated by the syncer.
    Pending,
    Ready(Arc<Segment<F>>),
    /// The disk had no space.
    Failed,
}

impl<F> Catalogue<F> {
    /// Returns the number of the oldest segment, or of the next one if there is none.
    pub(crate) fn first(&self) -> u32 {
        self.segments.front().map_or(self.next_number, |first| first.number)
    }

    pub(crate) fn find(&self, number: u32) -> Option<Arc<Segment<F>>> {
        let first = self.segments.front()?.number;
        self.segments.get(number.checked_sub(first)? as usize).cloned()
    }

    /// Finds a segment, including a removed one whose file still exists.
    pub(crate) fn find_or_removed(&self, number: u32) -> Option<Arc<Segment<F>>> {
        let removed = || self.removed.iter().map(|(segment, _)| segment);
        self.find(number).or_else(|| removed().find(|it| it.number == number).cloned())
    }
}

impl<D: Disk> SegmentLogShared<D> {
    /// Creates the shared state of a recovered log: everything before `durable` is on disk.
    pub(crate) fn new(
        disk: D,
        options: SegmentLogOptions,
        log_id: u64,
        catalogue: Catalogue<D::File>,
        durable: RecordPosition,
        damage: DamageLog<D>,
    ) -> SegmentLogShared<D> {
        SegmentLogShared {
            times: TimeIndex::open(&disk, log_id, catalogue.first(), durable),
            disk,
            log_id,
            syncing: Mutex::new(()),
            writer: Mutex::new(UnsyncedWrites {
                dirty: Vec::new(),
                lsn: Lsn(0),
                position: durable,
            }),
            pending: Mutex::new(Pending::new(durable)),
            catalogue: Mutex::new(catalogue),
            open_files: OpenFiles::new(options.open_files_max),
            damage,
            options,
            durable: AtomicU64::new(0),
            poison: OnceLock::new(),
            write_blocked: AtomicBool::new(false),
        }
    }

    pub(crate) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn publish_durable(&self, lsn: Lsn, position: RecordPosition) {
        lock(&self.pending).set_durable(position);
        self.durable.store(lsn.0, Ordering::Release);
    }

    pub(crate) fn poisoned(&self) -> Option<&Poison> {
        self.poison.get()
    }

    pub(crate) fn check_poison(&self) -> Result<(), Poison> {
        self.poison.get().map_or(Ok(()), |poison| Err(poison.clone()))
    }

    /// Stops the log permanently. Returns the first reason for which it was stopped.
    pub(crate) fn poison(&self, what: &str, name: &str, error: &io::Error) -> Poison {
        let poison = Poison { what: format!("cannot {what} {name}: {error}").into() };
        tracing::error!(file = name, %error, "the log stops: cannot {what}");
        self.poison.get_or_init(|| poison).clone()
    }

    pub(crate) fn file(&self, segment: &Arc<Segment<D::File>>) -> io::Result<Arc<D::File>> {
        self.open_files.file(&self.disk, segment)
    }

    /// Writes everything that is pending at the time of the call into the page cache, in order. If
    /// the disk is full, the rest stays pending. Returns the position up to which the log is
    /// written.
    pub(crate) fn write_pending(&self) -> Result<Lsn, SyncError> {
        let mut writer = lock(&self.writer);
        self.check_poison()?;
        self.times.write(lock(&self.catalogue).first());
        let chunks = lock(&self.pending).freeze();
        for _ in 0..chunks {
            let Some(chunk) = lock(&self.pending).first() else {
                break;
            };
            let segment = &chunk.segment;
            let written = self
                .file(segment)
                .and_then(|file| disk::write_full(&*file, &chunk.bytes, chunk.start.into()));
            if let Err(error) = written {
                return Err(self.write_failed(&segment.name(), &error));
            }
            segment.set_written(chunk.end());
            writer.lsn = chunk.lsn;
            writer.position = RecordPosition { segment: segment.number, offset: chunk.end() };
            if writer.dirty.last().is_none_or(|last| last.number != segment.number) {
                writer.dirty.push(Arc::clone(segment));
            }
            lock(&self.pending).first_written(chunk);
        }
        self.write_blocked.store(false, Ordering::Relaxed);
        Ok(writer.lsn)
    }

    fn write_failed(&self, name: &str, error: &io::Error) -> SyncError {
        if disk::is_full(error) {
            self.write_blocked.store(true, Ordering::Relaxed);
            return SyncError::NoSpace;
        }
        self.poison("write", name, error).into()
    }
}

/// Locks a mutex of the log. A thread that panicked while holding it left the state inconsistent,
/// so every other thread panics as well.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while it holds the log's state")
}
