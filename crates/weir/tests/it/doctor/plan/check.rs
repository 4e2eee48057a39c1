//! `weir plan --check`: layouts that somebody has made.

use super::{code, error, plan, text};

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

#[test]
fn recommended_split_is_accounted_for_and_flagged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("guides.toml");
    std::fs::write(&file, GUIDES).unwrap();
    let file = file.display().to_string();
    let output = plan(&["--check", &file]);
    assert_eq!(code(&output), 1);
    let text = text(&output);
    let fits = "holds   connection pools fit the database: 185 of 185 connections (200 less 15 in \
                reserve)\n";
    assert!(text.contains(fits), "{text}");
    let broken = "BROKEN  mail and the scheduler have threads of their own: mailers has no thread \
                  of its own \
                  (only behind push); scheduler has no thread of its own (only behind push)\n";
    assert!(text.contains(broken), "{text}");

    std::fs::write(&file, GUIDES.replacen("pool = 10", "pools = 10", 1)).unwrap();
    let output = plan(&["--check", &file]);
    assert_eq!(code(&output), 2);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("unknown field `pools`"), "{error}");
}

/// Returns a valid layout: the same with the queue `mail` and the scheduler first.
fn valid_layout() -> String {
    let turned = |text: &str, queue: &str| {
        text.replace(&format!("[\"push\", \"{queue}\"]"), &format!("[\"{queue}\", \"push\"]"))
    };
    turned(&turned(GUIDES, "scheduler"), "mailers")
}

#[test]
fn incomplete_layout_is_not_proved() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layout.toml");
    let check = |layout: &str| {
        std::fs::write(&file, layout).unwrap();
        let output = plan(&["--check", &file.display().to_string()]);
        (code(&output), text(&output))
    };
    let (ends, all) = check(&valid_layout());
    assert_eq!(ends, 0, "{all}");
    for (without, expected) in [
        (
            ", pool = 25",
            "unknown connection pools fit the database: 185 of 185 connections (200 less 15 in reserve) if ",
        ),
        (
            ", pool = 25",
            "unknown each thread has a connection in its pool: unknown, because `pool`",
        ),
        (", threads = 10", "unknown, because the number of threads of web is not given"),
        (
            "concurrency = 5, ",
            "unknown each process has threads and queues: e: unknown, because its `concurrency`",
        ),
        (
            "concurrency = 5, ",
            "unknown mail and the scheduler have threads of their own: mailers is first in f: unknown",
        ),
    ] {
        let (ends, said) = check(&valid_layout().replace(without, ""));
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
            "BROKEN  each process has one queue order: a: ",
        ),
        (
            "reserve = 15",
            "reserve = 0",
            "holds   connection pools fit the database: 185 of 197 connections (200 less 3 that ",
        ),
        (
            "reserved_connections = 3",
            "reserved_connections = 20",
            "BROKEN  connection pools fit the database: 185 of 180 ",
        ),
        (
            "reserve = 15",
            "reserve = 15\npgbouncer = 190",
            "BROKEN  connection pools fit the database: 190 of 185 ",
        ),
    ] {
        let (_, said) = check(&valid_layout().replacen(from, to, 1));
        assert!(said.contains(expected), "{to}: {said}");
    }
    let (ends, said) =
        check(&valid_layout().replace("[\"mailers\", \"push\"]", "[\"mailers,2\", \"push,6\"]"));
    assert_eq!(ends, 2, "{said}");
    assert!(said.contains("mailers is chosen by weight or at random, in f with 1 more"), "{said}");
    let unsaid = valid_layout().replace("superuser_reserved_connections = 3\n", "");
    assert!(check(&unsaid).1.contains("default used  Postgres keeps 3 connections"));
}

