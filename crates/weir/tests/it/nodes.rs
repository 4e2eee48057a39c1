//! Two Weirs on two shards, with the settings in deploy/three-nodes: one set of jobs and channels, and each shows
//! both.

mod one_address;

use std::path::Path;

use redis::Commands as _;
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::alert_rules::assert_metrics_exist;
use crate::doctor::redis_server::RedisServer;
use crate::faktory::Client;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir, is_running, program};

const SETTINGS: &str = include_str!("../../../../deploy/three-nodes/weir.toml");
const SHARD_SETTINGS: &str = include_str!("../../../../deploy/three-nodes/redis-shard.conf");
const RULES: &str = include_str!("../../../../deploy/prometheus/weir-jobs.rules.yml");
const PASSWORD: &str = "of-redis";

/// A shard with the settings in deploy/, but for its address.
fn shard() -> Option<RedisServer> {
    RedisServer::start_with(|_, _| {
        let lines =
            SHARD_SETTINGS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let others = lines.filter(|line| !line.starts_with("bind ") && !line.starts_with("port "));
        let words = others.flat_map(|line| {
            let (name, value) = line.split_once(' ').expect("a setting");
            [format!("--{name}"), value.replace('"', "")]
        });
        words.chain(["--requirepass".to_owned(), PASSWORD.to_owned()]).collect()
    })
}

/// A folder with the settings in deploy/, with the paths and addresses of this test.
fn site(shards: [&RedisServer; 2]) -> Site {
    let site = Site::new("");
    let folder = site.path().display().to_string();
    for file in ["redis-password", "jobs-password", "console-password", "realtime-secret"] {
        site.write_file(file, if file == "redis-password" { PASSWORD } else { file }.as_bytes());
    }
    let settings = SETTINGS
        .replace("/var/lib/weir", &format!("{folder}/data"))
        .replace("/etc/weir", &folder)
        .replace("redis-a:6379", &format!("127.0.0.1:{}", shards[0].port))
        .replace("redis-b:6379", &format!("127.0.0.1:{}", shards[1].port))
        .replace("\"10.0.0.10\"", "\"127.0.0.1\"")
        .replace("0.0.0.0:7419", "127.0.0.1:0")
        .replace("0.0.0.0:7420", "127.0.0.1:0")
        .replace("0.0.0.0:8080", "127.0.0.1:0");
    site.write(&settings);
    site
}

/// Starts a node without the passwords of clients and of the console.
fn start(shards: [&RedisServer; 2]) -> Weir {
    start_in(site(shards), "")
}

/// Likewise, with more settings.
fn start_in(site: Site, more: &str) -> Weir {
    let settings = std::fs::read_to_string(site.path().join("weir.toml")).expect("settings");
    let is_open = |line: &&str| !line.starts_with("password = ");
    site.write(&(settings.lines().filter(is_open).collect::<Vec<_>>().join("\n") + "\n" + more));
    site.start()
}

fn nodes(weir: &Weir) -> Vec<Value> {
    let status: Value = serde_json::from_str(&weir.site.ok(&["status", "--json"])).expect("JSON");
    status["jobs"]["log"]["nodes"].as_array().expect("nodes").clone()
}

fn realtime_nodes(weir: &Weir) -> Vec<Value> {
    let status: Value = serde_json::from_str(&weir.site.ok(&["status", "--json"])).expect("JSON");
    status["realtime"]["nodes"].as_array().expect("nodes").clone()
}

