//! The front as the binary serves it, between plain sockets and workers that answer with their name.

mod hostile;
mod processes;
mod recycling;
mod shared;
mod shed;
mod users;
pub(crate) mod worker;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::process::Signal;

use self::worker::Worker;
use crate::alert_rules::assert_metrics_exist;
use crate::http::get;
use crate::weir::{Site, Weir};

const BASE: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = \"memory\"\n\
                    [console]\nlisten = \"127.0.0.1:0\"\n\
                    [front]\nlisten = \"127.0.0.1:0\"\ncores = 2\n";

fn app(name: &str, more: &str, workers: &[&Worker]) -> String {
    let upstreams: Vec<String> =
        workers.iter().map(|worker| format!("\"{}\"", worker.address)).collect();
    let upstreams = upstreams.join(", ");
    format!("[[front.apps]]\nname = \"{name}\"\nupstreams = [{upstreams}]\n{more}")
}

fn start(settings: &str, arguments: &[&str]) -> Weir {
    let site = Site::new("");
    site.write(settings);
    site.start_with(|command| {
        command.env("WEIR_REALTIME_SECRET", "a secret of enough characters").args(arguments);
    })
}

/// Returns the body of a response.
fn body(address: SocketAddr, path: &str, headers: &str) -> String {
    get(address, path, headers).1
}

#[test]
fn apps_are_served_by_their_own_workers() {
    let (shop, cart) = (Worker::start("shop"), [Worker::start("one"), Worker::start("two")]);
    let settings = format!(
        "{BASE}{}{}",
        app("shop", "", &[&shop]),
        app("cart", "paths = [\"/cart\"]\n", &[&cart[0], &cart[1]])
    );
    let weir = start(&settings, &[]);
    assert_eq!(body(weir.front(), "/", ""), "shop /");
    let mut served: Vec<String> = (0..4).map(|_| body(weir.front(), "/cart/1", "")).collect();
    served.sort();
    assert_eq!(served, ["one /cart/1", "one /cart/1", "two /cart/1", "two /cart/1"]);
    let (_, metrics) = get(weir.console(), "/metrics", "");
    assert!(metrics.contains("weir_front_app_answers_total{app=\"cart\",status=\"2xx\"} 4"));
    assert!(weir.stop().success());
}

#[test]
fn alert_rules_use_existing_metrics() {
    let rules = include_str!("../../../../deploy/prometheus/weir-front.rules.yml");
    let shop = Worker::start("shop");
    let weir = start(&format!("{BASE}{}", app("shop", "", &[&shop])), &[]);
    assert_eq!(body(weir.front(), "/", ""), "shop /");
    let (_, metrics) = get(weir.console(), "/metrics", "");
    let of_app: Vec<&str> = metrics.lines().filter(|it| it.contains("app=\"shop\"")).collect();
    assert_metrics_exist(rules, "weir_front_", 9, &of_app.join("\n"));
    assert!(weir.stop().success());
}

#[test]
fn realtime_paths_are_reserved_only_with_apps() {
    let shop = Worker::start("shop");
    let settings = format!("{BASE}{}", app("shop", "", &[&shop]));
    let weir = start(&settings, &[]);
    assert_eq!(body(weir.front(), "/apps/1/channels", ""), "shop /apps/1/channels");
    assert!(weir.stop().success());
    let realtime = "[[realtime.apps]]\nid = \"1\"\nkey = \"demo-key\"\n\
                    secret = { env = \"WEIR_REALTIME_SECRET\" }\n";
    let weir = start(&format!("{settings}{realtime}"), &[]);
    let (status, _) = get(weir.front(), "/apps/1/channels", "");
    assert_eq!(status, "HTTP/1.1 401 Unauthorized");
    assert_eq!(body(weir.front(), "/application", ""), "shop /application");
    assert!(weir.stop().success());
}

#[test]
fn reload_adds_and_removes_workers() {
    let (old, new) = (Worker::start("old"), Worker::start("new"));
    let mut weir = start(&format!("{BASE}{}", app("shop", "", &[&old])), &[]);
    assert_eq!(body(weir.front(), "/", ""), "old /");
    let other = app("other", "hosts = [\"other.example\"]\n", &[&old]);
    weir.site.write(&format!("{BASE}{}{other}", app("shop", "", &[&new])));
    weir.signal(Signal::HUP);
    weir.wait_for_log("front.apps changed: needs `weir restart`");
    weir.wait_for_log("settings reloaded");
    assert_eq!(body(weir.front(), "/", ""), "new /");
    assert!(weir.stop().success());
}

