//! The free space of the log.

/// The space that is available for appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Space is available: `room_bytes` without a further allocation.
    Ok { room_bytes: u64 },
    /// The disk is full: `room_bytes` are left, of which records of class `Job` may use `job_bytes`
    /// (0: they are already rejected).
    Low { room_bytes: u64, job_bytes: u64 },
    /// Not even essential records fit.
    Full,
}

/// Less than this counts as full: an acknowledgement with its mark and footer entry takes some 100.
const ROOM_BYTES_MIN: u32 = 256;

impl Space {
    pub(crate) fn short(room_bytes: u32, reserve_bytes: u32) -> Space {
        if room_bytes < ROOM_BYTES_MIN {
            return Space::Full;
        }
        let job_bytes = room_bytes.saturating_sub(reserve_bytes).into();
        Space::Low { room_bytes: room_bytes.into(), job_bytes }
    }
}