#[test]
fn endless_file_is_rejected_and_unknown_memory_is_not_judged() {
    let output = plan(&["--check", "/dev/zero"]);
    assert_eq!(code(&output), 2);
    assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/zero is too large"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("guides.toml");
    let check = |layout: &str| {
        std::fs::write(&file, layout).unwrap();
        text(&plan(&["--check", &file.display().to_string()]))
    };
    let unknown = check(GUIDES);
    assert!(unknown.contains("not checked  memory"), "{unknown}");
    let known = check(&GUIDES.replacen("reserve", "memory = \"8GiB\"\nreserve", 1));
    assert!(known.contains("holds   there is enough memory: processes need "), "{known}");
    assert!(!known.contains("need 0 kB"), "{known}");
}

/// Checks a layout; returns the exit code and the output.
fn check_layout(layout: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layout.toml");
    std::fs::write(&file, layout).unwrap();
    let output = plan(&["--check", &file.display().to_string()]);
    (code(&output), text(&output) + &error(&output))
}

#[test]
fn duplicate_names_are_reported_with_lines() {
    let (ends, said) = check_layout(&valid_layout().replace("name = \"b\"", "name = \"a\""));
    assert_eq!(ends, 1, "{said}");
    let expected = "BROKEN  process names are unique: a is defined in lines 10 and 11; each is \
                    counted:";
    assert!(said.contains(expected), "{said}");
    assert!(
        said.contains("holds   connection pools fit the database: 185 of 185 connections"),
        "{said}"
    );
    let (ends, said) = check_layout(&valid_layout().replace("name = \"f\"", "name = \"web\""));
    assert_eq!(ends, 1, "a service and a worker: {said}");
    assert!(said.contains("web is defined in lines 6 and 15"), "{said}");
}

#[test]
fn missing_queues_are_reported_with_lines() {
    let mail = "queues = [\"mailers\", \"push\"]";
    for (to, expected) in [
        ("", "line 15: f has no `queues`: they are unknown, because Sidekiq without -q serves"),
        ("queues = []", "line 15: f has no `queues`: they are unknown"),
        (
            "queues = [\"-q mailers\"]",
            "line 15: f: \"-q mailers\" is an option; write only the queue",
        ),
        ("queues = [\"-qmailers\"]", "line 15: f: \"-qmailers\" is an option"),
        ("queues = [\"mailers push\"]", "line 15: f: \"mailers push\" is not a queue"),
        ("queues = [\"'mailers'\"]", "line 15: f: \"'mailers'\" is not a queue"),
        ("queues = [\"$MAIL\", \"mailers\"]", "line 15: f: \"$MAIL\" contains a variable"),
        ("queues = [\"<%= q %>\"]", "line 15: f: \"<%= q %>\" contains a variable"),
    ] {
        let layout = valid_layout().replace(
            &format!(", {mail}"),
            &if to.is_empty() { String::new() } else { format!(", {to}") },
        );
        let wanted =
            "queues = [\"default\", \"push\", \"pull\", \"mailers\", \"scheduler\"]\nservices";
        let (ends, said) =
            check_layout(&layout.replacen("services", wanted, 1).replacen('\n', "", 1));
        assert_eq!(ends, 2, "{to}: {said}");
        assert!(
            said.contains(&format!("unknown queues are written as for -q: {expected}")),
            "{to}: {said}"
        );
        assert!(
            said.contains(
                "unknown each queue is first in a process: no process serves mailers; unknown, "
            ),
            "{to}: {said}"
        );
        assert!(
            said.contains("unknown one process serves the scheduler: 1 process serves the queue"),
            "{to}: {said}"
        );
        assert!(
            said.contains("holds   connection pools fit the database: 185 of 185"),
            "{to}: \
                               {said}"
        );
    }
    let (ends, said) = check_layout(&valid_layout().replacen(
        "services",
        "queues = [\"push,6\", \"$X\"]\nservices",
        1,
    ));
    assert_eq!(ends, 2, "{said}");
    assert!(
        said.contains("holds   each queue is first in a process: its only queue is first"),
        "{said}"
    );
    assert!(said.contains("line 5: \"$X\" contains a variable"), "{said}");
}

