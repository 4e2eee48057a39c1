//! Writes through rustls without waiting.

use std::io::{self, Write};
use std::task::{Context, Poll, ready};

use rustls::ServerConnection;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

type Tls = TlsStream<TcpStream>;

/// A socket for rustls whose writes fail with `WouldBlock` instead of waiting.
struct Direct<'a>(&'a TcpStream);

impl Write for Direct<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn try_write(tls: &mut Tls, bytes: &[u8]) -> io::Result<usize> {
    let (tcp, session) = tls.get_mut();
    flush(tcp, session)?;
    let accepted = session.writer().write(bytes)?;
    match flush(tcp, session) {
        // The bytes are encrypted and count as written; the next write flushes them first.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(accepted),
        flushed => flushed.map(|()| accepted),
    }
}

pub(super) fn poll_flush(tls: &mut Tls, context: &mut Context<'_>) -> Poll<io::Result<()>> {
    let (tcp, session) = tls.get_mut();
    loop {
        match flush(tcp, session) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                ready!(tcp.poll_write_ready(context))?;
            }
            flushed => return Poll::Ready(flushed),
        }
    }
}

pub(super) fn poll_write_ready(tls: &mut Tls, context: &mut Context<'_>) -> Poll<io::Result<()>> {
    ready!(poll_flush(tls, context))?;
    tls.get_ref().0.poll_write_ready(context)
}

/// Sends `close_notify`. Fails with `WouldBlock` if bytes are left to flush.
pub(super) fn close_notify(tls: &mut Tls) -> io::Result<()> {
    let (tcp, session) = tls.get_mut();
    flush(tcp, session)?;
    session.send_close_notify();
    flush(tcp, session)
}

/// Writes all encrypted bytes to the kernel. Fails with `WouldBlock` if some are left.
fn flush(tcp: &TcpStream, session: &mut ServerConnection) -> io::Result<()> {
    while session.wants_write() {
        if session.write_tls(&mut Direct(tcp))? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}
