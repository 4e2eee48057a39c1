//! How much room the log has.

/// What an append may expect of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The disk has the space that the log needs.
    Ok { room_bytes: u64 },
    /// The disk refused: `room_bytes` are left, of which `job_bytes` for records of class `Job`
    /// (0: those are refused already).
    Low { room_bytes: u64, job_bytes: u64 },
    /// Not even essential records fit.
    Full,
}

/// Less than this is no room: an acknowledgement with its mark and footer entry takes some 100.
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
