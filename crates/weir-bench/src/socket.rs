//! Reading and writing sockets that never block.

use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// Outcome of a non-blocking read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IoOutcome {
    Bytes(usize),
    /// Nothing to read, or no room in the socket's buffer.
    WouldBlock,
    /// The peer has closed the connection.
    Closed,
}

pub(crate) fn read(socket: &OwnedFd, buffer: &mut [u8]) -> IoOutcome {
    match rustix::io::retry_on_intr(|| rustix::io::read(socket, &mut *buffer)) {
        Ok(0) => IoOutcome::Closed,
        Ok(bytes) => IoOutcome::Bytes(bytes),
        Err(Errno::AGAIN) => IoOutcome::WouldBlock,
        Err(_) => IoOutcome::Closed,
    }
}

/// Writes as many `bytes` as the socket's buffer has room for.
pub(crate) fn write(socket: &OwnedFd, bytes: &[u8]) -> IoOutcome {
    let mut sent = 0;
    while sent < bytes.len() {
        match rustix::io::write(socket, &bytes[sent..]) {
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if sent == 0 => return IoOutcome::WouldBlock,
            Err(Errno::AGAIN) => break,
            Err(_) => return IoOutcome::Closed,
        }
    }
    IoOutcome::Bytes(sent)
}
