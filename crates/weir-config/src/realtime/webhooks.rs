//! `[realtime.webhooks]`: how the applications' servers are told.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_realtime::webhooks::{Limits, Settings};

use super::super::keys::{Key, Keys, WAIT};
use super::super::tls;

/// The section's settings, and one of `[realtime.limits]`.
#[derive(Clone, Debug)]
pub struct Webhooks {
    pub settings: Settings,
    /// Requests on their way at once.
    pub in_flight_max: u32,
}

impl Default for Webhooks {
    fn default() -> Self {
        // Each holds a connection and one batch: 4 MiB in all.
        Self { settings: Settings::default(), in_flight_max: 64 }
    }
}

pub(super) fn read_in_flight(keys: &mut Keys<'_>, field: &mut u32) {
    keys.number(
        Key::live("webhooks_in_flight_max", "Requests of webhooks on their way at once, over all endpoints; others wait webhooks.permit_delay."),
        1..=100_000,
        field,
    );
}

pub(super) fn read(keys: &mut Keys<'_>, settings: &mut Settings) {
    read_times(keys, settings);
    read_retries(keys, settings);
    tls::read_trust(keys, Key::fixed, "realtime.webhooks.ca", &mut settings.trust);
    read_limits(keys, &mut settings.limits);
}

fn read_times(keys: &mut Keys<'_>, settings: &mut Settings) {
    let mut wait = |name, min, field: &mut Duration, doc| {
        keys.duration(Key::fixed(name, doc), min..=*WAIT.end(), field);
    };
    let (zero, least) = (Duration::ZERO, *WAIT.start());
    wait(
        "batch_interval",
        zero,
        &mut settings.batch_interval,
        "How long an event waits for others to join it in one request.",
    );
    wait(
        "vacated_delay",
        zero,
        &mut settings.vacated_delay,
        "How long channel_vacated and member_removed wait for the opposite, after which neither is sent; and the most that subscription_count waits for a newer one.",
    );
    wait(
        "connect_timeout",
        least,
        &mut settings.connect_timeout,
        "Name look-up, TCP and TLS together.",
    );
    wait(
        "response_timeout",
        least,
        &mut settings.response_timeout,
        "From the request's first byte to the response's last.",
    );
    wait(
        "keep_alive",
        zero,
        &mut settings.keep_alive,
        "A connection that was idle for longer is not used again.",
    );
    wait(
        "drain_timeout",
        zero,
        &mut settings.drain_timeout,
        "When Weir ends, how long what is queued may take. Keep it below shutdown_deadline.",
    );
}

fn read_retries(keys: &mut Keys<'_>, settings: &mut Settings) {
    let mut wait = |name, min, field: &mut Duration, doc| {
        keys.duration(Key::fixed(name, doc), min..=*WAIT.end(), field);
    };
    let (zero, least) = (Duration::ZERO, *WAIT.start());
    wait(
        "retry_for",
        zero,
        &mut settings.retry_for,
        "An event that could not be delivered for this long is dropped.",
    );
    wait(
        "retry_delay_min",
        least,
        &mut settings.retry_delay_min,
        "The wait after the first failure; it doubles with every further one.",
    );
    wait(
        "retry_delay_max",
        least,
        &mut settings.retry_delay_max,
        "That wait never grows beyond this.",
    );
    wait(
        "permit_delay",
        least,
        &mut settings.permit_delay,
        "How long an attempt waits that found realtime.limits.webhooks_in_flight_max reached.",
    );
}

const COUNT: RangeInclusive<u64> = 1..=100_000_000;
const BYTES: RangeInclusive<u64> = 1 << 10..=1 << 40;

fn read_limits(keys: &mut Keys<'_>, limits: &mut Limits) {
    let Limits {
        queue_events_max,
        queue_bytes_max,
        held_events_max,
        held_bytes_max,
        endpoint_events_max,
        endpoint_bytes_max,
        batch_events_max,
        batch_bytes_max,
        response_bytes_max,
    } = limits;
    let mut count = |name, field: &mut usize, doc| keys.number(Key::fixed(name, doc), COUNT, field);
    count(
        "queue_events_max",
        queue_events_max,
        "Events that wait to be sorted by endpoint, over all apps; one more is dropped.",
    );
    count(
        "held_events_max",
        held_events_max,
        "Events that wait for vacated_delay, over all apps; for one more, the oldest is sent early.",
    );
    count(
        "endpoint_events_max",
        endpoint_events_max,
        "Events that wait for one endpoint; for one more, the oldest is dropped.",
    );
    count("batch_events_max", batch_events_max, "Events in one request.");
    let mut size = |name, field: &mut usize, doc| keys.size(Key::fixed(name, doc), BYTES, field);
    size("queue_bytes_max", queue_bytes_max, "Bytes of the events that wait to be sorted.");
    size("held_bytes_max", held_bytes_max, "Bytes of the events that wait for vacated_delay.");
    size(
        "endpoint_bytes_max",
        endpoint_bytes_max,
        "Bytes of the events that wait for one endpoint.",
    );
    size(
        "batch_bytes_max",
        batch_bytes_max,
        "Bytes of the events in one request; a single event may be larger.",
    );
    size("response_bytes_max", response_bytes_max, "Bytes read of a response.");
}
