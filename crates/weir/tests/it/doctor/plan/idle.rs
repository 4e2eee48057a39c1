//! A Redis in which nothing happens while it is looked at.

use serde_json::Value;

use super::super::redis_server::RedisServer;
use super::super::sidekiq::{Sidekiq, make_healthy};
use super::{code, plan, text};

#[test]
fn idle_queues_are_assumed_without_threads() {
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    let Some(_sidekiq) = Sidekiq::start(&redis, &["-c", "8", "-q", "default"]) else { return };
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let look = ["--redis", &url, "--window", "300ms", "--memory", "8GiB"];
    let planned = |more: &[&str]| plan(&[&look[..], more].concat());

    let output = planned(&[]);
    let said = text(&output);
    assert_eq!(code(&output), 0, "{said}");
    for expected in [
        "default  not seen  0.20 s, assumed  not seen\n",
        "unknown each queue keeps up with arrivals: no job of default was seen in progress in \
         1 sample; a longer --window sees more",
        " --queue default=0,0.2\n",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let document: Value = serde_json::from_slice(&planned(&["--json"]).stdout).unwrap();
    assert_eq!(document["wanted"]["queues"][0]["known"], "nothing");
    assert_eq!(document["difference"], serde_json::json!([]), "it stays as it is");

    let said = text(&planned(&["--queue", "default=1,0.1"]));
    assert!(said.contains("holds   each queue keeps up with arrivals: "), "{said}");
    assert!(said.contains("- 1 x sidekiq -c 8 -q default\n+ 1 x sidekiq -c "), "{said}");
}
