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
//! Promises, each behind a test on a simulated disk that loses what was not synced:
//! - What `sync` reported durable is there after a power cut, byte for byte and in order. Of what
//!   was appended later a prefix is there, never garbage.
//! - What `flush` accepted survives the death of the process.
//! - A full disk loses nothing: records of class `Job` are refused while the reserve is left to
//!   essential ones, and appends are accepted again once `maintain` finds space.
//! - A failed sync poisons the log: no promise is made any more.
//! - Damage to what was durable is never passed over in silence: opening (or, in older segments,
//!   reading) keeps every record whose checksum holds, sets aside what stands where others were, and
//!   lists it until an operator has acknowledged it ([`Damages`]). A missing segment is damage,
//!   the oldest included. The exception is damage behind the last mark (a record that says how far
//!   the log was durable when it was written): it can't be told from a torn tail and is cut and
//!   reported as such. A clean stop writes a mark last ([`SegmentLog::mark`]). A log whose newest segments
//!   are missing is an older state of it, and can't be told from one.
//!
//! The log knows nothing of what its records mean. The bytes on disk are described in `format.rs`.
//! One directory is one log and must be opened once at a time: its owner holds a lock file.

mod correct;
mod damage;
mod damages;
mod directory;
mod disk;
mod error;
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
mod repair;
mod scan;
mod segment;
mod settle;
mod shared;
#[cfg(any(test, feature = "simulation"))]
mod simulated_disk;
#[cfg(any(test, feature = "simulation"))]
mod simulated_state;
mod space;
mod stretch;
mod survey;
mod syncer;
mod verify;
mod walk;

pub use damage::{Acknowledged, CorrectedRecord, Damage, DamageSummary, SetAside, set_aside};
pub use damages::Damages;
pub use disk::{Allocation, Disk, DiskFile};
pub use error::{AppendError, OpenError, Poison, RecordError, SyncError};
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
pub use verify::{SegmentCheck, Verification, VerifyProgress, verify};
