//! An append-only segment log: records, checksums, group sync, recovery, compaction.
//!
//! One thread owns the log and appends; it never waits for the disk. A second thread syncs.
//! Any thread may read.
//!
//! ```text
//! owner:  Log::append ── memory ──┐            Log::remove_first_segment
//!                                 │ short mutex
//! syncer: Syncer::sync ── write, fdatasync ── durable Lsn ── Syncer::maintain (delete, allocate)
//! anyone: Reader::read ── from memory or with one pread, checksum checked
//! owner:  ReadAhead::read ── the same, with one pread for many records in a row
//! ```
//!
//! Promises, each covered by a test on a simulated disk that loses unsynced data:
//! - What `sync` reported durable survives a power cut, byte for byte and in order. Of what was
//!   appended later, a prefix survives and never garbage.
//! - What `flush` accepted survives the death of the process.
//! - A full disk loses nothing: records of class `Job` are rejected while the reserve is left to
//!   essential ones, and appends are accepted again once `maintain` finds space.
//! - A failed sync poisons the log: it promises nothing from then on.
//! - Damage to durable data is always reported: opening (or, in older segments, reading) preserves
//!   every record whose checksum matches, sets aside the bytes in between, and lists the damage
//!   until an operator has acknowledged it ([`Damages`]). A missing segment counts as damage, the
//!   oldest included. The exception is damage after the last mark (a record of how far the log was
//!   durable when it was written): it can't be distinguished from a torn tail, so it is cut and
//!   reported as such. A clean shutdown writes a mark last ([`SegmentLog::mark`]). A log whose
//!   newest segments are missing can't be distinguished from an older copy of it.
//!
//! The log does not interpret its records. The bytes on disk are described in `format.rs`. A
//! directory holds one log, which must be opened only once at a time: its owner holds a lock file.

mod correct;
mod damage;
mod damages;
mod directory;
mod disk;
mod error;
mod extent;
mod format;
mod index;
mod log;
mod options;
mod pending;
mod position;
mod read_ahead;
mod reader;
mod real_disk;
mod recovery;
mod recovery_finish;
mod repair;
mod scan;
mod segment;
mod shared;
#[cfg(any(test, feature = "simulation"))]
mod simulated_disk;
#[cfg(any(test, feature = "simulation"))]
mod simulated_state;
mod space;
mod stretch;
mod survey;
mod syncer;
mod times;
mod verify;
mod walk;

pub use damage::{Acknowledged, CorrectedRecord, Damage, DamageSummary, SetAside, set_aside};
pub use damages::Damages;
pub use disk::{Allocation, Disk, DiskFile};
pub use error::{AppendError, OpenError, Poison, RecordError, SyncError};
pub use extent::{
    LogExtent, complete_from, extent, oldest_segment_at, segment_file_name, segment_number,
};
pub use index::IndexedRecord;
pub use log::{Class, RoomOutcome, SegmentLog};
pub use options::SegmentLogOptions;
pub use position::{Lsn, RecordPosition};
pub use read_ahead::{ReadAhead, StoredRecord};
pub use reader::{RecordParts, RecordReader};
pub use real_disk::{RealDisk, RealFile};
pub use recovery::{Cut, RecoveryReport};
pub use repair::{Salvage, salvage};
pub use segment::SegmentInfo;
#[cfg(any(test, feature = "simulation"))]
pub use simulated_disk::{SimulatedDisk, SimulatedFile};
pub use space::Space;
pub use syncer::{Syncer, Upkeep};
pub use times::{TIMES_FILE, TimeMark, position_at, time_marks, time_marks_file};
pub use verify::{SegmentCheck, Verification, VerifyProgress, verify};
