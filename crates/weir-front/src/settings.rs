//! The settings of an app (`[[front.apps]]`) and its limits.

use std::time::Duration;

use bytes::Bytes;
use weir_settings::{HOUR, Section, TableReader, WAIT};

use crate::address::UpstreamAddress;
use crate::forwarded_headers::ForwardedHeader;
use crate::rules::PriorityRule;
use crate::shed::ShedSettings;
use crate::upstream::HeadLimits;

/// The range's end for counts: more than any machine has of anything.
const COUNT_MAX: u64 = 1_000_000;

/// The settings of one app.
#[derive(Clone, Debug)]
pub struct AppSettings {
    /// The name of the app in logs, metrics and commands.
    pub name: String,
    /// Hosts that it serves, in lower case and without a port; none: all.
    pub hosts: Vec<String>,
    /// Paths that it serves, including everything below them; none: all.
    pub paths: Vec<String>,
    /// Where its workers listen.
    pub workers: Vec<UpstreamAddress>,
    /// Rules that move requests before or behind the others; the first match applies.
    pub priorities: Vec<PriorityRule>,
    /// Rules that reject requests while a job queue is behind.
    pub shed: Vec<ShedSettings>,
    /// HTML page during maintenance. None: the default page.
    pub maintenance_page: Option<Bytes>,
    /// Which header fields about the client and the proxies between are written for workers.
    pub forwarded_headers: Vec<ForwardedHeader>,
    pub limits: AppLimits,
}

impl AppSettings {
    /// Creates settings with this name and defaults for all else.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            hosts: Vec::new(),
            paths: Vec::new(),
            workers: Vec::new(),
            priorities: Vec::new(),
            shed: Vec::new(),
            maintenance_page: None,
            forwarded_headers: ForwardedHeader::ALL.to_vec(),
            limits: AppLimits::default(),
        }
    }
}

/// The limits of one app.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart, path = "front.apps")]
pub struct AppLimits {
    /// Requests that a worker serves at once: its threads, or 1 for one that forks. A worker
    /// receives a request only if it has a free slot.
    #[setting(range = 1..=COUNT_MAX, default = 1)]
    pub concurrency: u32,
    /// WebSockets and event streams that a worker serves at once, besides its requests; one more
    /// gets 503. Set 0 where a stream keeps a process or a thread busy (gunicorn's sync workers,
    /// puma, unicorn): then each keeps the slot of its request, and all but one of the app's slots
    /// can be streams. None: 64 where concurrency is 1, otherwise 16,384.
    #[setting(range = 0..=COUNT_MAX)]
    pub streams: Option<u32>,
    /// Requests that wait at once for a worker; more get 503.
    #[setting(range = 0..=COUNT_MAX, default = 1_024)]
    pub queue_max: usize,
    /// How long a request may wait for a worker; then it gets 503.
    #[setting(range = WAIT, default = Duration::from_secs(30))]
    pub queue_timeout: Duration,
    /// A queue is too long if the workers, at their current rate, need longer than this to serve
    /// it, or longer than half the time after which clients give up, if many do.
    // A real site at 80 % load: 0.03 % are shed in a simulation (dispatch/simulation.rs).
    #[setting(range = WAIT, default = Duration::from_secs(2))]
    pub overload_delay: Duration,
    /// How long a queue may be too long before that is an overload: then the newest request goes
    /// first, and none waits longer than overload_wait. Until then, requests are served in the
    /// order of their arrival.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(2))]
    pub overload_after: Duration,
    /// How long a request may wait for a worker during an overload; then it gets 503.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(3))]
    pub overload_wait: Duration,
    /// How long a worker may take to begin its response; then the client gets 504. The worker
    /// counts as busy until it responds.
    #[setting(range = WAIT, default = Duration::from_secs(60))]
    pub service_timeout: Duration,
    /// How long a worker may be silent within a response before the response is cut, or a client
    /// within its body before it gets 408.
    #[setting(range = WAIT, default = Duration::from_secs(60))]
    pub body_timeout: Duration,
    /// Time limit for connecting to a worker.
    #[setting(range = WAIT, default = Duration::from_secs(2))]
    pub connect_timeout: Duration,
    /// Workers that are tried, one after the other, for a request that certainly reached none;
    /// then it gets 502.
    #[setting(range = 1..=100, default = 3)]
    pub attempts_max: u32,
    /// An idempotent request whose body is buffered is repeated only if its reused connection
    /// ends this soon. After a longer time the request itself may have crashed the worker.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(1))]
    pub repeat_within: Duration,
    /// How long a worker that cannot be reached is not tried.
    #[setting(advanced, range = WAIT, default = Duration::from_millis(500))]
    pub retry_worker_after: Duration,
    /// Bytes of a request's body; a longer one gets 413.
    #[setting(size, range = 0..=1 << 40, default = 100 << 20)]
    pub request_bytes_max: u64,
    /// Bytes of a request's body that are read before a worker receives it, so that slow clients
    /// occupy no worker. The rest is passed on as it arrives; 0: all of it.
    #[setting(size, key = "request_buffer", range = 0..=1 << 40, default = 256 << 10)]
    pub request_buffer_bytes: usize,
    /// Bytes of a response that are read from the worker ahead of a slow client.
    #[setting(size, key = "answer_buffer", range = 0..=1 << 40, default = 1 << 20)]
    pub answer_buffer_bytes: usize,
    /// Bytes of all bodies that are buffered for the app. When they are used up, workers wait
    /// for their clients.
    #[setting(advanced, size, range = 0..=1 << 40, default = 64 << 20)]
    pub buffers_max: usize,
    /// Bytes of the head of a worker's response; a longer one causes 502.
    #[setting(size, range = 0..=1 << 40, default = 64 << 10)]
    pub answer_head_bytes_max: usize,
    /// Header fields of a worker's response; more cause 502.
    #[setting(range = 1..=10_000, default = 1_000)]
    pub answer_headers_max: usize,
    /// Idle connections to a worker that each core keeps open. None: 16, or 0 if concurrency is
    /// 1, because such a worker would wait for a request on an idle connection while other
    /// requests wait.
    #[setting(advanced, range = 0..=COUNT_MAX)]
    pub keep_alive_max: Option<usize>,
    /// How long a WebSocket or an event stream may be silent in both directions before it is
    /// closed.
    #[setting(range = WAIT, default = HOUR)]
    pub stream_idle_timeout: Duration,
    /// None: responses are sent unchanged.
    #[setting(with = read_gzip)]
    pub gzip: Option<Gzip>,
}

