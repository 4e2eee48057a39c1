//! Cron jobs of two Weirs that share a Redis.

use serde_json::Value;

use crate::doctor::redis_server::RedisServer;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

/// Cron jobs whose times are missed.
const MISSED: usize = 20;

fn site(redis: &RedisServer, crons: &str) -> Site {
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}\n\
         {crons}\n[console]\nlisten = \"127.0.0.1:0\"\n",
        redis.port
    ));
    site
}

fn cron(name: &str, schedule: &str, missed: &str) -> String {
    format!(
        "[[jobs.cron]]\nname = \"{name}\"\nschedule = \"{schedule}\"\nmissed = \"{missed}\"\n\
         job = {{ jobtype = \"Vacuum\", queue = \"chores\", args = [1] }}\n"
    )
}

fn listed(weir: &Weir) -> Value {
    let text = weir.site.ok(&["jobs", "cron", "list", "--json", "--data-dir", "data"]);
    serde_json::from_str(&text).expect("JSON")
}

fn chores(redis: &RedisServer) -> Vec<String> {
    let list = redis::cmd("LRANGE").arg(&["queue:chores", "0", "-1"]).query(&mut redis.client());
    list.expect("a list")
}

/// Returns how many times had the result, as the node counts them.
fn counted(weir: &Weir, result: &str) -> u64 {
    let metrics = get(weir.console(), "/metrics", "").1;
    let name = format!("weir_jobs_cron_runs_total{{result=\"{result}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.and_then(|count| count.parse().ok()).expect("a metric")
}

#[test]
fn operators_see_and_change_cron_jobs_on_any_node() {
    let Some(redis) = RedisServer::start() else { return };
    let settings = cron("vacuum", "0 0 29 2 *", "skip");
    let (one, other) = (site(&redis, &settings).start(), site(&redis, &settings).start());
    let without = site(&redis, "").start();
    assert_eq!(listed(&without), Value::Array(Vec::new()));
    wait_until("both know it", || listed(&one)[0]["last_at"].is_number());
    assert_eq!(listed(&one), listed(&other));
    let act = |weir: &Weir, action: &str| {
        weir.site.ok(&["jobs", "cron", action, "vacuum", "--data-dir", "data"])
    };
    assert_eq!(act(&one, "pause"), "vacuum paused\n");
    assert_eq!(listed(&other)[0]["paused"], true);
    assert_eq!(act(&other, "resume"), "vacuum resumed\n");
    assert_eq!(listed(&one)[0]["paused"], false);
    assert_eq!(act(&other, "run"), "vacuum enqueued\n");
    let jobs = chores(&redis);
    assert!(jobs.len() == 1 && jobs[0].contains(r#""class":"Vacuum""#), "{jobs:?}");
    let page = get(one.console(), "/cron", "").1;
    assert!(page.contains("vacuum") && page.contains("0 0 29 2 *"), "{page}");
    let exported = one.site.ok(&["jobs", "export", "--data-dir", "data"]);
    assert!(exported.contains(r#""place":"cron""#), "{exported}");
    for weir in [one, other, without] {
        assert!(weir.stop().success());
    }
}

#[test]
fn a_missed_time_is_enqueued_once_although_nodes_are_killed() {
    let Some(redis) = RedisServer::start() else { return };
    let names: Vec<String> = (0..MISSED).map(|number| format!("missed-{number}")).collect();
    for name in &names {
        // Last handled in 2017, and noted as in use until the year 2100.
        redis.run(&[&["HSET", "weir:cron", name, "1500000000000000 0 4102444800"]]);
    }
    redis.run(&[&["HSET", "weir:cron", "skipped", "1500000000000000 0 4102444800"]]);
    redis.run(&[&["HSET", "weir:cron", "paused", "1500000000000000 1 4102444800"]]);
    let once = |name: &String| cron(name, "0 0 1 1 *", "run-once");
    let mut settings: String = names.iter().map(once).collect();
    settings += &cron("skipped", "0 0 1 1 *", "skip");
    settings += &cron("paused", "0 0 1 1 *", "run-once");
    let sites = [site(&redis, &settings), site(&redis, &settings)];
    let [one, other] = sites.map(Site::start);
    wait_until("all are enqueued", || chores(&redis).len() >= MISSED);
    wait_until("each time is counted by one node", || {
        let count = |result| counted(&one, result) + counted(&other, result);
        (count("late"), count("missed"), count("paused")) == (MISSED as u64, 1, 1)
    });
    let one = one.kill_parent().start();
    wait_until("it has read the times", || listed(&one)[0]["last_at"].is_number());
    assert_eq!(chores(&redis).len(), MISSED);
    assert_eq!(counted(&one, "late"), 0);
    let other = other.kill_parent().start();
    wait_until("it has read the times", || listed(&other)[0]["last_at"].is_number());
    let mut jids: Vec<Value> = chores(&redis)
        .iter()
        .map(|job| serde_json::from_str::<Value>(job).expect("JSON")["jid"].clone())
        .collect();
    jids.sort_by_key(ToString::to_string);
    jids.dedup();
    assert_eq!(jids.len(), MISSED);
    assert!(one.stop().success() && other.stop().success());
}
