//! `[front]`: the HTTP door: realtime and apps are behind it.

mod apps;
mod processes;
mod rules;
mod sockets;

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::time::Duration;

use weir_front::{AccessLogSettings, LogFormat};
use weir_net::TlsSettings;
use weir_net::client::TrustedProxy;
use weir_net::server::HttpServerLimits;

pub use self::apps::App;
pub use self::processes::Processes;
pub use self::sockets::SharedSockets;
use weir_settings::{DAY, Section, TableReader};

use super::tls;

/// More threads than any machine has use for.
const CORES_MAX: u64 = 1_024;

/// Where HTTP is served, by how many cores, within which limits.
#[derive(Clone, Debug, Section)]
#[section(restart, path = "front", check = Self::finish)]
pub struct Front {
    /// Where HTTP is served: realtime at /app/ and /apps/, and apps. Opened when it is set here or
    /// when there is an app under [[realtime.apps]] or [[front.apps]]; "off": never.
    #[setting(listener, upgrade, default = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))))]
    pub listen: Option<SocketAddr>,
    /// `listen` is in the file: it is opened whether or not anything is behind it.
    #[setting(skip)]
    pub is_listen_set: bool,
    /// Threads that serve HTTP and realtime, each with sockets of its own. None: as many as the
    /// machine has cores.
    #[setting(range = 1..=CORES_MAX)]
    pub cores: Option<u32>,
    /// Listening sockets of each core. Each has a backlog of its own (supervisor.backlog, which the
    /// kernel caps at net.core.somaxconn): together they hold the clients that connect in the same
    /// second.
    #[setting(stop, range = 1..=64, default = 8)]
    pub sockets_per_core: usize,
    /// Proxies in front of Weir whose X-Forwarded-For and X-Forwarded-Proto are trusted: addresses
    /// and networks ("10.0.0.0/8").
    #[setting(parsed_texts)]
    pub trusted_proxies: Vec<TrustedProxy>,
    /// When the service process is replaced (weir restart, weir upgrade), WebSockets and event
    /// streams of apps stay with the old process for this long; then WebSockets get a close frame
    /// (1001) and event streams end, spread over realtime.drain_window. A stop of Weir ends them at
    /// once.
    // Long enough for most calls and editing sessions; a deploy an hour is bounded by two processes.
    #[setting(reload, range = Duration::ZERO..=DAY, default = Duration::from_secs(10 * 60))]
    pub stream_drain: Duration,
    /// None: requests are not logged.
    #[setting(with = read_access_log)]
    pub access_log: Option<AccessLogSettings>,
    #[setting(with = tls::read_section)]
    pub tls: Option<TlsSettings>,
    #[setting(section)]
    pub limits: HttpServerLimits,
    #[setting(skip)]
    pub apps: Vec<App>,
}

/// `[front.access_log]`.
#[derive(Debug, Section)]
#[section(restart, path = "front.access_log")]
struct AccessLog {
    /// File for a line about each request to an app; "-": standard output. Reopened at a reload,
    /// for log rotation. None: requests are not logged.
    path: Option<String>,
    /// The common log format, the combined format with referrer and user agent, or JSON with all
    /// fields, such as waits, worker and request id.
    #[setting(choice, default = LogFormat::Combined)]
    format: LogFormat,
    /// Lines that wait to be written. Further lines are dropped and counted, so that a slow disk
    /// does not delay requests.
    #[setting(advanced, range = 1..=1_000_000, default = 8_192)]
    queue_max: usize,
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

    fn finish(&mut self, table: &mut TableReader<'_>) {
        self.is_listen_set = table.is_set("listen");
        if self.trusted_proxies.iter().any(|it| matches!(it, TrustedProxy::Unix)) {
            table.error_at(
                "trusted_proxies",
                "\"unix\" can't be: front.listen is no unix socket; write the proxy's address, \"127.0.0.1\" if it runs here",
            );
        }
        table.section("clients", |table| self.limits.clients.read(table));
        let mut known = apps::AppNames::default();
        table.each("apps", |table| self.apps.push(known.read(table)));
    }
}

fn read_access_log(access_log: &mut Option<AccessLogSettings>, table: &mut TableReader<'_>) {
    let mut settings = AccessLog::default();
    table.section("access_log", |table| {
        settings.read(table);
        let AccessLog { path, format, queue_max } = settings;
        let file = |path: String| (path != "-").then(|| table.in_folder(&path));
        *access_log = path.map(|path| AccessLogSettings { path: file(path), format, queue_max });
    });
}
