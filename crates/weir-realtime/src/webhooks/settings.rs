//! What an operator can set about webhooks, with the defaults. Field names are the names in
//! `weir.toml` under `[realtime.webhooks]`.

use std::time::Duration;

use weir_net::http_client::{ReadTrust, Trust};
use weir_settings::{COUNT, DAY, Section, WAIT};

/// Times, trust and limits, shared by all apps and endpoints.
#[derive(Clone, Debug, Section)]
#[section(restart, path = "realtime.webhooks")]
pub struct WebhookSettings {
    /// How long an event waits for others to join it in one request.
    #[setting(advanced, range = Duration::ZERO..=DAY, default = Duration::from_millis(50))]
    pub batch_interval: Duration,
    /// How long channel_vacated and member_removed wait for their opposite, after which neither
    /// is sent; also the longest delay of subscription_count.
    #[setting(advanced, range = Duration::ZERO..=DAY, default = Duration::from_secs(3))]
    pub vacated_delay: Duration,
    /// Name lookup, TCP and TLS together.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(5))]
    pub connect_timeout: Duration,
    /// From the request's first byte to the response's last.
    #[setting(range = WAIT, default = Duration::from_secs(10))]
    pub response_timeout: Duration,
    /// How long an idle connection is kept for reuse.
    #[setting(advanced, range = Duration::ZERO..=DAY, default = Duration::from_secs(60))]
    pub keep_alive: Duration,
    /// An event that could not be delivered for this long is dropped.
    #[setting(range = Duration::ZERO..=DAY, default = Duration::from_secs(300))]
    pub retry_for: Duration,
    /// Delay after the first failure; it doubles with every further one.
    #[setting(range = WAIT, default = Duration::from_secs(1))]
    pub retry_delay_min: Duration,
    /// Limit of that delay.
    #[setting(range = WAIT, default = Duration::from_secs(30))]
    pub retry_delay_max: Duration,
    /// How long a request waits when realtime.limits.webhooks_in_flight_max is reached.
    #[setting(advanced, range = WAIT, default = Duration::from_millis(20))]
    pub permit_delay: Duration,
    /// How long a shutdown waits for queued events. Keep it below shutdown_deadline.
    #[setting(advanced, range = Duration::ZERO..=DAY, default = Duration::from_secs(5))]
    pub drain_timeout: Duration,
    /// PEM file with certificate authorities of your own, trusted besides the public ones.
    #[setting(trust, key = "ca", default = Trust::public())]
    pub trust: Trust,
    #[setting(flatten)]
    pub limits: WebhookLimits,
}

/// The longest duration, so that adding it to the time can't overflow.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);
/// The shortest pause of a loop, regardless of the settings.
const DELAY_LEAST: Duration = Duration::from_millis(1);
const KEEP_ALIVE_LEAST: Duration = Duration::from_secs(1);

impl WebhookSettings {
    /// Returns the settings with each duration limited to a year, and above zero where it is the
    /// pause of a loop.
    pub(super) fn within_reason(mut self) -> Self {
        for (duration, least) in [
            (&mut self.batch_interval, Duration::ZERO),
            (&mut self.vacated_delay, Duration::ZERO),
            (&mut self.connect_timeout, Duration::ZERO),
            (&mut self.response_timeout, Duration::ZERO),
            (&mut self.keep_alive, KEEP_ALIVE_LEAST),
            (&mut self.retry_for, Duration::ZERO),
            (&mut self.retry_delay_min, DELAY_LEAST),
            (&mut self.retry_delay_max, DELAY_LEAST),
            (&mut self.permit_delay, DELAY_LEAST),
            (&mut self.drain_timeout, Duration::ZERO),
        ] {
            *duration = (*duration).clamp(least, DURATION_MAX);
        }
        self
    }
}

/// Every bound. A zero where that would mean "nothing ever" counts as one.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart, path = "realtime.webhooks")]
pub struct WebhookLimits {
    /// Events that wait to be sorted by endpoint, over all apps; one more is dropped.
    #[setting(range = COUNT, default = 16_384)]
    pub queue_events_max: usize,
    /// Bytes of the events that wait to be sorted.
    #[setting(size, range = 1 << 10..=1 << 40, default = 16 << 20)]
    pub queue_bytes_max: usize,
    /// Events that are delayed by vacated_delay, over all apps (with a broker in Redis, for each shard); for one more,
    /// the oldest is sent early.
    #[setting(advanced, range = COUNT, default = 65_536)]
    pub held_events_max: usize,
    /// Bytes of the events that are delayed by vacated_delay.
    #[setting(advanced, size, range = 1 << 10..=1 << 40, default = 32 << 20)]
    pub held_bytes_max: usize,
    /// Events that wait for one endpoint; for one more, the oldest is dropped.
    #[setting(range = COUNT, default = 65_536)]
    pub endpoint_events_max: usize,
    /// Bytes of the events that wait for one endpoint.
    #[setting(size, range = 1 << 10..=1 << 40, default = 32 << 20)]
    pub endpoint_bytes_max: usize,
    /// Events in one request.
    #[setting(advanced, range = COUNT, default = 100)]
    pub batch_events_max: usize,
    /// Bytes of the events in one request; a single event may be larger.
    #[setting(advanced, size, range = 1 << 10..=1 << 40, default = 64 << 10)]
    pub batch_bytes_max: usize,
    /// Bytes that are read of a response.
    #[setting(advanced, size, range = 1 << 10..=1 << 40, default = 64 << 10)]
    pub response_bytes_max: usize,
}
