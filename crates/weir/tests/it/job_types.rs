//! Statistics by type of job: what an operator sees of what a worker did.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::doctor::redis_server::RedisServer;
use crate::faktory::Client;
use crate::http;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

const WORKER: &str = include_str!("job_workers/worker.py");
const CONSOLE: &str = "[console]\nlisten = \"127.0.0.1:0\"\n";

fn start(store: &str) -> Weir {
    let site = Site::new("");
    site.write_file("worker.py", WORKER.as_bytes());
    site.write(&format!("[jobs]\nlisten = \"127.0.0.1:0\"\n{store}{CONSOLE}"));
    site.start()
}

fn start_worker(weir: &Weir) -> Child {
    let mut command = Command::new("python3");
    command.args(["worker.py", "-", "-q", "mail", "-q", "sync"]).current_dir(weir.site.path());
    command.env("JOBS_PORT", weir.jobs().port().to_string());
    command.stdout(Stdio::null()).spawn().expect("python3 starts")
}

/// Pushes three jobs that succeed, and two that fail with an error whose text a terminal would obey.
fn push(weir: &Weir) {
    let mut client = Client::connect(weir.jobs());
    let mut push = |jid: &str, job: &str| {
        let pushed = client.run_command(&format!(r#"PUSH {{"jid":"{jid}","retry":-1,{job}}}"#));
        assert_eq!(pushed, "+OK");
    };
    for number in 0..3 {
        push(&format!("mail-{number:04}"), r#""jobtype":"Mail","queue":"mail","args":[0.2]"#);
    }
    let failing = r#""jobtype":"Sync::Remote","queue":"sync","args":[0.01,"Net::Timeout","no reply\u001b[2J"]"#;
    push("sync-0001", failing);
    push("sync-0002", failing);
}

fn types(site: &Site, options: &[&str]) -> Value {
    let arguments = [&["jobs", "types", "--json"], options].concat();
    serde_json::from_str(&site.ok(&arguments)).expect("JSON")
}

fn named<'v>(types: &'v Value, name: &str) -> &'v Value {
    let all = types["types"].as_array().expect("a list");
    all.iter().find(|it| it["jobtype"] == name).unwrap_or(&Value::Null)
}

/// Pushes the jobs and waits until a worker has run them.
fn run_jobs(weir: &Weir) {
    push(weir);
    let mut worker = start_worker(weir);
    wait_until("the worker has run all jobs", || {
        let types = types(&weir.site, &[]);
        let ended = |name| named(&types, name)["total"]["ended"].as_u64().unwrap_or(0);
        ended("Mail") + ended("Sync::Remote") == 5
    });
    worker.kill().expect("killed");
    worker.wait().expect("waited");
}

fn get(console: SocketAddr, path: &str) -> String {
    let (head, body) = http::get(console, path, "");
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    body
}

#[test]
fn types_show_what_a_worker_did_and_begin_anew_with_weir() {
    let weir = start("");
    assert_eq!(types(&weir.site, &[])["types"], Value::Array(Vec::new()));
    run_jobs(&weir);
    let shown = types(&weir.site, &[]);
    let (mail, sync) = (named(&shown, "Mail"), named(&shown, "Sync::Remote"));
    for (it, ended, failed) in [(mail, 3, 0), (sync, 2, 2)] {
        let recent = &it["recent"];
        let counts = (&recent["started"], &recent["ended"], &recent["failed"], &it["running"]);
        assert_eq!(counts, (&ended.into(), &ended.into(), &failed.into(), &0.into()), "{it}");
    }
    let run = mail["run"]["p50"].as_f64().expect("a duration");
    assert!((0.15..3.0).contains(&run), "{run}");
    assert_eq!(sync["last_failure"]["errtype"], "Net::Timeout");
    assert_eq!(shown["types"][0]["jobtype"], "Mail", "what takes the most time comes first");
    let by_failures = types(&weir.site, &["--sort", "failed"]);
    assert_eq!(by_failures["types"][0]["jobtype"], "Sync::Remote");
    let of_queue = types(&weir.site, &["--queue", "sync"]);
    assert_eq!(of_queue["types"].as_array().map(Vec::len), Some(1));

    let table = weir.site.ok(&["jobs", "types"]);
    assert!(table.contains("2 (100.0 %)") && table.contains("Net::Timeout"), "{table}");
    let first = weir.site.ok(&["jobs", "types", "--limit", "1"]);
    assert!(first.contains("Mail") && !first.contains("(100.0 %)"), "of all types: {first}");
    let details = weir.site.ok(&["jobs", "type", "Sync::Remote"]);
    assert!(details.contains("no reply\u{fffd}[2J") && !details.contains('\u{1b}'), "{details}");
    assert!(details.contains("sync-0002") && details.contains("100.0 %"), "{details}");
    let unknown = weir.site.run(&["jobs", "type", "Nobody"]);
    assert_eq!(unknown.status.code(), Some(2));
    let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(error.contains("no job of the type \"Nobody\" has started"), "{error}");

    let metrics = get(weir.console(), "/metrics");
    let failed = r#"weir_jobs_type_ended_total{jobtype="Sync::Remote",result="failed"} 2"#;
    assert!(metrics.contains(failed), "{metrics}");
    let list = get(weir.console(), "/types");
    assert!(list.contains("/type?name=Sync%3A%3ARemote"), "{list}");
    let page = get(weir.console(), "/type?name=Sync%3A%3ARemote");
    assert!(page.contains("Net::Timeout") && page.contains("sync-0002"), "{page}");
    let dead = get(weir.console(), "/dead");
    assert!(dead.contains("/type?name=Sync%3A%3ARemote"), "{dead}");

    let since = shown["since"].as_f64().expect("a time");
    let weir = weir.end().start();
    let anew = types(&weir.site, &[]);
    assert_eq!(anew["types"], Value::Array(Vec::new()));
    assert!(anew["since"].as_f64() > Some(since), "{anew}");
    assert!(weir.stop().success());
}

#[test]
fn types_of_jobs_in_redis_are_those_of_this_node() {
    let Some(redis) = RedisServer::start() else { return };
    let weir = start(&format!(
        "store = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}\n",
        redis.port
    ));
    run_jobs(&weir);
    let shown = types(&weir.site, &[]);
    assert_eq!(shown["is_shared"], true);
    assert_eq!(named(&shown, "Sync::Remote")["total"]["failed"], 2);
    assert_eq!(named(&shown, "Mail")["total"]["ended"], 3);
    let output = weir.site.run(&["jobs", "types"]);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("Sidekiq's own workers are not counted"), "{notes}");
    let page = get(weir.console(), "/types");
    assert!(page.contains("Each node has its own figures."), "{page}");
    assert!(weir.stop().success());
}
