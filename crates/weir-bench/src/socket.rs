//! Reading and writing sockets that never block.

use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// How a read or a write ended that did not have to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    Bytes(usize),
    /// Nothing to read, or no room to write.
    NotNow,
    /// The other side is gone.
    Gone,
}

pub(crate) fn read(socket: &OwnedFd, buffer: &mut [u8]) -> Moved {
    match rustix::io::retry_on_intr(|| rustix::io::read(socket, &mut *buffer)) {
        Ok(0) => Moved::Gone,
        Ok(bytes) => Moved::Bytes(bytes),
        Err(Errno::AGAIN) => Moved::NotNow,
        Err(_) => Moved::Gone,
    }
}

/// Writes as much of `bytes` as there is room for.
pub(crate) fn write(socket: &OwnedFd, bytes: &[u8]) -> Moved {
    let mut sent = 0;
    while sent < bytes.len() {
        match rustix::io::write(socket, &bytes[sent..]) {
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if sent == 0 => return Moved::NotNow,
            Err(Errno::AGAIN) => break,
            Err(_) => return Moved::Gone,
        }
    }
    Moved::Bytes(sent)
}
