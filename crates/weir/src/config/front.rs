//! `[front]`: the HTTP door. So far realtime is what is behind it.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::time::Duration;

use weir_net::TlsFiles;
use weir_net::server::Limits;

use super::keys::{Key, Keys, WAIT};
use super::tls;

/// More threads than any machine has use for.
const CORES_MAX: u64 = 1_024;

/// Where HTTP is served, by how many cores, within which limits.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    pub(crate) listen: SocketAddr,
    /// `listen` is in the file: it is opened whether or not anything is behind it.
    pub(crate) is_listen_set: bool,
    pub(crate) tls: Option<TlsFiles>,
    /// None: one for each core of the machine.
    pub(crate) cores: Option<u32>,
    pub(crate) limits: Limits,
}

impl Default for Front {
    fn default() -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
        let limits = Limits::default();
        Self { listen, is_listen_set: false, tls: None, cores: None, limits }
    }
}

impl Front {
    /// How many threads serve.
    pub(crate) fn cores(&self) -> usize {
        let machine = || std::thread::available_parallelism().map_or(1, NonZero::get);
        self.cores.map_or_else(machine, |cores| cores as usize)
    }

    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        keys.address(
            Key::fixed("listen", "Where HTTP is served, realtime at /app/ and /apps/ with it. Opened when it is set here or when there is an app under [[realtime.apps]]."),
            &mut self.listen,
        );
        self.is_listen_set = keys.is_set("listen");
        keys.optional_number(
            Key::fixed("cores", "Threads that serve HTTP and realtime, each with a socket of its own. None: as many as the machine has cores."),
            1..=CORES_MAX,
            &mut self.cores,
        );
        keys.section("tls", |keys| self.tls = tls::read(keys));
        keys.section("limits", |keys| read_limits(keys, &mut self.limits));
        keys.later(&["apps"]);
    }
}

fn read_limits(keys: &mut Keys<'_>, limits: &mut Limits) {
    let Limits {
        connections_max,
        refusals_max,
        linger_timeout,
        accepts_per_second,
        accepts_burst,
        head_bytes_max,
        head_timeout,
        idle_timeout,
        write_timeout,
        tls_handshakes_max,
        tls_handshake_timeout,
    } = limits;
    let mut number = |name, field: &mut u32, min, doc| {
        keys.number(Key::live(name, doc), min..=100_000_000, field);
    };
    number(
        "connections_max",
        connections_max,
        1,
        "Connections open at once, over all cores, WebSockets included. One more gets 503.",
    );
    number(
        "refusals_max",
        refusals_max,
        1,
        "Refused connections, on each core, that wait for their client to read why. One more is closed at once.",
    );
    number(
        "accepts_per_second",
        accepts_per_second,
        0,
        "Connections accepted per second, over all cores; 0: no limit. The others wait in the kernel's backlog.",
    );
    number(
        "accepts_burst",
        accepts_burst,
        1,
        "Connections accepted at once after a quiet time, when accepts_per_second is set.",
    );
    number(
        "tls_handshakes_max",
        tls_handshakes_max,
        1,
        "TLS handshakes at once, on each core; the others wait their turn.",
    );
    let mut wait = |name, field: &mut Duration, doc| {
        keys.duration(Key::live(name, doc), WAIT, field);
    };
    wait(
        "linger_timeout",
        linger_timeout,
        "How long a refused client may take to read why and to hang up.",
    );
    wait(
        "head_timeout",
        head_timeout,
        "A request's head must arrive within this long, or it gets 408.",
    );
    wait("idle_timeout", idle_timeout, "How long a connection may wait for its next request.");
    wait(
        "write_timeout",
        write_timeout,
        "How long a client may leave an answer unread before the connection is cut.",
    );
    wait(
        "tls_handshake_timeout",
        tls_handshake_timeout,
        "A TLS handshake must be done within this long.",
    );
    keys.size(
        Key::live("head_bytes_max", "Bytes of a request's head; a longer one gets 431. Not below 8KiB for later requests of a connection."),
        256..=1 << 20,
        head_bytes_max,
    );
}
