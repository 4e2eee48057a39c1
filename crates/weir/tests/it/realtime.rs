//! Realtime as the binary serves it, with tungstenite as the client.

pub(crate) mod client;
mod counts;
mod nodes;
mod presence;
mod versions;
mod webhook;

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::{Value, json};

use self::client::{Api, Socket};
use self::webhook::Receiver;
use crate::http::get;
use crate::process::{TEST_TIMEOUT, output_of, wait_until};
use crate::weir::{Site, Weir, program};

const SECRET: &str = "a secret of enough characters";
const TOKEN: &str = "0123456789abcdef0123";

const BASE: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = \"memory\"\n\
                    [console]\nlisten = \"127.0.0.1:0\"\ntoken = { env = \"WEIR_TEST_TOKEN\" }\n\
                    password = { env = \"WEIR_TEST_TOKEN\" }\n\
                    [realtime.limits]\nadvanced.close_timeout = \"200ms\"\n\
                    [front]\nlisten = \"127.0.0.1:0\"\ncores = 2\n";

fn app(id: &str, key: &str) -> String {
    format!(
        "[[realtime.apps]]\nid = \"{id}\"\nkey = \"{key}\"\n\
         secret = {{ env = \"WEIR_REALTIME_SECRET\" }}\n"
    )
}

fn with_app() -> String {
    format!("{BASE}{}", app("1", "demo-key"))
}

fn start_in(site: Site, arguments: &[&str]) -> Weir {
    site.start_with(|command| {
        command.env("WEIR_REALTIME_SECRET", SECRET).env("WEIR_TEST_TOKEN", TOKEN).args(arguments);
    })
}

fn start(settings: &str) -> Weir {
    let site = Site::new("");
    site.write(settings);
    start_in(site, &[])
}

fn api(weir: &Weir) -> Api<'static> {
    Api { address: weir.front(), app: "1", key: "demo-key", secret: SECRET }
}

/// Returns the response of the admin API.
fn admin(weir: &Weir, path: &str) -> Value {
    let headers = format!("Authorization: Bearer {TOKEN}\r\n");
    let (status, body) = get(weir.console(), path, &headers);
    serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {status}: {body}"))
}

#[test]
fn http_publish_reaches_subscribers_on_every_core() {
    let weir = start(&with_app());
    let mut sockets: Vec<Socket> =
        (0..8).map(|_| Socket::connect(weir.front(), "demo-key")).collect();
    for socket in &mut sockets {
        socket.subscribe("news");
    }
    let body = json!({"name": "flood", "channels": ["news"], "data": "{\"level\":3}"});
    let published = api(&weir).post("events", &body);
    assert_eq!(published, ("HTTP/1.1 200 OK".to_owned(), "{}".to_owned()));
    for socket in &mut sockets {
        let event = socket.event("flood");
        assert_eq!((&event["channel"], &event["data"]), (&json!("news"), &json!("{\"level\":3}")));
    }
    let overview = admin(&weir, "/v1/realtime/overview");
    assert_eq!(overview["apps"][0]["connections"], 8);
    assert_eq!(overview["cores"].as_array().map(Vec::len), Some(2));
    assert!(weir.stop().success());
}

#[test]
fn other_front_paths_get_an_explanation() {
    let weir = start(&with_app());
    let (status, body) = get(weir.front(), "/index.html", "");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert_eq!(
        body,
        "not found; realtime is at /app/KEY and /apps/ID/, apps are under [[front.apps]], gems below gems.mount\n"
    );
    let (status, body) = get(weir.front(), "/apps/1/channels", "");
    assert_eq!(
        (&*status, &*body),
        ("HTTP/1.1 401 Unauthorized", "Missing parameter: auth_version\n")
    );
    assert_eq!(Socket::refusal_code(weir.front(), "other-key"), 4001);
    assert!(weir.stop().success());
}

/// Clients on this machine have no limit; the clients of the test come through a local proxy.
#[test]
fn one_client_cannot_use_all_streams() {
    let front = "trusted_proxies = [\"127.0.0.1\"]\n[front.clients]\nstreams_max = 1\n";
    let weir = start(&format!("{BASE}{front}{}", app("1", "demo-key")));
    let stream = |client: &str| {
        let mut stream = TcpStream::connect(weir.front()).expect("connects");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        write!(
            stream,
            "GET /app/demo-key/channels/news/events HTTP/1.1\r\nHost: x\r\n\
             X-Forwarded-For: {client}\r\n\r\n"
        )
        .expect("written");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("a status");
        (stream, String::from_utf8_lossy(&status[9..]).into_owned())
    };
    let (_held, first) = stream("192.0.2.7");
    let statuses = ["192.0.2.7", "192.0.2.8", "127.0.0.1", "127.0.0.1"].map(stream);
    let statuses: Vec<&str> = statuses.iter().map(|(_, status)| status.as_str()).collect();
    assert_eq!((first.as_str(), statuses), ("200", vec!["503", "200", "200", "200"]));
    let (_, metrics) =
        get(weir.console(), "/metrics", &format!("Authorization: Bearer {TOKEN}\r\n"));
    let hit = "weir_front_limit_hits_total{limit=\"clients.streams_max\"} 1\n";
    assert!(metrics.contains(hit), "{metrics}");
    assert!(weir.stop().success());
}

