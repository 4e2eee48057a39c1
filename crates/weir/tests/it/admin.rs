//! `weir jobs ..` against a running Weir.

use crate::process::output_with_input;
use crate::weir::{Weir, program};

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
fn a_job_moves_from_place_to_place() {
    let weir = Weir::start();
    push(&weir, "it-job-0001", &[]);
    push(&weir, "it-job-0002", &["--in", "1h"]);
    assert_eq!(jids(&weir, "default"), ["it-job-0001"]);
    assert_eq!(jids(&weir, "scheduled"), ["it-job-0002"]);
    assert_eq!(weir.site.ok(&["jobs", "kill", "it-job-0002"]), "1 job moved to the dead set\n");
    assert_eq!(jids(&weir, "dead"), ["it-job-0002"]);
    let retried = weir.site.ok(&["jobs", "retry", "--from", "dead", "--yes"]);
    assert_eq!(retried, "1 job put into their queues\n");
    assert_eq!(jids(&weir, "default"), ["it-job-0001", "it-job-0002"]);
    let shown = weir.site.ok(&["jobs", "show", "it-job-0001"]);
    assert!(shown.starts_with("Hello it-job-0001 in default: waiting ("), "{shown}");
    assert_eq!(weir.site.ok(&["jobs", "clear", "default", "--yes"]), "2 jobs deleted\n");
    assert_eq!(jids(&weir, "default"), Vec::<String>::new());
    assert!(weir.stop().success());
}

#[test]
fn what_changes_many_jobs_is_not_done_unasked() {
    let weir = Weir::start();
    push(&weir, "it-job-0001", &["--in", "1h"]);
    insta::assert_snapshot!(weir.site.shown(&["jobs", "delete", "--from", "scheduled"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: Delete 1 job of scheduled? Nobody to ask here: say --yes
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
fn queues_are_paused_and_resumed() {
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
fn an_export_imported_elsewhere_is_the_same_export() {
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
fn lines_that_are_refused_are_named_by_number() {
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