/// How responses are compressed for clients that accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gzip {
    /// Shorter responses are not compressed.
    pub bytes_min: u64,
    /// From 1 (fast) to 9 (small).
    pub level: u32,
}

/// As the file has it.
#[derive(Debug, Section)]
#[section(restart, path = "front.apps")]
struct GzipTable {
    /// Compress text responses for clients that accept it, unless the app already has.
    gzip: bool,
    /// Shorter responses are not compressed.
    #[setting(advanced, size, range = 0..=1 << 30, default = 1 << 10)]
    gzip_min: u64,
    /// From 1 (fast) to 9 (small).
    #[setting(advanced, range = 1..=9, default = 4)]
    gzip_level: u32,
}

fn read_gzip(gzip: &mut Option<Gzip>, table: &mut TableReader<'_>) {
    let mut settings = GzipTable::default();
    settings.read(table);
    *gzip = settings.gzip.then(|| Gzip::from(settings));
}

impl From<GzipTable> for Gzip {
    fn from(settings: GzipTable) -> Self {
        Self { bytes_min: settings.gzip_min, level: settings.gzip_level }
    }
}

impl Default for Gzip {
    fn default() -> Self {
        GzipTable::default().into()
    }
}

/// The default for workers that serve several requests at once: a core rarely has more requests in
/// progress on one worker.
const KEEP_ALIVE_MAX: usize = 16;

/// The default for workers that serve one request at a time: few of these can have any streams.
const STREAMS_OF_ONE: u32 = 64;
/// The default for other workers. Streams hold no request slot there, so this only limits what one
/// worker must keep open: a quarter of the front's connections.
const STREAMS: u32 = 16_384;

impl AppLimits {
    pub(crate) fn head_limits(&self) -> HeadLimits {
        HeadLimits { bytes_max: self.answer_head_bytes_max, headers_max: self.answer_headers_max }
    }

    pub(crate) fn streams(&self) -> u32 {
        let default = if self.concurrency == 1 { STREAMS_OF_ONE } else { STREAMS };
        self.streams.unwrap_or(default)
    }

    pub(crate) fn keep_alive(&self) -> usize {
        let default = if self.concurrency == 1 { 0 } else { KEEP_ALIVE_MAX };
        self.keep_alive_max.unwrap_or(default)
    }
}
