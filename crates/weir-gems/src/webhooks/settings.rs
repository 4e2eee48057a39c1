//! `[gems.webhooks]`, with the defaults. Field names are the settings' names.

use std::time::Duration;

use weir_base::secret::Secret;
use weir_base::switch::Pattern;
use weir_net::http_client::{ClientSettings, HttpUrl, ReadTrust, TimeLimit, Trust};
use weir_settings::{COUNT, DAY, Section, TableReader, WAIT};

use crate::index::versions::Change;
use crate::settings::is_base_url;
use crate::store::webhooks::WebhookEvent;

/// Maximum number of endpoints. Each needs a task, and a connection while it receives events.
pub const WEBHOOK_ENDPOINTS_MAX: usize = 32;

/// Who is told, and how often it is tried.
#[derive(Clone, Debug, Section)]
#[section(reload, path = "gems.webhooks", check = Self::finish)]
pub struct WebhookSettings {
    #[setting(skip)]
    pub endpoints: Vec<WebhookEndpoint>,
    /// Public URL of this index, such as "https://gems.example", for the URLs in events. None:
    /// events have none.
    pub public_url: Option<String>,
    /// Name lookup, TCP and TLS together.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(5))]
    pub connect_timeout: Duration,
    /// From a request's first byte to the response's last.
    #[setting(range = WAIT, default = Duration::from_secs(10))]
    pub response_timeout: Duration,
    /// How long an idle connection is kept for reuse.
    #[setting(advanced, range = Duration::ZERO..=DAY, default = Duration::from_secs(60))]
    pub keep_alive: Duration,
    /// How often Weir checks for pushes by other processes.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(1))]
    pub poll_interval: Duration,
    /// Delay after the first failure; it doubles with every further one, reduced at random by up
    /// to a half.
    #[setting(range = WAIT, default = Duration::from_secs(1))]
    pub retry_delay_min: Duration,
    /// Limit of that delay.
    #[setting(range = WAIT, default = Duration::from_secs(300))]
    pub retry_delay_max: Duration,
    /// An event that is older than this when an attempt fails is dropped.
    // Long enough for a receiver that fails on a Friday evening.
    #[setting(range = Duration::ZERO..=DAY.saturating_mul(365), default = DAY.saturating_mul(3))]
    pub retry_for: Duration,
    /// PEM file with certificate authorities of your own, believed besides the public ones.
    #[setting(trust, key = "ca", default = Trust::public())]
    pub trust: Trust,
    #[setting(section)]
    pub limits: WebhookLimits,
}

/// `[gems.webhooks.limits]`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "gems.webhooks.limits")]
pub struct WebhookLimits {
    /// Events that are stored; for one more, the oldest is dropped, even if an endpoint has not
    /// received it. Each takes 1 to 2KiB.
    #[setting(advanced, range = COUNT, default = 100_000)]
    pub events_max: u64,
    /// Events that are read at once for one endpoint.
    #[setting(advanced, range = 1..=100_000, default = 100)]
    pub batch_events_max: u32,
    /// Bytes that are read of a response's body, and of its head.
    #[setting(advanced, size, range = 1 << 13..=1 << 30, default = 64 << 10)]
    pub response_bytes_max: usize,
}

/// An endpoint that receives events.
#[derive(Clone, Debug)]
pub struct WebhookEndpoint {
    /// Name under which its position in the order of events is stored. With a new URL it continues
    /// there.
    pub name: String,
    pub url: HttpUrl,
    /// Secret that signs each request.
    pub secret: Secret,
    /// For receivers of rubygems.org's webhooks: the key from which `Authorization` is computed.
    pub api_key: Option<Secret>,
    /// Kinds of changes to send; empty for all.
    pub events: Vec<Change>,
    /// Patterns of gems whose changes to send; empty for all.
    pub gems: Vec<Pattern>,
}

/// Reasons why settings can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookSettingsError {
    /// Two endpoints have the same name.
    #[error("two endpoints of gems.webhooks have the name {0:?}; give each its own")]
    Twice(String),
    /// There are more endpoints than [`WEBHOOK_ENDPOINTS_MAX`].
    #[error("gems.webhooks has {0} endpoints; there may be {WEBHOOK_ENDPOINTS_MAX}")]
    TooMany(usize),
    /// The name is empty, or too long for a metric label.
    #[error("{0:?} can't be an endpoint's name; write 1 to 64 letters, digits, - and _")]
    Name(String),
}

/// Minimum of all intervals, whatever the settings say.
const INTERVAL_LEAST: Duration = Duration::from_millis(1);
/// Time by which a claim exceeds the longest attempt.
const CLAIM_MARGIN: Duration = Duration::from_secs(5);

/// An endpoint as the file has it.
#[derive(Debug, Section)]
#[section(reload, path = "gems.webhooks.endpoints")]
struct EndpointTable {
    /// Required. The endpoint's position in the sequence of events is stored under this name: with a
    /// new URL it continues there, with a new name it starts with the next event.
    #[setting(required_text)]
    name: String,
    /// Required. Where events are posted: http:// or https://.
    #[setting(required_parsed)]
    url: Option<HttpUrl>,
    /// Required. Signs each request: X-Weir-Signature.
    #[setting(required_secret)]
    secret: Secret,
    /// For receivers of rubygems.org's webhooks: the key from which Authorization is computed. None:
    /// no such header.
    api_key: Option<Secret>,
    /// Which changes are sent: push, yank. Empty: both.
    #[setting(parsed_texts)]
    events: Vec<Change>,
    /// Of which gems; * matches any text. Empty: of all.
    #[setting(parsed_texts)]
    gems: Vec<Pattern>,
}

