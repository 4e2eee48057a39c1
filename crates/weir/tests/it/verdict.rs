//! One verdict about all parts: in `weir status`, `/v1/status`, the metrics and the console.

use serde_json::Value;

use crate::alert_rules::assert_metrics_exist;
use crate::faktory::Client;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

fn verdict(weir: &Weir) -> Value {
    let status = weir.site.ok(&["status", "--json", "--data-dir", "data"]);
    serde_json::from_str::<Value>(&status).expect("JSON")["verdict"].take()
}

/// Pushes a job as a client that is no worker: one that ended would count as connected for a minute.
fn push(weir: &Weir) {
    let mut client = Client::connect_without_command(weir.jobs());
    assert_eq!(client.run_command("HELLO {\"v\":2}"), "+OK");
    client.run_command(r#"PUSH {"jid":"it-job-0001","jobtype":"Hello","args":[],"queue":"pull"}"#);
}

#[test]
fn status_metrics_and_console_say_the_same() {
    let weir = Weir::start();
    wait_until("all is well", || verdict(&weir)["headline"] == "Ready: no jobs yet");
    assert_eq!(verdict(&weir)["severity"], Value::Null);
    let text = weir.site.ok(&["status", "--data-dir", "data"]);
    assert!(text.contains("\nall well     Ready: no jobs yet\n"), "{text}");

    push(&weir);
    let problem = "No worker is connected and 1 job waits";
    wait_until("it is seen", || verdict(&weir)["headline"] == problem);
    let found = &verdict(&weir)["findings"][0];
    assert_eq!((&found["rule"], &found["severity"]), (&"no-worker".into(), &"critical".into()));
    let text = weir.site.ok(&["status", "--data-dir", "data"]);
    let lines = format!("\nCRITICAL     {problem}\n             Start your workers");
    assert!(text.contains(&lines), "{text}");
    let (_, page) = get(weir.console(), "/", "");
    assert!(page.contains(problem), "{page}");
    let (_, metrics) = get(weir.console(), "/metrics", "");
    for line in [
        "weir_findings{severity=\"critical\"} 1",
        "weir_findings{severity=\"warning\"} 0",
        "weir_rule_findings{rule=\"no-worker\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
    let rules = include_str!("../../../../deploy/prometheus/weir.rules.yml");
    assert_metrics_exist(rules, "weir_findings", 1, &metrics);
    assert_metrics_exist(rules, "weir_audit_", 1, &metrics);
    assert!(weir.stop().success());
}

#[test]
fn without_a_console_status_has_the_verdict() {
    let site = Site::new("");
    site.write(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = \"memory\"\n[console]\nlisten = \"off\"\n",
    );
    let weir = site.start();
    push(&weir);
    wait_until("it is seen", || verdict(&weir)["severity"] == "critical");
    assert!(weir.stop().success());
}
