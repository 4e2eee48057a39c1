//! The endpoints with recent events, each with its queue and its task.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use weir_base::seldom::Seldom;
use weir_net::http_client::HttpUrl;
use weir_net::webhook::{Transport, WebhookDelivery};

use super::app_hooks::{AppHooks, WebhookEndpoint};
use super::batch::Destination;
use super::event_message::EventMessage;
use super::metrics::DropReason;
use super::outbox::EndpointOutbox;
use super::queue::EndpointQueue;
use super::receipt::Receipt;
use super::shared::WebhookContext;
use super::transport::OpenTransport;

/// Senders by endpoint. A sender is opened by its first event, and closed after `keep_alive`
/// without one.
pub(super) struct EndpointSenders {
    by_endpoint: HashMap<EndpointKey, OpenSender>,
    open: OpenTransport,
    shared: Arc<WebhookContext>,
}

/// Identifies an endpoint across reloads.
#[derive(Debug)]
struct EndpointKey {
    app_id: Arc<str>,
    endpoint: Arc<WebhookEndpoint>,
}

#[derive(Debug)]
struct OpenSender {
    queue: Arc<EndpointQueue>,
    task: JoinHandle<()>,
    log: Seldom,
}

impl EndpointSenders {
    pub(super) fn new(open: OpenTransport, shared: Arc<WebhookContext>) -> Self {
        Self { by_endpoint: HashMap::new(), open, shared }
    }

    /// Queues an event for every endpoint that receives it.
    pub(super) fn send(&mut self, message: EventMessage) {
        let EventMessage { app, kind, channel, json, receipt, .. } = message;
        let mut accepting =
            app.endpoints.iter().filter(|endpoint| endpoint.accepts(kind, &channel)).peekable();
        if accepting.peek().is_none() {
            return;
        }
        let json = String::from_utf8(json).expect("serde_json writes UTF-8");
        let json = RawValue::from_string(json).expect("serde_json wrote it");
        let json = Arc::<RawValue>::from(json);
        for endpoint in accepting {
            self.queue(&app, endpoint, (Arc::clone(&json), receipt.clone()));
        }
    }

    fn queue(
        &mut self,
        app: &Arc<AppHooks>,
        endpoint: &Arc<WebhookEndpoint>,
        event: (Arc<RawValue>, Option<Receipt>),
    ) {
        let key = EndpointKey { app_id: Arc::clone(&app.app_id), endpoint: Arc::clone(endpoint) };
        let sender = self.by_endpoint.entry(key).or_insert_with(|| {
            let destination = Destination { app: Arc::clone(app), endpoint: Arc::clone(endpoint) };
            let transport = (self.open)(&endpoint.url);
            OpenSender::new(destination, transport, &self.shared)
        });
        let Some(limit) = sender.queue.push(app, endpoint, event) else { return };
        if sender.log.is_due(self.shared.clock.now()) {
            warn_of_dropped(app, endpoint, limit);
        }
    }

    /// Closes the senders that have been idle since `since`.
    pub(super) fn close_idle(&mut self, since: Instant) {
        self.by_endpoint.retain(|_, sender| {
            let is_idle = sender.queue.is_idle_since(since);
            if is_idle {
                sender.queue.close();
            }
            !is_idle
        });
    }

    /// Makes each endpoint send what is queued at once, as a last attempt.
    pub(super) fn start_shutdown(&self) {
        self.shared.endpoint_shutdown.request();
        self.by_endpoint.values().for_each(|sender| sender.queue.wake());
    }

    /// Waits until everything is sent or dropped, at most until `deadline`.
    pub(super) async fn shut_down(&self, deadline: Instant) {
        self.start_shutdown();
        self.by_endpoint.values().for_each(|sender| sender.queue.close());
        let remaining = deadline.saturating_duration_since(Instant::now());
        self.shared.endpoint_shutdown.drain(remaining).await;
        self.by_endpoint.values().for_each(|sender| sender.queue.drop_all());
    }
}

impl OpenSender {
    fn new(
        destination: Destination,
        transport: Box<dyn Transport>,
        shared: &Arc<WebhookContext>,
    ) -> Self {
        let route = format!("app {} to {}", destination.app.app_id, destination.endpoint.url);
        let queue = Arc::new(EndpointQueue::new(destination, Arc::clone(shared)));
        let settings = &shared.settings;
        let delivery = WebhookDelivery::new(
            EndpointOutbox::new(Arc::clone(&queue), Arc::clone(shared)),
            transport,
            shared.metrics.delivery.clone(),
            (settings.retry_delay_min, settings.retry_delay_max),
            route,
        );
        let task = shared.endpoint_shutdown.spawn(delivery.run());
        Self { queue, task, log: Seldom::default() }
    }
}

/// Nothing fills the queue any more, so its task must end.
impl Drop for OpenSender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn warn_of_dropped(app: &AppHooks, endpoint: &WebhookEndpoint, limit: DropReason) {
    tracing::warn!(
        app = &*app.app_id,
        endpoint = %endpoint.url,
        "too many webhook events wait for this endpoint, the oldest are dropped; make the receiver \
         answer faster, or raise realtime.webhooks.{}",
        limit.name()
    );
}

impl EndpointKey {
    fn parts(&self) -> (&str, &HttpUrl, &str) {
        (&self.app_id, &self.endpoint.url, &self.endpoint.channel_prefix)
    }
}

impl PartialEq for EndpointKey {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for EndpointKey {}

impl Hash for EndpointKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}