impl WebhookEndpoint {
    /// Reads an endpoint. Returns None if a required value is missing, which was already reported.
    fn read(table: &mut TableReader<'_>) -> Option<Self> {
        let mut endpoint = EndpointTable::default();
        endpoint.read(table);
        let EndpointTable { name, url, secret, api_key, events, gems } = endpoint;
        let is_signed = !secret.expose().is_empty();
        is_signed.then_some(Self { name, url: url?, secret, api_key, events, gems })
    }
}

impl WebhookSettings {
    /// Reads the endpoints, and checks what the types do not.
    fn finish(&mut self, table: &mut TableReader<'_>) {
        if let Some(url) = self.public_url.as_deref().filter(|url| !is_base_url(url)) {
            let how = "write it like \"https://gems.example\"";
            let message = format!("{url:?} is no URL to which paths can be appended; {how}");
            table.error_at("public_url", &message);
        }
        table.each("endpoints", |table| self.endpoints.extend(WebhookEndpoint::read(table)));
        if let Err(error) = self.check() {
            table.named_error_at("endpoints", error.to_string());
        }
    }

    /// Checks that the settings can be used together.
    ///
    /// # Errors
    /// Returns the first error.
    pub fn check(&self) -> Result<(), WebhookSettingsError> {
        if self.endpoints.len() > WEBHOOK_ENDPOINTS_MAX {
            return Err(WebhookSettingsError::TooMany(self.endpoints.len()));
        }
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        for (index, WebhookEndpoint { name, .. }) in self.endpoints.iter().enumerate() {
            if !(1..=64).contains(&name.len()) || !name.bytes().all(is_allowed) {
                return Err(WebhookSettingsError::Name(name.clone()));
            }
            if self.endpoints[..index].iter().any(|other| other.name == *name) {
                return Err(WebhookSettingsError::Twice(name.clone()));
            }
        }
        Ok(())
    }

    /// Returns the settings with intervals of at least [`INTERVAL_LEAST`] and usable limits.
    pub(super) fn within_reason(mut self) -> Self {
        for pause in [&mut self.poll_interval, &mut self.retry_delay_min, &mut self.retry_delay_max]
        {
            *pause = (*pause).max(INTERVAL_LEAST);
        }
        self.limits.events_max = self.limits.events_max.clamp(1, i64::MAX.unsigned_abs());
        self.limits.batch_events_max = self.limits.batch_events_max.max(1);
        self
    }

    /// Returns how long to claim an endpoint: one attempt on a reused connection, and then one on a
    /// new connection.
    pub(super) fn claim_time(&self) -> Duration {
        self.connect_timeout + 2 * self.response_timeout + CLAIM_MARGIN
    }

    pub(super) fn client_settings(&self) -> ClientSettings {
        let limit = |time, setting| Some(TimeLimit::new(time, setting));
        ClientSettings {
            trust: self.trust.clone(),
            ca: Some(&Self::CA),
            connect_timeout: limit(self.connect_timeout, &Self::CONNECT_TIMEOUT),
            response_timeout: limit(self.response_timeout, &Self::RESPONSE_TIMEOUT),
            keep_alive: self.keep_alive,
            head_bytes_max: self.limits.response_bytes_max,
            ..ClientSettings::for_webhooks()
        }
    }
}

impl WebhookEndpoint {
    /// Returns an endpoint that receives all events.
    #[must_use]
    pub fn new(name: impl Into<String>, url: HttpUrl, secret: Secret) -> Self {
        let name = name.into();
        Self { name, url, secret, api_key: None, events: Vec::new(), gems: Vec::new() }
    }

    pub(super) fn wants(&self, event: &WebhookEvent) -> bool {
        let Self { events, gems, .. } = self;
        (events.is_empty() || events.contains(&event.change))
            && (gems.is_empty() || gems.iter().any(|pattern| pattern.matches(&event.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Result<(), WebhookSettingsError> {
        let endpoint = |name: &&str| {
            WebhookEndpoint::new(*name, "http://[::1]/".parse().unwrap(), Secret::new("s"))
        };
        let endpoints = names.iter().map(endpoint).collect();
        WebhookSettings { endpoints, ..WebhookSettings::default() }.check()
    }

    #[test]
    fn endpoints_have_names_of_their_own() {
        assert_eq!(named(&["a", "b-1_X"]), Ok(()));
        assert_eq!(named(&["a", "b", "a"]), Err(WebhookSettingsError::Twice("a".to_owned())));
        for name in ["", "a b", "é", &"x".repeat(65)] {
            assert_eq!(named(&[name]), Err(WebhookSettingsError::Name(name.to_owned())));
        }
        assert_eq!(named(&["a"; 33]), Err(WebhookSettingsError::TooMany(33)));
    }
}
