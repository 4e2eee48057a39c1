//! External requests to the parent, by signal or by a pipe (for tests).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::system;

/// A request to the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRequest {
    /// SIGTERM, SIGINT: shut down gracefully; the second time immediately.
    Stop,
    /// SIGHUP: reload the settings.
    Reload,
    /// Start a new service process and end the current one when the new one is ready. Only where
    /// [the service can run twice](crate::Supervisor::replacing_service_within).
    Replace,
    /// SIGUSR2: re-execute the program, whose file may have changed, and then replace the service.
    Upgrade,
}

/// Receives requests.
#[derive(Debug)]
pub struct Requests {
    source: RequestSource,
}

#[derive(Debug)]
enum RequestSource {
    Signals(OwnedFd),
    Pipe(OwnedFd),
}

/// The sending end of [`Requests::pipe`].
#[derive(Debug)]
pub struct Sender(OwnedFd);

impl Requests {
    /// Receives SIGTERM, SIGINT, SIGHUP and SIGUSR2 of this process. Call it before any thread is
    /// started: it blocks the signals in the calling thread, and new threads inherit that.
    pub fn signals() -> std::io::Result<Self> {
        Ok(Self { source: RequestSource::Signals(system::signal_descriptor()?) })
    }

    /// Creates a pipe for requests and returns both ends.
    pub fn pipe() -> std::io::Result<(Sender, Self)> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok((Sender(writer), Self { source: RequestSource::Pipe(reader) }))
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.source {
            RequestSource::Signals(descriptor) | RequestSource::Pipe(descriptor) => {
                descriptor.as_fd()
            }
        }
    }

    /// Returns the next pending request without blocking.
    pub(crate) fn next(&self) -> Option<ControlRequest> {
        match &self.source {
            RequestSource::Signals(descriptor) => match system::next_signal(descriptor.as_fd())? {
                libc::SIGHUP => Some(ControlRequest::Reload),
                libc::SIGUSR2 => Some(ControlRequest::Upgrade),
                _ => Some(ControlRequest::Stop),
            },
            RequestSource::Pipe(descriptor) => {
                let mut byte = [0];
                match rustix::io::read(descriptor, &mut byte) {
                    Ok(1) if byte[0] == b'r' => Some(ControlRequest::Reload),
                    Ok(1) if byte[0] == b'n' => Some(ControlRequest::Replace),
                    Ok(1) if byte[0] == b'u' => Some(ControlRequest::Upgrade),
                    Ok(1) => Some(ControlRequest::Stop),
                    _ => None,
                }
            }
        }
    }
}

impl Sender {
    /// Sends `request`.
    pub fn send(&self, request: ControlRequest) -> std::io::Result<()> {
        let byte = match request {
            ControlRequest::Reload => b"r",
            ControlRequest::Replace => b"n",
            ControlRequest::Upgrade => b"u",
            ControlRequest::Stop => b"s",
        };
        match rustix::io::write(&self.0, byte) {
            // The pipe is full of unread requests: one more would add nothing.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