/// An operator has another environment than the service.
#[test]
fn commands_need_no_secrets() {
    let realtime = "[[realtime.apps]]\nid = \"1\"\nkey = \"demo-key\"\n\
                    secret = { env = \"WEIR_REALTIME_SECRET\" }\n";
    let weir = start(&format!("{BASE}{realtime}"), &[]);
    assert!(weir.site.ok(&["status"]).contains("realtime"));
    assert_eq!(
        weir.site.ok(&["workers", "list"]),
        "no apps and no workers; add them under [[front.apps]] or [workers.NAME] in weir.toml\n"
    );
    assert!(weir.stop().success());
}

#[test]
fn front_can_run_alone() {
    let shop = Worker::start("shop");
    let settings = format!("{BASE}{}", app("shop", "", &[&shop]));
    let weir = start(&settings, &["--only", "front"]);
    assert!(weir.serves("front") && !weir.serves("jobs") && !weir.serves("console"));
    assert_eq!(body(weir.front(), "/", ""), "shop /");
    assert!(weir.stop().success());
    let weir = start(&settings, &["--only", "realtime"]);
    let (status, text) = get(weir.front(), "/", "");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert!(text.contains("[[front.apps]]"), "{text}");
    assert!(weir.stop().success());
}

#[test]
fn request_in_progress_is_finished_at_shutdown() {
    let slow = Worker::start("slow");
    let mut weir = start(&format!("{BASE}{}", app("shop", "", &[&slow])), &[]);
    let mut client = TcpStream::connect(weir.front()).expect("to connect");
    client.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").expect("to write");
    slow.wait_for_request();
    weir.signal(Signal::TERM);
    weir.wait_for_log("ending");
    slow.continue_request();
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("to read");
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("slow /wait"),
        "{answer}"
    );
    assert!(weir.wait().success());
}

/// Repeats a request until the response has this status.
fn wait_for_status(weir: &Weir, path: &str, status: &str) {
    let expected = format!("HTTP/1.1 {status}");
    // Rules are judged each second.
    let is_reached = (0..1_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        get(weir.front(), path, "").0 == expected
    });
    assert!(is_reached, "{path} never was {status}");
}

#[test]
fn app_sheds_for_a_queue_and_shows_its_maintenance_page() {
    let shop = Worker::start("shop");
    let rule = "maintenance_page = \"back.html\"\n[[front.apps.shed]]\npath = \"/inbox\"\n\
                queue = \"ingress\"\nover = \"1ms\"\nretry_after = \"90s\"\n";
    let site = Site::new("");
    site.write(&format!("{BASE}{}", app("shop", rule, &[&shop])));
    std::fs::write(site.path().join("back.html"), "<p>moving house</p>").expect("to write a page");
    let weir = site.start();
    assert_eq!(body(weir.front(), "/inbox", ""), "shop /inbox");
    weir.site.ok(&["jobs", "push", "Deliver", "--queue", "ingress"]);
    wait_for_status(&weir, "/inbox", "503 Service Unavailable");
    assert_eq!(body(weir.front(), "/home", ""), "shop /home");
    assert!(weir.site.ok(&["workers", "list"]).contains("shedding because of queue ingress"));
    weir.site.ok(&["jobs", "clear", "ingress", "--yes"]);
    wait_for_status(&weir, "/inbox", "200 OK");

    weir.site.ok(&["workers", "maintenance", "shop", "on"]);
    assert_eq!(body(weir.front(), "/", ""), "<p>moving house</p>");
    assert!(weir.site.ok(&["workers", "list"]).contains("in maintenance"));
    weir.site.ok(&["workers", "maintenance", "shop", "off"]);
    assert_eq!(body(weir.front(), "/", ""), "shop /");
    assert!(weir.stop().success());
}

#[test]
fn pauses_survive_restarts() {
    let (shop, blog) = (Worker::start("shop"), Worker::start("blog"));
    let site = Site::new("");
    let blog = app("blog", "paths = [\"/blog\"]\n", &[&blog]);
    site.write(&format!("{BASE}{}{blog}", app("shop", "", &[&shop])));
    let weir = site.start();
    weir.site.ok(&["workers", "pause", "shop"]);
    weir.site.ok(&["workers", "maintenance", "blog", "on"]);
    let held = |weir: &Weir| {
        let listed = weir.site.ok(&["workers", "list"]);
        let (shop, blog) = (listed.contains("shop: 0 waiting, paused"), &listed);
        shop && blog.contains("blog: 0 waiting, in maintenance")
    };
    assert!(held(&weir));
    weir.site.ok(&["restart"]);
    assert!(held(&weir), "a new service process");
    let weir = weir.end().start();
    assert!(held(&weir), "a stop and a start");
    weir.site.ok(&["workers", "resume", "shop"]);
    weir.site.ok(&["workers", "maintenance", "blog", "off"]);
    weir.site.ok(&["restart"]);
    assert_eq!(body(weir.front(), "/", ""), "shop /");
    assert_eq!(body(weir.front(), "/blog", ""), "blog /blog");
    // Where it can't be kept, that is said.
    std::fs::create_dir(weir.data_dir().join("holds.new")).expect("made");
    let shown = weir.site.shown(&["workers", "pause", "shop"]);
    assert!(shown.contains("the change is in effect, but will be lost at a restart"), "{shown}");
    assert!(weir.stop().success());
}

