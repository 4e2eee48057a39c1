//! `weir plan`: judged, written, started for real and looked at by doctor.

mod check;
mod earlier;
mod files;
mod grid;
mod idle;
mod page;

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::postgres_server::PostgresServer;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy, push};
use super::{code, run as doctor};
use crate::process::output_of;
use crate::weir::program;

const QUEUES: &str = "default,push,ingress,mailers,pull,scheduler,fasp";

/// Mastodon's queues on 4 cores, 8 GB, 200 connections.
const MASTODON: [&str; 26] = [
    "--cores",
    "4",
    "--memory",
    "8GiB",
    "--postgres-memory",
    "2GiB",
    "--redis-memory",
    "512MiB",
    "--max-connections",
    "200",
    "--web-requests",
    "30",
    "--queue",
    "default=5,0.2",
    "--queue",
    "push=20,0.5",
    "--queue",
    "ingress=10,0.1",
    "--queue",
    "mailers=0.05,1",
    "--queue",
    "pull=2,1",
    "--queue",
    "scheduler=0.01,5",
    "--queue",
    "fasp=0.1,0.5",
];

fn plan(arguments: &[&str]) -> Output {
    output_of(program().arg("plan").args(arguments))
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn plan_reports_missing_and_insufficient_resources() {
    let output = plan(&["--memory", "8GiB"]);
    assert_eq!(code(&output), 2);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--queue push=20,0.5"));
    assert_eq!(code(&plan(&["--queue", "push"])), 64);
    let small = [&MASTODON[..], &["--reserve", "190"]].concat();
    let output = plan(&small);
    assert_eq!(code(&output), 1);
    let text = text(&output);
    assert!(text.contains("BROKEN  connection pools fit the database: "), "{text}");
}

#[test]
fn duplicate_queue_is_rejected() {
    let output = plan(&["--memory", "8GiB", "--queue", "push=1,1", "--queue", "push=9,1"]);
    assert_eq!(code(&output), 2);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--queue push is given twice"));
}

/// Starts the processes of the written units.
fn start_units(redis: &RedisServer, folder: &Path) -> Option<Vec<Sidekiq>> {
    let mut processes = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map_while(Result::ok) {
        // What changes the web's unit and that of streaming is in folders.
        let Ok(unit) = std::fs::read_to_string(entry.path()) else { continue };
        let Some(line) = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")) else {
            continue;
        };
        let (_, arguments) = line.split_once("bundle exec sidekiq ").unwrap();
        let arguments: Vec<&str> = arguments.split(' ').collect();
        processes.push(Sidekiq::start(redis, &arguments)?);
    }
    Some(processes)
}

#[test]
fn running_plan_has_no_findings() {
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().display().to_string();
    assert_eq!(code(&plan(&[&MASTODON[..], &["--write", &shown]].concat())), 0);
    let conf = std::fs::read_to_string(folder.path().join("postgresql-weir.conf")).unwrap();
    let Some(postgres) = PostgresServer::start_including(&[], &conf) else { return };
    for queue in QUEUES.split(',') {
        push(&redis, queue, "Missing", 1, 1.0);
    }
    let Some(processes) = start_units(&redis, folder.path()) else { return };
    assert_eq!(processes.len(), 7);

    let url = format!("redis://127.0.0.1:{}", redis.port);
    let sources = ["--redis", &url, "--postgres", &postgres.url("postgres"), "--window", "300ms"];
    let memory = ["--postgres-memory", "2GiB"];
    let more = ["--pushes", QUEUES, "--pool", "web=2x5", "--pool", "streaming=1x10"];
    // Another test may have a pooler on this machine.
    let more = [&more[..], &["--pgbouncer", "0"]].concat();
    let output = doctor(&[&sources[..], &memory, &more].concat());
    assert_eq!((code(&output), text(&output).as_str()), (0, ""));

    let again = plan(&[&sources[..], &MASTODON, &["--json"]].concat());
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["difference"], serde_json::json!([]), "it runs already");
    // One thread more would be another plan.
    let other = plan(&[&sources[..], &MASTODON, &["--queue", "more=1,1", "--json"]].concat());
    let other: Value = serde_json::from_slice(&other.stdout).unwrap();
    let difference = other["difference"].as_array().unwrap();
    let new =
        difference.iter().filter_map(Value::as_str).any(|it| it.starts_with("+ 1 x sidekiq -c"));
    assert!(new, "{difference:?}");
}

/// Returns the names in a list of objects.
fn names(of: &Value) -> Vec<&str> {
    of.as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect()
}

#[test]
fn only_active_queues_are_planned() {
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    push(&redis, "pull", "Missing", 3, 1.0);
    redis.run(&[&["SADD", "queues", "trends", "mailers"]]);
    let served = ["-c", "2", "-q", "default", "-q", "scheduler", "-q", "mailer"];
    let Some(_sidekiq) = Sidekiq::start(&redis, &served) else { return };
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let look = ["--redis", &url, "--window", "300ms", "--memory", "8GiB"];
    let planned = |more: &[&str]| {
        let output = plan(&[&look[..], more, &["--json"]].concat());
        assert_eq!(code(&output), 0, "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let all = planned(&["--pushes", "default,mailers,fasp"]);
    let mut queues = names(&all["wanted"]["queues"]);
    queues.sort_unstable();
    assert_eq!(queues, ["default", "fasp", "mailers", "pull", "scheduler"]);
    assert_eq!(names(&all["left_out"]), ["mailer", "trends"]);
    let own = all["plan"]["layout"]["workers"].as_array().unwrap().iter();
    assert!(own.into_iter().any(|it| it["queues"] == serde_json::json!(["scheduler"])), "{all:#}");

    let output = plan(&[&look[..], &["--pushes", "mailers"]].concat());
    let said = text(&output);
    let why = "  trends: it is empty and no process serves it; `--pushes` names queues that the application still";
    assert!(said.contains("\nleft out:\n") && said.contains(why), "{said}");
}

#[test]
fn overriding_settings_are_reported_and_removable() {
    let Some(mut postgres) = PostgresServer::start(&[]) else { return };
    postgres.run("ALTER SYSTEM SET shared_buffers = '16MB'");
    postgres.run("SELECT pg_reload_conf()");
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().display().to_string();
    let url = postgres.url("postgres");
    let look = [&MASTODON[..], &["--postgres", &url]].concat();
    assert_eq!(code(&plan(&[&look[..], &["--write", &shown]].concat())), 0);
    let conf = std::fs::read_to_string(folder.path().join("postgresql-weir.conf")).unwrap();
    postgres.restart_including(&conf);
    let said = || {
        let output = plan(&[&look[..], &["--json"]].concat());
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (document["overruled"].clone(), document["difference"].clone())
    };
    let (overruled, difference) = said();
    let is_lost = |it: &&str| *it == "- shared_buffers = 16MB";
    let lost =
        difference.as_array().unwrap().iter().filter_map(Value::as_str).any(|it| is_lost(&it));
    assert!(lost, "the file has lost: {difference:#}");
    let first = overruled.as_array().unwrap().iter().find(|it| it["name"] == "shared_buffers");
    let first = first.unwrap_or_else(|| panic!("{overruled:#}"));
    assert_eq!(first["by"], "ALTER SYSTEM");
    postgres.run(first["remedy"].as_str().unwrap());
    postgres.restart_including(&conf);
    assert_eq!(said().1, serde_json::json!([]), "the file is in force");
}
