//! The log's limits, each with its default.

use crate::error::OpenError;
use crate::format;

const MIB: u32 = 1024 * 1024;

/// The limits of one log.
#[derive(Clone, Debug)]
pub struct SegmentLogOptions {
    /// Size to which a segment file is allocated, and at which it is sealed. Default 64 MiB, at
    /// most 256 MiB (the length field of a record).
    pub segment_bytes: u32,
    /// Space that only [`Class::Essential`](crate::Class::Essential) records may use when the disk
    /// has no space for another segment. Default 4 MiB: some 60,000 acknowledgements.
    pub reserve_bytes: u32,
    /// Maximum size of a record (head and body together). Default 32 MiB. A record never spans
    /// segments, so a segment must have room for the largest record and the reserve.
    pub record_bytes_max: u32,
    /// Maximum number of bytes in memory that wait to be written. At this limit `append` returns
    /// `Backpressure`. Default 64 MiB.
    pub buffered_bytes_max: u64,
    /// Maximum number of open files of sealed segments. Default 256.
    pub open_files_max: usize,
    /// Maximum number of damaged bytes that are set aside until they are acknowledged; as many that
    /// were acknowledged last are preserved. Default 64 MiB, at most 128 MiB.
    pub set_aside_bytes_max: u32,
}

impl Default for SegmentLogOptions {
    fn default() -> SegmentLogOptions {
        SegmentLogOptions {
            segment_bytes: 64 * MIB,
            reserve_bytes: 4 * MIB,
            record_bytes_max: 32 * MIB,
            buffered_bytes_max: 64 * u64::from(MIB),
            open_files_max: 256,
            set_aside_bytes_max: 64 * MIB,
        }
    }
}

impl SegmentLogOptions {
    /// Checks that a new segment has room for the largest record beside the reserve, and the other
    /// limits.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let needed = u64::from(self.reserve_bytes)
            + u64::from(self.record_bytes_max) * 2 // a head is repeated in the footer
            - u64::from(self.record_bytes_max.saturating_sub(u32::from(u16::MAX)))
            + u64::from(format::SEGMENT_OVERHEAD_BYTES);
        if u64::from(self.segment_bytes) < needed {
            return Err(OpenError::Options(format!(
                "segment_bytes is {} but must be at least {needed} to hold record_bytes_max ({}) \
                 beside reserve_bytes ({})",
                self.segment_bytes, self.record_bytes_max, self.reserve_bytes
            )));
        }
        if self.segment_bytes > format::SEGMENT_BYTES_LIMIT {
            return Err(OpenError::Options(format!(
                "segment_bytes is {} but may be at most {}",
                self.segment_bytes,
                format::SEGMENT_BYTES_LIMIT
            )));
        }
        if self.set_aside_bytes_max > format::SEGMENT_BYTES_LIMIT / 2 {
            let most = format::SEGMENT_BYTES_LIMIT / 2;
            let what = format!("set_aside_bytes_max may be at most {most}");
            return Err(OpenError::Options(what));
        }
        if self.buffered_bytes_max == 0 || self.open_files_max == 0 {
            let what = "buffered_bytes_max and open_files_max must be above 0";
            return Err(OpenError::Options(what.into()));
        }
        Ok(())
    }
}
