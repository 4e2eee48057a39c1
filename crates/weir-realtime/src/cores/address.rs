//! A connection's id says where the connection is.

use crate::pusher::socket_id::SocketId;

/// A connection's number on its core.
pub(crate) type SessionKey = u32;

/// Bits of a connection's id that hold its number on the core.
const KEY_BITS: u32 = 32;

/// A new id: core and number are its first part; the second can't be guessed.
pub(crate) fn socket_id(core: usize, key: SessionKey) -> SocketId {
    let first = ((core as u64) << KEY_BITS) | u64::from(key);
    SocketId { first, second: fastrand::u64(1 << 60..1 << 63) }
}

/// The core of a connection with this id, if there is such a core.
pub(crate) fn core_of(socket_id: SocketId) -> Option<usize> {
    usize::try_from(socket_id.first >> KEY_BITS).ok()
}

/// The connection's number on its core.
pub(crate) const fn key_of(socket_id: SocketId) -> SessionKey {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is the key")]
    let key = socket_id.first as u32;
    key
}
