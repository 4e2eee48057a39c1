use std::path::Path;
use std::time::Duration;

use weir_base::secret::Secret;
use weir_front::ForwardedHeader;

use super::*;

fn load(text: &str) -> Result<Loaded, Mistakes> {
    let source = Source::of(Path::new("weir.toml"), text, None);
    let environment = |name: &str| match name {
        "PASSWORD" => Some("correct horse"),
        "DATABASE_URL" => Some("postgres://weir:correct-horse@db.example/weir"),
        _ => None,
    };
    parse(&source, &|name| environment(name).map(str::to_owned))
}

fn settings(text: &str) -> Settings {
    load(text).unwrap_or_else(|mistakes| panic!("{mistakes}")).settings
}

fn mistakes(text: &str) -> String {
    load(text).expect_err("refused").to_string()
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let settings = settings("");
    assert_eq!(settings.data_dir, Path::new("data"));
    assert_eq!(settings.jobs.listen.to_string(), "127.0.0.1:7419");
    assert_eq!(settings.console.listen.to_string(), "127.0.0.1:7420");
    assert_eq!(settings.jobs.settings.directory, Path::new("data/jobs"));
    assert_eq!(settings.jobs.settings.limits, weir_jobs::settings::Limits::default());
}

#[test]
fn every_kind_of_value_arrives() {
    let settings = settings(
        r#"
data_dir = "kept"
[log]
level = "debug"
[jobs]
listen = "[::1]:17419"
fsync = "everysec"
fsync_acks = true
gather_wait = "2ms"
password = { env = "PASSWORD" }
[jobs.limits]
line_bytes_max = "1MiB"
pushb_jobs_max = 5
dead_age_max = "30d"
[jobs.queues.pull]
target_latency = "5m"
concurrency = 40
fresh_lane = true
[console]
hosts = ["weir.example"]
"#,
    );
    let jobs = &settings.jobs.settings;
    assert_eq!(settings.data_dir, Path::new("kept"));
    assert_eq!(settings.log.level.as_str(), "debug");
    assert_eq!(settings.jobs.listen.to_string(), "[::1]:17419");
    assert_eq!(jobs.fsync, weir_jobs::settings::Fsync::EverySecond);
    assert!(jobs.fsync_acks);
    assert_eq!(jobs.gather_wait, Duration::from_millis(2));
    assert_eq!(jobs.password.as_ref().expect("a password").expose(), "correct horse");
    assert_eq!(jobs.limits.line_bytes_max, 1 << 20);
    assert_eq!(jobs.limits.pushb_jobs_max, 5);
    assert_eq!(jobs.limits.dead_age_max, Duration::from_secs(30 * 86_400));
    let (name, queue) = jobs.queues.first_key_value().expect("a queue");
    assert_eq!(name.as_str(), "pull");
    assert_eq!(queue.target_latency, Some(Duration::from_secs(300)));
    assert_eq!(queue.concurrency, Some(40));
    assert!(queue.fresh_lane);
    assert_eq!(settings.console.hosts, ["weir.example"]);
}

