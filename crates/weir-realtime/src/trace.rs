//! The spans of a traced publication: the request of the HTTP API, and the fan-out of its events, which
//! ends when the last core has them on, or queued for, all of its sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_traces::{Span, SpanKind};

/// The fan-out of the events of one request. Each message to a core holds a clone; the span ends with
/// the last one.
#[derive(Clone, Debug)]
pub(crate) struct FanoutSpan(Arc<FanoutState>);

#[derive(Debug)]
struct FanoutState {
    span: Span,
    events: AtomicU64,
    subscribers: AtomicU64,
    cores: AtomicU64,
}

impl FanoutSpan {
    /// Begins it within the span of the request.
    pub(crate) fn begin(request: &Span) -> Self {
        let span = request.child("fan-out", SpanKind::Internal);
        Self(Arc::new(FanoutState {
            span,
            events: AtomicU64::new(0),
            subscribers: AtomicU64::new(0),
            cores: AtomicU64::new(0),
        }))
    }

    /// Counts an event that was published to `subscribers` on `cores`.
    pub(crate) fn count(&self, subscribers: u64, cores: u64) {
        self.0.events.fetch_add(1, Ordering::Relaxed);
        self.0.subscribers.fetch_add(subscribers, Ordering::Relaxed);
        self.0.cores.fetch_add(cores, Ordering::Relaxed);
    }
}

impl Drop for FanoutState {
    fn drop(&mut self) {
        self.span.set("weir.events", *self.events.get_mut());
        self.span.set("weir.subscribers", *self.subscribers.get_mut());
        self.span.set("weir.messages_to_cores", *self.cores.get_mut());
    }
}
