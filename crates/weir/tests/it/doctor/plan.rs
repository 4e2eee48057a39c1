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
superuser_reserved_connections = 3
services = [
  { name = "web", processes = 3, threads = 10, pool = 10 },
  { name = "streaming", processes = 3, pool = 15 },
]
workers = [
  { name = "a", concurrency = 25, pool = 25, queues = ["default", "push", "pull"] },
  { name = "b", concurrency = 25, pool = 25, queues = ["default", "pull", "push"] },
  { name = "c", concurrency = 25, pool = 25, queues = ["pull", "default", "push"] },
  { name = "d", concurrency = 25, pool = 25, queues = ["push", "default", "pull"] },
  { name = "e", concurrency = 5, pool = 5, queues = ["push", "scheduler"] },
  { name = "f", concurrency = 5, pool = 5, queues = ["push", "mailers"] },
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

    std::fs::write(&file, GUIDES.replacen("pool = 10", "pools = 10", 1)).unwrap();
    let output = plan(&["--check", &file]);
    assert_eq!(code(&output), 2);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("unknown field `pools`"), "{error}");
}

/// The same with mail and the clock first: nothing is broken.
fn sound() -> String {
    let turned = |text: &str, queue: &str| {
        text.replace(&format!("[\"push\", \"{queue}\"]"), &format!("[\"{queue}\", \"push\"]"))
    };
    turned(&turned(GUIDES, "scheduler"), "mailers")
}

#[test]
fn what_a_layout_does_not_say_is_not_proved() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layout.toml");
    let judged = |layout: &str| {
        std::fs::write(&file, layout).unwrap();
        let output = plan(&["--check", &file.display().to_string()]);
        (code(&output), text(&output))
    };
    let (ends, all) = judged(&sound());
    assert_eq!(ends, 0, "{all}");
    for (without, expected) in [
        (
            ", pool = 25",
            "unknown pools fit the database: 185 of 185 connections (200 less 15 in reserve) if ",
        ),
        (
            ", pool = 25",
            "unknown no thread waits for a connection of its own process: unknown, because `pool`",
        ),
        (", threads = 10", "unknown, because the number of threads of web is not said"),
        (
            "concurrency = 5, ",
            "unknown each process has threads and queues: e: unknown, because its `concurrency`",
        ),
        (
            "concurrency = 5, ",
            "unknown mail and the clock have threads of their own: mailers is first in f: unknown",
        ),
    ] {
        let (ends, said) = judged(&sound().replace(without, ""));
        assert_eq!(ends, 2, "{without}: {said}");
        assert!(said.contains(expected), "{without}: {said}");
        assert!(!said.contains("BROKEN"), "{without}: {said}");
    }
    for (from, to, expected) in [
        (
            "concurrency = 5",
            "concurrency = 0",
            "BROKEN  each process has threads and queues: e has no thread",
        ),
        (
            "[\"default\", \"push\", \"pull\"]",
            "[\"default,8\", \"push\", \"pull\"]",
            "BROKEN  each process has one order: a: ",
        ),
        (
            "reserve = 15",
            "reserve = 0",
            "holds   pools fit the database: 185 of 197 connections (200 less 3 that ",
        ),
        (
            "reserved_connections = 3",
            "reserved_connections = 20",
            "BROKEN  pools fit the database: 185 of 180 ",
        ),
        (
            "reserve = 15",
            "reserve = 15\npgbouncer = 190",
            "BROKEN  pools fit the database: 190 of 185 ",
        ),
    ] {
        let (_, said) = judged(&sound().replacen(from, to, 1));
        assert!(said.contains(expected), "{to}: {said}");
    }
    let (ends, said) =
        judged(&sound().replace("[\"mailers\", \"push\"]", "[\"mailers,2\", \"push,6\"]"));
    assert_eq!(ends, 2, "{said}");
    assert!(said.contains("mailers has turns by chance only, in f with 1 others"), "{said}");
    let unsaid = sound().replace("superuser_reserved_connections = 3\n", "");
    assert!(judged(&unsaid).1.contains("taken as it ships  Postgres keeps 3 connections"));
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
fn units_of_an_earlier_plan_are_named_and_stay() {
    let site = Site::new("");
    let folder = site.path().join("plan");
    let shown = folder.display().to_string();
    let write = |queues: &[&str]| {
        let queues = queues.iter().flat_map(|queue| ["--queue", queue]).collect::<Vec<_>>();
        let more = ["--memory", "8GiB", "--write", &shown, "--yes"];
        let output = plan(&[&queues[..], &more].concat());
        assert_eq!(code(&output), 0);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(!write(&["default=1,0.1", "mailers=1,0.1"]).contains("earlier plan"));
    std::fs::write(folder.join("puma.service"), "# mine\n").unwrap();
    let units = || -> Vec<String> {
        let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        names.filter(|name| name.ends_with(".service")).collect()
    };
    let before = units();
    let said = write(&["default=1,0.1"]);
    let line = said.lines().find(|line| line.contains("earlier plan")).unwrap();
    assert!(line.contains("sidekiq-mailers.service;") && !line.contains("puma"), "{line}");
    assert_eq!(units(), before);
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

/// Names in a list of objects.
fn names(of: &Value) -> Vec<&str> {
    of.as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect()
}

#[test]
fn queues_that_are_served_or_pushed_to_are_planned_and_old_names_are_not() {
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
fn what_wins_over_the_planned_file_is_said_and_ends_as_it_says() {
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
