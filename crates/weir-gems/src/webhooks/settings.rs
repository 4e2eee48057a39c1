//! `[gems.webhooks]`, with the defaults. Field names are the settings' names.

use std::time::Duration;

use weir_base::secret::Secret;
use weir_base::switch::Pattern;
use weir_net::post::{EndpointUrl, PostSettings, Trust};

use crate::index::versions::Change;
use crate::store::webhooks::WebhookEvent;

/// Endpoints; each costs a task, and a connection while it gets something.
pub const WEBHOOK_ENDPOINTS_MAX: usize = 32;

/// Who is told, and how often it is tried.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    pub endpoints: Vec<WebhookEndpoint>,
    /// Where this index is for others: what addresses in events begin with. None: they have none.
    pub public_url: Option<String>,
    /// Name look-up, TCP and TLS together.
    pub connect_timeout: Duration,
    /// From a request's first byte to the answer's last.
    pub response_timeout: Duration,
    /// A connection that was idle for longer is not used again.
    pub keep_alive: Duration,
    /// How soon is seen what another process has pushed, or that an endpoint's sender was killed.
    pub poll_interval: Duration,
    /// After the first failure; doubled after each further one, less up to a half at random.
    pub retry_delay_min: Duration,
    /// Where the doubling ends.
    pub retry_delay_max: Duration,
    /// An event that is older when an attempt fails is given up.
    pub retry_for: Duration,
    /// Whose certificates are believed (`ca`).
    pub trust: Trust,
    pub limits: WebhookLimits,
}

/// `[gems.webhooks.limits]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookLimits {
    /// Events that are kept; for one more, the oldest is dropped, whoever has not got it.
    pub events_max: u64,
    /// Events that are read at once for one endpoint.
    pub batch_events_max: u32,
    /// Bytes read of an answer's body, and of its head (at least 8 KiB).
    pub response_bytes_max: usize,
}

/// A receiver.
#[derive(Clone, Debug)]
pub struct WebhookEndpoint {
    /// What its place in the order of events is kept under: a new URL goes on there.
    pub name: String,
    pub url: EndpointUrl,
    /// Signs each request.
    pub secret: Secret,
    /// For receivers of rubygems.org's webhooks: the key in their `Authorization`.
    pub api_key: Option<Secret>,
    /// Which changes it is told; none: all.
    pub events: Vec<Change>,
    /// Of which gems; none: of all.
    pub gems: Vec<Pattern>,
}

/// Why settings can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookSettingsError {
    /// Two with one name.
    #[error("two endpoints of gems.webhooks have the name {0:?}; give each its own")]
    Twice(String),
    /// See [`WEBHOOK_ENDPOINTS_MAX`].
    #[error("gems.webhooks has {0} endpoints; there may be {WEBHOOK_ENDPOINTS_MAX}")]
    TooMany(usize),
    /// Empty, or too long for a label of metrics.
    #[error("{0:?} can't be an endpoint's name; write 1 to 64 letters, digits, - and _")]
    Name(String),
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            public_url: None,
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(60),
            poll_interval: Duration::from_secs(1),
            retry_delay_min: Duration::from_secs(1),
            retry_delay_max: Duration::from_secs(300),
            // A receiver that broke on a Friday evening.
            retry_for: Duration::from_secs(3 * 24 * 3_600),
            trust: Trust::public(),
            limits: WebhookLimits::default(),
        }
    }
}

impl Default for WebhookLimits {
    fn default() -> Self {
        // An event has 1 to 2 KiB.
        Self { events_max: 100_000, batch_events_max: 100, response_bytes_max: 64 << 10 }
    }
}

/// What is done again and again is not done more often, whatever is set.
const INTERVAL_LEAST: Duration = Duration::from_millis(1);
/// A claim lasts so much longer than what may happen in it.
const CLAIM_MARGIN: Duration = Duration::from_secs(5);

impl WebhookSettings {
    /// Whether they can be used together.
    ///
    /// # Errors
    /// The first thing that is wrong.
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

    /// The same, without pauses that are none.
    pub(super) fn within_reason(mut self) -> Self {
        for pause in [&mut self.poll_interval, &mut self.retry_delay_min, &mut self.retry_delay_max]
        {
            *pause = (*pause).max(INTERVAL_LEAST);
        }
        self.limits.events_max = self.limits.events_max.clamp(1, i64::MAX.unsigned_abs());
        self.limits.batch_events_max = self.limits.batch_events_max.max(1);
        self
    }

    /// How long an endpoint is held: an attempt, on a kept connection and then on a new one.
    pub(super) fn claim_time(&self) -> Duration {
        self.connect_timeout + 2 * self.response_timeout + CLAIM_MARGIN
    }

    pub(super) fn post_settings(&self) -> PostSettings {
        PostSettings {
            section: "gems.webhooks",
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
            keep_alive: self.keep_alive,
            response_bytes_max: self.limits.response_bytes_max,
            trust: self.trust.clone(),
        }
    }
}

impl WebhookEndpoint {
    /// One that is told everything.
    #[must_use]
    pub fn new(name: impl Into<String>, url: EndpointUrl, secret: Secret) -> Self {
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
