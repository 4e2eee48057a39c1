//! Sends requests to one upstream: follows redirects, retries, and counts both.

mod answer;
mod ask;
mod error;
mod health;
mod redirect_host;
mod url;

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use weir_net::http_client::{
    ClientSettings, HttpClient, HttpRequest, HttpResponse, HttpUrl, Reach, Server, Trust,
};

pub(super) use self::answer::Answer;
use self::answer::{judged, location};
pub(super) use self::ask::Ask;
pub(super) use self::error::FetchError;
use self::health::Health;
pub use self::redirect_host::{RedirectHost, RedirectHostError};
pub use self::url::{UpstreamUrl, UpstreamUrlError};
use super::settings::{MirrorLimits, UpstreamSettings};
use crate::metrics::UpstreamMetrics;

/// Maximum number of consecutive redirects.
pub(super) const REDIRECTS_MAX: usize = 3;

/// HTTP client for one upstream. All tasks share it.
#[derive(Debug)]
pub(super) struct Client {
    url: UpstreamUrl,
    credentials: Option<HeaderValue>,
    redirect_hosts: Vec<RedirectHost>,
    limits: MirrorLimits,
    metrics: UpstreamMetrics,
    http: HttpClient,
    http_settings: Arc<ClientSettings>,
    health: Arc<Health>,
}

impl Client {
    pub(super) fn new(
        settings: &UpstreamSettings,
        trust: &Trust,
        limits: &MirrorLimits,
        metrics: UpstreamMetrics,
    ) -> Self {
        let http_settings = Arc::new(limits.client_settings(trust));
        let server = Server::Web { url: settings.url.http().clone(), nearest: Reach::Special };
        Self {
            url: settings.url.clone(),
            credentials: settings.credentials.as_ref().map(ask::basic),
            redirect_hosts: settings.redirect_hosts.clone(),
            limits: limits.clone(),
            metrics,
            http: HttpClient::new(server, Arc::clone(&http_settings)),
            http_settings,
            health: Arc::new(Health::new(limits.backoff())),
        }
    }

    /// Fails at once if the upstream has just failed, so that clients don't wait for one timeout
    /// after another.
    pub(super) fn check_health(&self) -> Result<(), FetchError> {
        self.health.check()
    }

    /// Returns how long the upstream has asked us to wait before the next request.
    pub(super) fn busy_for(&self) -> Duration {
        self.health.busy_for()
    }

    /// Sends a request, without retries.
    pub(super) async fn get(&self, ask: &Ask<'_>) -> Result<Answer, FetchError> {
        let response = self.get_without_count(ask).await;
        match &response {
            Err(error) => {
                self.metrics.failed(error.reason());
                if error.is_outage() {
                    self.health.failed();
                }
                if let Some(wait) = error.retry_after() {
                    self.health.is_busy(wait);
                }
            }
            Ok(_) => self.health.is_well(),
        }
        Ok(Answer::new(response?, self.metrics.clone(), Arc::clone(&self.health)))
    }

    /// Fetches a whole text of at most `bytes_max` bytes, and retries after temporary errors.
    pub(super) async fn text(
        &self,
        ask: &Ask<'_>,
        bytes_max: usize,
    ) -> Result<(StatusCode, Vec<u8>), FetchError> {
        let mut backoff = self.limits.backoff();
        let mut attempt = 1;
        loop {
            let error = match self.try_text(ask, bytes_max).await {
                Ok(text) => return Ok(text),
                Err(error) => error,
            };
            if !error.is_outage() || attempt >= self.limits.attempts_max {
                return Err(error);
            }
            attempt += 1;
            let asked_for = error.retry_after().unwrap_or_default().min(self.limits.backoff_max);
            tokio::time::sleep(backoff.next_delay().max(asked_for)).await;
        }
    }

    async fn try_text(
        &self,
        ask: &Ask<'_>,
        bytes_max: usize,
    ) -> Result<(StatusCode, Vec<u8>), FetchError> {
        let answer = self.get(ask).await?;
        Ok((answer.status(), answer.text(bytes_max).await?))
    }

    async fn get_without_count(&self, ask: &Ask<'_>) -> Result<HttpResponse, FetchError> {
        let deadline = ask.timeout.from_now();
        let mut at = self.url.with_target(ask.path)?;
        let request = ask.request(&at, self.credentials.as_ref(), deadline)?;
        let mut response = self.send(&self.http, request).await?;
        let own = response.reach();
        for _ in 0..REDIRECTS_MAX {
            let Some(location) = location(&response) else { return judged(response) };
            at = at.redirected(&location)?;
            let server = Server::Web { url: at.clone(), nearest: self.nearest(&at, own) };
            let request = ask.request(&at, self.credentials_for(&at), deadline)?;
            let there = HttpClient::new(server, Arc::clone(&self.http_settings));
            response = self.send(&there, request).await?;
        }
        match location(&response) {
            None => judged(response),
            Some(location) => Err(FetchError::Redirect(location)),
        }
    }

    async fn send(
        &self,
        client: &HttpClient,
        request: HttpRequest,
    ) -> Result<HttpResponse, FetchError> {
        self.metrics.asked();
        Ok(client.send(request).await?)
    }

    /// Returns how local a redirect's target may be: not more local than the upstream itself,
    /// unless the operator has allowed that host.
    fn nearest(&self, at: &HttpUrl, own: Reach) -> Reach {
        let is_named = self.redirect_hosts.iter().any(|host| host.is(at.host()));
        if is_named || at.is_same_server(self.url.http()) { Reach::Special } else { own }
    }

    /// Returns the credentials for a URL. They are sent to the upstream's own server only.
    fn credentials_for(&self, url: &HttpUrl) -> Option<&HeaderValue> {
        self.credentials.as_ref().filter(|_| url.is_same_server(self.url.http()))
    }
}

/// Value of `User-Agent`.
const AGENT: HeaderValue = HeaderValue::from_static("weir-gems-mirror");

fn standard_headers(headers: &mut hyper::HeaderMap) {
    headers.insert(header::USER_AGENT, AGENT);
    // Ranges and digests refer to the uncompressed bytes.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}
