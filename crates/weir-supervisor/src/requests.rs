//! Requests to the parent from outside: by signal, or by a pipe (tests, and later a command).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::system;

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRequest {
    /// SIGTERM, SIGINT: end gracefully; the second time: immediately.
    Stop,
    /// SIGHUP: read the settings again.
    Reload,
    /// Start a new service process, and end the present one when that is ready. Only where
    /// [the service can run twice](crate::Supervisor::replacing_service_within).
    Replace,
    /// SIGUSR2: execute the program again, whose file may be another one now, and then do the same.
    Upgrade,
}

/// Where requests come from.
#[derive(Debug)]
pub struct Requests {
    source: RequestSource,
}

#[derive(Debug)]
enum RequestSource {
    Signals(OwnedFd),
    Pipe(OwnedFd),
}

/// The other end of [`Requests::pipe`].
#[derive(Debug)]
pub struct Sender(OwnedFd);

impl Requests {
    /// SIGTERM, SIGINT, SIGHUP and SIGUSR2 of this process. Call it before any thread is started: the
    /// signals are blocked in the calling thread and in those that it starts.
    pub fn signals() -> std::io::Result<Self> {
        Ok(Self { source: RequestSource::Signals(system::signal_descriptor()?) })
    }

    /// Requests that a [`Sender`] sends.
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

    /// The next request, if one waits.
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
            // Full of requests that nobody has read: one more would say nothing new.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
