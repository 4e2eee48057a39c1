//! `[[realtime.apps]]`.

mod hooks;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use weir_realtime::settings::{AppSettings, HistoryLimits, PresenceLimits, SlowClients};
use weir_realtime::webhooks::AppHooks;

use super::super::keys::{Key, Keys, WAIT};
use weir_settings::{DAY, MILLISECOND};

/// More of anything than a machine holds.
const COUNT_MAX: u64 = 100_000_000;

/// The ids and keys that are taken.
#[derive(Debug, Default)]
pub(super) struct Known {
    ids: HashSet<String>,
    keys: HashSet<String>,
}

impl Known {
    /// One app. Without its id, key or secret it is none, but a mistake.
    pub(super) fn read(&mut self, keys: &mut Keys<'_>) -> AppSettings {
        let (mut id, mut key, mut secret) = (String::new(), String::new(), None);
        keys.required_text(
            Key::live("id", "Required. Stands in the paths of the HTTP API: /apps/ID/events."),
            &mut id,
        );
        keys.required_text(
            Key::live("key", "Required. Names the app in every client: /app/KEY. Not a secret."),
            &mut key,
        );
        keys.required_secret(
            Key::live(
                "secret",
                "Required. Signs what the application's server sends, and what Weir sends there.",
            ),
            &mut secret,
        );
        for (name, value, taken) in [("id", &id, &mut self.ids), ("key", &key, &mut self.keys)] {
            check(keys, name, value, taken);
        }
        let mut app = AppSettings::new(&id, &key, secret.unwrap_or_default());
        read_app(keys, &mut app);
        app
    }
}

/// An id or a key stands in paths, and means one app.
fn check(keys: &mut Keys<'_>, name: &str, value: &str, taken: &mut HashSet<String>) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !value.bytes().all(is_plain) {
        keys.error_at(name, "it stands in paths, so write letters, digits, - _ and . only");
    }
    if !value.is_empty() && !taken.insert(value.to_owned()) {
        keys.error_at(name, &format!("{value:?} is another app's {name} already"));
    }
}

fn read_app(keys: &mut Keys<'_>, app: &mut AppSettings) {
    read_rules(keys, app);
    keys.rate(
        Key::live(
            "client_events_per_second",
            "Client events that a connection may send in a second; more are answered with 4301.",
        ),
        Key::live(
            "client_events_burst",
            "Client events that a connection may send at once after a quiet time.",
        ),
        &mut app.client_event_rate,
    );
    read_slow_clients(keys, &mut app.slow_clients, &mut app.client_queue_bytes_max);
    keys.duration(
        Key::live("cache_age_max", "How long a cache channel keeps its last event."),
        MILLISECOND..=DAY,
        &mut app.cache_age_max,
    );
    keys.size(
        Key::live("cache_bytes_max", "Bytes of the last events of all cache channels together; beyond that the oldest is dropped, and who subscribes there gets a cache_miss."),
        0..=1 << 40,
        &mut app.cache_bytes_max,
    );
    keys.section("history", |keys| read_history(keys, &mut app.history));
    keys.section("presence", |keys| read_presence(keys, &mut app.presence));
    let mut told = AppHooks::none(Arc::clone(&app.id), Arc::clone(&app.key), app.secret.clone());
    keys.each("webhooks", |keys| told.endpoints.extend(hooks::read(keys)));
    app.hooks = Arc::new(told);
}

/// What is allowed.
fn read_rules(keys: &mut Keys<'_>, app: &mut AppSettings) {
    let mut flag = |name, field: &mut bool, doc| keys.flag(Key::live(name, doc), field);
    flag(
        "enabled",
        &mut app.is_enabled,
        "false: connections are closed and refused with 4003, the HTTP API answers 403.",
    );
    flag("require_tls", &mut app.requires_tls, "Connections without TLS are refused with 4000.");
    flag(
        "client_events",
        &mut app.has_client_events,
        "Clients may send `client-` events to private and presence channels.",
    );
    flag(
        "subscription_counts",
        &mut app.has_subscription_counts,
        "Channels tell their subscribers how many they are.",
    );
    keys.parsed_texts(
        Key::live("origins", "Pages from which browsers may connect, like \"https://example.org\" or \"*.example.org\". Empty: all."),
        &mut app.origins,
    );
    let mut connections_max = None;
    keys.optional_number(
        Key::live("connections_max", "Connections at a time; more are refused with 4004. None: as many as realtime.limits.connections_total_max."),
        0..=COUNT_MAX,
        &mut connections_max,
    );
    app.connections_max = connections_max.unwrap_or(usize::MAX);
    keys.optional_duration(
        Key::live("authorization_timeout", "A connection that has neither signed in nor subscribed to a channel that needs a signature (private, presence, encrypted) within this long is closed with 4009, and pusher-js stays away: Pusher's authorized connections, where it is 30s. None: public channels are for everybody."),
        WAIT,
        &mut app.authorization_timeout,
    );
}

fn read_slow_clients(keys: &mut Keys<'_>, policy: &mut SlowClients, bytes_max: &mut usize) {
    keys.choice_of(
        Key::live("slow_clients", "What happens to a client that reads slower than its channels speak: it is closed with 4100 and comes back to recover what it missed, or its oldest waiting events are dropped, or only the newest of those with the same name and channel is kept."),
        &[
            ("disconnect", SlowClients::Disconnect),
            ("drop_oldest", SlowClients::DropOldest),
            ("conflate", SlowClients::Conflate),
        ],
        policy,
    );
    keys.size(
        Key::live(
            "client_queue_bytes_max",
            "Bytes that wait for one client before slow_clients applies.",
        ),
        1 << 10..=1 << 30,
        bytes_max,
    );
}

fn read_history(keys: &mut Keys<'_>, history: &mut HistoryLimits) {
    let HistoryLimits { events_max, bytes_max, age_max } = history;
    keys.number(
        Key::live(
            "events_max",
            "Events that a channel keeps, for clients that come back. 0: none, so nobody recovers.",
        ),
        0..=1_000_000,
        events_max,
    );
    keys.size(Key::live("bytes_max", "Bytes that a channel keeps."), 0..=1 << 30, bytes_max);
    keys.duration(
        Key::live("age_max", "How old an event may become, and how long an empty channel is kept."),
        Duration::ZERO..=DAY * 7,
        age_max,
    );
}

fn read_presence(keys: &mut Keys<'_>, presence: &mut PresenceLimits) {
    let PresenceLimits { members_max, list_max, gather, page_max } = presence;
    keys.number(
        Key::live("members_max", "Users of one presence channel."),
        1..=COUNT_MAX,
        members_max,
    );
    keys.number(
        Key::live("list_max", "Above so many users a subscriber gets their number instead of the list, and changes come together."),
        0..=COUNT_MAX,
        list_max,
    );
    keys.duration(
        Key::live(
            "gather",
            "How long changes are gathered above list_max; also how old a list may be there.",
        ),
        MILLISECOND..=Duration::from_secs(60),
        gather,
    );
    keys.number(
        Key::live("page_max", "Members on one page of the list, for a client that asks for pages."),
        1..=1_000_000,
        page_max,
    );
}
