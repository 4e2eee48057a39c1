//! `weir jobs ..` against a running Weir.

use std::process::Stdio;

use rustix::process::{Pid, Signal};

use crate::faktory::Client;
use crate::process::{output_with_input, wait_until};
use crate::weir::{Site, Weir, program};

fn push(weir: &Weir, jid: &str, more: &[&str]) {
    let arguments = [&["jobs", "push", "Hello", "[1]", "--jid", jid][..], more].concat();
    assert_eq!(weir.site.ok(&arguments), format!("{jid}\n"));
}

fn json(weir: &Weir, arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&weir.site.ok(arguments)).expect("JSON")
}

fn jids(weir: &Weir, place: &str) -> Vec<String> {
    let jobs = json(weir, &["jobs", "list", place, "--json"]);
    let jid = |job: &serde_json::Value| job["jid"].as_str().expect("a jid").to_owned();
    jobs.as_array().expect("a list").iter().map(jid).collect()
}

#[test]
fn job_moves_between_sets() {
    let weir = Weir::start();
    push(&weir, "it-job-0001", &[]);
    push(&weir, "it-job-0002", &["--in", "1h"]);
    assert_eq!(jids(&weir, "default"), ["it-job-0001"]);
    assert_eq!(jids(&weir, "scheduled"), ["it-job-0002"]);
    assert_eq!(weir.site.ok(&["jobs", "kill", "it-job-0002"]), "1 job moved to the dead set\n");
    assert_eq!(jids(&weir, "dead"), ["it-job-0002"]);
    let retried = weir.site.ok(&["jobs", "retry", "--from", "dead", "--yes"]);
    assert_eq!(retried, "1 job enqueued\n");
    assert_eq!(jids(&weir, "default"), ["it-job-0001", "it-job-0002"]);
    let shown = weir.site.ok(&["jobs", "show", "it-job-0001"]);
    assert!(shown.starts_with("Hello it-job-0001 in default: waiting ("), "{shown}");
    assert_eq!(weir.site.ok(&["jobs", "clear", "default", "--yes"]), "2 jobs deleted\n");
    assert_eq!(jids(&weir, "default"), Vec::<String>::new());
    assert!(weir.stop().success());
}

