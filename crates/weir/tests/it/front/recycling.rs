//! Workers that have passed a limit are replaced by fresh ones, and what a worker is given.

use std::collections::BTreeSet;

use super::body;
use super::processes::{listed, serving, start, until};
use crate::http::get;
use crate::weir::Weir;

/// How many were replaced for this limit, by the metrics.
fn recycled(weir: &Weir, limit: &str) -> u32 {
    let (_, metrics) = get(weir.console(), "/metrics", "");
    let name = format!("weir_front_app_recycled_workers_total{{app=\"shop\",limit=\"{limit}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name.as_str()));
    line.expect("a line for each limit").parse().expect("a number")
}

/// Processes of the app that run, the ending ones among them.
fn processes(weir: &Weir) -> usize {
    let app = listed(weir);
    let workers = app["workers"].as_array().expect("a list");
    workers.iter().filter(|worker| worker["pid"].is_i64()).count()
}

#[test]
fn a_worker_that_was_given_enough_requests_is_replaced_and_nobody_else() {
    let mut weir = start("recycle_requests = 50\nadvanced.recycle_interval = \"50ms\"\n");
    let before = serving(&weir);
    assert_eq!(recycled(&weir, "requests"), 0);
    // Each of the three is given a third of them.
    until(|| {
        assert_eq!(get(weir.front(), "/", "").0, "HTTP/1.1 200 OK", "no request is lost");
        assert!(processes(&weir) <= 4, "never two at once");
        recycled(&weir, "requests") >= 3
    });
    let line = weir.wait_for_log("recycled: ");
    assert!(line.contains("requests (recycle_requests)"), "{line}");
    until(|| serving(&weir).is_disjoint(&before));
    assert_eq!(recycled(&weir, "memory") + recycled(&weir, "age"), 0);
    assert!(weir.stop().success());
}

#[test]
fn a_worker_that_is_too_old_is_replaced() {
    let mut weir = start("recycle_age = \"2s\"\nadvanced.recycle_interval = \"50ms\"\n");
    let before = serving(&weir);
    until(|| serving(&weir).is_disjoint(&before));
    assert!(recycled(&weir, "age") >= 3);
    let line = weir.wait_for_log("recycled: ");
    assert!(line.contains("(recycle_age)"), "{line}");
    assert!(weir.stop().success());
}

#[test]
fn a_worker_with_too_much_memory_is_replaced_and_the_others_stay() {
    let mut weir = start("recycle_memory = \"80MiB\"\nadvanced.recycle_interval = \"50ms\"\n");
    until(|| {
        let app = listed(&weir);
        let workers = app["workers"].as_array().expect("a list");
        workers.iter().all(|worker| worker["pss_bytes"].as_u64().is_some_and(|it| it > 1 << 20))
    });
    let before = serving(&weir);
    let fat: i32 = body(weir.front(), "/grow", "").parse().expect("a pid");
    until(|| {
        let now = serving(&weir);
        now.len() == 3 && !now.contains(&fat)
    });
    let after: BTreeSet<i32> = serving(&weir);
    assert_eq!(before.intersection(&after).count(), 2);
    assert_eq!(recycled(&weir, "memory"), 1);
    let line = weir.wait_for_log("recycled: ");
    assert!(line.contains("MiB of memory (recycle_memory)"), "{line}");
    assert!(weir.stop().success());
}

#[test]
fn workers_get_their_variables_and_limits() {
    let weir = start(
        "environment = { SHOP_MODE = \"quiet {name}\" }\nopen_files = 64\nadvanced.address_space = \"2GiB\"\n",
    );
    let told: BTreeSet<String> = (0..6).map(|_| body(weir.front(), "/limits", "")).collect();
    let expected = (0..3).map(|index| format!("quiet shop-{index} 64 {}", 2_u64 << 30));
    assert_eq!(told, expected.collect());
    assert!(weir.stop().success());
}