#[test]
fn all_mistakes_come_at_once_with_their_places() {
    let text = r#"
data_dri = "x"
shutdown_deadline = 10
[jobs]
listen = "7419"
store = "embeded"
fsync = true
password = "hunter2"
[jobs.limits]
fetch_wait = "2 fortnights"
returns_max = 1000
lines_bytes_max = "1MiB"
line_bytes_max = "8GiB"
[jobs.queues."has space"]
concurrency = 0
[console]
listen = "0.0.0.0:7420"
token = { env = "ABSENT" }
[consoles]
"#;
    insta::assert_snapshot!(mistakes(text), @r#"
    weir.toml:2:1: data_dri is not a setting; did you mean "data_dir"?
    weir.toml:3:21: shutdown_deadline: expected a duration like "10s", not an integer
    weir.toml:5:10: jobs.listen: "7419" has no port; write for example "127.0.0.1:7419"
    weir.toml:6:9: jobs.store: "embeded" is none of "embedded", "memory"; did you mean "embedded"?
    weir.toml:7:9: jobs.fsync: expected a word, not a boolean
    weir.toml:8:12: jobs.password: a secret does not stand in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:10:14: jobs.limits.fetch_wait: "2 fortnights" is not a duration; write a whole number and ms, s, m, h or d, for example "10s"
    weir.toml:11:15: jobs.limits.returns_max: must be from 1 to 255
    weir.toml:12:1: jobs.limits.lines_bytes_max is not a setting; did you mean "line_bytes_max"?
    weir.toml:13:18: jobs.limits.line_bytes_max: must be from 1KiB to 1GiB
    weir.toml:14:14: queue name has a character outside [a-zA-Z0-9._-]
    weir.toml:15:15: jobs.queues.has space.concurrency: must be from 1 to 4294967295
    weir.toml:16:1: console.password: 0.0.0.0 is not loopback, so the console needs a password: set console.password = { file = "PATH" }, or listen on 127.0.0.1
    weir.toml:18:9: console.token: the environment variable ABSENT is not set
    weir.toml:19:2: consoles is not a setting; did you mean "console"?
    "#);
}

#[test]
fn what_comes_in_a_later_version_is_rejected_by_name() {
    let text = r#"
[jobs.resources]
ffmpeg = 2
[[jobs.cron]]
schedule = "0 3 * * *"
[budget]
"#;
    insta::assert_snapshot!(mistakes(text), @r"
    weir.toml:2:7: jobs.resources is not in this version of Weir yet
    weir.toml:4:8: jobs.cron is not in this version of Weir yet
    weir.toml:6:2: budget is not in this version of Weir yet
    ");
}

#[test]
fn mistakes_about_job_workers() {
    let text = r#"
[[front.apps]]
name = "shop"
upstreams = ["unix:/run/shop.sock"]
[workers.shop]
command = ["true"]
[workers."not a name"]
command = ["true"]
[workers.none]
processes = 2
[workers.sidekiq]
command = ["sidekiq", "--queues={queues}", "{socket}"]
concurrency = 25
queue_flag = "-q"
ready_notify = true
ready_line = "up"
stop_signal = "NONE"
ready_path = "/health"
"#;
    insta::assert_snapshot!(mistakes(text), @r#"
    weir.toml:5:10: "shop" is an app's name already ([[front.apps]])
    weir.toml:7:10: "not a name" can't name a group of workers: 1 to 32 small letters, digits, - and _
    weir.toml:9:10: workers.none.command is missing
    weir.toml:12:11: workers.sidekiq.command: unknown placeholder {socket}; this group has {index} {name} {concurrency} {queues}; write {{ for a brace
    weir.toml:12:11: workers.sidekiq.command: {queues} stands in it, and queues is not set
    weir.toml:13:15: workers.sidekiq.concurrency: nothing tells the command: write {concurrency} in it
    weir.toml:14:14: workers.sidekiq.queue_flag: only where "{queues}" is an argument of its own
    weir.toml:15:16: workers.sidekiq.ready_notify: either this or ready_line: what shows that it is ready?
    weir.toml:17:15: workers.sidekiq.stop_signal: "NONE" is no signal for workers; there are: TERM, INT, QUIT, HUP, ABRT, USR1, USR2, TTIN, TTOU, WINCH
    weir.toml:18:1: workers.sidekiq.ready_path is not a setting
    "#);
}

#[test]
fn job_workers_get_their_queues_as_arguments() {
    let text = "[workers.sidekiq]\ncommand = [\"sidekiq\", \"{queues}\"]\n\
                queues = [\"default\", \"push,2\"]\nqueue_flag = \"-q\"\n";
    let settings = settings(text);
    let policy = weir_supervisor::RestartPolicy::default();
    let group = settings.workers["sidekiq"].group("sidekiq", &policy).expect("a name");
    assert_eq!(group.variables["queues"], ["-q", "default", "-q", "push,2"]);
    assert!(group.ends_before_service);
}

#[test]
fn redis_as_a_store_is_refused_by_name() {
    let text = "[jobs]\nstore = { redis = [{ url = \"redis://127.0.0.1:6379/0\" }] }\n";
    insta::assert_snapshot!(mistakes(text), @"weir.toml:2:9: jobs.store: redis is not in this version of Weir yet");
}

#[test]
fn broken_toml_says_where() {
    insta::assert_snapshot!(mistakes("[jobs\nlisten = \"127.0.0.1:1\"\nfsync = = 3\n"), @r"
    weir.toml:1:6: unclosed table, expected `]`
    weir.toml:3:9: extra `=`, expected nothing
    weir.toml:3:11: unexpected key or value, expected newline, `#`
    ");
    insta::assert_snapshot!(mistakes("[jobs]\nfsync = \"always\"\nfsync = \"never\"\n"), @"weir.toml:3:1: duplicate key");
}

#[test]
fn secrets_say_what_is_missing() {
    let text = r#"
[jobs]
password = { file = "/nonexistent/password" }
[console]
password = { env = "A", file = "B" }
token = { vault = "x" }
"#;
    insta::assert_snapshot!(mistakes(text), @r#"
    weir.toml:3:12: jobs.password: cannot read /nonexistent/password: No such file or directory (os error 2)
    weir.toml:5:12: console.password: a secret has one source; write { env = "NAME" } or { file = "PATH" }
    weir.toml:6:9: console.token: a secret has no source "vault"; write { env = "NAME" } or { file = "PATH" }
    "#);
}

#[test]
fn a_secret_file_is_read_without_its_newline() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("password"), "correct horse\n").expect("written");
    let text = "[jobs]\npassword = { file = \"password\" }\n";
    let source = Source::of(&folder.path().join("weir.toml"), text, None);
    let loaded = parse(&source, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let password = loaded.settings.jobs.settings.password.expect("a password");
    assert_eq!(password.expose(), "correct horse");
    assert_eq!(loaded.settings.data_dir, folder.path().join("data"));
    let shown = format!("{:?}", loaded.values);
    assert!(!shown.contains("horse"), "a secret is never shown");
}

#[test]
fn contradictions_are_mistakes_and_dangers_are_warnings() {
    let text = r#"
[jobs]
listen = "127.0.0.1:7420"
[jobs.limits]
line_bytes_max = "100MiB"
buffered_bytes_max = "50MiB"
segment_bytes = "16MiB"
[jobs.tls]
cert = "/nonexistent/cert.pem"
key = "/nonexistent/key.pem"
[supervisor]
backoff_min = "1m"
alive_interval = "10s"
"#;
    insta::assert_snapshot!(mistakes(text), @r"
    weir.toml:1:1: console.listen: 127.0.0.1:7420 is jobs.listen already
    weir.toml:6:22: jobs.limits.buffered_bytes_max: must hold at least one line of line_bytes_max
    weir.toml:7:17: jobs.limits.segment_bytes: must be at least 1MiB above reserve_bytes
    weir.toml:8:1: jobs.tls: cannot read certificate /nonexistent/cert.pem: No such file or directory (os error 2)
    weir.toml:11:1: supervisor.backoff_max: must not be below backoff_min
    weir.toml:11:1: supervisor.unresponsive_after: must be at least 4 times alive_interval
    ");
    let text = "[jobs]\nlisten = \"0.0.0.0:7419\"\nfsync = \"never\"\nfsync_acks = true\nallow_flush = true\n";
    insta::assert_snapshot!(load(text).expect("sound").warnings.join("\n"), @r#"
    jobs.fsync = "never": a power cut loses jobs that were acknowledged, minutes of them
    jobs.fsync_acks has no effect without jobs.fsync = "always"
    jobs.allow_flush: any client can delete every job with one command
    jobs.listen is not loopback and there is no jobs.password: everybody who reaches the port can push and fetch jobs
    jobs.listen is not loopback and there is no jobs.tls: jobs travel in clear text
    "#);
}

#[test]
fn certificates_that_clients_refuse_are_warnings() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text);
    for (name, host, year) in [("shop", "*.shop.example", 2100), ("old", "old.example", 2002)] {
        let mut params = rcgen::CertificateParams::new([host.to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("made");
        write(&format!("{name}.pem"), cert.pem()).expect("written");
        write(&format!("{name}.key"), key.serialize_pem()).expect("written");
    }
    let parse_with = |key: &str| {
        let text = format!(
            "[front.tls]\ncert = \"shop.pem\"\nkey = \"{key}\"\nreload_interval = \"5s\"\n\
             [[front.tls.certificates]]\ncert = \"old.pem\"\nkey = \"old.key\"\nhosts = [\"new.example\"]\n\
             [[front.apps]]\nname = \"shop\"\nhosts = [\"www.shop.example\", \"shop.example\", \"old.example\"]\n\
             upstreams = [\"127.0.0.1:3000\"]\n"
        );
        parse(&Source::of(&folder.path().join("weir.toml"), &text, None), &|_| None)
    };
    let loaded = parse_with("shop.key").unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let tls = loaded.settings.front.tls.expect("certificates");
    assert_eq!((tls.certificates.len(), tls.reload_interval), (2, Duration::from_secs(5)));
    let of_tls = loaded.warnings.into_iter().filter(|warning| warning.contains("tls"));
    let warnings = of_tls.collect::<Vec<_>>().join("\n");
    let warnings = warnings.replace(&folder.path().display().to_string(), "DIR");
    let warnings = without_numbers(&warnings);
    insta::assert_snapshot!(warnings, @r"
    front.tls: DIR/old.pem expired N days ago: clients refuse it; renew it
    front.tls: DIR/old.pem has old.example, not new.example, which is among its hosts: clients refuse it there
    front.apps[0].hosts: no certificate of front.tls is for shop.example: clients refuse the connection
    front.apps[0].hosts: no certificate of front.tls is for old.example: clients refuse the connection
    ");
    let mistakes = parse_with("old.key").expect_err("they don't fit").to_string();
    assert!(mistakes.contains("can't be used together"), "{mistakes}");
}

#[test]
fn an_app_has_all_that_is_set() {
    let settings = settings(
        r#"
[front]
listen = "127.0.0.1:18080"
cores = 3
[front.limits]
accepts_per_second = 500
[realtime]
listen = "[::1]:18081"
activity_jitter = "20%"
[realtime.limits]
subscribes_per_second = 100
message_bytes_max = "1MiB"
batch_events_max = 25
webhooks_in_flight_max = 5
[realtime.webhooks]
retry_for = "1m"
batch_events_max = 7
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
    assert_eq!(realtime.settings.websocket.message_bytes_max, 1 << 20);
    assert_eq!(realtime.settings.pusher.batch_events_max, 25);
    assert_eq!(realtime.webhooks.settings.limits.batch_events_max, 7);
    assert_eq!(realtime.webhooks.in_flight_max, 5);
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
fn mistakes_of_apps_have_their_places() {
    let text = r#"
[realtime]
activity_timeout = "1s"
activity_jitter = 10
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
    insta::assert_snapshot!(mistakes(text), @r#"
    weir.toml:3:20: realtime.activity_timeout: must be from 5s to 1h
    weir.toml:4:19: realtime.activity_jitter: expected a percentage like "10%", not an integer
    weir.toml:6:1: realtime.limits.subscribes_per_secnd is not a setting; did you mean "subscribes_per_second"?
    weir.toml:8:19: realtime.webhooks.retry_delay_max: must not be below retry_delay_min
    weir.toml:9:6: cannot read realtime.webhooks.ca /nonexistent/ca.pem: No such file or directory (os error 2)
    weir.toml:10:1: realtime.apps[0].key is missing
    weir.toml:12:10: realtime.apps[0].secret: a secret does not stand in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:14:6: realtime.apps[1].id: "1" is another app's id already
    weir.toml:15:7: realtime.apps[1].key: it stands in paths, so write letters, digits, - _ and . only
    weir.toml:17:11: realtime.apps[1].origins: "https://" is not an origin; write for example "https://example.org", "example.org", "*.example.org" or "*"
    weir.toml:18:16: realtime.apps[1].slow_clients: "wait" is none of "disconnect", "drop_oldest", "conflate"
    weir.toml:19:16: realtime.apps[1].histories is not a setting; did you mean "history"?
    weir.toml:21:7: realtime.apps[1].webhooks[0].url: "ftp://example.org" does not begin with http:// or https://; write for example "https://example.org/hooks"
    weir.toml:22:10: realtime.apps[1].webhooks[0].events: "channel_ocupied" is no webhook event; write channel_occupied, channel_vacated, member_added, member_removed, client_event, cache_miss or subscription_count
    weir.toml:23:11: realtime.apps[1].webhooks[0].headers: the header Host is set by Weir; leave it out
    weir.toml:24:1: realtime.apps[2].key is missing
    weir.toml:24:1: realtime.apps[2].secret is missing
    weir.toml:25:6: realtime.apps[2].id: expected a text, not an integer
    weir.toml:27:9: front.cores: must be from 1 to 1024
    "#);
    insta::assert_snapshot!(mistakes("[realtime]\napps = 3\n"), @"weir.toml:2:8: expected tables [[realtime.apps]]");
}

#[test]
fn dangers_of_realtime_are_warnings() {
    let text = r#"
[front]
listen = "0.0.0.0:8080"
[front.limits]
connections_max = 100000000
[realtime]
listen = "0.0.0.0:8081"
drain_window = "25s"
[realtime.limits]
client_message_bytes_max = "1MiB"
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
    realtime.apps[0].require_tls without front.tls: every connection is refused; TLS that ends in a proxy doesn't count
    realtime.apps[0].client_queue_bytes_max: N slow clients could hold N TiB, and this machine has N GiB
    realtime.limits.client_message_bytes_max is above message_bytes_max: longer messages end the connection
    realtime.drain_window is not below shutdown_deadline (25s): the end cuts it off
    ");
}

/// What depends on the machine is left out.
fn without_numbers(text: &str) -> String {
    let word =
        |word: &str| if word.parse::<u64>().is_ok() { "N".to_owned() } else { word.to_owned() };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn two_parts_never_share_an_address() {
    let text = "[front]\nlisten = \"127.0.0.1:7420\"\n[realtime]\nlisten = \"127.0.0.1:7419\"\n";
    insta::assert_snapshot!(mistakes(text), @r"
    weir.toml:1:1: console.listen: 127.0.0.1:7420 is front.listen already
    weir.toml:4:10: realtime.listen: 127.0.0.1:7419 is jobs.listen already
    ");
}

#[test]
fn the_front_opens_when_it_is_set_or_has_something_to_serve() {
    let app = format!("{APP}[front.limits]\nconnections_max = 5\n");
    let shop = "[[front.apps]]\nname = \"shop\"\nupstreams = [\"127.0.0.1:3000\"]\n";
    for (text, is_open) in [
        ("", false),
        (shop, true),
        ("[front]\ncores = 2\n", false),
        ("[front]\nlisten = \"127.0.0.1:8080\"\n", true),
        (app.as_str(), true),
    ] {
        assert_eq!(settings(text).has_front(), is_open, "{text}");
    }
}

#[test]
fn an_app_has_a_name_of_its_own_and_workers_that_can_be_reached() {
    let text = "[[front.apps]]\nname = \"a b\"\nupstreams = [\"localhost:1\"]\n\
                [[front.apps]]\nupstreams = []\nhosts = [\"https://a\"]\npaths = [\"shop\"]\n\
                [[front.apps]]\nname = \"a b\"\ncommand = [\"puma\"]\nconcurrency = 0\n\
                [[front.apps]]\nname = \"both\"\ncommand = [\"puma\", \"{socket}\"]\n\
                upstreams = [\"127.0.0.1:1\"]\ndump_signal = \"LATER\"\nready_path = \"up\"\n\
                [[front.apps]]\nname = \"own\"\nupstreams = [\"127.0.0.1:1\"]\nworkers = 2\n";
    insta::assert_snapshot!(mistakes(text), @r#"
    weir.toml:2:8: front.apps[0].name: "a b" can't name a group of workers: 1 to 32 small letters, digits, - and _
    weir.toml:3:13: front.apps[0].upstreams: "localhost:1" is neither unix:/PATH nor IP:PORT
    weir.toml:4:1: front.apps[1].name is missing
    weir.toml:5:13: front.apps[1].upstreams: the list is empty
    weir.toml:6:9: front.apps[1].hosts: write names like "shop.example", without scheme, port or path
    weir.toml:7:9: front.apps[1].paths: write paths like "/shop"
    weir.toml:9:8: front.apps[2].name: "a b" can't name a group of workers: 1 to 32 small letters, digits, - and _
    weir.toml:9:8: front.apps[2].name: "a b" is another app's name already
    weir.toml:9:8: front.apps[2]: no request ever gets to a b: a b, further up, has the same hosts and paths; give one of them others
    weir.toml:10:11: front.apps[2].command: nothing says where a worker is to listen; write {socket}, {port} or {fd} in it
    weir.toml:11:15: front.apps[2].concurrency: must be from 1 to 1000000
    weir.toml:13:8: front.apps[3]: no request ever gets to both: a b, further up, has the same hosts and paths; give one of them others
    weir.toml:14:11: front.apps[3].command: either a command or upstreams: who starts the workers?
    weir.toml:16:15: front.apps[3].dump_signal: "LATER" is no signal for workers; there are: TERM, INT, QUIT, HUP, ABRT, USR1, USR2, TTIN, TTOU, WINCH
    weir.toml:17:14: front.apps[3].ready_path: write a path like "/health"
    weir.toml:19:8: front.apps[4]: no request ever gets to own: a b, further up, has the same hosts and paths; give one of them others
    weir.toml:21:11: front.apps[4].workers: only where Weir starts the workers: there is no command
    "#);
}

#[test]
fn an_app_s_workers_are_told_what_its_settings_name() {
    let with = |list: &str| {
        format!(
            "[[front.apps]]\nname = \"shop\"\nupstreams = [\"127.0.0.1:3000\"]\n\
             forwarded_headers = {list}\n"
        )
    };
    let told = |text: &str| settings(text).front.apps[0].settings.forwarded_headers.clone();
    let two = [ForwardedHeader::Forwarded, ForwardedHeader::XRequestId];
    assert_eq!(told(&with("[\"forwarded\", \"x-request-id\"]")), two);
    assert_eq!(told(&with("[]")), []);
    let silent = with("[]").replace("forwarded_headers = []\n", "");
    assert_eq!(told(&silent), ForwardedHeader::ALL);
    insta::assert_snapshot!(mistakes(&with("[\"x-forwarded-for\"]")), @r#"weir.toml:4:21: front.apps[0].forwarded_headers: "x-forwarded-for" is no header that Weir writes; it writes "x-forwarded" (X-Forwarded-For, -Proto and -Host), "forwarded", "x-request-start" and "x-request-id""#);
}

#[test]
fn workers_that_could_not_be_started_are_mistakes() {
    let text = "[[front.apps]]\nname = \"shop\"\ncommand = [\"app\", \"{socket}\", \"{sockets}\"]\n\
                folder = \"/no/such/folder\"\n";
    insta::assert_snapshot!(mistakes(text), @r"
    weir.toml:3:11: front.apps[0].command: unknown placeholder {sockets}; this group has {index} {name} {socket}; write {{ for a brace
    weir.toml:4:10: front.apps[0].folder: /no/such/folder is no folder
    ");
}

#[test]
fn a_segment_is_no_larger_than_the_log_can_make_it() {
    insta::assert_snapshot!(mistakes("[jobs.limits]\nsegment_bytes = \"257MiB\"\n"), @"weir.toml:2:17: jobs.limits.segment_bytes: must be from 1MiB to 256MiB");
    load("[jobs.limits]\nsegment_bytes = \"256MiB\"\n").expect("sound");
}

#[test]
fn hostile_files_are_refused_not_suffered() {
    let deep = format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let nested: String = (0..10_000).map(|level| format!("a{level}.")).collect();
    for text in [
        deep.as_str(),
        &format!("{nested}x = 1"),
        "jobs = 3",
        "jobs.limits = []",
        "[jobs.queues]\nx = 1",
        "[jobs]\nlisten = 99999999999999999999999999999999",
        "[jobs.limits]\nreturns_max = -1\nline_bytes_max = 1e400",
        "\u{0}",
        "\"\" = 1",
        "[jobs.limits]\nfetch_wait = 0x10",
    ] {
        let refused = load(text).expect_err("refused").mistakes;
        assert!(!refused.is_empty());
    }
}

#[test]
fn the_reference_covers_every_setting_and_its_file_parses() {
    let file = reference::commented_file();
    load(&file).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    for value in reference::values() {
        assert!(!value.doc.is_empty(), "{} has no words", value.path);
        assert!(file.contains(value.doc.split(' ').next().expect("a word")));
    }
    // Defaults are written as they are read.
    for value in reference::values().iter().filter(|value| value.default != "none") {
        let text = match value.path.rsplit_once('.') {
            Some((section, name)) => {
                format!("{}\n{name} = {}\n", whole(section, name), value.default)
            }
            None => format!("{} = {}\n", value.path, value.default),
        };
        let loaded = load(&text).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
        let path = value.path.replace("[]", "[0]");
        let read = loaded.values.iter().find(|read| read.path == path).expect("read");
        assert!(read.is_set);
        assert_eq!(read.shown, value.default, "{text}");
    }
}

/// The heading of a section, with what must be set around it for that key to mean something.
fn whole(section: &str, name: &str) -> String {
    let heading = reference::heading(section);
    let is_of_sockets = ["selection", "queues", "queues_per_worker", "backlog", "claim_timeout"];
    if section == "front.apps[]" && is_of_sockets.contains(&name) {
        return format!("{SHARED}workers = 4\n");
    }
    if section == "workers.NAME" {
        return format!("{heading}\ncommand = [\"true\"]");
    }
    if section == "gems.webhooks.endpoints[]" {
        return format!(
            "{heading}\nname = \"ci\"\nurl = \"http://localhost\"\nsecret = {{ env = \"PASSWORD\" }}"
        );
    }
    if let Some(rest) = section.strip_prefix("gems.mirror") {
        let upstream = "[[gems.mirror.upstreams]]\nname = \"one\"\nurl = \"http://localhost\"\n";
        return match rest {
            "" => {
                format!("{heading}\nupstreams = {{ name = \"one\", url = \"http://localhost\" }}")
            }
            ".upstreams[]" => upstream.to_owned(),
            _ => format!("{upstream}{heading}"),
        };
    }
    if section.starts_with("observe") {
        let redis = "[[observe.redis]]\nurl = \"redis://127.0.0.1\"\n";
        return match section {
            "observe.redis[]" => redis.to_owned(),
            "observe.postgres" => format!("{heading}\nurl = \"postgres://127.0.0.1/app\""),
            _ => format!("{redis}{heading}"),
        };
    }
    let shop = "[[front.apps]]\nname = \"shop\"\ncommand = [\"app\", \"{socket}\"]\n";
    match section.strip_prefix("front.apps[]") {
        Some("") => return shop.to_owned(),
        Some(".shed[]") => return format!("{shop}{heading}\npath = \"/\"\nqueue = \"mail\""),
        Some(_) => return format!("{shop}{heading}\npath = \"/\""),
        None => {}
    }
    match section.strip_prefix("realtime.apps[]") {
        Some("") => APP.to_owned(),
        Some(".webhooks[]") => format!("{APP}{heading}\nurl = \"http://localhost\""),
        Some(_) => format!("{APP}{heading}"),
        None => heading,
    }
}

/// An app whose workers share sockets.
const SHARED: &str = "[[front.apps]]\nname = \"shop\"\ncommand = [\"app\", \"{fd}\"]\n\
                      mode = \"sockets\"\nlisten = \"127.0.0.1:8081\"\n";

/// What the proxy alone makes use of would be ignored there, so it is refused.
#[test]
fn with_shared_sockets_these_keys_mean_something() {
    let values = reference::values();
    let of_an_app =
        values.iter().filter_map(|it| Some((it.path.strip_prefix("front.apps[].")?, it)));
    let keys = of_an_app.filter(|(name, value)| !name.contains('.') && value.default != "none");
    let means_something = |name: &str, value: &str| {
        let set = format!("{SHARED}workers = 4\n{name} = {value}\n");
        !load(&set).is_err_and(|mistakes| mistakes.to_string().contains("only with mode"))
    };
    let names = keys.filter(|(name, value)| means_something(name, &value.default));
    let names: Vec<&str> = names.map(|(name, _)| name).collect();
    insta::assert_snapshot!(names.join(" "), @"workers warm_up finish_timeout environment address_space start_deadline stop_signal stop_deadline dump_wait recycle_memory recycle_interval mode selection queues queues_per_worker backlog claim_timeout");
}

#[test]
fn shared_sockets_are_checked_with_the_workers_that_listen_on_them() {
    let plan = |more: &str| {
        let app = settings(&format!("{SHARED}workers = 4\n{more}")).front.apps.remove(0);
        app.sockets.expect("shared").plan(&app.processes.expect("a command"))
    };
    assert_eq!(plan("").sockets(), 1);
    assert_eq!(plan("queues = 4\nselection = \"random\"\n").sockets(), 4);
    assert_eq!(plan("selection = \"join-idle\"\n").sockets(), 5);
    let all = |texts: &[&str]| texts.iter().map(|text| mistakes(text) + "\n").collect::<String>();
    let with = |more: &str| format!("{SHARED}workers = 4\n{more}");
    insta::assert_snapshot!(all(&[
        &with("queues = 5\n"),
        &with("queues = 2\nqueues_per_worker = 3\n"),
        &with("selection = \"random\"\n"),
        &with("selection = \"join-idle\"\nqueues = 4\n"),
        &with("concurrency = 5\nhosts = [\"a\"]\nwarm_up = [\"a b\"]\n"),
        &SHARED.replace("listen", "#"),
        &SHARED.replace("{fd}", "{fd1}"),
        &SHARED.replace("sockets", "proxy"),
        &SHARED.replace("8081", "7419"),
        &SHARED.replace("command", "upstreams"),
    ]), @r#"
    weir.toml:7:10: front.apps[0].queues: nobody would listen on some of them; that takes 5 workers, or a larger queues_per_worker
    weir.toml:8:21: front.apps[0].queues_per_worker: there are fewer queues
    weir.toml:7:13: front.apps[0].selection: random needs more than one of queues
    weir.toml:8:10: front.apps[0].queues: with join-idle each worker has a queue of its own
    weir.toml:7:15: front.apps[0].concurrency: only with mode = "proxy"
    weir.toml:8:9: front.apps[0].hosts: only with mode = "proxy"
    weir.toml:9:11: front.apps[0].warm_up: write paths like "/products"
    weir.toml:1:1: front.apps[0].listen is missing
    weir.toml:3:11: front.apps[0].command: unknown placeholder {fd1}; this group has {index} {name} {fd} {fd0}; write {{ for a brace
    weir.toml:5:10: front.apps[0].listen: only with mode = "sockets"
    weir.toml:5:10: front.apps[0].listen: 127.0.0.1:7419 is jobs.listen already
    weir.toml:3:13: front.apps[0].upstreams: "app" is neither unix:/PATH nor IP:PORT
    weir.toml:3:13: front.apps[0].upstreams: only with mode = "proxy"
    weir.toml:4:8: front.apps[0].mode: "sockets" needs a command: Weir starts the workers
    "#);
}

/// An app with what every app must have.
const APP: &str =
    "[[realtime.apps]]\nid = \"1\"\nkey = \"demo-key\"\nsecret = { env = \"PASSWORD\" }\n";

/// The field names of a struct, from what `{:#?}` shows.
fn fields(shown: &str) -> Vec<String> {
    let own = shown.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     "));
    own.filter_map(|line| Some(line.trim().split_once(':')?.0.to_owned())).collect()
}

/// The key of a field that has another name.
fn key_of(field: &str) -> &str {
    match field {
        "activity_jitter_thousandths" => "activity_jitter",
        "subscribe_rate" => "subscribes_per_second",
        "client_event_rate" => "client_events_per_second",
        "trust" => "ca",
        "stream_window_bytes" => "stream_window",
        "connection_window_bytes" => "connection_window",
        "send_buffer_bytes" => "send_buffer",
        "control_frames" => "control_frames_per_second",
        "is_enabled" => "enabled",
        "requires_tls" => "require_tls",
        "has_client_events" => "client_events",
        "has_subscription_counts" => "subscription_counts",
        "hooks" => "webhooks[]",
        "endpoints" => "endpoints[]",
        "upstreams" => "upstreams[]",
        "import_batch" => "import_batch_gems",
        same => same,
    }
}

fn upstream() -> weir_gems::mirror::settings::UpstreamSettings {
    weir_gems::mirror::settings::UpstreamSettings {
        name: "one".parse().expect("a name"),
        url: "http://127.0.0.1".parse().expect("a URL"),
        credentials: None,
        redirect_hosts: Vec::new(),
        hook_secret: None,
    }
}

#[test]
fn no_field_of_a_part_is_without_its_key() {
    let console = weir_console::settings::Settings::default();
    let jobs = weir_jobs::settings::Settings::default();
    let history = weir_base::history::Settings::default();
    let known: Vec<String> = reference::values().into_iter().map(|value| value.path).collect();
    let realtime = weir_realtime::settings::Settings::default();
    let webhooks = weir_realtime::webhooks::Settings::default();
    let app = weir_realtime::settings::AppSettings::new("1", "key", Secret::default());
    let gems = weir_gems::settings::GemsSettings::default();
    let postgres = settings("").gems.postgres.settings;
    let told = weir_gems::webhooks::WebhookSettings::default();
    let nowhere = "http://127.0.0.1/".parse().expect("a URL");
    let endpoint = weir_gems::webhooks::WebhookEndpoint::new("ci", nowhere, Secret::default());
    let mirror = weir_gems::mirror::settings::MirrorSettings::new(Vec::new());
    for (section, shown) in [
        ("front.limits", format!("{:#?}", weir_net::server::Limits::default())),
        ("front.limits.http2_", format!("{:#?}", weir_net::server::Http2Limits::default())),
        ("realtime", format!("{realtime:#?}")),
        ("realtime.limits", format!("{:#?}", realtime.limits)),
        ("realtime.limits", format!("{:#?}", realtime.websocket)),
        ("realtime.limits", format!("{:#?}", realtime.pusher)),
        ("realtime.webhooks", format!("{webhooks:#?}")),
        ("realtime.webhooks", format!("{:#?}", webhooks.limits)),
        ("realtime.apps[]", format!("{app:#?}")),
        ("realtime.apps[].history", format!("{:#?}", app.history)),
        ("realtime.apps[].presence", format!("{:#?}", app.presence)),
        ("jobs", format!("{jobs:#?}")),
        ("jobs.limits", format!("{:#?}", jobs.limits)),
        ("jobs.queues.NAME", format!("{:#?}", weir_jobs::settings::QueueSettings::default())),
        ("console", format!("{console:#?}")),
        ("console.limits", format!("{:#?}", console.limits)),
        ("gems", format!("{gems:#?}")),
        ("gems.limits", format!("{:#?}", gems.limits)),
        ("gems.limits", format!("{:#?}", gems.limits.package)),
        ("gems.limits.import_", format!("{:#?}", gems.limits.import)),
        ("gems.sqlite", format!("{:#?}", weir_gems::store::SqliteSettings::new(""))),
        ("gems.postgres", format!("{postgres:#?}")),
        ("gems.postgres.limits", format!("{:#?}", postgres.limits)),
        ("gems.webhooks", format!("{told:#?}")),
        ("gems.webhooks.limits", format!("{:#?}", told.limits)),
        ("gems.webhooks.endpoints[]", format!("{endpoint:#?}")),
        ("gems.mirror", format!("{mirror:#?}")),
        ("gems.mirror.limits", format!("{:#?}", mirror.limits)),
        ("gems.mirror.upstreams[]", format!("{:#?}", upstream())),
        ("history", format!("{history:#?}")),
        ("supervisor", format!("{:#?}", weir_supervisor::RestartPolicy::default())),
    ] {
        for field in fields(&shown) {
            let between = if section.ends_with('_') { "" } else { "." };
            let path = format!("{section}{between}{}", key_of(&field));
            let has_key =
                known.iter().any(|known| *known == path || known.starts_with(&format!("{path}.")));
            // Derived from data_dir; or fields whose own fields are among the section's keys.
            let is_no_key = [
                "directory",
                "path",
                "websocket",
                "pusher",
                "limits",
                "http2",
                "package",
                "import",
            ]
            .contains(&field.as_str());
            assert!(has_key || is_no_key, "{path} has no key");
        }
    }
}

#[test]
fn gems_are_served_by_themselves_or_below_a_path_of_the_front() {
    let places = |text: &str| {
        let settings = settings(text);
        (settings.gems.address().map(|at| at.port()), settings.has_front())
    };
    assert_eq!(places(""), (None, false));
    assert_eq!(places("[gems]\n"), (Some(7422), false));
    assert_eq!(places("[gems.limits]\npushes_max = 1\n"), (Some(7422), false));
    assert_eq!(places("[gems]\nmount = \"/gems\"\n"), (None, true));
    let both = "[gems]\nmount = \"/gems\"\nlisten = \"127.0.0.1:9000\"\n";
    assert_eq!(places(both), (Some(9000), true));
    let gems = settings("data_dir = \"kept\"\n[gems]\n").gems;
    assert_eq!(gems.sqlite.path, Path::new("kept/gems/index.db"));
    assert_eq!(gems.files_dir(), Path::new("kept/gems/files"));
    assert_eq!(gems.settings, weir_gems::settings::GemsSettings::default());
}

#[test]
fn mistakes_about_gems_say_what_to_write() {
    let text = r#"
[jobs]
listen = "127.0.0.1:7422"
[gems]
listen = "127.0.0.1:7422"
mount = "gems/"
store = "postgres"
files_url = "files.example"
[gems.limits]
gem_bytes_max = "1B"
pushes_max = 0
[gems.tls]
cert = "a.crt"
"#;
    insta::assert_snapshot!(mistakes(text), @r#"
    weir.toml:5:10: gems.listen: 127.0.0.1:7422 is jobs.listen already
    weir.toml:6:9: gems.mount: "gems/" is no path that clients send as it is; write a path like "/gems-index": it begins with / and does not end with it, of letters, digits and -_.~
    weir.toml:7:9: gems.store: "postgres" needs gems.postgres.url, like "postgres://weir@db.example/weir"
    weir.toml:8:13: gems.files_url: "files.example" is no URL to which a file's name can be appended; write it like "https://files.example/gems"
    weir.toml:10:17: gems.limits.gem_bytes_max: must be from 1KiB to 16TiB
    weir.toml:11:14: gems.limits.pushes_max: must be from 1 to 10000
    weir.toml:13:8: gems.tls.cert: it needs key beside it
    "#);
}

#[test]
fn mistakes_about_a_mirror_say_what_to_write() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("policy"), "private acme-*\nfrom elsewhere pro\n")
        .expect("written");
    std::fs::write(folder.path().join("damaged"), "private acme-*\nprivat\n").expect("written");
    let all = |texts: &[&str]| {
        let one = |text: &&str| {
            let text = text.replace("FOLDER", &folder.path().display().to_string());
            mistakes(&text).replace(&folder.path().display().to_string(), "FOLDER") + "\n"
        };
        texts.iter().map(one).collect::<String>()
    };
    let with = |more: &str| {
        format!(
            "[gems.mirror]\n{more}[[gems.mirror.upstreams]]\nname = \"one\"\nurl = \"https://a.example\"\n"
        )
    };
    insta::assert_snapshot!(all(&[
        "[gems.mirror]\n",
        "[[gems.mirror.upstreams]]\nurl = \"rubygems.org\"\ncredentials = \"a:b\"\n",
        "[[gems.mirror.upstreams]]\nname = \"a b\"\nurl = \"https://me:secret@a.example\"\n",
        &(with("") + "[[gems.mirror.upstreams]]\nname = \"one\"\nurl = \"https://b.example\"\n"),
        &with("policy = \"FOLDER/none\"\n"),
        &with("policy = \"FOLDER/damaged\"\n"),
        &with("policy = \"FOLDER/policy\"\nfiles = \"later\"\n"),
        &(with("") + "redirect_hosts = [\"https://cdn.example\"]\n"),
        &(with("") + "[gems.mirror.limits]\nbackoff_max = \"1ms\"\n"),
    ]), @r#"
    weir.toml:1:1: gems.mirror.upstreams has 0 upstreams; there may be 1 to 8
    weir.toml:1:1: gems.mirror.upstreams[0].name is missing
    weir.toml:2:7: gems.mirror.upstreams[0].url: "rubygems.org" does not begin with http:// or https://; write for example "https://rubygems.org"
    weir.toml:3:15: gems.mirror.upstreams[0].credentials: a secret does not stand in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:2:8: gems.mirror.upstreams[0].name: "a b" is no name of an upstream: 1 to 40 letters, digits, '-', '_' and '.', for example "rubygems"
    weir.toml:3:7: gems.mirror.upstreams[0].url: the address holds a user name or a password; leave them out and set gems.mirror.upstreams.credentials
    weir.toml:1:1: gems.mirror.upstreams has one twice; what comes from an upstream belongs to its name
    weir.toml:2:10: gems.mirror.policy: FOLDER/none: cannot be read: No such file or directory (os error 2)
    weir.toml:2:10: gems.mirror.policy: FOLDER/damaged: line 2 of the policy: "privat" is neither `private PATTERN` nor `from UPSTREAM PATTERN`
    weir.toml:2:10: gems.mirror.policy: the policy names the upstream elsewhere, which is not in gems.mirror.upstreams
    weir.toml:3:9: gems.mirror.files: "later" is none of "on_demand", "eagerly"
    weir.toml:5:18: gems.mirror.upstreams[0].redirect_hosts: "https://cdn.example" is no host: write a name or an address alone, such as "cdn.example" or "10.0.0.5"
    weir.toml:6:15: gems.mirror.limits.backoff_max: must not be below backoff_min
    "#);
}

#[test]
fn gems_in_clear_text_are_warned_about() {
    let loaded = load("[gems]\nlisten = \"0.0.0.0:7422\"\n").expect("sound");
    let warned = |text: &str| loaded.warnings.iter().any(|warning| warning.contains(text));
    assert!(warned("API keys travel in clear text"), "{:?}", loaded.warnings);
    assert!(load("[gems]\n").expect("sound").warnings.is_empty());
}

#[test]
fn files_that_lie_elsewhere_are_warned_about_where_reading_takes_a_key() {
    let gems = "[gems]\nread = \"key\"\n";
    assert!(load(gems).expect("sound").warnings.is_empty());
    let elsewhere = format!("{gems}files_url = \"https://files.example\"\n");
    let warnings = load(&elsewhere).expect("sound").warnings;
    assert!(warnings.iter().any(|it| it.contains("as open as their own server")), "{warnings:?}");
}

#[test]
fn an_app_whose_path_is_the_indexs_is_warned_about() {
    let app = |path: &str| {
        let text = format!(
            "[gems]\nmount = \"/gems\"\n[[front.apps]]\nname = \"shop\"\npaths = [\"{path}\"]\n\
             upstreams = [\"127.0.0.1:3000\"]\n"
        );
        load(&text).expect("sound").warnings.join("\n")
    };
    for path in ["/gems", "/gems/shop"] {
        let expected = format!("front.apps[0].paths: {path} lies below gems.mount (/gems)");
        assert!(app(path).contains(&expected), "{}", app(path));
    }
    assert!(!app("/gemstones").contains("gems.mount"), "{}", app("/gemstones"));
}

const UPSTREAM: &str = "upstreams = [\"127.0.0.1:3000\"]\n";

fn app_of(name: &str, more: &str) -> String {
    format!("[[front.apps]]\nname = \"{name}\"\n{UPSTREAM}{more}")
}

#[test]
fn an_app_that_no_request_ever_gets_to_is_a_mistake() {
    let text = app_of("shop", "") + &app_of("blog", "");
    insta::assert_snapshot!(mistakes(&text), @r#"weir.toml:5:8: front.apps[1]: no request ever gets to blog: shop, further up, has the same hosts and paths; give one of them others"#);
    let text = app_of("shop", "hosts = [\"a.example\"]\n")
        + &app_of("cart", "hosts = [\"b.example\"]\npaths = [\"/x\"]\n")
        + &app_of("blog", "hosts = [\"A.example\", \"b.example\"]\npaths = [\"/x/\"]\n");
    // One of its two places is its own.
    assert!(load(&text).is_ok());
    let text =
        text.replace("hosts = [\"a.example\"]\n", "hosts = [\"a.example\"]\npaths = [\"/x\"]\n");
    assert!(mistakes(&text).contains("no request ever gets to blog: shop, cart, further up"));
    // Whose workers take connections themselves is in nobody's way.
    let direct = "[[front.apps]]\nname = \"direct\"\nmode = \"sockets\"\n\
                  listen = \"127.0.0.1:9000\"\ncommand = [\"sh\", \"{fd}\"]\n";
    assert!(load(&(direct.to_owned() + &app_of("shop", ""))).is_ok());
}

#[test]
fn the_front_is_not_its_own_upstream() {
    for (listen, is_wrong) in [
        ("127.0.0.1:3000", true),
        ("0.0.0.0:3000", true),
        ("[::]:3000", true),
        ("127.0.0.2:3000", false),
        ("0.0.0.0:3001", false),
    ] {
        let text = format!("[front]\nlisten = \"{listen}\"\n{}", app_of("shop", ""));
        let found = load(&text).err().map(|mistakes| mistakes.to_string()).unwrap_or_default();
        assert_eq!(found.contains("127.0.0.1:3000 is front.listen itself"), is_wrong, "{listen}");
    }
}

#[test]
fn a_maintenance_page_that_can_t_be_read_is_a_mistake() {
    let text = app_of("shop", "maintenance_page = \"/nonexistent/back.html\"\n");
    insta::assert_snapshot!(mistakes(&text), @r#"weir.toml:4:20: front.apps[0].maintenance_page: /nonexistent/back.html can't be read: No such file or directory (os error 2)"#);
}

#[test]
fn a_program_that_is_not_there_is_worth_a_warning() {
    let warned = |command: &str| {
        let text = format!("[workers.dig]\ncommand = [{command}]\n");
        let loaded = load(&text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let ours = loaded.warnings.into_iter().find(|it| it.starts_with("workers.dig"));
        ours.unwrap_or_default()
    };
    assert_eq!(warned("\"sh\""), "");
    assert_eq!(warned("\"/bin/sh\""), "");
    assert!(warned("\"no-such-program\"").contains("no-such-program is in no folder of PATH"));
    assert!(warned("\"/etc/passwd\"").contains("/etc/passwd is no program that can be executed"));
    let own = "[workers.dig]\ncommand = [\"sh\"]\nenvironment = { PATH = \"/nonexistent\" }\n";
    let warnings = load(own).expect("sound").warnings;
    assert!(warnings.iter().any(|it| it.contains("sh is in no folder of PATH")), "{warnings:?}");
}

#[test]
fn the_front_listens_on_no_unix_socket() {
    insta::assert_snapshot!(mistakes("[front]\nlisten = \"unix:/run/x\"\n"), @r#"weir.toml:2:10: front.listen: a unix socket is not supported here; write for example "127.0.0.1:8080""#);
    let refused = mistakes("[front]\ntrusted_proxies = [\"unix\"]\n");
    assert!(refused.contains("front.listen is no unix socket"), "{refused}");
}

#[test]
fn a_list_of_one_table_may_be_that_table() {
    let rule = "shed = { path = \"/inbox\", queue = \"ingress\", over = \"5m\", status = 503 }\n";
    let text = app_of("shop", &rule.replace(", status = 503", ""));
    let shed = &settings(&text).front.apps[0].settings.shed;
    assert_eq!((shed.len(), shed[0].queue.as_str()), (1, "ingress"));
    assert!(mistakes(&app_of("shop", &rule.replace("queue", "qeue"))).contains("shed[0].qeue"));
}

#[test]
fn mistakes_about_postgres_and_webhooks_of_gems_say_what_to_write() {
    let text = r#"
[gems]
[gems.postgres]
url = "postgres://weir:a-password@db.example/weir"
schema = "Weir"
password = "another"
ca = "no-such.pem"
[gems.postgres.limits]
connections_max = 0
[gems.webhooks]
public_url = "gems.example"
retry_delay_min = "1h"
[[gems.webhooks.endpoints]]
name = "ci"
url = "ftp://ci.example"
secret = "in the file"
events = ["pull"]
[[gems.webhooks.endpoints]]
name = "a b"
url = "https://ci.example"
secret = { env = "PASSWORD" }
"#;
    let told = mistakes(text);
    assert!(!told.contains("a-password"), "{told}");
    insta::assert_snapshot!(told, @r#"
    weir.toml:4:7: gems.postgres.url: a password does not stand in this file; write password = { env = "NAME" } or { file = "PATH" } beside it
    weir.toml:5:10: gems.postgres.schema: "Weir" can't be the schema; write at most 63 of a-z, 0-9 and _, not beginning with a digit or pg_
    weir.toml:6:12: gems.postgres.password: a secret does not stand in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:7:6: cannot read gems.postgres.ca no-such.pem: No such file or directory (os error 2)
    weir.toml:9:19: gems.postgres.limits.connections_max: must be from 1 to 10000
    weir.toml:10:1: "a b" can't be an endpoint's name; write 1 to 64 letters, digits, - and _
    weir.toml:10:1: gems.webhooks.retry_delay_max: must not be below retry_delay_min
    weir.toml:11:14: gems.webhooks.public_url: "gems.example" is no URL to which paths can be appended; write it like "https://gems.example"
    weir.toml:15:7: gems.webhooks.endpoints[0].url: "ftp://ci.example" does not begin with http:// or https://; write for example "https://example.org/hooks"
    weir.toml:16:10: gems.webhooks.endpoints[0].secret: a secret does not stand in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:17:10: gems.webhooks.endpoints[0].events: there is no event "pull"; there are push and yank
    "#);
}

#[test]
fn a_password_in_the_url_of_postgres_comes_from_elsewhere() {
    let loaded =
        load("[gems]\nstore = \"postgres\"\n[gems.postgres]\nurl = { env = \"DATABASE_URL\" }\n");
    let loaded = loaded.expect("sound");
    assert!(loaded.settings.gems.postgres.settings.url.has_password());
    let shown = loaded.values.iter().find(|value| value.path == "gems.postgres.url");
    assert_eq!(shown.expect("a value").shown, "(set)");
}

#[test]
fn what_is_observed_is_reached_as_doctor_reaches_it() {
    let text = r#"
[observe]
interval = "5s"
pools = ["web=2x5"]
pgbouncer = 40
pgbouncer_url = "postgres://stats@db.example"
pgbouncer_password = { env = "PASSWORD" }
pushes = ["default", "push"]
[[observe.redis]]
url = "redis://weir@10.0.0.1:7000/3"
password = { env = "PASSWORD" }
[[observe.redis]]
url = "redis+sentinel://10.0.0.2/mymaster"
sentinel_user = "guard"
sentinel_password = { env = "PASSWORD" }
[observe.postgres]
url = "postgres://weir@db.example/app?sslmode=verify-full"
password = { env = "PASSWORD" }
memory = "4GiB"
[observe.limits]
metrics_queues_max = 7
statements_max = 0
"#;
    let observe = settings(text).observe;
    assert!(observe.is_enabled);
    assert_eq!((observe.pace.interval, observe.labels.metrics_queues_max), (units::SECOND * 5, 7));
    let sources = observe.sources();
    let names: Vec<_> = sources.redis.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["10.0.0.1:7000/3", "mymaster (Sentinel)"]);
    let password = Some(Secret::new("correct horse".to_owned()));
    assert_eq!(sources.redis[0].password, password);
    let postgres = sources.postgres.expect("a source");
    assert_eq!((postgres.memory_bytes, postgres.limits.statements_max), (Some(4 << 30), 0));
    assert_eq!(postgres.endpoint.password, password);
    assert_eq!((sources.services[0].connections(), sources.pooler), (10, Some(40)));
    let pgbouncer = sources.pgbouncer.expect("a source").endpoint;
    assert_eq!(pgbouncer.to_string(), "db.example:6432/pgbouncer");
    assert_eq!(pgbouncer.password, password);
    assert_eq!(sources.pushed_queues, ["default", "push"]);
    assert!(!settings("").observe.is_enabled);
    for name in ["password", "pgbouncer_password"] {
        let other = text.replacen(&format!("\n{name} = {{ env = \"PASSWORD\" }}"), "", 1);
        assert!(settings(&other).observe.secrets() != observe.secrets(), "{name}");
    }
    assert!(settings(text).observe.secrets() == observe.secrets());
}

#[test]
fn mistakes_about_what_is_observed_say_what_to_write() {
    assert_eq!(
        mistakes("[observe]\n"),
        "weir.toml:1:1: observe: names nothing to look at; add [[observe.redis]] with url = \"redis://127.0.0.1:6379/0\", or [observe.postgres]"
    );
    let text = r#"
[observe]
interval = "10m"
pools = ["web"]
pgbouncer = 0
pgbouncer_url = "postgres://stats@db/app"
[[observe.redis]]
url = "redis://:hunter2@localhost"
[[observe.redis]]
url = "redis://localhost"
password = "in the file"
cert = "tests.rs"
[[observe.redis]]
password = { env = "NO_SUCH" }
[observe.postgres]
url = "postgres://u:hunter2@localhost/x"
[observe.limits]
queues_max = 0
"#;
    let told = mistakes(text);
    assert!(!told.contains("hunter2"), "{told}");
    insta::assert_snapshot!(told, @r#"
    weir.toml:4:9: observe.pools: write NAME=PROCESSESxPOOL, for example web=2x5, or with threads web=2x5/16
    weir.toml:6:17: observe.pgbouncer_url: Postgres address "db:6432/app": what PgBouncer says of itself is in its database pgbouncer: write /pgbouncer
    weir.toml:6:17: observe.pgbouncer_url: pgbouncer = 0 says that nothing stands between
    weir.toml:8:7: observe.redis[0].url: Redis address "redis://***@localhost": it holds a password; give it by the environment or a file
    weir.toml:9:1: observe.redis[1].key: cert and key go together
    weir.toml:11:12: observe.redis[1].password: a secret does not stand in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:13:1: observe.redis[2].url is missing
    weir.toml:14:12: observe.redis[2].password: the environment variable NO_SUCH is not set
    weir.toml:16:7: observe.postgres.url: Postgres address "postgres://***@localhost/x": it holds a password; give it by the environment or a file
    weir.toml:17:1: observe.limits.retry_max: must not be below observe.interval
    weir.toml:18:14: observe.limits.queues_max: must be from 1 to 1000000
    "#);
}

#[test]
fn a_pooler_stands_before_a_database_that_is_observed() {
    let told = mistakes(
        "[observe]\npgbouncer_url = \"postgres://stats@db\"\n[[observe.redis]]\nurl = \"redis://localhost\"\n",
    );
    let expected = "weir.toml:2:17: observe.pgbouncer_url: it goes with [observe.postgres], the database behind it";
    assert_eq!(told, expected);
}
