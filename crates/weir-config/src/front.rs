//! `[front]`: the HTTP door: realtime and apps are behind it.

mod apps;
mod clients;
mod http2;
mod processes;
mod rules;
mod sockets;

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::time::Duration;

use weir_front::{AccessLogSettings, LogFormat};
use weir_net::TlsSettings;
use weir_net::client::TrustedProxy;
use weir_net::server::Limits;

pub use self::apps::App;
pub use self::processes::Processes;
pub use self::sockets::SharedSockets;
use super::keys::{Key, Keys, WAIT};
use super::tls;
use weir_settings::DAY;

/// More threads than any machine has use for.
const CORES_MAX: u64 = 1_024;

/// Where HTTP is served, by how many cores, within which limits.
#[derive(Clone, Debug)]
pub struct Front {
    pub listen: SocketAddr,
    /// `listen` is in the file: it is opened whether or not anything is behind it.
    pub is_listen_set: bool,
    /// `listen` is `"off"`: it is never opened.
    pub is_off: bool,
    pub tls: Option<TlsSettings>,
    /// None: one for each core of the machine.
    pub cores: Option<u32>,
    /// Listening sockets of each core.
    pub sockets_per_core: usize,
    pub trusted_proxies: Vec<TrustedProxy>,
    /// How long streams stay with a service process that was replaced.
    pub stream_drain: Duration,
    /// None: requests are not logged.
    pub access_log: Option<AccessLogSettings>,
    pub limits: Limits,
    pub apps: Vec<App>,
}

impl Default for Front {
    fn default() -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
        let limits = Limits::default();
        Self {
            listen,
            is_listen_set: false,
            is_off: false,
            tls: None,
            cores: None,
            sockets_per_core: 8,
            trusted_proxies: Vec::new(),
            // Long enough for most calls and editing sessions; a deploy an hour is bounded by two processes.
            stream_drain: Duration::from_secs(10 * 60),
            access_log: None,
            limits,
            apps: Vec::new(),
        }
    }
}

impl Front {
    /// How many sockets an address has.
    pub fn sockets(&self) -> usize {
        self.cores() * self.sockets_per_core
    }

    /// How many threads serve.
    pub fn cores(&self) -> usize {
        let machine = || std::thread::available_parallelism().map_or(1, NonZero::get);
        self.cores.map_or_else(machine, |cores| cores as usize)
    }

    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        self.is_off = !super::keys::listener(keys, 
            Key::fixed("listen", "Where HTTP is served: realtime at /app/ and /apps/, and apps. Opened when it is set here or when there is an app under [[realtime.apps]] or [[front.apps]]; \"off\": never."),
            &mut self.listen,
        );
        self.is_listen_set = keys.is_set("listen");
        keys.optional_number(
            Key::fixed("cores", "Threads that serve HTTP and realtime, each with sockets of its own. None: as many as the machine has cores."),
            1..=CORES_MAX,
            &mut self.cores,
        );
        keys.number(
            Key::fixed("sockets_per_core", "Listening sockets of each core. Each has a backlog of its own (supervisor.backlog, which the kernel caps at net.core.somaxconn): together they hold the clients that come back in the same second."),
            1..=64,
            &mut self.sockets_per_core,
        );
        keys.parsed_texts(
            Key::fixed("trusted_proxies", "Proxies in front of Weir whose X-Forwarded-For and X-Forwarded-Proto are believed: addresses and networks (\"10.0.0.0/8\")."),
            &mut self.trusted_proxies,
        );
        if self.trusted_proxies.iter().any(|it| matches!(it, TrustedProxy::Unix)) {
            keys.error_at(
                "trusted_proxies",
                "\"unix\" can't be: front.listen is no unix socket; write the proxy's address, \"127.0.0.1\" if it runs here",
            );
        }
        keys.duration(
            Key::live("stream_drain", "When the service process is replaced (weir restart, weir upgrade), WebSockets and event streams of apps stay with the old process for this long; then WebSockets get a close frame (1001) and event streams end, spread over realtime.drain_window. A stop of Weir ends them at once."),
            Duration::ZERO..=DAY,
            &mut self.stream_drain,
        );
        keys.section("access_log", |keys| self.access_log = read_access_log(keys));
        keys.section("tls", |keys| self.tls = tls::read(keys));
        keys.section("limits", |keys| read_limits(keys, &mut self.limits));
        keys.section("clients", |keys| clients::read(keys, &mut self.limits.clients));
        let mut known = apps::Known::default();
        keys.each("apps", |keys| self.apps.push(known.read(keys)));
    }
}

