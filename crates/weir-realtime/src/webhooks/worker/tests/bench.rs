//! A worker with scripted endpoints.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::StatusCode;
use serde_json::Value;
use tokio::task::JoinHandle;
use weir_base::clock::{Clock, Timestamp};
use weir_base::secret::Secret;
use weir_base::semaphore::{OwnedPermit, Semaphore};
use weir_base::shutdown::ShutdownToken;

use super::super::super::Webhooks;
use super::super::super::app_hooks::{AppHooks, WebhookEndpoint};
use super::super::super::extra_headers::ExtraHeaders;
use super::super::super::kind::Kinds;
use super::super::super::metrics::WebhookMetrics;
use super::super::super::settings::WebhookSettings;
use super::super::super::shared::WebhookContext;
use weir_net::http_client::{BoxFuture, HttpRequest, HttpUrl};
use weir_net::webhook::{DeliveryError, Transport};

use crate::pusher::signature::Token;
use crate::pusher::webhook::{SIGNATURE_HEADER, WebhookEvent};

pub(super) struct Bench {
    pub(super) webhooks: Webhooks,
    pub(super) app: Arc<AppHooks>,
    pub(super) clock: Clock,
    pub(super) metrics: WebhookMetrics,
    pub(super) shutdown: ShutdownToken,
    pub(super) worker: JoinHandle<()>,
    shared: Arc<WebhookContext>,
    script: Script,
}

/// The response of an endpoint from now on.
#[derive(Clone, Copy)]
pub(super) enum ScriptedResponse {
    Status(u16),
    Hang,
}

#[derive(Clone)]
pub(super) struct SeenRequest {
    body: Vec<u8>,
    signature: String,
}

/// Responses and received requests by host.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<RequestLog>>);

#[derive(Default)]
struct RequestLog {
    responses: HashMap<String, ScriptedResponse>,
    requests: HashMap<String, Vec<SeenRequest>>,
}

struct Scripted {
    host: String,
    script: Script,
}

impl Script {
    fn open(&self, url: &HttpUrl) -> Box<dyn Transport> {
        Box::new(Scripted { host: url.host().to_owned(), script: self.clone() })
    }
}

impl Transport for Scripted {
    fn post(&self, post: HttpRequest) -> BoxFuture<'_, Result<(), DeliveryError>> {
        let signature = post.headers[SIGNATURE_HEADER].to_str().unwrap().to_owned();
        let body = post.body.to_vec();
        let response = {
            let mut script = self.script.0.lock().unwrap();
            script
                .requests
                .entry(self.host.clone())
                .or_default()
                .push(SeenRequest { body, signature });
            script.responses.get(&self.host).copied().unwrap_or(ScriptedResponse::Status(200))
        };
        Box::pin(async move {
            match response {
                ScriptedResponse::Status(200..=299) => Ok(()),
                ScriptedResponse::Status(code) => {
                    Err(DeliveryError::Status(StatusCode::from_u16(code).unwrap()))
                }
                ScriptedResponse::Hang => std::future::pending().await,
            }
        })
    }
}

/// Starts a worker, with an app that has an endpoint for all events on each host.
pub(super) fn bench(hosts: &[&str], change: impl FnOnce(&mut WebhookSettings)) -> Bench {
    let mut settings = WebhookSettings::default();
    change(&mut settings);
    let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let (metrics, shutdown) = (WebhookMetrics::default(), ShutdownToken::new());
    let semaphore = Arc::new(Semaphore::new(
        "webhooks",
        "webhooks_in_flight_max",
        u32::try_from(hosts.len()).unwrap(),
    ));
    let (webhooks, worker) =
        Webhooks::start(settings, clock.clone(), metrics.clone(), semaphore, shutdown.clone());
    let (shared, script) = (Arc::clone(&worker.shared), Script::default());
    let worker = shutdown.spawn(worker.run_with({
        let script = script.clone();
        Box::new(move |url| script.open(url))
    }));
    let endpoints = hosts.iter().map(|host| Arc::new(endpoint(host))).collect();
    let secret = Secret::new("secret");
    let app = AppHooks { app_id: "1".into(), key: "key".into(), secret, endpoints };
    Bench { webhooks, app: Arc::new(app), clock, metrics, shutdown, worker, shared, script }
}

fn endpoint(host: &str) -> WebhookEndpoint {
    WebhookEndpoint {
        url: format!("http://{host}/").parse().unwrap(),
        kinds: Kinds::ALL,
        channel_prefix: "".into(),
        headers: ExtraHeaders::default(),
    }
}

impl Bench {
    pub(super) fn enqueue(&self, event: &WebhookEvent<'_>) {
        self.webhooks.enqueue(&self.app, event);
    }

    /// Changes the app's settings, as a reload does.
    pub(super) fn app(&mut self, change: impl FnOnce(&mut AppHooks)) {
        let mut app = AppHooks::clone(&self.app);
        app.endpoints =
            app.endpoints.iter().map(|same| Arc::new(WebhookEndpoint::clone(same))).collect();
        change(&mut app);
        self.app = Arc::new(app);
    }

    pub(super) fn endpoint(&mut self, index: usize, change: impl FnOnce(&mut WebhookEndpoint)) {
        self.app(|app| change(Arc::get_mut(&mut app.endpoints[index]).unwrap()));
    }

    pub(super) fn set_response(&self, host: &str, response: ScriptedResponse) {
        self.script.0.lock().unwrap().responses.insert(host.to_owned(), response);
    }

    /// Yields until all tasks are idle.
    pub(super) async fn yield_until_idle(&self) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// Advances the time, and waits for the work that falls into it.
    pub(super) async fn advance_time(&self, time: Duration) {
        self.yield_until_idle().await;
        tokio::time::sleep(time).await;
        self.yield_until_idle().await;
    }

    pub(super) fn posts(&self, host: &str) -> Vec<SeenRequest> {
        self.script.0.lock().unwrap().requests.get(host).cloned().unwrap_or_default()
    }

    /// Returns the channels of the events of each request.
    pub(super) fn channels(&self, host: &str) -> Vec<Vec<String>> {
        self.posts(host).iter().map(SeenRequest::channels).collect()
    }

    /// Drops the handle and returns the worker's task.
    pub(super) fn end_handles(self) -> JoinHandle<()> {
        self.worker
    }

    pub(super) fn take_the_only_permit(&self) -> OwnedPermit {
        self.shared.semaphore.try_acquire_owned().unwrap()
    }

    pub(super) fn permits_in_use(&self) -> u32 {
        self.shared.semaphore.usage().in_use
    }

    pub(super) fn endpoint_tasks(&self) -> usize {
        self.shared.endpoint_shutdown.tasks()
    }
}

impl SeenRequest {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn channels(&self) -> Vec<String> {
        let json = self.json();
        let events = json["events"].as_array().unwrap().iter();
        events.map(|event| event["channel"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) fn time_ms(&self) -> u64 {
        self.json()["time_ms"].as_u64().unwrap()
    }

    pub(super) fn is_signed_with(&self, secret: &str) -> bool {
        let token = Token { key: "key", secret: &Secret::new(secret) };
        token.is_signature(&self.body, &self.signature)
    }
}
