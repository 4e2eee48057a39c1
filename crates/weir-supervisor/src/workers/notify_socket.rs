//! The receiving end of `sd_notify(3)`: a worker's state messages.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::system::Identity;

/// Messages of one worker that are read per iteration of the loop.
const MESSAGES_PER_TURN_MAX: usize = 16;
/// Longer messages are truncated; the states that matter come first in practice.
const MESSAGE_BYTES_MAX: usize = 4096;

/// A worker's `NOTIFY_SOCKET`.
#[derive(Debug)]
pub(crate) struct NotifySocket {
    socket: UnixDatagram,
    path: PathBuf,
}

/// What a worker reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notifications {
    pub(crate) is_ready: bool,
    pub(crate) is_stopping: bool,
    pub(crate) is_alive: bool,
}

impl NotifySocket {
    /// Binds the socket at `path`. `owner` is the only user besides root that may write to it.
    pub(crate) fn bind(path: PathBuf, owner: Option<&Identity>) -> io::Result<Self> {
        let socket = UnixDatagram::bind(&path)?;
        let bound = Self { socket, path };
        bound.socket.set_nonblocking(true)?;
        if let Some(owner) = owner {
            chown(&bound.path, Some(owner.uid), Some(owner.gid))?;
        }
        Ok(bound)
    }

    /// Restores a socket that an earlier program has bound.
    pub(crate) fn resume(socket: OwnedFd, path: PathBuf) -> Self {
        Self { socket: socket.into(), path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns what was reported since the last call.
    pub(crate) fn receive(&self) -> Notifications {
        let mut notifications = Notifications::default();
        let mut message = [0; MESSAGE_BYTES_MAX];
        for _ in 0..MESSAGES_PER_TURN_MAX {
            let Ok(bytes) = self.socket.recv(&mut message) else { break };
            notifications.parse(&message[..bytes]);
        }
        notifications
    }
}

impl Notifications {
    fn parse(&mut self, message: &[u8]) {
        for line in message.split(|&byte| byte == b'\n') {
            match line {
                b"READY=1" => self.is_ready = true,
                b"STOPPING=1" => self.is_stopping = true,
                b"WATCHDOG=1" => self.is_alive = true,
                _ => {}
            }
        }
    }
}

impl Drop for NotifySocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sd_notify_states_are_parsed_and_others_ignored() {
        let mut notifications = Notifications::default();
        notifications.parse(b"STATUS=READY=1\nMAINPID=3\n");
        assert_eq!(notifications, Notifications::default());
        notifications.parse(b"READY=1\nSTATUS=fine");
        assert_eq!(notifications, Notifications { is_ready: true, ..Notifications::default() });
        notifications.parse(b"WATCHDOG=1");
        notifications.parse(b"\xff\nSTOPPING=1\n");
        assert_eq!(
            notifications,
            Notifications { is_ready: true, is_stopping: true, is_alive: true }
        );
    }
}
