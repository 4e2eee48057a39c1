//! An HTTP/2 connection: hyper parses and frames, each stream's request is routed by itself, and
//! every wait for the client has a deadline.
//!
//! What a client can cost is limited in four ways: by its open streams, by the memory that is held
//! for it (windows, the send buffer, the head), by the rate of frames that carry no request, and by
//! the time of each step. hyper's `h2` itself rejects streams that are reset faster than they are
//! processed, and heads of endless `CONTINUATION`s.

mod frames;
mod progress;
mod responding;
mod socket;
mod streams;

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hyper::server::conn::http2::{Builder, Connection};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::sync::WaitForCancellationFutureOwned;

pub(super) use self::frames::PREFACE;
use self::progress::Http2Progress;
use self::socket::Http2Socket;
use self::streams::{Routing, Tasks};
use super::first_head::reject_head;
use super::rearming_timer::RearmingTimer;
use super::replay::Replay;
use super::runtime::CoreContext;
use super::{ConnectionService, ConnectionStream, HttpServerLimits, Peer};
use crate::metrics::{HeadRefusal, HttpServerLimit};

/// What HTTP/2 adds to the length of each field (RFC 9113, section 6.5.2).
const FIELD_OVERHEAD: usize = 32;

/// Serves a connection to its end; `read`: its first bytes.
pub(super) async fn serve<S: ConnectionService>(
    core: Rc<CoreContext<S>>,
    stream: ConnectionStream,
    read: Vec<u8>,
    peer: Peer,
) {
    core.metrics().http2();
    let progress = Rc::new(Http2Progress::new(&core.limits(), &core.shared().clock));
    let replay = Replay::new(stream, read, Rc::clone(&progress));
    let socket = Http2Socket::new(replay, Rc::clone(&progress));
    let tasks = Tasks::new(&core);
    let routing = Routing {
        core: Rc::clone(&core),
        peer,
        progress: Rc::clone(&progress),
        tasks: tasks.clone(),
    };
    let builder = builder(&core.limits(), tasks);
    let connection = builder.serve_connection(TokioIo::new(socket), routing);
    let shutdown = Http2Shutdown::Serving(Box::pin(core.draining().clone().cancelled_owned()));
    let mut driven = Driven { connection, progress, shutdown, timer: RearmingTimer::default() };
    match poll_fn(|context| driven.poll(&core, context)).await {
        Http2Event::Ended(result) => count_error(&core, &driven.progress, result),
        Http2Event::TooLate(limit) => {
            match limit {
                HttpServerLimit::HeadTimeout => {
                    drop(reject_head(core.metrics(), HeadRefusal::Late))
                }
                limit => core.metrics().limit_hit(limit),
            }
            if limit != HttpServerLimit::LingerTimeout {
                driven.progress.mark_aborted();
            }
        }
    }
}

fn builder<S: ConnectionService>(limits: &HttpServerLimits, tasks: Tasks<S>) -> Builder<Tasks<S>> {
    let http2 = &limits.http2;
    let head_list = limits.head_bytes_max + limits.headers_max * FIELD_OVERHEAD;
    let mut builder = Builder::new(tasks);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(http2.streams_max)
        .max_header_list_size(u32::try_from(head_list).unwrap_or(u32::MAX))
        .initial_stream_window_size(http2.stream_window_bytes)
        .initial_connection_window_size(http2.connection_window_bytes)
        .max_send_buf_size(http2.send_buffer_bytes)
        .max_pending_accept_reset_streams(http2.resets_max as usize)
        .max_local_error_reset_streams(http2.resets_max as usize)
        .keep_alive_interval(http2.ping_interval)
        .keep_alive_timeout(http2.ping_timeout);
    builder
}

/// How a connection ends.
enum Http2Event {
    Ended(hyper::Result<()>),
    TooLate(HttpServerLimit),
}

/// A connection with its shutdown and its deadline.
struct Driven<S: ConnectionService> {
    connection: Connection<TokioIo<Http2Socket>, Routing<S>, Tasks<S>>,
    progress: Rc<Http2Progress>,
    shutdown: Http2Shutdown,
    timer: RearmingTimer,
}

/// The state of a connection's shutdown.
enum Http2Shutdown {
    /// Until the core drains.
    Serving(Pin<Box<WaitForCancellationFutureOwned>>),
    /// The client has got a GOAWAY. Until the core stops.
    Draining(Pin<Box<WaitForCancellationFutureOwned>>),
    Stopping,
}

impl<S: ConnectionService> Driven<S> {
    fn poll(&mut self, core: &CoreContext<S>, context: &mut Context<'_>) -> Poll<Http2Event> {
        loop {
            if let Poll::Ready(result) = Pin::new(&mut self.connection).poll(context) {
                return Poll::Ready(Http2Event::Ended(result));
            }
            if self.progress.is_flooded() {
                return Poll::Ready(Http2Event::TooLate(HttpServerLimit::Http2ControlFrames));
            }
            if self.advance_shutdown(core, context) {
                continue;
            }
            let Some(deadline) = self.progress.deadline(&core.limits()) else {
                return Poll::Pending;
            };
            ready!(self.timer.poll(context, deadline.at));
            if deadline.limit != HttpServerLimit::IdleTimeout {
                return Poll::Ready(Http2Event::TooLate(deadline.limit));
            }
            core.metrics().limit_hit(HttpServerLimit::IdleTimeout);
            self.announce_end();
        }
    }

    /// Returns whether the connection must be polled again.
    fn advance_shutdown(&mut self, core: &CoreContext<S>, context: &mut Context<'_>) -> bool {
        match &mut self.shutdown {
            Http2Shutdown::Serving(draining) => {
                if draining.as_mut().poll(context).is_pending() {
                    return false;
                }
                let stopping = core.stopping().clone().cancelled_owned();
                self.shutdown = Http2Shutdown::Draining(Box::pin(stopping));
                self.progress.drain();
                if !self.progress.is_goaway_sent() {
                    self.announce_end();
                }
            }
            Http2Shutdown::Draining(stopping) => {
                if stopping.as_mut().poll(context).is_pending() {
                    return false;
                }
                self.shutdown = Http2Shutdown::Stopping;
                self.progress.stop();
            }
            Http2Shutdown::Stopping => return false,
        }
        true
    }

    /// Sends a GOAWAY, which names the last request that will be served.
    fn announce_end(&mut self) {
        self.progress.announce_end();
        Pin::new(&mut self.connection).graceful_shutdown();
    }
}

/// Counts the error that ended a connection. h2 has notified the client.
fn count_error<S: ConnectionService>(
    core: &CoreContext<S>,
    progress: &Http2Progress,
    result: hyper::Result<()>,
) {
    let Err(error) = result else { return };
    tracing::debug!(%error, "connection ended");
    if error.is_timeout() {
        return core.metrics().limit_hit(HttpServerLimit::Http2PingTimeout);
    }
    let cause = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    let Some(cause) = cause.filter(|cause| cause.is_go_away() && cause.is_library()) else {
        return;
    };
    if progress.is_in_long_head() {
        // h2 gave up before the head ended.
        reject_head(core.metrics(), HeadRefusal::TooManyBytes);
    } else if cause.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM) {
        core.metrics().limit_hit(HttpServerLimit::Http2ResetsMax);
    } else {
        reject_head(core.metrics(), HeadRefusal::Malformed);
    }
}
