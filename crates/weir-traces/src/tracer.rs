//! Decides what is traced, and queues finished spans for the exporter.

use std::sync::Arc;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use weir_base::clock::{Clock, Timestamp};

use crate::context::TraceContext;
use crate::metrics::{DropReason, TraceMetrics};
use crate::settings::TraceSettings;
use crate::span::{Span, SpanKind, SpanRecord};

/// Begins spans. Clones share the queue. The default traces nothing.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<TracerShared>>);

#[derive(Debug)]
struct TracerShared {
    clock: Clock,
    sample: f64,
    follow_clients: bool,
    jobs_max: usize,
    metrics: TraceMetrics,
    queue: Sender<Box<SpanRecord>>,
}

impl Tracer {
    /// Creates a tracer, and the queue of its finished spans.
    #[must_use]
    pub fn new(
        settings: &TraceSettings,
        clock: Clock,
        metrics: TraceMetrics,
    ) -> (Self, Receiver<Box<SpanRecord>>) {
        let (queue, finished) = channel(settings.limits.queue_max.max(1));
        let shared = TracerShared {
            clock,
            sample: settings.sample,
            follow_clients: settings.follow_clients,
            jobs_max: settings.limits.jobs_max,
            metrics,
            queue,
        };
        (Self(Some(Arc::new(shared))), finished)
    }

    /// Returns whether anything is traced.
    #[must_use]
    #[inline]
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the span of something that arrived with this context of its caller. Returns None if it
    /// is not traced: the caller decided so, or chance if there is no caller.
    #[must_use]
    #[inline]
    pub fn start(
        &self,
        name: &'static str,
        kind: SpanKind,
        caller: Option<TraceContext>,
    ) -> Option<Span> {
        let shared = self.0.as_ref()?;
        let context = match caller {
            Some(caller) if caller.is_sampled() => caller.new_child(),
            Some(_) => return None,
            None if fastrand::f64() < shared.sample => TraceContext::new_root(),
            None => return None,
        };
        Some(Span::begin(self.clone(), name, kind, context, caller))
    }

    /// Returns whether clients of the front decide what is traced, whoever they are.
    #[must_use]
    pub fn follows_clients(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.follow_clients)
    }

    /// Returns how many traced jobs may be in progress.
    #[must_use]
    pub fn jobs_max(&self) -> usize {
        self.0.as_ref().map_or(0, |shared| shared.jobs_max)
    }

    /// Counts a span that was dropped before it ended.
    pub fn count_dropped(&self, reason: DropReason) {
        if let Some(shared) = &self.0 {
            shared.metrics.dropped(reason, 1);
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.as_ref().map_or_else(Timestamp::default, |shared| shared.clock.now())
    }

    /// Queues a finished span. Never waits.
    pub(crate) fn queue(&self, record: Box<SpanRecord>) {
        let Some(shared) = &self.0 else { return };
        match shared.queue.try_send(record) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => shared.metrics.dropped(DropReason::QueueFull, 1),
            Err(TrySendError::Closed(_)) => shared.metrics.dropped(DropReason::Stopped, 1),
        }
    }
}
