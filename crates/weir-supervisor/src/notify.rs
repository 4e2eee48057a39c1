//! systemd's readiness protocol, `sd_notify(3)`: datagrams to the socket in `NOTIFY_SOCKET`.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Reports the state to systemd, if it listens. Errors are logged, never returned: a service
/// does not fail because its watcher is gone.
#[derive(Debug, Default)]
pub struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// There is no listener.
    #[must_use]
    pub fn nobody() -> Self {
        Self::default()
    }

    /// `socket`: the value of `NOTIFY_SOCKET`, a path or `@name` for an abstract socket.
    /// `watchdog`: the value of `WATCHDOG_USEC`, when systemd expects to hear that often.
    pub fn to(socket: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match socket.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
        };
        let from = UnixDatagram::unbound()?;
        from.set_nonblocking(true)?;
        Ok(Self { to: Some((from, address)), watchdog })
    }

    /// The interval of systemd's watchdog, if there is one.
    #[must_use]
    pub fn watchdog(&self) -> Option<Duration> {
        self.to.as_ref().and(self.watchdog)
    }

    /// It serves (again).
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}\nMAINPID={}\n", std::process::id()));
    }

    /// It reads its settings again; [`Notify::ready`] ends that.
    pub fn reloading(&self) {
        let now = crate::monotonic().as_micros();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}\n"));
    }

    /// It ends.
    pub fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    /// A line for `systemctl status`.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}\n"));
    }

    /// A sign of life.
    pub fn alive(&self) {
        self.send("WATCHDOG=1\n");
    }

    fn send(&self, text: &str) {
        let Some((from, to)) = &self.to else { return };
        if let Err(error) = from.send_to_addr(text.as_bytes(), to) {
            tracing::warn!(%error, "systemd could not be notified");
        }
    }
}
