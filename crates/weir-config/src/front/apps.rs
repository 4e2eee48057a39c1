//! `[[front.apps]]`.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use weir_front::{AppLimits, AppSettings, Gzip};
use weir_supervisor::workers::GroupName;

use super::super::keys::{Key, Keys, WAIT};
use super::processes::Processes;
use super::rules;
use super::sockets::SharedSockets;
use weir_settings::{DAY, MILLISECOND};

/// An app, and how its workers are started.
#[derive(Clone, Debug)]
pub struct App {
    pub settings: AppSettings,
    /// None: something else starts them.
    pub processes: Option<Processes>,
    /// None: requests get to its workers through the proxy.
    pub sockets: Option<SharedSockets>,
    /// Shown during maintenance.
    pub maintenance_page: Option<PathBuf>,
}

/// Bytes of a page that is kept in memory.
const PAGE_BYTES_MAX: u64 = 4 << 20;

impl App {
    /// The page that is shown during maintenance, if it has one of its own; `Err`: why it can't be
    /// read.
    pub fn page(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(path) = &self.maintenance_page else { return Ok(None) };
        let shown = path.display();
        let unreadable = |error: std::io::Error| format!("{shown} can't be read: {error}");
        let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
        if bytes > PAGE_BYTES_MAX {
            return Err(format!("{shown} has {bytes} bytes; a page has at most {PAGE_BYTES_MAX}"));
        }
        std::fs::read(path).map(Some).map_err(unreadable)
    }
}

/// More of anything than a machine holds.
const COUNT_MAX: u64 = 1_000_000;

/// The names that are taken.
#[derive(Debug, Default)]
pub(super) struct Known(HashSet<String>);

impl Known {
    /// One app. Without its name or workers it is none, but a mistake.
    pub(super) fn read(&mut self, keys: &mut Keys<'_>) -> App {
        let mut app = AppSettings::new("");
        let mut maintenance_page = None;
        keys.required_text(
            Key::fixed("name", "Required. Names the app in logs, metrics and commands."),
            &mut app.name,
        );
        self.check_name(keys, &app.name);
        read_routes(keys, &mut app);
        keys.some_texts(
            Key::live("upstreams", "Where the app's workers listen, one address for each process: \"unix:/PATH\" or \"IP:PORT\". A worker that is taken away finishes what it has. Required, unless there is a command."),
            &mut app.workers,
        );
        let processes = Processes::read(keys);
        if keys.is_set("command") && keys.is_set("upstreams") {
            keys.error_at("command", "either a command or upstreams: who starts the workers?");
        } else {
            keys.require_either(
                "command",
                "upstreams",
                "Weir starts the workers, or something else does",
            );
        }
        rules::read(keys, &mut app);
        keys.optional_path(
            Key::fixed("maintenance_page", "The HTML file that whoever asks is shown during maintenance, with 503 (weir workers maintenance APP on). None: a plain page of Weir's own."),
            &mut maintenance_page,
        );
        keys.parsed_texts(
            Key::fixed("forwarded_headers", "What workers are told of the client and of the way here: \"x-forwarded\" (X-Forwarded-For, -Proto and -Host), \"forwarded\" (RFC 7239), \"x-request-start\", \"x-request-id\". Leave out what the app does not read. What a client sends under these names reaches no worker, whether or not they are written."),
            &mut app.forwarded_headers,
        );
        read_counts(keys, &mut app.limits);
        read_buffers(keys, &mut app.limits);
        app.limits.gzip = read_gzip(keys);
        read_waits(keys, &mut app.limits);
        let sockets = SharedSockets::read(keys, processes.as_ref());
        if let (Some(processes), None) = (&processes, &sockets) {
            processes.check_reach(keys);
        }
        App { settings: app, processes, sockets, maintenance_page }
    }

    fn check_name(&mut self, keys: &mut Keys<'_>, name: &str) {
        if let Err(error) = name.parse::<GroupName>()
            && !name.is_empty()
        {
            keys.error_at("name", &error.to_string());
        }
        if !name.is_empty() && !self.0.insert(name.to_owned()) {
            keys.error_at("name", &format!("{name:?} is another app's name already"));
        }
    }
}

fn read_routes(keys: &mut Keys<'_>, app: &mut AppSettings) {
    keys.texts(
        Key::fixed("hosts", "Hosts that the app answers for, without a port. Empty: all."),
        &mut app.hosts,
    );
    if app.hosts.iter().any(|host| host.is_empty() || host.contains([':', '/', '*'])) {
        keys.error_at("hosts", "write names like \"shop.example\", without scheme, port or path");
    }
    keys.texts(
        Key::fixed("paths", "Paths that the app answers for, with all below them. Empty: all. Of two apps the one with a host goes first, then the one with the longer path; /app/ and /apps/ are realtime's where it has apps."),
        &mut app.paths,
    );
    if app.paths.iter().any(|path| !path.starts_with('/') || path.contains(['?', '#'])) {
        keys.error_at("paths", "write paths like \"/shop\"");
    }
}

