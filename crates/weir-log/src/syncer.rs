//! The sync thread's operations: making appended data durable, and the upkeep of files.

use std::io;
use std::sync::Arc;

use crate::disk::{self, Disk, DiskFile};
use crate::error::{Poison, SyncError};
use crate::format::{self, HEADER_BYTES, SegmentHeader};
use crate::position::Lsn;
use crate::segment::Segment;
use crate::shared::{NextSegment, SegmentLogShared, lock};

/// Whether [`Syncer::maintain_some`] left work to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upkeep {
    Done,
    More,
}

/// Writes and syncs a log. Every call may block for as long as the disk takes.
///
/// The sync thread calls [`Syncer::sync`], notifies the waiting callers, then calls
/// [`Syncer::maintain_some`], which returns at once when there is nothing to do.
#[derive(Debug)]
pub struct Syncer<D: Disk> {
    shared: Arc<SegmentLogShared<D>>,
}

impl<D: Disk> Clone for Syncer<D> {
    fn clone(&self) -> Self {
        Syncer { shared: Arc::clone(&self.shared) }
    }
}

impl<D: Disk> Syncer<D> {
    pub(crate) fn new(shared: Arc<SegmentLogShared<D>>) -> Syncer<D> {
        Syncer { shared }
    }

    /// Makes everything appended before the call durable. Returns the position up to which the log
    /// is durable.
    ///
    /// # Errors
    /// `NoSpace`: what could be written is durable (see [`Syncer::durable`]); the rest stays in
    /// memory and the next call retries. `Poisoned`: a sync failed, so nothing more becomes
    /// durable.
    pub fn sync(&self) -> Result<Lsn, SyncError> {
        let _one_at_a_time = lock(&self.shared.syncing);
        self.set_aside_damage();
        let written = self.shared.write_pending();
        self.shared.check_poison()?;
        self.sync_written()?;
        written.map(|_| self.shared.durable())
    }