/// None: there is no path, so no log.
fn read_access_log(keys: &mut Keys<'_>) -> Option<AccessLogSettings> {
    let mut path = None;
    let (mut format, mut queue_max) = (LogFormat::Combined, 8_192_usize);
    keys.optional_text(
        Key::fixed("path", "The file that gets a line for each request to an app; \"-\": standard output. Opened anew at a reload, after it was moved away. None: requests are not logged."),
        &mut path,
    );
    let formats = [
        ("common", LogFormat::Common),
        ("combined", LogFormat::Combined),
        ("json", LogFormat::Json),
    ];
    keys.choice_of(
        Key::fixed("format", "Web servers' common format, the same with referrer and user agent, or JSON with all that is known: waits, worker, request id."),
        &formats,
        &mut format,
    );
    keys.number(
        Key::fixed("queue_max", "Lines that wait to be written. One more is left out and counted: a slow disk delays no request."),
        1..=1_000_000,
        &mut queue_max,
    );
    let path = path?;
    let path = if path == "-" { None } else { Some(keys.in_folder(&path)) };
    Some(AccessLogSettings { path, format, queue_max })
}

/// More of anything than a machine holds.
const COUNT_MAX: u64 = 100_000_000;

fn read_limits(keys: &mut Keys<'_>, limits: &mut Limits) {
    read_counts(keys, limits);
    read_waits(keys, limits);
    http2::read(keys, &mut limits.http2);
    keys.size(
        Key::live("head_bytes_max", "Bytes of a request's head; a longer one gets 431. Not below 8KiB for later requests of a connection."),
        256..=1 << 20,
        &mut limits.head_bytes_max,
    );
}

/// More header fields than fit into a head.
const HEADERS_MAX: u64 = 10_000;

fn read_counts(keys: &mut Keys<'_>, limits: &mut Limits) {
    keys.number(
        Key::live("headers_max", "Header fields of a request; one with more gets 431."),
        1..=HEADERS_MAX,
        &mut limits.headers_max,
    );
    let mut count = |name, min, field: &mut u32, doc| {
        keys.number(Key::live(name, doc), min..=COUNT_MAX, field);
    };
    count(
        "connections_max",
        1,
        &mut limits.connections_max,
        "Connections open at once, over all cores, WebSockets included. One more gets 503.",
    );
    count(
        "refusals_max",
        1,
        &mut limits.refusals_max,
        "Refused connections, on each core, that wait for their client to read why. One more is closed at once.",
    );
    count(
        "accepts_per_second",
        0,
        &mut limits.accepts_per_second,
        "Connections accepted per second, over all cores; 0: no limit. The others wait in the kernel's backlog.",
    );
    count(
        "accepts_burst",
        1,
        &mut limits.accepts_burst,
        "Connections accepted at once after a quiet time, when accepts_per_second is set.",
    );
    count(
        "tls_handshakes_max",
        1,
        &mut limits.tls_handshakes_max,
        "TLS handshakes at once, on each core; the others wait their turn.",
    );
}

fn read_waits(keys: &mut Keys<'_>, limits: &mut Limits) {
    let mut wait = |name, field: &mut Duration, doc| {
        keys.duration(Key::live(name, doc), WAIT, field);
    };
    wait(
        "linger_timeout",
        &mut limits.linger_timeout,
        "How long a refused client may take to read why and to hang up.",
    );
    wait(
        "discard_timeout",
        &mut limits.discard_timeout,
        "How long a client may go on with a body that is wanted no more (it was answered 413, for example), so that it gets to read the answer; linger_timeout after its last byte it is closed.",
    );
    wait(
        "head_timeout",
        &mut limits.head_timeout,
        "A request's head must arrive within this long, or it gets 408.",
    );
    wait(
        "idle_timeout",
        &mut limits.idle_timeout,
        "How long a connection may wait for its next request.",
    );
    wait(
        "last_request_timeout",
        &mut limits.last_request_timeout,
        "When Weir stops, an idle connection is kept open this long: a request that is on its way is served, as the last one. When the service process is replaced, idle connections have idle_timeout instead.",
    );
    wait(
        "write_timeout",
        &mut limits.write_timeout,
        "How long a client may leave an answer unread before the connection is cut.",
    );
    wait(
        "tls_handshake_timeout",
        &mut limits.tls_handshake_timeout,
        "A TLS handshake must be done within this long.",
    );
}