#[test]
fn reload_reopens_the_access_log() {
    let shop = Worker::start("shop");
    let site = Site::new("");
    let log = "[front.access_log]\npath = \"access.log\"\nformat = \"common\"\n";
    site.write(&format!("{BASE}{log}{}", app("shop", "gzip = true\n", &[&shop])));
    let mut weir = site.start();
    let path = weir.site.path().join("access.log");
    assert_eq!(body(weir.front(), "/cart", ""), "shop /cart");
    std::fs::rename(&path, path.with_extension("1")).expect("to move it");
    weir.signal(Signal::HUP);
    weir.wait_for_log("settings reloaded");
    assert_eq!(body(weir.front(), "/again", ""), "shop /again");
    let (_, metrics) = get(weir.console(), "/metrics", "");
    assert!(metrics.contains("weir_front_access_log_dropped_total 0"), "{metrics}");
    let site = weir.end();
    let lines = std::fs::read_to_string(site.path().join("access.log")).expect("a new file");
    assert!(
        lines.contains("\"GET /again HTTP/1.1\" 200 11") && !lines.contains("/cart"),
        "{lines}"
    );
}

#[test]
fn invalid_settings_block_neither_log_rotation_nor_commands() {
    let shop = Worker::start("shop");
    let site = Site::new("");
    let settings =
        format!("{BASE}[front.access_log]\npath = \"access.log\"\n{}", app("shop", "", &[&shop]));
    site.write(&settings);
    let mut weir = site.start();
    let path = weir.site.path().join("access.log");
    assert_eq!(body(weir.front(), "/cart", ""), "shop /cart");
    weir.site.write(&format!("{settings}nonsense = 1\n"));
    let listed = weir.site.ok(&["workers", "list", "--config", "weir.toml"]);
    assert!(listed.contains("shop: 0 waiting"), "{listed}");
    std::fs::rename(&path, path.with_extension("1")).expect("to move it");
    weir.signal(Signal::HUP);
    weir.wait_for_log("front.apps[0].nonsense is not a setting");
    weir.wait_for_log("only the log files were reopened");
    assert_eq!(body(weir.front(), "/again", ""), "shop /again");
    // What is no TOML at all could name any folder.
    weir.site.write("[front");
    let shown = weir.site.shown(&["workers", "list"]);
    assert!(shown.contains("name it with --data-dir"), "{shown}");
    let site = weir.end();
    let lines = std::fs::read_to_string(site.path().join("access.log")).expect("a new file");
    assert!(lines.contains("\"GET /again HTTP/1.1\" 200") && !lines.contains("/cart"), "{lines}");
}

/// The output of `weir status`, and the metrics.
#[test]
fn status_and_metrics_include_apps() {
    let shop = Worker::start("shop");
    let weir = start(&format!("{BASE}{}", app("shop", "", &[&shop])), &[]);
    let (_, metrics) = get(weir.console(), "/metrics", "");
    assert!(!metrics.contains("weir_front_app_jain_index{"), "nothing was given: {metrics}");
    let front = weir.front();
    let client = std::thread::spawn(move || body(front, "/wait", ""));
    shop.wait_for_request();
    let (_, metrics) = get(weir.console(), "/metrics", "");
    assert!(metrics.contains("weir_front_app_jain_index{app=\"shop\"} 1.0"), "{metrics}");
    let oldest = metrics
        .lines()
        .find_map(|line| line.strip_prefix("weir_front_app_oldest_request_seconds{app=\"shop\"} "));
    let oldest: f64 = oldest.expect("there").parse().expect("a number");
    assert!(oldest > 0.0);
    shop.continue_request();
    assert_eq!(client.join().expect("a client"), "shop /wait");
    weir.site.ok(&["workers", "pause", "shop"]);
    let status = weir.site.ok(&["status"]);
    let expected =
        format!("front        shop at {front}: 1 of 1 workers serving, 0 requests waiting, paused");
    assert!(status.contains(&expected), "{status}");
    let status: serde_json::Value =
        serde_json::from_str(&weir.site.ok(&["status", "--json"])).expect("JSON");
    assert_eq!(status["apps"][0]["name"], "shop");
    assert!(weir.stop().success());
}
