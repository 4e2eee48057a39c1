//! Settings of realtime and its apps.

use super::*;

#[test]
fn realtime_app_has_all_settings() {
    let settings = settings(
        r#"
[front]
listen = "127.0.0.1:18080"
cores = 3
[front.limits]
advanced.accepts_per_second = 500
[realtime]
listen = "[::1]:18081"
advanced.activity_jitter = "20%"
[realtime.limits]
subscribes_per_second = 100
message_bytes_max = "1MiB"
advanced.batch_events_max = 25
webhooks_in_flight_max = 5
[realtime.webhooks]
retry_for = "1m"
advanced.batch_events_max = 7
[[realtime.apps]]
id = "1"
key = "demo-key"
secret = { env = "PASSWORD" }
[[realtime.apps]]
id = "2"
key = "other-key"
secret = { env = "PASSWORD" }
enabled = false
origins = ["https://example.org", "*.example.net"]
client_events_per_second = 20
slow_clients = "conflate"
[realtime.apps.history]
events_max = 0
[realtime.apps.presence]
list_max = 5
[[realtime.apps.webhooks]]
url = "https://example.org/pusher?token=hidden"
events = ["channel_vacated", "client_event"]
channel_prefix = "presence-"
headers = { Authorization = { env = "PASSWORD" }, X-Kind = "weir" }
"#,
    );
    let (front, realtime) = (&settings.front, &settings.realtime);
    assert_eq!((front.cores(), front.limits.accepts_per_second), (3, 500));
    assert_eq!(realtime.listen.expect("set").port(), 18081);
    assert_eq!(realtime.settings.activity_jitter_thousandths, 200);
    let limits = &realtime.settings.limits;
    assert_eq!(
        (limits.subscribe_rate.tokens_per_second(), limits.subscribe_rate.burst()),
        (100, 2_000)
    );
    assert_eq!(realtime.settings.limits.websocket.message_bytes_max, 1 << 20);
    assert_eq!(realtime.settings.limits.pusher.batch_events_max, 25);
    assert_eq!(realtime.webhooks.limits.batch_events_max, 7);
    assert_eq!(realtime.settings.limits.webhooks_in_flight_max, 5);
    let [one, two] = &realtime.apps[..] else { panic!("two apps: {:?}", realtime.apps) };
    assert_eq!((&*one.id, &*one.key, one.secret.expose()), ("1", "demo-key", "correct horse"));
    assert!(one.is_enabled && !two.is_enabled && one.hooks.endpoints.is_empty());
    assert_eq!(two.origins.len(), 2);
    assert_eq!(two.client_event_rate.tokens_per_second(), 20);
    assert_eq!(two.slow_clients, weir_realtime::settings::SlowClients::Conflate);
    assert_eq!((two.history.events_max, two.presence.list_max), (0, 5));
    let [hook] = &two.hooks.endpoints[..] else { panic!("one webhook") };
    assert_eq!(hook.url.to_string(), "https://example.org/pusher?..");
    assert_eq!(format!("{:?}", hook.kinds), "{ChannelVacated, ClientEvent}");
    assert_eq!(&*hook.channel_prefix, "presence-");
}