    /// Returns the position up to which everything is on disk.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        self.shared.durable()
    }

    /// Calls [`Syncer::maintain_some`] until no upkeep is left.
    ///
    /// # Errors
    /// Those of `maintain_some`.
    pub fn maintain(&self) -> Result<(), SyncError> {
        while self.maintain_some()? == Upkeep::More {}
        Ok(())
    }

    /// Deletes the file of one removed segment, if that is safe by now, and allocates the next
    /// segment. Deleting one takes some 20 ms during which nothing can be synced, so a caller with
    /// syncs to do checks for them between two calls. While the disk is full, call it at intervals:
    /// it notices when space returns.
    ///
    /// # Errors
    /// `NoSpace` and `Upkeep`: the next call retries. `Poisoned`.
    pub fn maintain_some(&self) -> Result<Upkeep, SyncError> {
        let _one_at_a_time = lock(&self.shared.syncing);
        self.shared.check_poison()?;
        self.set_aside_damage();
        let upkeep = self.delete_removed()?;
        match self.prepare_next() {
            Err(SyncError::NoSpace) if upkeep == Upkeep::More => Ok(upkeep),
            prepared => prepared.map(|()| upkeep),
        }
    }

    /// Sets aside the recorded damage. On an error the damage stays recorded, and no segment is
    /// deleted until it is set aside.
    fn set_aside_damage(&self) {
        if let Err(error) = self.shared.set_aside_pending() {
            tracing::error!(%error, "damage of the log can't be set aside; it is tried again");
        }
    }

    /// Syncs the files written since the last call, oldest first, then publishes the durable
    /// position.
    fn sync_written(&self) -> Result<(), Poison> {
        let (dirty, lsn, position) = {
            let mut writer = lock(&self.shared.writer);
            (std::mem::take(&mut writer.dirty), writer.lsn, writer.position)
        };
        for segment in &dirty {
            self.sync_segment(segment)?;
        }
        self.shared.publish_durable(lsn, position);
        Ok(())
    }

    fn sync_segment(&self, segment: &Arc<Segment<D::File>>) -> Result<(), Poison> {
        let name = segment.name();
        let file = self.shared.file(segment).map_err(|e| self.shared.poison("open", &name, &e))?;
        // The tail may be sealed while this runs: only what is written by now counts.
        let complete = segment.seal().filter(|seal| seal.file_bytes() == segment.written());
        if let Some(seal) = complete
            && let Err(error) = file.truncate(seal.file_bytes().into())
        {
            tracing::warn!(file = name, %error, "cannot cut a sealed segment to its size");
        }
        file.sync_data().map_err(|error| self.shared.poison("sync", &name, &error))?;
        if complete.is_some() {
            self.shared.open_files.count(segment);
        }
        Ok(())
    }

    /// Deletes one removed segment. Each deletion is made durable before the next, so the files on
    /// disk never have a gap.
    fn delete_removed(&self) -> Result<Upkeep, SyncError> {
        let Some(segment) = self.first_removed() else {
            return Ok(Upkeep::Done);
        };
        if self.shared.damage.summary().is_waiting {
            return Ok(Upkeep::Done);
        }
        let name = segment.name();
        match self.shared.disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(upkeep_error(format!("delete {name}"), &error));
            }
            _ => self.sync_dir()?,
        }
        self.shared.open_files.forget(segment.number);
        lock(&self.shared.catalogue).removed.pop_front();
        Ok(if self.first_removed().is_some() { Upkeep::More } else { Upkeep::Done })
    }

    /// Returns the oldest removed segment, if its file is no longer needed.
    fn first_removed(&self) -> Option<Arc<Segment<D::File>>> {
        let durable = self.shared.durable();
        let catalogue = lock(&self.shared.catalogue);
        let (segment, due) = catalogue.removed.front()?;
        (*due <= durable).then(|| Arc::clone(segment))
    }

    /// Allocates the next segment unless it is ready.
    fn prepare_next(&self) -> Result<(), SyncError> {
        let number = {
            let catalogue = lock(&self.shared.catalogue);
            match catalogue.next {
                NextSegment::Ready(_) => return Ok(()),
                NextSegment::Pending | NextSegment::Failed => catalogue.next_number,
            }
        };
        self.shared.times.sync();
        let made = self.make_segment(number);
        let full = made.as_ref().is_err_and(disk::is_full);
        let file = match made {
            Ok(file) => file,
            Err(error) => {
                let _ = self.shared.disk.remove(&format::file_name(number)); // maybe never made
                lock(&self.shared.catalogue).next = NextSegment::Failed;
                let what = format!("make {}", format::file_name(number));
                return Err(if full { SyncError::NoSpace } else { upkeep_error(what, &error) });
            }
        };
        self.sync_dir()?;
        let capacity = self.shared.options.segment_bytes;
        let log_id = self.shared.log_id;
        let segment = Segment::new(number, log_id, capacity, HEADER_BYTES, Some(file));
        let mut catalogue = lock(&self.shared.catalogue);
        catalogue.next = NextSegment::Ready(Arc::new(segment));
        catalogue.next_number = number + 1;
        Ok(())
    }

    /// Creates a segment. Its header is durable before the segment is used, because records without
    /// a header count as corruption.
    fn make_segment(&self, number: u32) -> io::Result<D::File> {
        let file = self.shared.disk.create(&format::file_name(number))?;
        file.allocate(self.shared.options.segment_bytes.into())?;
        disk::write_full(&file, &SegmentHeader::encode(self.shared.log_id, number), 0)?;
        file.sync_data()?;
        Ok(file)
    }

    fn sync_dir(&self) -> Result<(), Poison> {
        self.shared.disk.sync_dir().map_err(|e| self.shared.poison("sync", "the directory", &e))
    }
}

fn upkeep_error(what: String, error: &io::Error) -> SyncError {
    SyncError::Upkeep { what: what.into(), reason: error.to_string().into() }
}