#[test]
fn two_nodes_share_the_jobs_and_show_each_other() {
    let (Some(a), Some(b)) = (shard(), shard()) else { return };
    site([&a, &b]).ok(&["check"]);
    let (one, other) = (start([&a, &b]), start([&a, &b]));
    let (mut first, mut second) = (Client::connect(one.jobs()), Client::connect(other.jobs()));
    for number in 0..20 {
        let job = format!(
            r#"{{"jid":"it-job-{number:04}","jobtype":"T","args":[],"queue":"q{}"}}"#,
            number % 5
        );
        assert_eq!(first.run_command(&format!("PUSH {job}")), "+OK");
    }
    for _ in 0..20 {
        assert!(second.run_command("FETCH q0 q1 q2 q3 q4").contains("it-job-"));
    }
    // The second node reports when it starts; the first one reads that with its next report.
    wait_until("each lists both", || nodes(&one).len() == 2 && nodes(&other).len() == 2);
    wait_until("each lists both in realtime", || {
        realtime_nodes(&one).len() == 2 && realtime_nodes(&other).len() == 2
    });
    let of_other = nodes(&one);
    assert!(of_other.iter().all(|node| node["state"] == "up"), "{of_other:?}");
    assert_eq!(of_other.iter().filter(|node| node["is_self"] == true).count(), 1);
    assert!(one.site.ok(&["status"]).contains("(this node): up, version 0."));
    assert_eq!(realtime_nodes(&one).len(), 2, "they have the same names there");
    let all: Value =
        serde_json::from_str(&one.site.ok(&["status", "--all", "--json"])).expect("JSON");
    let all = all.as_array().expect("nodes");
    let is_whole = |node: &Value| node["jobs"].is_object() && node["realtime"].is_object();
    assert!(all.len() == 2 && all.iter().all(is_whole), "{all:?}");
    let metrics = || get(one.console(), "/metrics", "").1;
    // They are published once a second.
    wait_until("both are counted", || metrics().contains("weir_jobs_nodes{state=\"up\"} 2"));
    assert_metrics_exist(RULES, "weir_jobs_", 7, &metrics());
    assert!(other.stop().success());
    wait_until("the first node knows that the other one has stopped", || {
        nodes(&one).iter().any(|node| node["state"] == "stopped")
    });
    assert!(one.stop().success());
}

/// Returns the leases of realtime nodes in a shard.
fn realtime_leases(shard: &RedisServer) -> Vec<String> {
    let mut client = shard.client();
    redis::cmd("AUTH").arg(PASSWORD).exec(&mut client).expect("a login");
    let keys: Vec<String> = client.keys("*leases").expect("keys");
    keys.into_iter().flat_map(|key| client.hkeys::<_, Vec<String>>(key).expect("nodes")).collect()
}

#[test]
fn a_node_whose_parent_process_was_killed_is_away_and_leaves_realtime() {
    let (Some(a), Some(b)) = (shard(), shard()) else { return };
    let (one, mut other) = (start([&a, &b]), start([&a, &b]));
    wait_until("each lists both", || nodes(&one).len() == 2 && nodes(&other).len() == 2);
    wait_until("each lists both in realtime", || {
        realtime_nodes(&one).len() == 2 && realtime_nodes(&other).len() == 2
    });
    assert_eq!([realtime_leases(&a).len(), realtime_leases(&b).len()], [2, 2]);
    let service = other.service();
    kill_process(other.pid(), Signal::KILL).expect("killed");
    other.wait_for_log("the parent process has ended: shutting down");
    wait_until("the service has ended", || !is_running(service));
    let left = [realtime_leases(&a).len(), realtime_leases(&b).len()];
    assert_eq!(left, [1, 1], "no other node has to remove its members");
    let is_away = |nodes: &[Value]| nodes.iter().any(|node| node["state"] == "away");
    wait_until("it is away", || is_away(&nodes(&one)) && is_away(&realtime_nodes(&one)));
    let shown = one.site.shown(&["status", "--all"]);
    assert!(shown.starts_with("exit: 1\n") && shown.contains(" away "), "{shown}");
    assert!(one.stop().success());
}

