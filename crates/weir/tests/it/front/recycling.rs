//! Workers that have passed a limit are replaced by fresh ones, and what a worker is given.

use std::collections::BTreeSet;

use super::body;
use super::processes::{listed, serving_pids, start, wait_until_true};
use crate::http::get;
use crate::weir::Weir;

/// Returns how many workers were replaced because of this limit, from the metrics.
fn recycled_workers(weir: &Weir, limit: &str) -> u32 {
    let (_, metrics) = get(weir.console(), "/metrics", "");
    let name = format!("weir_front_app_recycled_workers_total{{app=\"shop\",limit=\"{limit}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name.as_str()));
    line.expect("a line for each limit").parse().expect("a number")
}

/// Returns the number of running processes of the app, including ending ones.
fn processes(weir: &Weir) -> usize {
    let app = listed(weir);
    let workers = app["workers"].as_array().expect("a list");
    workers.iter().filter(|worker| worker["pid"].is_i64()).count()
}

#[test]
fn worker_is_recycled_after_its_request_limit() {
    let mut weir = start("recycle_requests = 50\nadvanced.recycle_interval = \"50ms\"\n");
    let before = serving_pids(&weir);
    assert_eq!(recycled_workers(&weir, "requests"), 0);
    // Each of the three is given a third of them.
    wait_until_true(|| {
        assert_eq!(get(weir.front(), "/", "").0, "HTTP/1.1 200 OK", "no request is lost");
        assert!(processes(&weir) <= 4, "never two at once");
        recycled_workers(&weir, "requests") >= 3
    });
    let line = weir.wait_for_log("recycled: ");
    assert!(line.contains("requests (recycle_requests)"), "{line}");
    wait_until_true(|| serving_pids(&weir).is_disjoint(&before));
    assert_eq!(recycled_workers(&weir, "memory") + recycled_workers(&weir, "age"), 0);
    assert!(weir.stop().success());
}

#[test]
fn worker_is_recycled_after_its_age_limit() {
    let mut weir = start("recycle_age = \"2s\"\nadvanced.recycle_interval = \"50ms\"\n");
    let before = serving_pids(&weir);
    wait_until_true(|| serving_pids(&weir).is_disjoint(&before));
    assert!(recycled_workers(&weir, "age") >= 3);
    let line = weir.wait_for_log("recycled: ");
    assert!(line.contains("(recycle_age)"), "{line}");
    assert!(weir.stop().success());
}

#[test]
fn worker_is_recycled_above_its_memory_limit() {
    let mut weir = start("recycle_memory = \"80MiB\"\nadvanced.recycle_interval = \"50ms\"\n");
    wait_until_true(|| {
        let app = listed(&weir);
        let workers = app["workers"].as_array().expect("a list");
        workers.iter().all(|worker| worker["pss_bytes"].as_u64().is_some_and(|it| it > 1 << 20))
    });
    let before = serving_pids(&weir);
    let fat: i32 = body(weir.front(), "/grow", "").parse().expect("a pid");
    wait_until_true(|| {
        let now = serving_pids(&weir);
        now.len() == 3 && !now.contains(&fat)
    });
    let after: BTreeSet<i32> = serving_pids(&weir);
    assert_eq!(before.intersection(&after).count(), 2);
    assert_eq!(recycled_workers(&weir, "memory"), 1);
    let line = weir.wait_for_log("recycled: ");
    assert!(line.contains("MiB of memory (recycle_memory)"), "{line}");
    assert!(weir.stop().success());
}

#[test]
fn workers_get_environment_and_resource_limits() {
    let weir = start(
        "environment = { SHOP_MODE = \"quiet {name}\" }\nopen_files = 64\nadvanced.address_space = \"2GiB\"\n",
    );
    let told: BTreeSet<String> = (0..6).map(|_| body(weir.front(), "/limits", "")).collect();
    let expected = (0..3).map(|index| format!("quiet shop-{index} 64 {}", 2_u64 << 30));
    assert_eq!(told, expected.collect());
    assert!(weir.stop().success());
}