fn read_counts(keys: &mut Keys<'_>, limits: &mut AppLimits) {
    keys.number(
        Key::fixed("concurrency", "Requests that a worker serves at once: its threads, or 1 for one that forks. A request goes to a worker only if it has room."),
        1..=COUNT_MAX,
        &mut limits.concurrency,
    );
    keys.optional_number(
        Key::fixed(
            "streams",
            "WebSockets and event streams that a worker serves at once, besides its requests; one more gets 503. Set 0 where a stream keeps a process or a thread busy (gunicorn's sync workers, puma, unicorn): then each keeps the slot of its request, and all but one of the app's slots can be streams. None: 64 where concurrency is 1, otherwise 16,384.",
        ),
        0..=COUNT_MAX,
        &mut limits.streams,
    );
    keys.number(
        Key::fixed("queue_max", "Requests that wait at once for a worker; more get 503."),
        0..=COUNT_MAX,
        &mut limits.queue_max,
    );
    keys.number(
        Key::fixed("attempts_max", "Workers that a request is offered to, one after the other, if it certainly reached none; then it gets 502."),
        1..=100,
        &mut limits.attempts_max,
    );
    keys.number(
        Key::fixed("answer_headers_max", "Header fields of a worker's answer; more give 502."),
        1..=10_000,
        &mut limits.answer_headers_max,
    );
    keys.optional_number(
        Key::fixed("keep_alive_max", "Idle connections to a worker that each core keeps. None: 16, or 0 where concurrency is 1, for such a worker would wait on an idle connection while another asks."),
        0..=COUNT_MAX,
        &mut limits.keep_alive_max,
    );
    keys.size(
        Key::fixed("request_bytes_max", "Bytes of a request's body; a longer one gets 413."),
        0..=1 << 40,
        &mut limits.request_bytes_max,
    );
}

/// None: answers go out as they are.
fn read_gzip(keys: &mut Keys<'_>) -> Option<Gzip> {
    let (mut is_on, mut gzip) = (false, Gzip::default());
    keys.flag(
        Key::fixed(
            "gzip",
            "Compress answers that are text, for clients that take it, unless the app has.",
        ),
        &mut is_on,
    );
    keys.size(
        Key::fixed("gzip_min", "Shorter answers are not compressed."),
        0..=1 << 30,
        &mut gzip.bytes_min,
    );
    keys.number(Key::fixed("gzip_level", "From 1 (fast) to 9 (small)."), 1..=9, &mut gzip.level);
    is_on.then_some(gzip)
}

fn read_buffers(keys: &mut Keys<'_>, limits: &mut AppLimits) {
    let mut size = |name, field: &mut usize, doc| {
        keys.size(Key::fixed(name, doc), 0..=1 << 40, field);
    };
    size(
        "request_buffer",
        &mut limits.request_buffer_bytes,
        "Bytes of a request's body that are read before it is given to a worker, so that a slow client holds none. What is beyond is passed on as it comes; 0: all of it.",
    );
    size(
        "answer_buffer",
        &mut limits.answer_buffer_bytes,
        "Bytes of an answer that are read from the worker ahead of a slow client.",
    );
    size(
        "buffers_max",
        &mut limits.buffers_max,
        "Bytes of all bodies that are kept so for the app. When they are used up, workers wait for their clients.",
    );
    size(
        "answer_head_bytes_max",
        &mut limits.answer_head_bytes_max,
        "Bytes of the head of a worker's answer; a longer one gives 502.",
    );
}

fn read_waits(keys: &mut Keys<'_>, limits: &mut AppLimits) {
    let mut wait = |name, field: &mut Duration, doc| {
        keys.duration(Key::fixed(name, doc), WAIT, field);
    };
    wait(
        "queue_timeout",
        &mut limits.queue_timeout,
        "How long a request may wait for a worker; then it gets 503.",
    );
    wait(
        "overload_delay",
        &mut limits.overload_delay,
        "A queue is too long if the workers, at their current rate, need longer than this to serve it, or longer than half the time after which clients give up, if many do.",
    );
    wait(
        "overload_after",
        &mut limits.overload_after,
        "How long a queue may be too long before that is an overload: then the newest request goes first and none waits longer than overload_wait. Until then requests are served in the order of their arrival.",
    );
    wait(
        "overload_wait",
        &mut limits.overload_wait,
        "How long a request may wait for a worker during an overload; then it gets 503.",
    );
    wait(
        "service_timeout",
        &mut limits.service_timeout,
        "How long a worker may take to begin its answer; then the client gets 504. The worker counts as busy until it answers.",
    );
    wait(
        "body_timeout",
        &mut limits.body_timeout,
        "How long a worker may be silent in the middle of an answer before it is cut, or a client in the middle of its body: 408.",
    );
    wait("connect_timeout", &mut limits.connect_timeout, "To connect to a worker.");
    wait(
        "repeat_within",
        &mut limits.repeat_within,
        "A request that may be repeated (idempotent, and here as a whole) is so only if the end of a kept connection is met this soon: what the worker had for longer may be what it died of.",
    );
    wait(
        "retry_worker_after",
        &mut limits.retry_worker_after,
        "How long a worker that can't be reached is left alone.",
    );
    keys.duration(
        Key::fixed("stream_idle_timeout", "How long a WebSocket or an event stream may be silent in both directions before it is cut."),
        MILLISECOND..=DAY,
        &mut limits.stream_idle_timeout,
    );
}
