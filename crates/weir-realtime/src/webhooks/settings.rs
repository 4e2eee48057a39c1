//! What an operator can set about webhooks, with the defaults. Field names are the names in
//! `weir.toml` under `[realtime.webhooks]`.

use std::time::Duration;

use weir_net::post::Trust;

/// Times, trust and limits, shared by all apps and endpoints.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `batch_interval`: how long an event waits for others to join it in one request. Short of
    /// what a person notices, long enough to gather a burst.
    pub batch_interval: Duration,
    /// `vacated_delay`: how long channel_vacated and member_removed wait for the opposite, after
    /// which neither is sent (Pusher's 3 s), and the most that subscription_count waits for a
    /// newer one of the same channel.
    pub vacated_delay: Duration,
    /// `connect_timeout`: name look-up, TCP and TLS together.
    pub connect_timeout: Duration,
    /// `response_timeout`: from the request's first byte to the response's last.
    pub response_timeout: Duration,
    /// `keep_alive`: a connection that was idle for longer is not used again; an endpoint without
    /// events for this long is forgotten until the next one.
    pub keep_alive: Duration,
    /// `retry_for`: an event that could not be delivered for this long is dropped (Pusher's 5 min).
    pub retry_for: Duration,
    /// `retry_delay_min`: after the first failure; doubled after each further one, less up to a
    /// half at random.
    pub retry_delay_min: Duration,
    /// `retry_delay_max`: where the doubling ends.
    pub retry_delay_max: Duration,
    /// `permit_delay`: how long an attempt that got no permit waits, less up to a half at random.
    pub permit_delay: Duration,
    /// `drain_timeout`: how long the end waits for what is queued. Keep it below the time that the
    /// service has to end.
    pub drain_timeout: Duration,
    /// `ca`: whose certificates are believed.
    pub trust: Trust,
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch_interval: Duration::from_millis(50),
            vacated_delay: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(60),
            retry_for: Duration::from_secs(300),
            retry_delay_min: Duration::from_secs(1),
            retry_delay_max: Duration::from_secs(30),
            permit_delay: Duration::from_millis(20),
            drain_timeout: Duration::from_secs(5),
            trust: Trust::public(),
            limits: Limits::default(),
        }
    }
}

/// No duration is longer: it must be possible to add it to the time.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);
/// What is done again and again is not done more often, whatever is set.
const DELAY_LEAST: Duration = Duration::from_millis(1);
const KEEP_ALIVE_LEAST: Duration = Duration::from_secs(1);

impl Settings {
    /// The same, with every duration within what timers can do: at most a year, and where it is the
    /// pause of a loop, not zero.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `queue_events_max`: events that wait to be sorted by endpoint, over all apps; one more is
    /// dropped.
    pub queue_events_max: usize,
    /// `queue_bytes_max`: their bytes, as JSON.
    pub queue_bytes_max: usize,
    /// `held_events_max`: events that wait for `vacated_delay`, over all apps; for one more, the
    /// oldest is sent early.
    pub held_events_max: usize,
    /// `held_bytes_max`: their bytes, as JSON.
    pub held_bytes_max: usize,
    /// `endpoint_events_max`: events that wait for one endpoint, beside the batch that is on its
    /// way; for one more, the oldest is dropped.
    pub endpoint_events_max: usize,
    /// `endpoint_bytes_max`: their bytes, as JSON.
    pub endpoint_bytes_max: usize,
    /// `batch_events_max`: events in one request.
    pub batch_events_max: usize,
    /// `batch_bytes_max`: their bytes, as JSON; a single event may be larger. The default stays
    /// below the 100 kB that common body parsers take.
    pub batch_bytes_max: usize,
    /// `response_bytes_max`: bytes read of a response's body, and of its head (at least 8 KiB).
    pub response_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_events_max: 16_384,
            queue_bytes_max: 16 << 20,
            held_events_max: 65_536,
            held_bytes_max: 32 << 20,
            endpoint_events_max: 65_536,
            endpoint_bytes_max: 32 << 20,
            batch_events_max: 100,
            batch_bytes_max: 64 << 10,
            response_bytes_max: 64 << 10,
        }
    }
}
