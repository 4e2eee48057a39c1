//! `[gems.webhooks]` and `[[gems.webhooks.endpoints]]`: who is told of pushes and yanks.

use std::time::Duration;

use weir_base::secret::Secret;
use weir_gems::webhooks::{WebhookEndpoint, WebhookLimits, WebhookSettings};
use weir_net::post::EndpointUrl;

use super::super::keys::{Key, Keys, WAIT};
use super::super::tls;
use weir_settings::DAY;

pub(super) fn read(keys: &mut Keys<'_>, settings: &mut WebhookSettings) {
    keys.optional_text(
        Key::live("public_url", "Where this index is for others, such as \"https://gems.example\": what addresses in events begin with. None: events have none."),
        &mut settings.public_url,
    );
    if let Some(url) = settings.public_url.as_deref().filter(|url| !super::is_base(url)) {
        let how = "write it like \"https://gems.example\"";
        keys.error_at(
            "public_url",
            &format!("{url:?} is no URL to which paths can be appended; {how}"),
        );
    }
    read_times(keys, settings);
    read_retries(keys, settings);
    tls::read_trust(keys, Key::live, "gems.webhooks.ca", &mut settings.trust);
    keys.section("limits", |keys| read_limits(keys, &mut settings.limits));
    keys.each("endpoints", |keys| settings.endpoints.extend(read_endpoint(keys)));
    if let Err(error) = settings.check() {
        keys.named_error_at("endpoints", error.to_string());
    }
}

fn read_times(keys: &mut Keys<'_>, settings: &mut WebhookSettings) {
    let mut wait = |name, min, field: &mut Duration, doc| {
        keys.duration(Key::live(name, doc), min..=*WAIT.end(), field);
    };
    let least = *WAIT.start();
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
        "From a request's first byte to the answer's last.",
    );
    wait(
        "keep_alive",
        Duration::ZERO,
        &mut settings.keep_alive,
        "A connection that was idle for longer is not used again.",
    );
    wait(
        "poll_interval",
        least,
        &mut settings.poll_interval,
        "How soon is seen what another process has pushed.",
    );
}

fn read_retries(keys: &mut Keys<'_>, settings: &mut WebhookSettings) {
    let least = *WAIT.start();
    keys.duration(
        Key::live(
            "retry_delay_min",
            "The wait after the first failure; it doubles with every further one, less up to a half at random.",
        ),
        least..=DAY,
        &mut settings.retry_delay_min,
    );
    keys.duration(
        Key::live("retry_delay_max", "That wait never grows beyond this."),
        least..=DAY,
        &mut settings.retry_delay_max,
    );
    keys.duration(
        Key::live("retry_for", "An event that is older when an attempt fails is given up."),
        Duration::ZERO..=DAY * 365,
        &mut settings.retry_for,
    );
}

fn read_limits(keys: &mut Keys<'_>, limits: &mut WebhookLimits) {
    let WebhookLimits { events_max, batch_events_max, response_bytes_max } = limits;
    keys.number(
        Key::live("events_max", "Events that are kept; for one more, the oldest is dropped, whoever has not got it. Each has 1 to 2KiB."),
        1..=100_000_000,
        events_max,
    );
    keys.number(
        Key::live("batch_events_max", "Events that are read at once for one endpoint."),
        1..=100_000,
        batch_events_max,
    );
    keys.size(
        Key::live("response_bytes_max", "Bytes read of an answer's body, and of its head."),
        8 << 10..=1 << 30,
        response_bytes_max,
    );
}

/// One receiver; None: it lacks something, which is a mistake already.
fn read_endpoint(keys: &mut Keys<'_>) -> Option<WebhookEndpoint> {
    let (mut name, mut url, mut secret) = (String::new(), None::<EndpointUrl>, Secret::default());
    keys.required_text(
        Key::live("name", "Required. What its place in the order of events is kept under: a new URL goes on there, a new name gets what happens from then on."),
        &mut name,
    );
    keys.required_parsed(
        Key::live("url", "Required. Where events are posted: http:// or https://."),
        &mut url,
    );
    keys.required_secret(
        Key::live("secret", "Required. Signs each request: X-Weir-Signature."),
        &mut secret,
    );
    let (mut api_key, mut events, mut gems) = (None, Vec::new(), Vec::new());
    keys.secret(
        Key::live("api_key", "For receivers of rubygems.org's webhooks: the key of which Authorization is made. None: no such header."),
        &mut api_key,
    );
    keys.parsed_texts(
        Key::live("events", "Which changes it is told: push, yank. Empty: both."),
        &mut events,
    );
    keys.parsed_texts(
        Key::live("gems", "Of which gems; * stands for any text. Empty: of all."),
        &mut gems,
    );
    let is_signed = !secret.expose().is_empty();
    is_signed.then_some(WebhookEndpoint { name, url: url?, secret, api_key, events, gems })
}
