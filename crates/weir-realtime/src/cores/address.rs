//! Connection ids, which contain the connection's core.

use crate::pusher::socket_id::SocketId;

/// A connection's number on its core.
pub(crate) type SessionKey = u32;

/// Bits of a connection's id that hold its number on its core.
const KEY_BITS: u32 = 32;

/// Returns a new id. The first part holds the core and the number; the second part is random, so
/// that ids can't be guessed.
pub(crate) fn socket_id(core: usize, key: SessionKey) -> SocketId {
    let first = ((core as u64) << KEY_BITS) | u64::from(key);
    SocketId { first, second: fastrand::u64(1 << 60..1 << 63) }
}

/// Returns the core number in this id. The id may be a client's invention, so the core may not
/// exist.
pub(crate) fn core_of(socket_id: SocketId) -> Option<usize> {
    usize::try_from(socket_id.first >> KEY_BITS).ok()
}

/// Returns the connection's number on its core.
pub(crate) const fn key_of(socket_id: SocketId) -> SessionKey {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is the key")]
    let key = socket_id.first as u32;
    key
}
