//! Webhooks notify the application's server of what happens on its channels.
//!
//! An event takes this path to an endpoint:
//! - [`Webhooks`], the handle that shards have: [`Webhooks::enqueue`] serializes the event and puts
//!   it into a bounded queue (`intake.rs`), without ever waiting.
//! - [`WebhookWorker`], one task: holds events that may be cancelled (`held.rs`), and puts the
//!   others into the queues of their endpoints (`endpoint_senders.rs`, `queue.rs`).
//! - One task per endpoint (weir-net's `WebhookDelivery`): takes a batch from the queue
//!   (`outbox.rs`), signs it (`request.rs`), and sends it (`transport.rs`), with retries.
//!
//! Guarantees: each endpoint receives its events in order, with one batch in progress at a time. An
//! event is delivered at least once, or dropped and counted by reason. A slow or dead endpoint uses
//! its own queue and at most one permit of the semaphore, and does not delay other endpoints.

mod app_hooks;
mod batch;
mod endpoint_senders;
mod event_message;
mod extra_headers;
mod held;
mod intake;
mod kind;
mod metrics;
mod outbox;
mod queue;
mod receipt;
mod request;
mod settings;
mod shared;
mod transport;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::Clock;
use weir_base::semaphore::Semaphore;
use weir_base::shutdown::ShutdownToken;
pub use weir_net::http_client::{HttpUrl, Trust};
pub use weir_net::webhook::FailureReason;

pub use app_hooks::{AppHooks, WebhookEndpoint};
pub use extra_headers::{EXTRA_HEADERS_MAX, ExtraHeaderError, ExtraHeaders};
pub use kind::{Kinds, UnknownKind, WebhookKind};
pub use metrics::{DropReason, WebhookMetrics, WebhookTotals};
pub use receipt::Receipt;
pub use settings::{WebhookLimits, WebhookSettings};
pub use worker::WebhookWorker;

use crate::pusher::webhook::WebhookEvent;
use event_message::EventMessage;
use intake::{Intake, intake};
use shared::WebhookContext;

/// The handle for sending webhooks. Cheap to clone. The [`WebhookWorker`] ends once all handles are
/// dropped.
#[derive(Clone, Debug)]
pub struct Webhooks {
    intake: Intake,
    vacated_delay: Duration,
    held_max: HeldMax,
}

/// How many events may wait for one that cancels them: `held_events_max` and `held_bytes_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldMax {
    pub events: usize,
    pub bytes: usize,
}

impl Webhooks {
    /// Returns a handle, and the worker that must [`run`](WebhookWorker::run) for anything to be
    /// sent. `semaphore` is that of `realtime.limits.webhooks_in_flight_max`.
    #[must_use]
    pub fn start(
        settings: WebhookSettings,
        clock: Clock,
        metrics: WebhookMetrics,
        semaphore: Arc<Semaphore>,
        shutdown: ShutdownToken,
    ) -> (Self, WebhookWorker) {
        let settings = settings.within_reason();
        let (intake, end) = intake(&settings.limits, clock.clone(), metrics.clone());
        let vacated_delay = settings.vacated_delay;
        let (events, bytes) = (settings.limits.held_events_max, settings.limits.held_bytes_max);
        let held_max = HeldMax { events, bytes };
        let shared = WebhookContext {
            settings,
            clock,
            metrics,
            semaphore,
            endpoint_shutdown: ShutdownToken::new(),
        };
        (
            Self { intake, vacated_delay, held_max },
            WebhookWorker { intake: end, shared: Arc::new(shared), shutdown },
        )
    }

    /// Queues an event for the endpoints of `app` that receive its kind. Never waits: if the queue
    /// is full, the event is dropped and counted.
    pub fn enqueue(&self, app: &Arc<AppHooks>, event: &WebhookEvent<'_>) {
        if app.has_endpoint_for_channel(WebhookKind::of(event), event_message::channel(event)) {
            self.intake.offer(EventMessage::new(app, event));
        }
    }

    /// Queues an event that must reach the endpoints, under an id that stays the same if another node
    /// repeats it. It is neither held nor cancelled: the shared log does that.
    pub(crate) fn enqueue_shared(
        &self,
        app: &Arc<AppHooks>,
        event: &WebhookEvent<'_>,
        id: &str,
        receipt: Receipt,
    ) {
        if app.has_endpoint_for_channel(WebhookKind::of(event), event_message::channel(event)) {
            self.intake.offer(EventMessage::shared(app, event, (id, receipt)));
        }
    }

    /// Returns how long an event waits for one that cancels it.
    pub(crate) const fn vacated_delay(&self) -> Duration {
        self.vacated_delay
    }

    pub(crate) const fn held_max(&self) -> HeldMax {
        self.held_max
    }

    pub(crate) fn count_early(&self, count: u64) {
        self.metrics().released_early.inc_by(count);
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> &WebhookMetrics {
        self.intake.metrics()
    }

    /// Returns whether events of this kind should be passed to [`Webhooks::enqueue`], so that
    /// callers need not create others. That includes events that only cancel another one: for
    /// example, `channel_occupied` when an endpoint receives only `channel_vacated`.
    #[must_use]
    pub fn has_receiver(&self, app: &AppHooks, kind: WebhookKind) -> bool {
        app.has_endpoint_for(kind) && self.intake.is_open()
    }
}