#[test]
fn status_of_all_nodes_ends_with_1_if_one_is_away() {
    let (Some(a), Some(b)) = (shard(), shard()) else { return };
    let weir = start([&a, &b]);
    wait_until("it lists itself", || nodes(&weir).len() == 1);
    let shown = weir.site.ok(&["status", "--all"]);
    assert!(shown.contains(" *  up ") && shown.contains(" 0."), "{shown}");
    let mut client = a.client();
    redis::cmd("AUTH").arg(PASSWORD).exec(&mut client).expect("a login");
    let now: (u64, u64) = redis::cmd("TIME").query(&mut client).expect("the time");
    let report = format!(r#"{} {{"hostname":"weir-2","version":"0.1.0"}}"#, now.0 - 60);
    let _: u64 = client.hset("weir:reports", "0123456789ab", report).unwrap();
    wait_until("the other one is listed", || nodes(&weir).len() == 2);
    let shown = weir.site.shown(&["status", "--all"]);
    assert!(shown.starts_with("exit: 1\n") && shown.contains("weir-2"), "{shown}");
    assert!(get(weir.console(), "/nodes", "").1.contains("weir-2"));
    assert!(weir.stop().success());
}

#[test]
fn commands_say_what_holds_on_one_node_only() {
    let (Some(a), Some(b)) = (shard(), shard()) else { return };
    let mut weir = start([&a, &b]);
    let line = weir.wait_for_log("appendfsync is everysec");
    let has_both = [&a, &b].iter().all(|shard| line.contains(&format!(":{}", shard.port)));
    assert!(line.contains(" INFO ") && has_both, "{line}");
    let connected = || {
        let status = weir.site.ok(&["status", "--json"]);
        let status: Value = serde_json::from_str(&status).expect("JSON");
        let shards = status["realtime"]["log_shards"].as_array().expect("shards").clone();
        shards.iter().filter(|shard| shard["is_connected"] == true).count()
    };
    wait_until("both shards are connected", || connected() == 2);
    let publish = |channel: &str| weir.site.shown(&["realtime", "publish", "1", channel, "e", "1"]);
    let shown = publish("news");
    let all = "published to 0 subscribers of this node; other nodes deliver it to theirs\n";
    assert!(shown.contains(all), "{shown}");
    assert!(weir.site.shown(&["realtime", "channels"]).contains("those of this node"));
    let all = "x* is switched off; on all nodes within a second\n";
    assert_eq!(weir.site.ok(&["switch", "off", "x*"]), all);
    drop(a);
    wait_until("one is away", || connected() == 1);
    let shown = weir.site.ok(&["switch", "off", "y*"]);
    let this = "y* is switched off; on this node only until shard a at 127.0.0.1:";
    assert!(shown.starts_with(this), "{shown}");
    let channels: Vec<String> = (0..20).map(|number| format!("channel-{number}")).collect();
    let failed = channels.iter().map(|channel| publish(channel)).find(|it| it.contains("error"));
    let failed = failed.expect("one of them is in the first shard");
    assert!(failed.contains("shard a at 127.0.0.1:"), "{failed}");
    weir.stop();
}

#[test]
fn what_others_write_as_a_report_is_shown_as_text() {
    let (Some(a), Some(b)) = (shard(), shard()) else { return };
    let mut client = a.client();
    redis::cmd("AUTH").arg(PASSWORD).exec(&mut client).expect("a login");
    let now: (u64, u64) = redis::cmd("TIME").query(&mut client).expect("the time");
    let hostile = r#"{"hostname":"<script>alert(1)</script>\u202e\u001b[2J","version":"\"><b>","console":"http://other:7420"}"#;
    let _: u64 = client.hset("weir:reports", "<i>", format!("{} {hostile}", now.0)).unwrap();
    let _: u64 = client.hset("weir:reports", "odd", "FLUSHALL").unwrap();
    let weir = start([&a, &b]);
    wait_until("the report is read", || nodes(&weir).len() == 2);
    let page = get(weir.console(), "/nodes", "").1;
    assert!(page.contains("&#60;script&#62;alert(1)") && page.contains("(this node)"), "{page}");
    for raw in ["<script>alert", "<i>", "<b>", "\u{202e}", "\u{1b}"] {
        assert!(!page.contains(raw), "{raw:?}: {page}");
    }
    assert!(page.contains("<a href=\"http://other:7420\" rel=\"noopener noreferrer\">"), "{page}");
    for arguments in [&["status"][..], &["status", "--all"]] {
        let shown = weir.site.ok(arguments);
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown}");
    }
    assert!(weir.stop().success());
}

#[test]
fn a_node_refuses_a_later_layout_by_name() {
    let (Some(a), Some(b)) = (shard(), shard()) else { return };
    let mut client = b.client();
    redis::cmd("AUTH").arg(PASSWORD).exec(&mut client).expect("a login");
    let _: () = client.set("weir:layout", "2").unwrap();
    let site = site([&a, &b]);
    let output = program().current_dir(site.path()).arg("up").output().expect("an end");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{error}");
    for text in ["shard b", "weir:layout", "layout 1 only", "upgrade this node"] {
        assert!(error.contains(text), "{text}: {error}");
    }
}

#[test]
fn the_files_of_the_compose_file_exist() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/three-nodes");
    let compose = std::fs::read_to_string(folder.join("compose.yml")).expect("a compose file");
    let words = compose.split('"').filter(|word| word.starts_with("./"));
    let files: Vec<&str> = words.filter_map(|word| word.split(':').next()).collect();
    assert_eq!(files.len(), 6, "{files:?}");
    for file in files {
        assert!(folder.join(file).exists(), "{file}");
    }
}
