//! systemd's readiness protocol, `sd_notify(3)`: datagrams to the socket in `NOTIFY_SOCKET`.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Reports the state to systemd, if there is a notification socket. Errors are logged and never
/// returned: a service must not fail because its supervisor is gone.
#[derive(Debug, Default)]
pub struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Creates a notifier without a socket, which sends nothing.
    #[must_use]
    pub fn disabled() -> Self {
        Self::default()
    }

    /// Creates a notifier. `socket` is the value of `NOTIFY_SOCKET`, a path or `@name` for an
    /// abstract socket; `watchdog` the value of `WATCHDOG_USEC`, the interval in which systemd
    /// expects signs of life.
    pub fn connect(socket: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match socket.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
        };
        let from = UnixDatagram::unbound()?;
        from.set_nonblocking(true)?;
        Ok(Self { socket: Some((from, address)), watchdog })
    }

    /// Returns the interval of systemd's watchdog, if it is enabled.
    #[must_use]
    pub fn watchdog(&self) -> Option<Duration> {
        self.socket.as_ref().and(self.watchdog)
    }

    /// Reports that the service serves, at startup or after a reload.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}\nMAINPID={}\n", std::process::id()));
    }

    /// Reports the start of a reload; [`Notify::ready`] ends it.
    pub fn reloading(&self) {
        let now = crate::monotonic().as_micros();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}\n"));
    }

    /// Reports that the service is shutting down.
    pub fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    /// Sets the status line of `systemctl status`.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}\n"));
    }

    /// Sends a sign of life to the watchdog.
    pub fn send_watchdog(&self) {
        self.send("WATCHDOG=1\n");
    }

    fn send(&self, text: &str) {
        let Some((from, socket)) = &self.socket else { return };
        if let Err(error) = from.send_to_addr(text.as_bytes(), socket) {
            tracing::warn!(%error, "systemd could not be notified");
        }
    }
}
