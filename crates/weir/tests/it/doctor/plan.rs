//! `weir plan`: judged, written, started for real and looked at by doctor.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::postgres_server::PostgresServer;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy, push};
use super::{code, run as doctor};
use crate::process::output_of;
use crate::weir::{Site, program};

/// The split that guides give.
const GUIDES: &str = r#"
max_connections = 200
reserve = 15
services = [{ name = "web", processes = 3, pool = 10 }, { name = "streaming", processes = 3, pool = 15 }]
workers = [
  { name = "a", concurrency = 25, queues = ["default", "push", "pull"] },
  { name = "b", concurrency = 25, queues = ["default", "pull", "push"] },
  { name = "c", concurrency = 25, queues = ["pull", "default", "push"] },
  { name = "d", concurrency = 25, queues = ["push", "default", "pull"] },
  { name = "e", concurrency = 5, queues = ["push", "scheduler"] },
  { name = "f", concurrency = 5, queues = ["push", "mailers"] },
]
"#;

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

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_split_that_guides_give_is_accounted_and_flagged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("guides.toml");
    std::fs::write(&file, GUIDES).unwrap();
    let file = file.display().to_string();
    let output = plan(&["--check", &file]);
    assert_eq!(code(&output), 1);
    let text = text(&output);
    let fits = "holds   pools fit the database: 185 of 185 connections (200 less 15 in reserve)\n";
    assert!(text.contains(fits), "{text}");
    let broken = "BROKEN  mail and the clock have threads of their own: mailers has no thread of its own \
                  (only behind push); scheduler has no thread of its own (only behind push)\n";
    assert!(text.contains(broken), "{text}");

    std::fs::write(&file, GUIDES.replace("pool = 10", "pools = 10")).unwrap();
    let output = plan(&["--check", &file]);
    assert_eq!(code(&output), 2);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("unknown field `pools`"), "{error}");
}

#[test]
fn what_is_missing_or_too_small_is_said() {
    let output = plan(&["--memory", "8GiB"]);
    assert_eq!(code(&output), 2);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--queue push=20,0.5"));
    assert_eq!(code(&plan(&["--queue", "push"])), 64);
    let small = [&MASTODON[..], &["--reserve", "190"]].concat();
    let output = plan(&small);
    assert_eq!(code(&output), 1);
    let text = text(&output);
    assert!(text.contains("BROKEN  pools fit the database: "), "{text}");
}

#[test]
fn files_are_sound_and_never_replaced_without_asking() {
    let site = Site::new("");
    let folder = site.path().join("plan").display().to_string();
    let app = site.path().display().to_string();
    let write = [&MASTODON[..], &["--write", &folder, "--folder", &app]].concat();
    let output = plan(&write);
    assert_eq!(code(&output), 0, "{output:?}");
    let layout = format!("{folder}/layout.toml");
    assert_eq!(code(&plan(&["--check", &layout])), 0);
    let settings = site.ok(&["check", "--config", &format!("{folder}/weir.toml")]);
    assert!(settings.contains("workers.sidekiq-push.concurrency = 16\n"), "{settings}");
    let unit = std::fs::read_to_string(format!("{folder}/sidekiq-push.service")).unwrap();
    assert!(unit.contains(" sidekiq -c 16 -q push -q "), "{unit}");

    assert_eq!(code(&plan(&write)), 0, "nothing differs, so nobody is asked");
    std::fs::write(&layout, "mine").unwrap();
    let output = plan(&write);
    assert_eq!(code(&output), 2);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("layout.toml in ") && error.contains("say --yes"), "{error}");
    assert_eq!(std::fs::read_to_string(&layout).unwrap(), "mine");
    assert_eq!(code(&plan(&[&write[..], &["--yes"]].concat())), 0);
    assert_ne!(std::fs::read_to_string(&layout).unwrap(), "mine");
}

#[test]
fn a_queue_that_is_given_twice_is_refused() {
    let output = plan(&["--memory", "8GiB", "--queue", "push=1,1", "--queue", "push=9,1"]);
    assert_eq!(code(&output), 2);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--queue push: it is there twice"));
}

#[test]
fn a_file_without_an_end_is_no_layout_and_memory_that_is_not_told_is_not_judged() {
    let output = plan(&["--check", "/dev/zero"]);
    assert_eq!(code(&output), 2);
    assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/zero is too long"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("guides.toml");
    let judged = |layout: &str| {
        std::fs::write(&file, layout).unwrap();
        text(&plan(&["--check", &file.display().to_string()]))
    };
    let unknown = judged(GUIDES);
    assert!(unknown.contains("not judged  memory is enough"), "{unknown}");
    let known = judged(&GUIDES.replacen("reserve", "memory = \"8GiB\"\nreserve", 1));
    assert!(known.contains("holds   memory is enough: processes need "), "{known}");
    assert!(!known.contains("need 0 kB"), "{known}");
}

#[test]
fn any_name_of_a_queue_gives_files_that_are_sound() {
    let site = Site::new("");
    let folder = site.path().join("plan").display().to_string();
    let app = site.path().display().to_string();
    let queues = ["mail.out=1,0.1", "Mail=1,0.1", "action_mailbox_incineration=1,0.1"];
    let queues = queues.iter().flat_map(|queue| ["--queue", queue]).collect::<Vec<_>>();
    let more = ["--memory", "8GiB", "--write", &folder, "--folder", &app];
    assert_eq!(code(&plan(&[&queues[..], &more].concat())), 0);
    site.ok(&["check", "--config", &format!("{folder}/weir.toml")]);
}

#[test]
fn names_that_would_be_more_than_names_are_not_written() {
    let site = Site::new("");
    let folder = site.path().join("plan").display().to_string();
    for name in ["a\nb=1,1", "../../x=1,1", "-r=1,1"] {
        let output = plan(&["--memory", "8GiB", &format!("--queue={name}"), "--write", &folder]);
        assert_eq!(code(&output), 2, "{name}");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("can't stand in files"), "{error}");
    }
    assert!(!Path::new(&folder).exists());
}

/// The processes of the units that were written.
fn start_units(redis: &RedisServer, folder: &Path) -> Option<Vec<Sidekiq>> {
    let mut processes = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map_while(Result::ok) {
        let unit = std::fs::read_to_string(entry.path()).unwrap();
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
fn a_plan_that_runs_is_met_with_silence() {
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
