//! HTTP/1.1 to one upstream: connections that are kept, waits that end, answers with limits.

mod answer;
mod ask;
mod connection;
mod error;
mod health;
mod pool;
mod reach;
mod redirect_host;
mod url;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::header::{self, HeaderValue};
use hyper::{Request, StatusCode};
use tokio::time::{Instant, timeout_at};
use weir_net::post::Trust;

pub(super) use self::answer::Answer;
pub(super) use self::ask::Ask;
use self::connection::Connection;
pub(super) use self::error::FetchError;
use self::health::Health;
use self::pool::Pool;
use self::reach::Reach;
pub use self::redirect_host::{RedirectHost, RedirectHostError};
pub use self::url::{UpstreamUrl, UpstreamUrlError};
use super::settings::{MirrorLimits, UpstreamSettings};
use crate::metrics::{FetchFailure, UpstreamMetrics};

/// Addresses that an upstream may send us on to, one after another.
pub(super) const REDIRECTS_MAX: usize = 3;

/// Asks one upstream. All tasks share it.
#[derive(Debug)]
pub(super) struct Client {
    url: UpstreamUrl,
    credentials: Option<HeaderValue>,
    redirect_hosts: Vec<RedirectHost>,
    trust: Trust,
    limits: MirrorLimits,
    metrics: UpstreamMetrics,
    pool: Arc<Pool>,
    health: Arc<Health>,
}

impl Client {
    pub(super) fn new(
        settings: &UpstreamSettings,
        trust: &Trust,
        limits: &MirrorLimits,
        metrics: UpstreamMetrics,
    ) -> Self {
        Self {
            url: settings.url.clone(),
            credentials: settings.credentials.as_ref().map(ask::basic),
            redirect_hosts: settings.redirect_hosts.clone(),
            trust: trust.clone(),
            limits: limits.clone(),
            metrics,
            pool: Arc::new(Pool::new(limits.requests_max)),
            health: Arc::new(Health::new(limits.backoff())),
        }
    }

    /// An error at once if the upstream has just failed: whoever waits for an answer should not wait
    /// for timeouts one after another.
    pub(super) fn check_health(&self) -> Result<(), FetchError> {
        self.health.check()
    }

    /// For how long it has asked not to be looked at.
    pub(super) fn busy_for(&self) -> Duration {
        self.health.busy_for()
    }

    /// One attempt.
    pub(super) async fn get(&self, ask: &Ask<'_>) -> Result<Answer, FetchError> {
        let answer = self.get_without_count(ask).await;
        match &answer {
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
        answer
    }

    /// A whole text, at most `bytes_max` of it; tried again after what may pass.
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
        let mut answer = self.get(ask).await?;
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            if text.len() + chunk.len() > bytes_max {
                self.metrics.failed(FetchFailure::Content);
                return Err(FetchError::TooLong(bytes_max as u64));
            }
            text.extend_from_slice(&chunk);
        }
        Ok((answer.status(), text))
    }

    async fn get_without_count(&self, ask: &Ask<'_>) -> Result<Answer, FetchError> {
        let deadline = Instant::now() + ask.timeout;
        let mut answer = self.exchange_kept(ask, deadline).await?;
        let (mut at, own) = (self.url.clone(), answer.reach());
        for _ in 0..REDIRECTS_MAX {
            let Some(location) = answer.location() else { return answer.judged() };
            at = at.redirected(&location)?;
            let connection = self.connect(&at, self.nearest(&at, own), deadline).await?;
            let request = ask.request(&at, self.credentials_for(&at))?;
            answer = self.exchange(connection, request, deadline, None).await?;
        }
        match answer.location() {
            None => answer.judged(),
            Some(location) => Err(FetchError::Redirect(location)),
        }
    }

    /// How near a server may be that we are sent on to: no nearer than the upstream itself is, unless
    /// the operator has named it.
    fn nearest(&self, at: &UpstreamUrl, own: Reach) -> Reach {
        let is_named = self.redirect_hosts.iter().any(|host| host.is(&at.host));
        if is_named || at.is_same_host(&self.url) { Reach::Special } else { own }
    }

    /// Credentials are for one host.
    fn credentials_for(&self, url: &UpstreamUrl) -> Option<&HeaderValue> {
        self.credentials.as_ref().filter(|_| url.is_same_host(&self.url))
    }

    /// On a connection that is kept, or on a new one.
    async fn exchange_kept(&self, ask: &Ask<'_>, deadline: Instant) -> Result<Answer, FetchError> {
        let request = || ask.request(&self.url.with_target(ask.path)?, self.credentials.as_ref());
        let pool = || Some(Arc::clone(&self.pool));
        if let Some(kept) = self.pool.take() {
            match self.exchange(kept, request()?, deadline, pool()).await {
                // Servers close connections that are idle, also in the moment in which one is used.
                Err(FetchError::Http(error)) if !error.is_parse() => {}
                answer => return answer,
            }
        }
        let fresh = self.connect(&self.url, Reach::Special, deadline).await?;
        self.exchange(fresh, request()?, deadline, pool()).await
    }

    async fn connect(
        &self,
        url: &UpstreamUrl,
        nearest: Reach,
        deadline: Instant,
    ) -> Result<Connection, FetchError> {
        let limit = (Instant::now() + self.limits.connect_timeout).min(deadline);
        let connected = timeout_at(limit, Connection::open(url, nearest, &self.trust)).await;
        connected.map_err(|_| FetchError::ConnectTimeout)?
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        request: Request<Empty<Bytes>>,
        deadline: Instant,
        pool: Option<Arc<Pool>>,
    ) -> Result<Answer, FetchError> {
        self.metrics.asked();
        let limit = (Instant::now() + self.limits.silence_timeout).min(deadline);
        let answered = timeout_at(limit, connection.send(request)).await;
        let response = answered.map_err(|_| FetchError::Silence)??;
        let body = answer::Patience { deadline, silence: self.limits.silence_timeout };
        let told = (self.metrics.clone(), Arc::clone(&self.health));
        Ok(Answer::new(response, connection, pool, body, told))
    }
}

/// `User-Agent`.
const AGENT: HeaderValue = HeaderValue::from_static("weir-gems-mirror");

fn standard_headers(headers: &mut hyper::HeaderMap) {
    headers.insert(header::USER_AGENT, AGENT);
    // Ranges and digests are of the bytes as they are.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}
