//! Webhooks: the application's server is told what happens on its channels, without asking.
//!
//! From whoever knows of an event to the endpoint:
//! - [`Webhooks`], the handle of shards: [`Webhooks::tell`] writes the event and puts it into a
//!   bounded queue (`intake.rs`). It never waits.
//! - [`WebhookWorker`], one task: holds what may be taken back (`held.rs`), hands the rest to the queues
//!   of the endpoints that want it (`endpoint_senders.rs`, `queue.rs`).
//! - One task per endpoint (weir-net's `WebhookDelivery`): takes a batch from its queue (`outbox.rs`), signed
//!   (`request.rs`), and sends it (`transport.rs`), again if it must.
//!
//! Promises: the order of each endpoint is kept, with one batch on its way at a time; an event
//! arrives at least once, or is dropped and counted by reason; an endpoint that is slow or dead
//! costs its own queue and at most one permit of the semaphore, never another endpoint's time.

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
mod request;
mod settings;
mod shared;
mod transport;
mod worker;

use std::sync::Arc;

use weir_base::clock::Clock;
use weir_base::semaphore::Semaphore;
use weir_base::shutdown::ShutdownToken;
pub use weir_net::http_client::{HttpUrl, Trust};
pub use weir_net::webhook::FailureReason;

pub use app_hooks::{AppHooks, WebhookEndpoint};
pub use extra_headers::{EXTRA_HEADERS_MAX, ExtraHeaderError, ExtraHeaders};
pub use kind::{Kinds, UnknownKind, WebhookKind};
pub use metrics::{DropReason, WebhookMetrics, WebhookTotals};
pub use settings::{WebhookLimits, WebhookSettings};
pub use worker::WebhookWorker;

use crate::pusher::webhook::WebhookEvent;
use event_message::EventMessage;
use intake::{Intake, intake};
use shared::WebhookContext;

/// Where events are told. Cheap to clone; drop it when no more will come, for the [`WebhookWorker`] ends
/// after the last.
#[derive(Clone, Debug)]
pub struct Webhooks {
    intake: Intake,
}

impl Webhooks {
    /// A handle, and the worker that must [`run`](Worker::run) for anything to be sent. The
    /// semaphore is that of `realtime.limits.webhooks_in_flight_max`.
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
        let shared =
            WebhookContext { settings, clock, metrics, semaphore, ending: ShutdownToken::new() };
        (Self { intake }, WebhookWorker { intake: end, shared: Arc::new(shared), shutdown })
    }

    /// Tells the endpoints of `app` that want it. Never waits: what the queue can't take is dropped
    /// and counted.
    pub fn enqueue(&self, app: &Arc<AppHooks>, event: &WebhookEvent<'_>) {
        if app.concern_channel(WebhookKind::of(event), event_message::channel(event)) {
            self.intake.offer(EventMessage::new(app, event));
        }
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> &WebhookMetrics {
        self.intake.metrics()
    }

    /// Whether events of this kind are worth telling, before one is made. Also of what only takes
    /// another back: somebody who occupies a channel, where only its vacation is wanted.
    #[must_use]
    pub fn wants(&self, app: &AppHooks, kind: WebhookKind) -> bool {
        app.concern(kind) && self.intake.is_open()
    }
}