#[test]
fn errors_of_apps_have_positions() {
    let text = r#"
[realtime]
activity_timeout = "1s"
advanced.activity_jitter = 10
[realtime.limits]
subscribes_per_secnd = 5
[realtime.webhooks]
retry_delay_max = "10ms"
ca = "/nonexistent/ca.pem"
[[realtime.apps]]
id = "1"
secret = "in the open"
[[realtime.apps]]
id = "1"
key = "a/b"
secret = { env = "PASSWORD" }
origins = ["https://"]
slow_clients = "wait"
[realtime.apps.histories]
[[realtime.apps.webhooks]]
url = "ftp://example.org"
events = ["channel_ocupied"]
headers = { Host = "x" }
[[realtime.apps]]
id = 3
[front]
cores = 0
"#;
    insta::assert_snapshot!(errors(text), @r#"
    weir.toml:3:20: realtime.activity_timeout: must be from 5s to 1h
    weir.toml:4:28: realtime.advanced.activity_jitter: expected a percentage like "10%", not an integer
    weir.toml:6:1: realtime.limits.subscribes_per_secnd is not a setting; did you mean "subscribes_per_second"?
    weir.toml:8:19: realtime.webhooks.retry_delay_max: must not be below retry_delay_min
    weir.toml:9:6: cannot read realtime.webhooks.ca /nonexistent/ca.pem: No such file or directory (os error 2)
    weir.toml:10:1: realtime.apps[0].key is missing
    weir.toml:12:10: realtime.apps[0].secret: a secret must not be in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:14:6: realtime.apps[1].id: "1" is already the id of another app
    weir.toml:15:7: realtime.apps[1].key: it is part of paths: write letters, digits, - _ and . only
    weir.toml:17:11: realtime.apps[1].origins: "https://" is not an origin; write for example "https://example.org", "example.org", "*.example.org" or "*"
    weir.toml:18:16: realtime.apps[1].slow_clients: "wait" is none of "disconnect", "drop_oldest", "conflate"
    weir.toml:19:16: realtime.apps[1].histories is not a setting; did you mean "history"?
    weir.toml:21:7: realtime.apps[1].webhooks[0].url: "ftp://example.org" does not begin with http:// or https://; write for example "https://example.org"
    weir.toml:22:10: realtime.apps[1].webhooks[0].events: "channel_ocupied" is no webhook event; write channel_occupied, channel_vacated, member_added, member_removed, client_event, cache_miss or subscription_count
    weir.toml:23:11: realtime.apps[1].webhooks[0].headers: the header Host is set by Weir; leave it out
    weir.toml:24:1: realtime.apps[2].key is missing
    weir.toml:24:1: realtime.apps[2].secret is missing
    weir.toml:25:6: realtime.apps[2].id: expected a text, not an integer
    weir.toml:27:9: front.cores: must be from 1 to 1024
    "#);
    insta::assert_snapshot!(errors("[realtime]\napps = 3\n"), @"weir.toml:2:8: expected tables [[realtime.apps]]");
}

#[test]
fn realtime_risks_are_warnings() {
    let text = r#"
[front]
listen = "0.0.0.0:8080"
[front.limits]
connections_max = 100000000
[realtime]
listen = "0.0.0.0:8081"
drain_window = "25s"
[realtime.limits]
advanced.client_message_bytes_max = "1MiB"
[[realtime.apps]]
id = "1"
key = "demo-key"
secret = { env = "PASSWORD" }
require_tls = true
client_queue_bytes_max = "1GiB"
"#;
    let warnings = load(text).expect("sound").warnings.join("\n");
    insta::assert_snapshot!(without_numbers(&warnings), @r"
    front.listen is not loopback and there is no front.tls: requests and events travel in clear text
    front.limits.connections_max is 100000000, but a process may have N open files here (ulimit -Hn; LimitNOFILE in systemd)
    realtime.listen is not loopback: events travel in clear text there; only front.listen can have TLS
    realtime.apps[0].secret has N characters; below N it can be guessed
    realtime.apps[0].require_tls without front.tls: every connection is rejected, also behind a proxy that terminates TLS
    realtime.apps[0].client_queue_bytes_max: N slow clients could hold N TiB, and this machine has N GiB
    realtime.limits.advanced.client_message_bytes_max is above message_bytes_max: longer messages end the connection
    realtime.drain_window is not below shutdown_deadline (25s), which would interrupt it; lower it
    ");
}

#[test]
fn realtime_gets_a_share_of_the_connections() {
    let of = |more: &str| {
        let text = format!("{APP}[front.limits]\nconnections_max = 1000\n{more}");
        settings(&text).realtime_in_effect().0.limits.connections_total_max
    };
    let shop = "[[front.apps]]\nname = \"shop\"\nupstreams = [\"127.0.0.1:3000\"]\n";
    assert_eq!(of(""), 1_000, "there is nothing beside it");
    assert_eq!(of(shop), 750);
    assert_eq!(of("[gems]\nlisten = \"127.0.0.1:0\"\n"), 750);
    let total = |max: u32| format!("[realtime.limits]\nconnections_total_max = {max}\n{shop}");
    assert_eq!(of(&total(900)), 900);
    assert_eq!(of(&total(2_000)), 1_000);
}

#[test]
fn unreachable_connection_limits_are_a_warning() {
    let app = APP.trim_end();
    let text = format!(
        "{app}\nconnections_max = 1000000\n[front.limits]\nconnections_max = 1000\n\
         [realtime.limits]\nconnections_total_max = 2000\n"
    );
    let warnings = load(&text).expect("sound").warnings;
    let found: Vec<_> = warnings.iter().filter(|text| text.contains("connections")).collect();
    let found: Vec<_> = found.into_iter().map(String::as_str).collect();
    insta::assert_snapshot!(found.join("\n"), @r"
    realtime.limits.connections_total_max is 2000, but the front takes 1000 connections (front.limits.connections_max)
    realtime.apps[0].connections_max is 1000000, but all apps together may have 1000 connections (realtime.limits.connections_total_max, front.limits.connections_max)
    ");
}

/// A record of their log has a whole channel.
#[test]
fn durable_histories_have_limits_and_conditions() {
    let app = "[[realtime.apps]]\nid = \"1\"\nkey = \"k\"\nsecret = { env = \"PASSWORD\" }\n";
    let large = format!(
        "[realtime.limits]\nevent_data_bytes_max = \"2MiB\"\nadvanced.api_body_bytes_max = \"4MiB\"\n\
         {app}history = {{ durable = true, bytes_max = \"2MiB\" }}\n"
    );
    let found = errors(&large);
    for path in ["realtime.apps[0].history.bytes_max", "realtime.limits.event_data_bytes_max"] {
        assert!(found.contains(&format!("{path}: at most 1 MiB with history.durable")), "{found}");
    }
    assert!(load(&large.replace("durable = true", "durable = false")).is_ok());
    let none = format!("{app}history = {{ durable = true, events_max = 0 }}\n");
    let warnings = load(&none).expect("sound").warnings.join("\n");
    assert!(warnings.contains("durable has no effect without a history"), "{warnings}");
    let redis = "[realtime]\nbroker = { redis = [{ url = \"redis://127.0.0.1\" }] }\n";
    let shared = format!("{redis}{app}history = {{ durable = true }}\n");
    let warnings = load(&shared).expect("sound").warnings.join("\n");
    assert!(warnings.contains("durable has no effect with a broker in Redis"), "{warnings}");
}
