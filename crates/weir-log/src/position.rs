//! The position of a record (`RecordPosition`) and of the log's end (`Lsn`).

/// The position of a record: the segment's number and the byte offset in its file.
///
/// Positions sort in the order of the appends. They stay valid until the segment is removed:
/// neither recovery nor salvage moves a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordPosition {
    pub segment: u32,
    pub offset: u32,
}

impl RecordPosition {
    /// Packs the segment's number into the upper 32 bits and the offset into the lower 32 bits. The
    /// result sorts like the position.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        u64::from(self.segment) << 32 | u64::from(self.offset)
    }

    /// Unpacks what [`RecordPosition::to_u64`] returns.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "takes the two halves apart")]
    pub fn from_u64(packed: u64) -> RecordPosition {
        RecordPosition { segment: (packed >> 32) as u32, offset: packed as u32 }
    }
}

impl std::fmt::Display for RecordPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "segment {} offset {}", self.segment, self.offset)
    }
}

/// A log sequence number: bytes appended since this log was opened, over all segments.
///
/// It identifies a point in the log for durability: what was appended while `end()` was at or below
/// a number is on disk once the durable number has reached it. It is never stored, and starts at 0
/// on open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    pub(crate) fn plus(self, bytes: usize) -> Lsn {
        Lsn(self.0 + bytes as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_positions_keep_their_order() {
        let low = RecordPosition { segment: 1, offset: u32::MAX };
        let high = RecordPosition { segment: 2, offset: 0 };
        assert!(low < high && low.to_u64() < high.to_u64());
        assert_eq!(RecordPosition::from_u64(low.to_u64()), low);
        assert_eq!(RecordPosition::from_u64(high.to_u64()), high);
    }
}
