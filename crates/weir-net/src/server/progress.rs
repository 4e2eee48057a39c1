//! What an HTTP/1 connection is waiting for, and its deadline.

use std::cell::{Cell, RefCell};
use std::io;

use hyper::Request;
use tokio::time::Instant;

use super::messages::{BodyEnd, Messages};
use super::replay::Watch;
use super::{AnswerWithin, HttpServerLimits};
use crate::metrics::HttpServerLimit;

/// The state that the socket, the requests and the connection's deadline share.
#[derive(Debug)]
pub(super) struct Http1Progress {
    /// Whether a request was routed whose response's body has not ended.
    in_progress: Cell<bool>,
    /// Whether the last request had a body.
    has_body: Cell<bool>,
    /// Since when no request has been in progress.
    idle_since: Cell<Instant>,
    /// Whether bytes have arrived behind the last request.
    has_head_begun: Cell<bool>,
    /// Since when. None: not checked since they arrived, so fast heads need no clock.
    head_since: Cell<Option<Instant>>,
    blocked: Blocked,
    /// The end of the time in which the client must read the current response.
    response_until: Cell<Option<Instant>>,
    /// Whether the kernel has everything that hyper has written.
    is_flushed: Cell<bool>,
    messages: RefCell<Messages>,
    /// A request that upgrades the connection.
    upgrade: RefCell<Option<Box<Request<()>>>>,
}

/// Since when the client has read none of the bytes that wait for it.
#[derive(Debug, Default)]
pub(super) struct Blocked(Cell<Option<Instant>>);

impl Blocked {
    pub(super) fn since(&self) -> Option<Instant> {
        self.0.get()
    }

    pub(super) fn wrote(&self, is_taken: bool) {
        if is_taken {
            self.0.set(None);
        } else if self.0.get().is_none() {
            self.0.set(Some(Instant::now()));
        }
    }
}

/// A deadline of a connection and the limit that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) limit: HttpServerLimit,
}

impl Http1Progress {
    pub(super) fn new() -> Self {
        Self {
            in_progress: Cell::new(false),
            has_body: Cell::new(false),
            idle_since: Cell::new(Instant::now()),
            has_head_begun: Cell::new(false),
            head_since: Cell::new(None),
            blocked: Blocked::default(),
            response_until: Cell::new(None),
            is_flushed: Cell::new(true),
            messages: RefCell::default(),
            upgrade: RefCell::new(None),
        }
    }

    /// Notes that hyper has read a head. Returns the original target if hyper got a changed one.
    pub(super) fn begin_request(&self, body: BodyEnd) -> Option<Vec<u8>> {
        self.in_progress.set(true);
        self.has_body.set(body != BodyEnd::Length(0));
        self.has_head_begun.set(false);
        self.head_since.set(None);
        self.messages.borrow_mut().begin_body(body)
    }

    pub(super) fn begin_response(&self, within: Option<AnswerWithin>) {
        self.response_until.set(within.map(|within| Instant::now() + within.0));
    }

    pub(super) fn end_request(&self) {
        self.in_progress.set(false);
        self.idle_since.set(Instant::now());
    }

    pub(super) fn has_body(&self) -> bool {
        self.has_body.get()
    }

    pub(super) fn has_request(&self) -> bool {
        self.in_progress.get()
    }

    /// Returns since when no request has been in progress.
    pub(super) fn idle_since(&self) -> Instant {
        self.idle_since.get()
    }

    pub(super) fn request_upgrade(&self, request: Box<Request<()>>) {
        self.messages.borrow_mut().upgrade();
        self.upgrade.replace(Some(request));
    }

    /// Returns the request for an upgrade, once all earlier responses were sent.
    pub(super) fn take_upgrade(&self) -> Option<Box<Request<()>>> {
        if self.is_flushed.get() { self.upgrade.take() } else { None }
    }

    /// Returns whether hyper waits only for the rest of a head with more fields than it accepts.
    pub(super) fn is_head_too_wide(&self) -> bool {
        !self.in_progress.get() && self.is_flushed.get() && self.messages.borrow().is_too_wide()
    }

    /// Notes that hyper accepts as many fields as are allowed.
    pub(super) fn widen(&self) {
        self.messages.borrow_mut().widen();
    }

    /// Returns whether the client must send or read bytes before the connection can continue.
    pub(super) fn is_waiting_for_client(&self) -> bool {
        !self.in_progress.get()
            || self.blocked.since().is_some()
            || self.response_until.get().is_some()
    }

    /// Returns the deadline; call it again whenever bytes have arrived. None: the service sets the
    /// time.
    pub(super) fn deadline(&self, limits: &HttpServerLimits) -> Option<Deadline> {
        let step = self.step_deadline(limits);
        let Some(at) = self.response_until() else { return step };
        let response_deadline = Deadline { at, limit: HttpServerLimit::AnswerTimeout };
        Some(step.filter(|step| step.at < at).unwrap_or(response_deadline))
    }

    /// Returns the deadline of the response. None once the kernel has all of it.
    fn response_until(&self) -> Option<Instant> {
        if !self.in_progress.get() && self.is_flushed.get() {
            self.response_until.set(None);
        }
        self.response_until.get()
    }

