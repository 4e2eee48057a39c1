//! `[[front.apps]]`: what an app is, and its limits.

use std::time::Duration;

use bytes::Bytes;

use crate::address::Address;
use crate::forwarded_headers::ForwardedHeader;
use crate::rules::{PriorityRule, ShedSettings};
use crate::upstream::HeadLimits;

/// One app.
#[derive(Clone, Debug)]
pub struct AppSettings {
    /// Names it in logs, metrics and commands.
    pub name: String,
    /// Hosts that it answers for, in lower case and without a port; none: all.
    pub hosts: Vec<String>,
    /// Paths that it answers for, with all below; none: all.
    pub paths: Vec<String>,
    /// Where its workers listen.
    pub workers: Vec<Address>,
    /// What goes before or behind the others; the first that fits counts.
    pub priorities: Vec<PriorityRule>,
    /// What is refused while a queue of jobs is behind.
    pub shed: Vec<ShedSettings>,
    /// What whoever asks is shown during maintenance: HTML. None: a page of our own.
    pub maintenance_page: Option<Bytes>,
    /// What workers are told of the client and of the way here.
    pub forwarded_headers: Vec<ForwardedHeader>,
    pub limits: AppLimits,
}

impl AppSettings {
    /// An app with this name and all else as it is by default.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppLimits {
    /// Requests that a worker serves at once.
    pub concurrency: u32,
    /// WebSockets and event streams of a worker at once; one more gets 503. 0: each keeps the slot of its
    /// request, and one slot of the app is left for requests. None: 64 where `concurrency` is 1, and
    /// 16,384 otherwise.
    pub streams: Option<u32>,
    /// Requests that wait at once for a worker. One more gets 503.
    pub queue_max: usize,
    /// How long a request may wait for a worker: 503.
    pub queue_timeout: Duration,
    /// A queue that the workers, at their pace of now, need longer than this to serve is too long ..
    pub overload_delay: Duration,
    /// .. and an overload once it has been so for this long.
    pub overload_after: Duration,
    /// How long a request may wait for a worker during an overload: 503.
    pub overload_wait: Duration,
    /// From a worker's request to the head of its answer: 504.
    pub service_timeout: Duration,
    /// How long a worker may be silent in the middle of an answer, or a client in the middle of a
    /// body.
    pub body_timeout: Duration,
    /// To connect to a worker.
    pub connect_timeout: Duration,
    /// Workers that a request is offered to, one after the other, before it gets 502. One that
    /// can't be reached is left alone for `retry_worker_after`.
    pub attempts_max: u32,
    /// A request that may be repeated is so only if the worker's connection ends this soon: one that
    /// the worker had for longer may be what it died of.
    pub repeat_within: Duration,
    /// How long a worker that can't be reached is left alone.
    pub retry_worker_after: Duration,
    /// Bytes of a request's body: 413.
    pub request_bytes_max: u64,
    /// Bytes of a request's body that are read before it goes to a worker. The rest of a longer one
    /// is passed on as it comes.
    pub request_buffer_bytes: usize,
    /// Bytes of an answer that are read from a worker ahead of its client.
    pub answer_buffer_bytes: usize,
    /// Bytes of all bodies that are kept so. When they are used up, workers wait for their clients.
    pub buffers_max: usize,
    /// Bytes of the head of a worker's answer. A longer one is no answer.
    pub answer_head_bytes_max: usize,
    /// Header fields of a worker's answer. More are no answer.
    pub answer_headers_max: usize,
    /// Idle connections to a worker that each core keeps open; 0: a connection for each request.
    /// None: 16, or 0 where `concurrency` is 1: a worker that serves one connection at a time would
    /// wait on an idle one while another core connects.
    pub keep_alive_max: Option<usize>,
    /// How long a stream may be silent in both directions.
    pub stream_idle_timeout: Duration,
    /// None: answers go out as they are.
    pub gzip: Option<Gzip>,
}

/// How answers are compressed for clients that take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gzip {
    /// Shorter ones are not.
    pub bytes_min: u64,
    /// From 1 (fast) to 9 (small).
    pub level: u32,
}

impl Default for Gzip {
    fn default() -> Self {
        Self { bytes_min: 1 << 10, level: 4 }
    }
}

/// Idle connections where a worker serves several requests at once: a core rarely has more running
/// on one worker.
const KEEP_ALIVE_MAX: usize = 16;

/// Streams where a worker serves one request at a time: few such servers can have any.
const STREAMS_OF_ONE: u32 = 64;
/// Streams of other workers. They hold no slot of a request, so this only bounds what one worker has to
/// keep: a quarter of what the front has connections for.
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

impl Default for AppLimits {
    fn default() -> Self {
        Self {
            concurrency: 1,
            streams: None,
            queue_max: 1_024,
            queue_timeout: Duration::from_secs(30),
            // A real site at 80 % load: 0.03 % are shed in a simulation (dispatch/simulation.rs).
            overload_delay: Duration::from_secs(2),
            overload_after: Duration::from_secs(2),
            overload_wait: Duration::from_secs(3),
            service_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(2),
            attempts_max: 3,
            repeat_within: Duration::from_secs(1),
            retry_worker_after: Duration::from_millis(500),
            request_bytes_max: 100 << 20,
            request_buffer_bytes: 256 << 10,
            answer_buffer_bytes: 1 << 20,
            buffers_max: 64 << 20,
            answer_head_bytes_max: 64 << 10,
            answer_headers_max: 1_000,
            keep_alive_max: None,
            stream_idle_timeout: Duration::from_secs(60 * 60),
            gzip: None,
        }
    }
}
