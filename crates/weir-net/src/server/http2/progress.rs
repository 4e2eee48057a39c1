//! What an HTTP/2 connection is waiting for, and its deadline.

use std::cell::{Cell, RefCell};

use tokio::time::Instant;
use weir_base::clock::Clock;
use weir_base::token_bucket::{Rate, TokenBucket};

use super::frames::Frames;
use crate::metrics::HttpServerLimit;
use crate::server::HttpServerLimits;
use crate::server::progress::{Blocked, Deadline};
use crate::server::replay::Watch;

/// The state that the socket, the requests and the connection's deadline share.
#[derive(Debug)]
pub(super) struct Http2Progress {
    frames: RefCell<Frames>,
    control: Control,
    /// How many requests have responses that hyper has not got completely.
    in_progress: Cell<u32>,
    /// Since when no request has been in progress.
    idle_since: Cell<Instant>,
    /// Since when a head, or the connection's preface, has been incomplete.
    head_since: Cell<Option<Instant>>,
    blocked: Blocked,
    /// Since when the client has been notified that no new request is served.
    goaway_since: Cell<Option<Instant>>,
    /// Whether the core drains: then a client gets `idle_timeout` to read the GOAWAY.
    is_draining: Cell<bool>,
    /// Whether to reset the connection, so that the kernel keeps no unread bytes.
    is_aborted: Cell<bool>,
}

/// The limit of frames that carry no request.
#[derive(Debug)]
struct Control {
    rate: Rate,
    bucket: Cell<TokenBucket>,
    clock: Clock,
    is_after_goaway: Cell<bool>,
}

impl Control {
    fn count(&self, frames: u32) {
        let mut bucket = self.bucket.get();
        for _ in 0..frames {
            if bucket.take(self.rate, self.clock.now()).is_err() {
                return self.is_after_goaway.set(true);
            }
        }
        self.bucket.set(bucket);
    }
}

impl Http2Progress {
    pub(super) fn new(limits: &HttpServerLimits, clock: &Clock) -> Self {
        let control = Control {
            rate: limits.http2.control_frames,
            bucket: Cell::default(),
            clock: clock.clone(),
            is_after_goaway: Cell::new(false),
        };
        Self {
            frames: RefCell::new(Frames::new()),
            control,
            in_progress: Cell::new(0),
            idle_since: Cell::new(Instant::now()),
            head_since: Cell::new(Some(Instant::now())),
            blocked: Blocked::default(),
            goaway_since: Cell::new(None),
            is_draining: Cell::new(false),
            is_aborted: Cell::new(false),
        }
    }

    /// Notes a new request. Returns how many are in progress.
    pub(super) fn begin_request(&self) -> u32 {
        self.in_progress.set(self.in_progress.get() + 1);
        self.in_progress.get()
    }

    pub(super) fn end_request(&self) {
        self.in_progress.set(self.in_progress.get() - 1);
        self.idle_since.set(Instant::now());
    }

    /// Notes that the client is notified that no new request is served.
    pub(super) fn announce_end(&self) {
        self.goaway_since.set(Some(Instant::now()));
    }

    pub(super) fn is_goaway_sent(&self) -> bool {
        self.goaway_since.get().is_some()
    }

    /// Notes that the core drains.
    pub(super) fn drain(&self) {
        self.is_draining.set(true);
    }

    /// Notes that the core stops, after the time of a drain if there was one.
    pub(super) fn stop(&self) {
        self.is_draining.set(false);
        self.announce_end();
    }

    /// Returns whether the client was notified so long ago that a new request was sent after that.
    pub(super) fn is_after_goaway(&self, limits: &HttpServerLimits) -> bool {
        !self.is_draining.get()
            && self
                .goaway_since
                .get()
                .is_some_and(|goaway| goaway.elapsed() >= limits.last_request_timeout)
    }

    pub(super) fn mark_aborted(&self) {
        self.is_aborted.set(true);
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.is_aborted.get()
    }

    /// Returns whether too many frames arrived that carry no request.
    pub(super) fn is_flooded(&self) -> bool {
        self.control.is_after_goaway.get()
    }

    /// Returns whether a head takes more than one frame and is incomplete.
    pub(super) fn is_in_long_head(&self) -> bool {
        self.frames.borrow().is_in_long_head()
    }

