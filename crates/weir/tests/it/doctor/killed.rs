//! A process that was killed a moment ago: its heartbeat lasts for another minute.

use serde_json::Value;

use super::follow::change_of;
use super::json;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy};

/// Returns the findings on the scheduler and on missing processes.
fn scheduler_findings(advice: &Value) -> Vec<(&str, &Value)> {
    let findings = advice["findings"].as_array().expect("findings");
    let of = |it: &'_ &Value| ["scheduler", "ghost-process"].iter().any(|rule| it["rule"] == *rule);
    let pair = |it| {
        let it: &Value = it;
        (it["rule"].as_str().expect("a rule"), it)
    };
    findings.iter().filter(of).map(pair).collect()
}

#[test]
fn scheduler_survives_a_killed_process() {
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    redis.run(&[&["SADD", "queues", "default", "scheduler"]]);
    let both = ["-c", "1", "-q", "default", "-q", "scheduler"];
    let Some(live) = Sidekiq::start(&redis, &both) else { return };
    let Some(killed) = Sidekiq::start(&redis, &["-c", "1", "-q", "scheduler"]) else { return };
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let arguments = ["--redis", &url, "--window", "300ms"];
    let advice = json(&arguments);
    let two = scheduler_findings(&advice);
    assert_eq!(two.len(), 1, "both run: {two:?}");
    assert!(change_of(two[0].1)["line"].is_string(), "{two:?}");
    killed.signal("-KILL");
    for _ in 0..5 {
        let advice = json(&arguments);
        for (rule, it) in scheduler_findings(&advice) {
            // Doctor did not see it before, and a process of a container may have this host name.
            let is_hedged = rule == "ghost-process" || it["severity"] == "notice";
            let place = change_of(it)["place"].as_str().unwrap_or_default();
            assert!(is_hedged && !place.contains(&live.identity), "{it}");
        }
    }
}