    fn step_deadline(&self, limits: &HttpServerLimits) -> Option<Deadline> {
        let (since, time_limit, limit) = if let Some(since) = self.blocked.since() {
            (since, limits.write_timeout, HttpServerLimit::WriteTimeout)
        } else if self.in_progress.get() {
            return None;
        } else if self.has_head_begun.get() {
            let since = self.head_since.get().unwrap_or_else(Instant::now);
            self.head_since.set(Some(since));
            (since, limits.head_timeout, HttpServerLimit::HeadTimeout)
        } else {
            (self.idle_since.get(), limits.idle_timeout, HttpServerLimit::IdleTimeout)
        };
        Some(Deadline { at: since + time_limit, limit })
    }
}

impl Watch for Http1Progress {
    fn admit(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.messages.borrow_mut().admit(bytes)
    }

    fn read(&self, _bytes: &[u8]) {
        if !self.in_progress.get() {
            self.has_head_begun.set(true);
        }
    }

    fn begin_write(&self) {
        self.is_flushed.set(false);
    }

    fn wrote(&self, is_taken: bool) {
        self.blocked.wrote(is_taken);
    }

    fn flushed(&self) {
        self.is_flushed.set(true);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    const NO_BODY: BodyEnd = BodyEnd::Length(0);
    const STEP: Duration = Duration::from_secs(1);

    fn limits() -> HttpServerLimits {
        HttpServerLimits {
            head_timeout: 10 * STEP,
            idle_timeout: 20 * STEP,
            write_timeout: 30 * STEP,
            ..HttpServerLimits::default()
        }
    }

    /// Returns the limit of the present deadline, and the time left.
    fn waits(progress: &Http1Progress) -> Option<(HttpServerLimit, Duration)> {
        let deadline = progress.deadline(&limits())?;
        Some((deadline.limit, deadline.at - Instant::now()))
    }

    #[tokio::test(start_paused = true)]
    async fn head_timeout_starts_at_the_first_byte_and_idle_timeout_at_the_last_response() {
        let progress = Http1Progress::new();
        assert_eq!(waits(&progress), Some((HttpServerLimit::IdleTimeout, 20 * STEP)));
        advance(STEP).await;
        progress.read(b"G");
        assert_eq!(waits(&progress), Some((HttpServerLimit::HeadTimeout, 10 * STEP)));
        advance(STEP).await;
        progress.read(b"G");
        assert_eq!(
            waits(&progress),
            Some((HttpServerLimit::HeadTimeout, 9 * STEP)),
            "from its first byte"
        );
        progress.begin_request(NO_BODY);
        progress.read(b"G");
        assert_eq!(waits(&progress), None, "the service takes its time");
        advance(100 * STEP).await;
        progress.end_request();
        assert_eq!(
            waits(&progress),
            Some((HttpServerLimit::IdleTimeout, 20 * STEP)),
            "a body is no head"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn write_timeout_restarts_with_each_written_byte() {
        let progress = Http1Progress::new();
        progress.begin_request(NO_BODY);
        progress.wrote(false);
        advance(STEP).await;
        progress.wrote(false);
        assert_eq!(waits(&progress), Some((HttpServerLimit::WriteTimeout, 29 * STEP)));
        progress.wrote(true);
        assert_eq!(waits(&progress), None, "it has read");
        progress.end_request();
        progress.wrote(false);
        assert_eq!(
            waits(&progress),
            Some((HttpServerLimit::WriteTimeout, 30 * STEP)),
            "first of all"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_deadline_holds_however_steadily_it_is_read() {
        let progress = Http1Progress::new();
        progress.begin_request(NO_BODY);
        progress.begin_response(Some(AnswerWithin(40 * STEP)));
        for waiting in [
            (HttpServerLimit::WriteTimeout, 30 * STEP),
            (HttpServerLimit::AnswerTimeout, 30 * STEP),
            (HttpServerLimit::AnswerTimeout, 20 * STEP),
        ] {
            progress.begin_write();
            progress.wrote(false);
            assert_eq!(waits(&progress), Some(waiting));
            advance(10 * STEP).await;
            progress.wrote(true);
        }
        assert_eq!(waits(&progress), Some((HttpServerLimit::AnswerTimeout, 10 * STEP)));
        progress.end_request();
        assert_eq!(
            waits(&progress),
            Some((HttpServerLimit::AnswerTimeout, 10 * STEP)),
            "hyper has some"
        );
        progress.flushed();
        assert_eq!(waits(&progress), Some((HttpServerLimit::IdleTimeout, 20 * STEP)));
        progress.begin_request(NO_BODY);
        progress.begin_response(None);
        assert_eq!(waits(&progress), None);
    }

    #[test]
    fn an_upgrade_waits_for_the_flush() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let _context = runtime.enter();
        let progress = Http1Progress::new();
        progress.request_upgrade(Box::default());
        progress.begin_write();
        assert!(progress.take_upgrade().is_none());
        progress.flushed();
        assert!(progress.take_upgrade().is_some());
        assert!(progress.take_upgrade().is_none(), "once");
    }
}
