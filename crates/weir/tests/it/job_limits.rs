//! Limits of jobs as operators see them, also after Weir was killed; and their alert rules.

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::alert_rules::assert_metrics_exist;
use crate::faktory::Client;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir, is_running};

const SETTINGS: &str = r#"
[jobs]
listen = "127.0.0.1:0"
[jobs.queues.eight]
concurrency = 8
jobs_max = 3
[jobs.queues.crawl]
fair_by = "/args/0"
tenant_concurrency = 1
tenant_jobs_max = 2
[jobs.resources.payments]
concurrency = 1
types = ["Charge"]
[[jobs.cron]]
name = "vacuum"
schedule = "0 3 * * *"
job = { jobtype = "Vacuum", queue = "chores", args = [] }
[console]
listen = "127.0.0.1:0"
"#;

fn site() -> Site {
    let site = Site::new("");
    site.write(SETTINGS);
    site
}

fn limits(weir: &Weir) -> Value {
    let text = weir.site.ok(&["jobs", "limits", "--json", "--data-dir", "data"]);
    serde_json::from_str(&text).expect("JSON")
}

fn metrics(weir: &Weir) -> String {
    get(weir.console(), "/metrics", "").1
}

/// Kills the service process, and waits until its parent has started another one.
fn kill_service(weir: &Weir) {
    let service = weir.service();
    kill_process(service, Signal::KILL).expect("killed");
    wait_until("another service process serves the limits", || {
        !is_running(service)
            && weir.site.run(&["jobs", "limits", "--data-dir", "data"]).status.success()
    });
}

#[test]
fn lowered_limits_are_shown_after_a_kill_and_not_after_a_stop() {
    let weir = site().start();
    let mut client = Client::connect(weir.jobs());
    for number in 0..3 {
        let push = format!(
            r#"PUSH {{"jid":"eight-{number:03}","jobtype":"T","queue":"eight","args":[]}}"#
        );
        assert_eq!(client.run_command(&push), "+OK");
    }
    let full =
        client.run_command(r#"PUSH {"jid":"eight-003","jobtype":"T","queue":"eight","args":[]}"#);
    assert!(full.starts_with("-BUSY retry-after=") && full.contains("jobs_max"), "{full}");
    let of = |limits: &Value| {
        let queues = limits["queues"].as_array().expect("queues").clone();
        let eight = queues.into_iter().find(|queue| queue["name"] == "eight").expect("it");
        (eight["concurrency"].clone(), eight["concurrency_in_force"].clone())
    };
    let before = limits(&weir);
    assert_eq!(before["lowered_until"], Value::Null, "{before}");
    assert_eq!(of(&before), (8.into(), 8.into()));

    kill_service(&weir);
    let after = limits(&weir);
    let left =
        after["lowered_until"].as_f64().expect("a time") - after["now"].as_f64().expect("one");
    assert!((1_700.0..=1_800.0).contains(&left), "{after}");
    assert_eq!(of(&after), (8.into(), 6.into()));
    let list = weir.site.run(&["jobs", "list", "--data-dir", "data"]);
    let [said, noted] = [&list.stdout, &list.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(said.contains("0/6"), "{said}");
    assert!(noted.contains("a quarter lower for another"), "{noted}");
    let listed = weir.site.ok(&["jobs", "list", "--json", "--data-dir", "data"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed[0]["concurrency_in_force"], 6, "{listed}");
    let page = get(weir.console(), "/limits", "").1;
    assert!(
        page.contains("a quarter lower for another") && page.contains("0 / 6 (set: 8)"),
        "{page}"
    );
    wait_until("the metric says so", || {
        let metrics = metrics(&weir);
        let lowered =
            metrics.lines().find(|line| line.starts_with("weir_jobs_limits_lowered_seconds "));
        lowered.is_some_and(|line| line.ends_with("1800") || line.contains(" 17"))
            && metrics.contains("weir_jobs_queue_concurrency{queue=\"eight\"} 6")
    });

    let weir = weir.end().start();
    let still = limits(&weir);
    assert_eq!(of(&still), (8.into(), 6.into()), "what may run is not known after a stop either");
    assert!(weir.stop().success());
}

#[test]
fn job_limit_alert_rules_use_existing_metrics_and_commands_show_what_is_held_back() {
    let rules = include_str!("../../../../deploy/prometheus/weir-job-limits.rules.yml");
    let weir = site().start();
    let mut client = Client::connect(weir.jobs());
    for (number, tenant, expected) in
        [(0, "big", "+OK"), (1, "big", "+OK"), (2, "big", "-BUSY"), (3, "other", "+OK")]
    {
        let push = format!(
            r#"PUSH {{"jid":"crawl-{number:03}","jobtype":"T","queue":"crawl","args":["{tenant}"]}}"#
        );
        let reply = client.run_command(&push);
        assert!(reply.starts_with(expected), "{reply}");
    }
    for number in 0..2 {
        let push = format!(
            r#"PUSH {{"jid":"charge-{number:03}","jobtype":"Charge","queue":"money","args":[]}}"#
        );
        assert_eq!(client.run_command(&push), "+OK");
    }
    let mut worker = Client::connect(weir.jobs());
    assert!(worker.run_command("FETCH crawl").contains("crawl-000"));
    assert!(worker.run_command("FETCH money").contains("charge-000"));
    let shown = weir.site.ok(&["jobs", "limits", "--data-dir", "data"]);
    for part in ["crawl", "1 by concurrency", "payments", "1/1", "TENANT", "big"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let view = limits(&weir);
    let crawl = &view["queues"][0];
    assert_eq!(crawl["tenants"]["held_back"][0]["name"], "big", "{view}");
    assert_eq!(crawl["caps"]["rejected_total"], 1, "{view}");
    assert_eq!(view["resources"][0]["blocked"], 1, "{view}");
    wait_until("the queues have metrics", || {
        metrics(&weir).contains("queue_latency_seconds{queue=\"crawl\"}")
    });
    // Of a rule with several results, one is named here.
    let rules = rules.replace("{result=~\"missed|failed\"}", "{result=\"missed\"}");
    assert_metrics_exist(&rules, "weir_jobs_", 7, &metrics(&weir));
    let batches = weir.site.ok(&["jobs", "batches", "list", "--json", "--data-dir", "data"]);
    let batches: Value = serde_json::from_str(&batches).expect("JSON");
    assert_eq!(batches["total"], 0);
    let missing =
        weir.site.run(&["jobs", "batches", "show", "b-0000000000000001", "--data-dir", "data"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert!(weir.stop().success());
}