#[test]
fn bulk_changes_require_confirmation() {
    let weir = Weir::start();
    push(&weir, "it-job-0001", &["--in", "1h"]);
    insta::assert_snapshot!(weir.site.shown(&["jobs", "delete", "--from", "scheduled"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: Delete 1 job of scheduled? Standard input is no terminal: confirm with --yes
    ");
    assert_eq!(jids(&weir, "scheduled"), ["it-job-0001"]);
    insta::assert_snapshot!(weir.site.shown(&["jobs", "show", "it-job-0009"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: there is no job "it-job-0009" (it may be done already; an id is case-sensitive)
    "#);
    assert!(weir.stop().success());
}

#[test]
fn queues_can_be_paused_and_resumed() {
    let weir = Weir::start();
    push(&weir, "it-job-0001", &["--queue", "mailers"]);
    insta::assert_snapshot!(weir.site.shown(&["jobs", "pause", "mailer"]), @r#"
    exit: 2
    -- stdout
    -- stderr
    error: there is no queue "mailer"; did you mean "mailers"?
    "#);
    assert_eq!(weir.site.ok(&["jobs", "pause", "mailers"]), "1 queue paused\n");
    assert_eq!(json(&weir, &["jobs", "list", "--json"])[0]["paused"], true);
    assert_eq!(weir.site.ok(&["jobs", "resume", "--all"]), "1 queue resumed\n");
    assert_eq!(json(&weir, &["jobs", "list", "--json"])[0]["paused"], false);
    assert!(weir.stop().success());
}

#[test]
fn an_x_ray_shows_shares_and_a_search_tells_how_far_it_has_read() {
    let weir = Weir::start();
    for number in 0..4 {
        push(&weir, &format!("it-job-{number:04}"), &["--queue", "mailers"]);
    }
    let shown = weir.site.ok(&["jobs", "xray", "mailers"]);
    assert!(shown.starts_with("queue:mailers: 4 jobs, 4 read in "), "{shown}");
    let row = shown.lines().find(|line| line.starts_with("Hello")).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["Hello", "4", "100.0", "%", "exact"]);
    let xray = json(&weir, &["jobs", "xray", "mailers", "--by", "/args/0", "--json"]);
    let keys = xray["groups"].as_array().unwrap().iter().find(|group| group["by"] == "key");
    assert_eq!(keys.unwrap()["rows"][0]["value"], "1");
    let unknown = weir.site.shown(&["jobs", "xray", "mailer"]);
    assert!(unknown.contains("did you mean \"mailers\"?"), "{unknown}");

    let page = ["jobs", "list", "mailers", "--limit", "1", "--json", "--page"];
    let first = json(&weir, &page);
    assert_eq!((&first["scanned"], &first["total"]), (&1.into(), &4.into()));
    let after = first["next"].as_str().expect("more follow");
    let second = json(&weir, &[&page[..], &["--after", after]].concat());
    assert_eq!(second["jobs"][0]["jid"], "it-job-0001");
    assert!(weir.stop().success());
}

#[test]
fn jobs_are_quarantined_and_taken_back() {
    let weir = Weir::start();
    push(&weir, "it-job-0001", &["--queue", "mailers"]);
    push(&weir, "it-job-0002", &["--in", "1h"]);
    for place in ["mailers", "scheduled"] {
        let done = weir.site.ok(&["jobs", "quarantine", "add", "poison", "--from", place]);
        assert_eq!(done, "1 job quarantined as poison\n");
    }
    weir.site.ok(&["jobs", "resume", "--all"]);
    let list = json(&weir, &["jobs", "quarantine", "list", "--json"]);
    let row =
        |queue: &str| serde_json::json!({"name":"poison","queue":queue,"jobs":1,"paused":true});
    assert_eq!(list, serde_json::json!([row("default"), row("mailers")]));
    let back = weir.site.ok(&["jobs", "quarantine", "take-back", "poison"]);
    assert_eq!(back, "2 jobs taken back from poison\n");
    assert_eq!(jids(&weir, "mailers"), ["it-job-0001"]);
    assert_eq!(jids(&weir, "default"), ["it-job-0002"]);
    let moved = weir.site.ok(&["jobs", "move", "--from", "default", "--to", "mailers"]);
    assert_eq!(moved, "1 job moved to mailers\n");
    assert_eq!(jids(&weir, "mailers"), ["it-job-0001", "it-job-0002"]);
    assert!(weir.stop().success());
}

/// Returns the number of jobs in a queue.
fn depth(weir: &Weir, queue: &str) -> u64 {
    let queues = json(weir, &["jobs", "list", "--json"]);
    let found = queues.as_array().expect("a list").iter().find(|row| row["name"] == queue);
    found.map_or(0, |row| row["depth"].as_u64().expect("a number"))
}

#[test]
fn an_interrupted_action_counts_what_it_has_done() {
    let site = Site::new("[jobs.limits]\nadvanced.scan_jobs_max = 10\n");
    let weir = site.start();
    let lines: String = (0..5_000)
        .map(|n| {
            format!("{{\"jid\":\"it-job-{n:05}\",\"jobtype\":\"T\",\"args\":[],\"queue\":\"a\"}}\n")
        })
        .collect();
    weir.site.write_file("jobs.jsonl", lines.as_bytes());
    weir.site.ok(&["jobs", "import", "jobs.jsonl", "--unchecked"]);

    let mut command = program();
    command
        .current_dir(weir.site.path())
        .args(["jobs", "move", "--from", "a", "--to", "b", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    wait_until("the first jobs are moved", || depth(&weir, "b") > 0);
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a pid");
    rustix::process::kill_process(pid, Signal::INT).expect("signalled");
    let output = child.wait_with_output().expect("ended");
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(done["count"], depth(&weir, "b"), "{output:?}");
    assert_eq!((output.status.code(), &done["complete"]), (Some(2), &false.into()), "{output:?}");

    let text = String::from_utf8(output.stderr).expect("text");
    assert!(text.contains("continue with `weir jobs tasks resume 1`"), "{text}");
    let all = json(&weir, &["jobs", "tasks", "resume", "1", "--json"]);
    assert_eq!(all, serde_json::json!({"count": 5_000, "complete": true, "task": 1}));
    assert_eq!((depth(&weir, "a"), depth(&weir, "b")), (0, 5_000));
    assert!(weir.stop().success());
}

#[test]
fn exports_round_trip_through_import() {
    let weir = Weir::start();
    for number in 1..=30 {
        push(&weir, &format!("it-job-{number:04}"), &["--queue", ["a", "b"][number % 2]]);
    }
    push(&weir, "it-job-late", &["--in", "1h"]);
    push(&weir, "it-job-dead", &["--in", "1h"]);
    weir.site.ok(&["jobs", "kill", "it-job-dead"]);
    let file = weir.site.path().join("jobs.jsonl");
    let file = file.to_str().expect("text");
    weir.site.ok(&["jobs", "export", "--output", file]);
    let other = Weir::start();
    assert_eq!(other.site.ok(&["jobs", "import", file]), "32 jobs imported, 0 rejected\n");
    for place in ["a", "b", "scheduled", "dead"] {
        assert_eq!(jids(&other, place), jids(&weir, place), "{place}");
    }
    assert!(weir.stop().success());
    assert!(other.stop().success());
}

#[test]
fn rejected_lines_are_listed_by_number() {
    let weir = Weir::start();
    let mut import = program();
    import.current_dir(weir.site.path()).args(["jobs", "import"]);
    let lines = "{\"jid\":\"it-job-0001\",\"jobtype\":\"Hello\",\"args\":[]}\nnot JSON\n";
    let output = output_with_input(&mut import, lines.as_bytes());
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 job imported, 1 rejected\n");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.starts_with("line 2: "), "{error}");
    assert!(weir.stop().success());
}

#[test]
fn unknown_place_is_an_error() {
    let weir = Weir::start();
    weir.site.ok(&["jobs", "push", "Hello", "[1]", "--queue", "default"]);
    for arguments in [
        &["jobs", "list", "defualt"][..],
        &["jobs", "list", "defualt", "--json"],
        &["jobs", "clear", "defualt", "--yes"],
        &["jobs", "delete", "--from", "defualt", "--yes"],
        &["jobs", "export", "defualt"],
    ] {
        let shown = weir.site.shown(arguments);
        assert!(shown.starts_with("exit: 2\n"), "{arguments:?}: {shown}");
        let told = "there is no queue \"defualt\"; did you mean \"default\"?";
        assert!(shown.contains(told), "{arguments:?}: {shown}");
    }
    assert!(weir.site.shown(&["jobs", "list", "dea"]).contains("did you mean \"dead\"?"));
    // Empty, but there.
    assert!(weir.site.ok(&["jobs", "clear", "default", "--yes"]).contains("1 job deleted"));
    for place in ["default", "queue:default", "scheduled", "retries", "dead"] {
        weir.site.ok(&["jobs", "list", place]);
    }
    assert!(weir.stop().success());
}

#[test]
fn connected_workers_are_listed_and_signalled() {
    let weir = Weir::start();
    let hello = r#"{"v":2,"wid":"wid-1","hostname":"build-7","pid":42}"#;
    let mut worker = Client::connect_without_command(weir.jobs());
    assert_eq!(worker.run_command(&format!("HELLO {hello}")), "+OK");
    weir.site.ok(&["jobs", "push", "Hello", "[1]", "--queue", "mail"]);
    assert!(worker.run_command("FETCH mail default").contains("Hello"));
    let told = weir.site.ok(&["jobs", "workers"]);
    for text in ["wid-1", "build-7", "42", "running", "default,mail"] {
        assert!(told.contains(text), "{told}");
    }
    assert_eq!(json(&weir, &["jobs", "workers", "list", "--json"])[0]["busy"], 1);
    let told = weir.site.ok(&["jobs", "working"]);
    assert!(told.contains("Hello") && told.contains("wid-1") && told.contains("mail"), "{told}");
    assert_eq!(json(&weir, &["jobs", "working", "--json"])[0]["wid"], "wid-1");

    let shown = weir.site.shown(&["jobs", "workers", "quiet", "wid-2"]);
    let told = "there is no worker \"wid-2\"; did you mean \"wid-1\"?";
    assert!(shown.starts_with("exit: 2\n") && shown.contains(told), "{shown}");
    assert!(weir.site.shown(&["jobs", "workers", "quiet"]).starts_with("exit: 64\n"));
    let told = weir.site.ok(&["jobs", "workers", "quiet", "wid-1"]);
    assert_eq!(told, "1 worker will fetch no more jobs\n");
    assert_eq!(worker.run_command(r#"BEAT {"wid":"wid-1"}"#), r#"{"state":"quiet"}"#);
    assert_eq!(
        weir.site.ok(&["jobs", "workers", "terminate", "--all"]),
        "1 worker will finish and terminate\n"
    );
    assert_eq!(worker.run_command(r#"BEAT {"wid":"wid-1"}"#), r#"{"state":"terminate"}"#);
    assert!(weir.stop().success());
}

#[test]
fn cron_jobs_are_listed_run_paused_and_resumed() {
    let cron = r#"[[jobs.cron]]
name = "vacuum"
schedule = "0 0 29 2 *"
job = { jobtype = "Vacuum", queue = "scheduler", args = [{ tables = ["events"] }] }
"#;
    let site = Site::new("");
    let settings = std::fs::read_to_string(site.path().join("weir.toml")).expect("written");
    site.write(&format!("{settings}\n{cron}"));
    let weir = site.start();
    let listed = weir.site.ok(&["jobs", "cron", "list"]);
    assert!(listed.contains("vacuum  0 0 29 2 *  UTC        Vacuum   scheduler  2"), "{listed}");
    assert_eq!(weir.site.ok(&["jobs", "cron", "run", "vacuum"]), "vacuum enqueued\n");
    let jobs = json(&weir, &["jobs", "list", "scheduler", "--json"]);
    let payload = jobs[0]["payload"].as_str().expect("a payload");
    assert!(payload.contains(r#""args":[{"tables":["events"]}]"#), "{payload}");
    assert_eq!(weir.site.ok(&["jobs", "cron", "pause", "vacuum"]), "vacuum paused\n");
    assert_eq!(json(&weir, &["jobs", "cron", "list", "--json"])[0]["paused"], true);
    assert_eq!(weir.site.ok(&["jobs", "cron", "resume", "vacuum"]), "vacuum resumed\n");
    assert_eq!(json(&weir, &["jobs", "cron", "list", "--json"])[0]["paused"], false);
    assert!(!weir.site.run(&["jobs", "cron", "run", "other"]).status.success());
    assert!(weir.stop().success());
}
