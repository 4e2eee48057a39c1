//! `[console]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_console::settings::{Limits, Settings};

use super::keys::{Key, Keys, WAIT};
use weir_settings::{DAY, MILLISECOND};

/// More of anything than a console needs.
const COUNT: RangeInclusive<u64> = 1..=1_000_000;

/// Reads the section; every field is named, so a new one can't be forgotten. Answers whether there is a
/// console.
pub(super) fn read(keys: &mut Keys<'_>, settings: &mut Settings) -> bool {
    let Settings {
        listen,
        password,
        token,
        hosts,
        metrics_without_login,
        cookie_secure,
        session_idle_max,
        session_age_max,
        limits,
    } = settings;
    let is_on = super::keys::listener(keys, 
        Key::fixed("listen", "Where the pages, the admin API and /metrics are served. Anything but loopback needs a password. \"off\": nowhere; commands use the socket in data_dir."),
        listen,
    );
    keys.secret(
        Key::fixed("password", "What people type to get in. None: no login, on loopback only."),
        password,
    );
    keys.secret(
        Key::fixed(
            "token",
            "What programs send as `Authorization: Bearer ..` to /v1 and /metrics.",
        ),
        token,
    );
    keys.texts(
        Key::fixed("hosts", "Host names (without port) under which the console is reached, besides loopback names and plain IP addresses; others are refused."),
        hosts,
    );
    keys.flag(
        Key::fixed("metrics_without_login", "/metrics answers without login or token."),
        metrics_without_login,
    );
    keys.flag(
        Key::fixed(
            "cookie_secure",
            "Marks the session cookie `Secure`: for a console that is reached through TLS only.",
        ),
        cookie_secure,
    );
    keys.duration(
        Key::fixed("session_idle_max", "A session ends after this long without a request."),
        MILLISECOND..=DAY * 400,
        session_idle_max,
    );
    keys.duration(
        Key::fixed("session_age_max", "A session ends this long after its login."),
        MILLISECOND..=DAY * 400,
        session_age_max,
    );
    keys.section("limits", |keys| read_limits(keys, limits));
    is_on
}

fn read_limits(keys: &mut Keys<'_>, limits: &mut Limits) {
    let mut count = |name, field: &mut usize, doc| {
        keys.number(Key::fixed(name, doc), COUNT, field);
    };
    count(
        "sessions_max",
        &mut limits.sessions_max,
        "Sessions at once; one more ends the one that was idle longest.",
    );
    count(
        "login_addresses_max",
        &mut limits.login_addresses_max,
        "Addresses whose login tries are counted apart.",
    );
    count(
        "streams_max",
        &mut limits.streams_max,
        "Live streams at once; one more is asked to try again later.",
    );
    count("page_jobs", &mut limits.page_jobs, "Jobs on one page of a list.");
    count("page_queues", &mut limits.page_queues, "Queues on one page.");
    count("page_workers", &mut limits.page_workers, "Workers, and their jobs, on one page.");
    count("page_channels", &mut limits.page_channels, "Channels on one page.");
    count("page_gems", &mut limits.page_gems, "Names of gems on one page.");
    count("page_releases", &mut limits.page_releases, "Releases on the page of a gem; the newest.");
    count("page_members", &mut limits.page_members, "Users of a presence channel on one page.");
    count("page_events", &mut limits.page_events, "Events of a channel's history on its page.");
    count("chart_points_max", &mut limits.chart_points_max, "Points of one chart.");
    count(
        "chart_queues_max",
        &mut limits.chart_queues_max,
        "Queues with charts of their own; each takes two files and at most 700 KiB of disk.",
    );
    keys.number(
        Key::fixed("login_burst", "Logins that one address may try at once .."),
        COUNT,
        &mut limits.login_burst,
    );
    read_waits_and_sizes(keys, limits);
}

fn read_waits_and_sizes(keys: &mut Keys<'_>, limits: &mut Limits) {
    let mut wait = |name, field: &mut Duration, doc| {
        keys.duration(Key::fixed(name, doc), WAIT, field);
    };
    wait("login_interval", &mut limits.login_interval, ".. and one more after each of these.");
    wait(
        "request_timeout",
        &mut limits.request_timeout,
        "A page that isn't ready after this long is given up.",
    );
    wait(
        "search_time",
        &mut limits.search_time,
        "A search that has not filled its page looks on for this long; then it shows what it has.",
    );
    wait(
        "action_wait",
        &mut limits.action_wait,
        "An action on jobs that takes longer goes on in the background, and the page says so.",
    );
    wait(
        "sample_interval",
        &mut limits.sample_interval,
        "How often the job server is read for charts and live pages, whatever the number of \
         readers.",
    );
    let mut size = |name, field: &mut usize, doc| {
        keys.size(Key::fixed(name, doc), 1..=1 << 30, field);
    };
    size("body_bytes_max", &mut limits.body_bytes_max, "Bytes of a form.");
    size(
        "payload_display_bytes_max",
        &mut limits.payload_display_bytes_max,
        "Bytes of a job's payload that its page shows.",
    );
}