#[test]
fn foreign_files_are_judged_by_their_totals() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let write = |name: &str, text: &str| std::fs::write(here.join(name), text).unwrap();
    let check = |name: &str, more: &[&str]| {
        let path = here.join(name).display().to_string();
        plan(&[&["--check", &path], more].concat())
    };
    let unit = "[Service]\nEnvironment=\"DB_POOL=25\"\n\
        ExecStart=/opt/rbenv/shims/bundle exec sidekiq -c 25 -q default -q push\n";
    write("app-sidekiq.service", unit);
    write("app-web.service", "[Service]\nExecStart=/usr/bin/bundle exec puma -w 3 -t 5:16\n");
    let whole = check("", &[]);
    assert_eq!(code(&whole), 0, "{whole:?}");
    let said = text(&whole);
    assert!(said.starts_with("read  app-sidekiq.service, app-web.service\n"), "{said}");
    let sum = "holds   connection pools fit the database: 73 of 85 connections (100 less 15 in \
               reserve)\n";
    assert!(said.contains(sum), "{said}");
    let assumed =
        "assumed  app-web: a pool of as many connections as threads (DB_POOL is not set)\n";
    assert!(said.contains(assumed), "{said}");
    let small = check("", &["--max-connections", "80"]);
    assert_eq!(code(&small), 1);
    assert!(
        text(&small).contains("BROKEN  connection pools fit the database: 73 of 65"),
        "{small:?}"
    );
    let one = check("app-sidekiq.service", &["--json"]);
    assert_eq!(code(&one), 0);
    let json: serde_json::Value = serde_json::from_slice(&one.stdout).expect("JSON");
    assert_eq!(json["layout"]["workers"][0]["pool"], 25);
    write("app-web.service", "[Service]\nExecStart=/usr/bin/bundle exec puma -t $N:$N\n");
    let unknown = check("", &[]);
    assert_eq!(code(&unknown), 2, "what is filled in elsewhere can't be judged: {unknown:?}");

    let jobs = "web: bundle exec puma -w 3 -t 5\njobs: bin/jobs -c 2\n";
    write("Procfile.other", jobs);
    let unknown = check("Procfile.other", &[]);
    assert_eq!(code(&unknown), 2);
    let said = text(&unknown);
    assert!(said.contains("not judged  jobs: `bin/jobs -c 2` is not recognised\n"), "{said}");
    let sum = "unknown connection pools fit the database: at least 15 of 85 connections (100 less \
               15 in reserve); unknown, \
        because the command of jobs is not known\n";
    assert!(said.contains(sum), "{said}");

    write("sidekiq.yml", ":queues:\n  - [default, 8]\n");
    let settings = check("sidekiq.yml", &[]);
    assert_eq!(code(&settings), 2);
    assert!(error(&settings).contains("contains Sidekiq's settings"), "{settings:?}");
    write("x.toml", "max_connections = 1e18\n");
    let broken = check("x.toml", &[]);
    assert!(error(&broken).contains("x.toml is neither a layout nor"), "{broken:?}");
    let none = tempfile::tempdir().unwrap();
    let none = plan(&["--check", &none.path().display().to_string()]);
    assert_eq!(code(&none), 2);
    assert!(
        error(&none).contains("contains no unit (*.service), compose file or Procfile"),
        "{none:?}"
    );
}

#[test]
fn options_that_a_layout_contains_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layout.toml");
    std::fs::write(&file, valid_layout()).unwrap();
    let file = file.display().to_string();
    assert_eq!(code(&plan(&["--check", &file])), 0);
    for option in [["--max-connections", "100"], ["--reserve", "20"], ["--memory", "1GiB"]] {
        let output = plan(&["--check", &file, option[0], option[1]]);
        assert_eq!(code(&output), 64, "{option:?}");
        let said = error(&output);
        let is_told =
            said.contains("cannot be used with") || said.contains("cannot be used with a layout");
        assert!(is_told, "{said}");
    }
}