    /// Returns the deadline. None: the service sets the time.
    pub(super) fn deadline(&self, limits: &HttpServerLimits) -> Option<Deadline> {
        let (idle, has_request) = (self.idle_since.get(), self.in_progress.get() > 0);
        let (since, time_limit, limit) = if let Some(since) = self.blocked.since() {
            (since, limits.write_timeout, HttpServerLimit::WriteTimeout)
        } else if let (Some(goaway), false) = (self.goaway_since.get(), has_request) {
            // Also while a head is incomplete: the shutdown does not wait for a client that sends
            // nothing.
            let time_limit =
                if self.is_draining.get() { limits.idle_timeout } else { limits.linger_timeout };
            (goaway.max(idle), time_limit, HttpServerLimit::LingerTimeout)
        } else if let Some(since) = self.head_since.get() {
            // While a head is incomplete, no other frame may arrive, whatever is in progress.
            (since, limits.head_timeout, HttpServerLimit::HeadTimeout)
        } else if has_request {
            return None;
        } else {
            (idle, limits.idle_timeout, HttpServerLimit::IdleTimeout)
        };
        Some(Deadline { at: since + time_limit, limit })
    }
}

impl Watch for Http2Progress {
    fn read(&self, bytes: &[u8]) {
        let mut frames = self.frames.borrow_mut();
        self.control.count(frames.read(bytes));
        match (frames.is_in_head(), self.head_since.get()) {
            (true, None) => self.head_since.set(Some(Instant::now())),
            (false, Some(_)) => self.head_since.set(None),
            _ => {}
        }
    }

    fn wrote(&self, is_taken: bool) {
        self.blocked.wrote(is_taken);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;
    use weir_base::clock::Timestamp;

    use super::super::frames::PREFACE;
    use super::*;

    const STEP: Duration = Duration::from_secs(1);
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    fn limits() -> HttpServerLimits {
        let mut limits = HttpServerLimits {
            head_timeout: 10 * STEP,
            idle_timeout: 20 * STEP,
            write_timeout: 30 * STEP,
            linger_timeout: 2 * STEP,
            ..HttpServerLimits::default()
        };
        limits.http2.control_frames = Rate::per_second(1, 3);
        limits
    }

    fn begun() -> Http2Progress {
        let progress = Http2Progress::new(&limits(), &Clock::manual(Timestamp::from_millis(1)));
        progress.read(PREFACE);
        progress.read(&SETTINGS);
        progress
    }

    /// Returns the limit of the present deadline, and the time left.
    fn waits(progress: &Http2Progress) -> Option<(HttpServerLimit, Duration)> {
        let deadline = progress.deadline(&limits())?;
        Some((deadline.limit, deadline.at - Instant::now()))
    }

    #[tokio::test(start_paused = true)]
    async fn preface_and_heads_have_deadlines_and_pings_do_not_count_as_use() {
        let progress = Http2Progress::new(&limits(), &Clock::system());
        progress.read(PREFACE);
        advance(STEP).await;
        assert_eq!(waits(&progress), Some((HttpServerLimit::HeadTimeout, 9 * STEP)));
        progress.read(&SETTINGS);
        assert_eq!(waits(&progress), Some((HttpServerLimit::IdleTimeout, 19 * STEP)));
        advance(STEP).await;
        progress.read(&PING);
        assert_eq!(waits(&progress), Some((HttpServerLimit::IdleTimeout, 18 * STEP)));
        assert_eq!(progress.begin_request(), 1);
        assert_eq!(waits(&progress), None, "the service takes its time");
        progress.read(&[0, 0, 9, 1, 0, 0, 0, 0, 3]);
        assert_eq!(
            waits(&progress),
            Some((HttpServerLimit::HeadTimeout, 10 * STEP)),
            "whoever else waits"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn idle_timeout_starts_at_the_last_response_and_is_short_after_goaway() {
        let progress = begun();
        assert_eq!([progress.begin_request(), progress.begin_request()], [1, 2]);
        progress.end_request();
        assert_eq!(waits(&progress), None);
        progress.wrote(false);
        assert_eq!(waits(&progress), Some((HttpServerLimit::WriteTimeout, 30 * STEP)));
        progress.wrote(true);
        progress.announce_end();
        advance(STEP).await;
        progress.end_request();
        assert_eq!(waits(&progress), Some((HttpServerLimit::LingerTimeout, 2 * STEP)));
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_control_frames_are_a_flood() {
        let progress = begun();
        progress.read(&[PING, PING].concat());
        assert!(!progress.is_flooded(), "the settings and two more");
        progress.read(&PING);
        assert!(progress.is_flooded());
    }
}