#[test]
fn realtime_alone_has_its_own_address() {
    let settings = format!("{BASE}[realtime]\nlisten = \"127.0.0.1:0\"\n{}", app("1", "demo-key"));
    let site = Site::new("");
    site.write(&settings);
    let weir = start_in(site, &["--only", "realtime"]);
    assert!(!weir.serves("jobs") && !weir.serves("console"));
    let (mut one, mut other) =
        (Socket::connect(weir.front(), "demo-key"), Socket::connect(weir.realtime(), "demo-key"));
    one.subscribe("news");
    other.subscribe("news");
    api(&weir).post("events", &json!({"name": "flood", "channel": "news", "data": "1"}));
    assert_eq!(one.event("flood")["data"], "1");
    assert_eq!(other.event("flood")["data"], "1");
    // No store, no lock but the folder's; what is asked about jobs is answered.
    assert!(!weir.data_dir().join("jobs").exists());
    let status = weir.site.ok(&["status", "--data-dir", "data"]);
    assert!(status.contains("jobs are disabled") && status.contains("1: 2 of"), "{status}");
    let status: Value =
        serde_json::from_str(&weir.site.ok(&["status", "--json", "--data-dir", "data"]))
            .expect("JSON");
    assert_eq!((&status["jobs"], &status["problem"]), (&Value::Null, &Value::Null));
    assert_eq!(status["realtime"]["totals"]["connections"], 2);
    let refused = weir.site.run(&["jobs", "list", "queue:default", "--data-dir", "data"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("this process does not serve jobs; it serves realtime"), "{error}");
    assert!(weir.stop().success());
}

#[test]
fn realtime_and_a_console_serve_without_a_job_store() {
    let site = Site::new("");
    // A store that could not be opened is nobody's business here.
    std::fs::create_dir(site.path().join("data")).expect("made");
    std::fs::write(site.path().join("data/jobs"), "no folder").expect("written");
    site.write(&with_app());
    let mut weir = start_in(site, &["--only", "realtime,console"]);
    Socket::connect(weir.front(), "demo-key").subscribe("news");
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let (status, body) = get(weir.console(), "/v1/jobs/queues", &token);
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert!(
        body.contains("\"this process does not serve jobs; it serves realtime, console\""),
        "{body}"
    );
    assert_eq!(get(weir.console(), "/ready", "").1, "ready\n");
    let (_, metrics) = get(weir.console(), "/metrics", &token);
    assert!(metrics.contains("weir_realtime_") && !metrics.contains("weir_jobs_"), "{metrics}");
    weir.signal(Signal::HUP);
    weir.wait_for_log("settings reloaded");
    assert!(weir.stop().success());
}

#[test]
fn no_listener_without_anything_to_serve() {
    let settings = with_app();
    let site = Site::new("");
    site.write(&settings);
    let weir = start_in(site, &["--only", "jobs"]);
    assert!(!weir.serves("front"), "{}", weir.ready_line);
    assert!(weir.stop().success());
    let mut weir = Weir::start();
    assert!(!weir.serves("front"), "{}", weir.ready_line);
    // The first app of all: its sockets are the parent's to bind.
    let settings = with_app().replace("{ env = \"WEIR_TEST_TOKEN\" }", "{ file = \"secret\" }");
    let settings = settings.replace("{ env = \"WEIR_REALTIME_SECRET\" }", "{ file = \"secret\" }");
    std::fs::write(weir.site.path().join("secret"), SECRET).expect("written");
    weir.site.write(&settings);
    weir.signal(Signal::HUP);
    weir.wait_for_log("realtime.apps changed: needs `weir upgrade`");
    assert!(weir.stop().success());
}

#[test]
fn reload_adds_and_removes_realtime_apps() {
    let mut weir = start(&with_app());
    let mut old = Socket::connect(weir.front(), "demo-key");
    weir.site.write(&format!("{BASE}{}", app("2", "new-key")));
    weir.signal(Signal::HUP);
    weir.wait_for_log("settings reloaded");
    assert_eq!(old.close_code(), 4001);
    let mut new = Socket::connect(weir.front(), "new-key");
    new.subscribe("news");
    // Limits of the front change too.
    weir.site.write(&format!("{BASE}[front.limits]\nconnections_max = 1\n{}", app("2", "new-key")));
    weir.signal(Signal::HUP);
    weir.wait_for_log("settings reloaded");
    let (status, _) = get(weir.front(), "/", "");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert!(weir.stop().success());
}

#[test]
fn sigterm_asks_connections_to_reconnect() {
    let mut weir = start(&with_app());
    let mut sockets: Vec<Socket> =
        (0..5).map(|_| Socket::connect(weir.front(), "demo-key")).collect();
    weir.signal(Signal::TERM);
    for socket in &mut sockets {
        assert_eq!(socket.close_code(), 4100);
    }
    assert!(weir.wait().success());
}

#[test]
fn killed_service_is_replaced_at_the_same_address() {
    let mut weir = start(&with_app());
    let mut before = Socket::connect(weir.front(), "demo-key");
    let killed = weir.service();
    rustix::process::kill_process(killed, Signal::KILL).expect("killed");
    before.wait_until_cut_off();
    // Whoever connects now waits in the backlog of a core's socket.
    for _ in 0..8 {
        Socket::connect(weir.front(), "demo-key").subscribe("news");
    }
    weir.wait_for_log("was killed by signal 9; restarting");
    assert_ne!(weir.service(), killed);
    assert!(weir.stop().success());
}

#[test]
fn histories_survive_only_a_graceful_shutdown() {
    let weir = start(&with_app());
    let publish = |weir: &Weir| {
        api(weir).post("events", &json!({"name": "flood", "channel": "news", "data": "1"}))
    };
    let news = |weir: &Weir| admin(weir, "/v1/realtime/channel?app=1&name=news");
    publish(&weir);
    let before = news(&weir);
    assert_eq!((&before["offset"], &before["history_events"]), (&json!(1), &json!(1)));
    let weir = start_in(weir.end(), &[]);
    let after = news(&weir);
    for field in ["epoch", "offset", "history_events", "history_bytes"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    // After a crash nobody knows what was published last.
    let weir = start_in(weir.kill_parent(), &[]);
    assert_eq!(news(&weir)["error"], "there is no channel \"news\"");
    publish(&weir);
    assert_ne!(news(&weir)["epoch"], before["epoch"]);
    assert!(weir.stop().success());
}

/// The service is replaced, and then killed, and the parent as well, so that nothing can be saved.
#[test]
fn durable_histories_survive_a_restart_and_being_killed() {
    let mut weir = start(&format!("{}history = {{ durable = true }}\n", with_app()));
    let publish = |weir: &Weir, number: u64| {
        let body =
            json!({"name": "e", "channels": ["news", "cache-last"], "data": number.to_string()});
        let (status, answer) = api(weir).post("events", &body);
        assert_eq!(status, "HTTP/1.1 200 OK", "{answer}");
    };
    let mut client = Socket::connect(weir.front(), "demo-key");
    client.subscribe("news");
    for number in 1..=20 {
        if number == 10 {
            weir.site.ok(&["restart"]);
        }
        publish(&weir, number);
    }
    let first = client.event("e");
    rustix::process::kill_process(weir.service(), Signal::KILL).expect("killed");
    weir.wait_for_log("was killed by signal 9; restarting");
    Socket::connect(weir.front(), "demo-key").subscribe("other");
    publish(&weir, 21);
    let (service, front) = (weir.service(), weir.front());
    let site = weir.kill_parent();
    // It ends without its parent in any case.
    let _ = rustix::process::kill_process(service, Signal::KILL);
    wait_until("both have ended", || TcpStream::connect(front).is_err());
    let weir = start_in(site, &[]);
    let position = json!({"epoch": first["epoch"], "offset": first["offset"]});
    let (mut client, reply) =
        Socket::resume(weir.front(), "demo-key", "news", Some(&position)).expect("subscribed");
    assert_eq!(reply["recovery"], json!({"outcome": "recovered", "events": 20}), "{reply}");
    publish(&weir, 22);
    for number in 2..=22 {
        let event = client.event("e");
        assert_eq!(
            (&event["offset"], &event["data"]),
            (&json!(number), &json!(number.to_string()))
        );
    }
    let mut last = Socket::connect(weir.front(), "demo-key");
    last.subscribe("cache-last");
    assert_eq!(last.event("e")["data"], "22");
    assert!(weir.stop().success());
}

/// Realtime serves before the store is open, so it shuts down cleanly when the store cannot be opened.
#[test]
fn histories_survive_a_failed_start() {
    let weir = start(&with_app().replace("store = \"memory\"\n", ""));
    api(&weir).post("events", &json!({"name": "flood", "channel": "news", "data": "1"}));
    let news = |weir: &Weir| admin(weir, "/v1/realtime/channel?app=1&name=news");
    let before = news(&weir);
    assert_eq!(before["offset"], 1);
    let site = weir.end();
    let (store, aside) = (site.path().join("data/jobs"), site.path().join("aside"));
    std::fs::rename(&store, &aside).expect("renamed");
    std::fs::write(&store, "no folder").expect("written");
    let mut failing = program();
    failing.current_dir(site.path()).arg("up");
    let failed =
        output_of(failing.env("WEIR_REALTIME_SECRET", SECRET).env("WEIR_TEST_TOKEN", TOKEN));
    assert_eq!(failed.status.code(), Some(2), "{}", String::from_utf8_lossy(&failed.stderr));
    std::fs::remove_file(&store).expect("removed");
    std::fs::rename(&aside, &store).expect("renamed");
    let weir = start_in(site, &[]);
    let after = news(&weir);
    for field in ["epoch", "offset", "history_events"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert!(weir.stop().success());
}

#[test]
fn status_and_metrics_show_realtime() {
    let weir = start(&with_app());
    let mut socket = Socket::connect(weir.front(), "demo-key");
    socket.subscribe("news");
    let page = admin(&weir, "/v1/realtime/channels?app=1&prefix=ne&limit=5");
    assert_eq!((&page["total"], &page["channels"][0]["name"]), (&json!(1), &json!("news")));
    let status = admin(&weir, "/v1/status");
    assert_eq!(status["front_listen"], weir.front().to_string());
    assert_eq!(status["realtime"]["apps"][0]["channels"], 1);
    let (_, metrics) =
        get(weir.console(), "/metrics", &format!("Authorization: Bearer {TOKEN}\r\n"));
    for line in [
        "weir_realtime_connections 1",
        "weir_front_connections_open 1",
        "weir_realtime_webhook_attempts_total 0",
        "weir_semaphore_limit{semaphore=\"webhooks\"} 64",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is missing:\n{metrics}");
    }
    assert!(weir.stop().success());
}

#[test]
fn webhooks_are_sent_until_shutdown() {
    let receiver = Receiver::start();
    let settings = format!(
        "{}[[realtime.apps.webhooks]]\nurl = \"http://{}/hook\"\n\
         headers = {{ Authorization = {{ env = \"WEIR_TEST_TOKEN\" }} }}\n\
         [realtime.webhooks]\nadvanced.vacated_delay = \"1h\"\n",
        with_app(),
        receiver.address()
    );
    let mut weir = start(&settings);
    Socket::connect(weir.front(), "demo-key").subscribe("news");
    let told = receiver.request();
    assert!(told.head.contains("\r\nx-pusher-key: demo-key\r\n"), "{}", told.head);
    assert!(told.head.contains(&format!("\r\nauthorization: {TOKEN}\r\n")), "{}", told.head);
    assert_eq!(told.body["events"], json!([{"name": "channel_occupied", "channel": "news"}]));
    // What is held back for an hour is sent when Weir ends.
    let mut socket = Socket::connect(weir.front(), "demo-key");
    socket.subscribe("news");
    weir.signal(Signal::TERM);
    assert_eq!(socket.close_code(), 4100);
    let told = receiver.request();
    assert_eq!(told.body["events"], json!([{"name": "channel_vacated", "channel": "news"}]));
    assert!(weir.wait().success());
}

#[test]
fn settings_and_limits_match_the_reference() {
    let site = Site::new("");
    site.write(&with_app());
    let weir = start_in(site, &[]);
    let reference = weir.site.ok(&["reference", "settings"]);
    let sections: Vec<(&str, &str)> = reference
        .split("\n## `")
        .skip(1)
        .filter_map(|section| section.split_once('`'))
        .map(|(heading, keys)| (heading.trim_matches(['[', ']']), keys))
        .collect();
    let is_setting = |path: &str| {
        let (section, key) = path.rsplit_once('.').expect("a section");
        let row = format!("\n| `{key}` |");
        sections.iter().any(|(heading, keys)| *heading == section && keys.contains(&row))
    };
    let settings = admin(&weir, "/v1/realtime/settings");
    let names = |settings: &Value, before: &str| -> Vec<String> {
        let settings = settings.as_array().expect("a list").iter();
        settings.map(|it| format!("{before}{}", it["name"].as_str().expect("a name"))).collect()
    };
    let mut known = names(&settings["whole"], "");
    known.extend(names(&settings["apps"][0]["settings"], "realtime.apps."));
    let overview = admin(&weir, "/v1/realtime/overview");
    let limits = overview["limits_hit"].as_array().expect("a list").iter();
    known.extend(limits.map(|it| it["limit"].as_str().expect("a name").to_owned()));
    assert!(known.len() > 40, "{known:?}");
    let unknown: Vec<_> = known.iter().filter(|path| !is_setting(path)).collect();
    assert_eq!(unknown, Vec::<&String>::new());
    assert!(weir.stop().success());
}
