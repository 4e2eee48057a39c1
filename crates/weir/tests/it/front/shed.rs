//! Requests that are shed because a queue of an observed Sidekiq is behind, with a real Redis.

use std::net::SocketAddr;

use super::worker::Worker;
use super::{BASE, app, start, wait_for_status};
use crate::doctor::redis_server::RedisServer;
use crate::doctor::sidekiq::{now, push};
use crate::http::get;
use crate::process::wait_until;

const SHED: &str = "503 Service Unavailable";
const SERVED: &str = "200 OK";

/// A rule for a path. Figures are read once a second.
fn rule(path: &str, source: &str) -> String {
    format!(
        "[[front.apps.shed]]\npath = \"{path}\"\nqueue = \"ingress\"\nsource = \"{source}\"\n\
         over = \"5m\"\nstale_after = \"3s\"\n"
    )
}

fn observe(url: &str) -> String {
    format!("[observe]\n[[observe.redis]]\nurl = \"{url}\"\n")
}

fn rules_in_state(console: SocketAddr, state: &str) -> Option<String> {
    let series = format!("weir_front_app_shed_rules{{app=\"shop\",state=\"{state}\"}} ");
    let (_, metrics) = get(console, "/metrics", "");
    metrics.lines().find_map(|line| line.strip_prefix(&series)).map(str::to_owned)
}

/// Pushes a job as Sidekiq 8 does, whose times are whole milliseconds.
fn push_with_milliseconds(redis: &RedisServer, age: f64) {
    let at = (now(redis) - age) * 1e3;
    let job = format!(
        r#"{{"class":"Deliver","args":[],"queue":"ingress","jid":"a","created_at":{at:.0},"enqueued_at":{at:.0}}}"#
    );
    redis.run(&[&["LPUSH", "queue:ingress", &job]]);
}

#[test]
fn app_sheds_for_a_queue_of_sidekiq_until_redis_is_away() {
    let Some(mut redis) = RedisServer::start() else { return };
    let shop = Worker::start("shop");
    let url = format!("redis://127.0.0.1:{}/0", redis.port);
    let settings =
        format!("{BASE}{}{}", observe(&url), app("shop", &rule("/inbox", "auto"), &[&shop]));
    let mut weir = start(&settings, &[]);
    weir.wait_for_log("applies to the queue of the observed Sidekiq");

    // Seconds with a fraction, as up to Sidekiq 7.
    push(&redis, "ingress", "Deliver", 3, 900.0);
    wait_for_status(&weir, "/inbox", SHED);
    wait_for_status(&weir, "/home", SERVED);
    redis.run(&[&["DEL", "queue:ingress"]]);
    wait_for_status(&weir, "/inbox", SERVED);
    push_with_milliseconds(&redis, 10.0);
    push_with_milliseconds(&redis, 5.0);
    wait_until("a job in time is not late", || {
        rules_in_state(weir.console(), "off").as_deref() == Some("1")
    });
    // The oldest job is the last of the list.
    let late = (now(&redis) - 900.0) * 1e3;
    let late = format!(r#"{{"class":"Deliver","args":[],"jid":"b","enqueued_at":{late:.0}}}"#);
    redis.run(&[&["RPUSH", "queue:ingress", &late]]);
    wait_for_status(&weir, "/inbox", SHED);

    redis.kill();
    wait_for_status(&weir, "/inbox", SERVED);
    weir.wait_for_log("the latency of the queue is not known, so all requests pass");
    assert_eq!(rules_in_state(weir.console(), "unknown").as_deref(), Some("1"));
    let listed = weir.site.ok(&["workers", "list"]);
    assert!(listed.contains("not shedding: latency of queue ingress unknown"), "{listed}");
    wait_until("the verdict has the finding", || {
        get(weir.console(), "/v1/status", "").1.contains("app-cannot-shed")
    });

    redis.start_again();
    weir.wait_for_log("the latency of the queue is known again");
    push_with_milliseconds(&redis, 900.0);
    wait_for_status(&weir, "/inbox", SHED);
    assert!(weir.stop().success());
}

#[test]
fn a_queue_of_the_job_server_comes_before_one_of_sidekiq() {
    let Some(redis) = RedisServer::start() else { return };
    let shop = Worker::start("shop");
    let url = format!("redis://127.0.0.1:{}/0", redis.port);
    let rules = format!("{}{}", rule("/inbox", "auto"), rule("/actor", "sidekiq"));
    let settings = format!("{BASE}{}{}", observe(&url), app("shop", &rules, &[&shop]));
    let mut weir = start(&settings, &[]);
    push(&redis, "ingress", "Deliver", 3, 900.0);
    wait_for_status(&weir, "/inbox", SHED);
    wait_for_status(&weir, "/actor", SHED);
    weir.site.ok(&["jobs", "push", "Deliver", "--queue", "ingress"]);
    weir.wait_for_log("applies to the queue of Weir's job server");
    wait_for_status(&weir, "/inbox", SERVED);
    wait_for_status(&weir, "/actor", SHED);
    assert!(weir.stop().success());
}

#[test]
fn a_front_alone_sheds_for_a_sidekiq_behind_sentinels() {
    let Some(redis) = RedisServer::start() else { return };
    let Some(sentinel) = RedisServer::start_sentinel(redis.port) else { return };
    let shop = Worker::start("shop");
    let url = format!("redis+sentinel://127.0.0.1:{}/mymaster", sentinel.port);
    let settings =
        format!("{BASE}{}{}", observe(&url), app("shop", &rule("/inbox", "auto"), &[&shop]));
    let weir = start(&settings, &["--only", "front"]);
    push(&redis, "ingress", "Deliver", 3, 900.0);
    wait_for_status(&weir, "/inbox", SHED);
    redis.run(&[&["DEL", "queue:ingress"]]);
    wait_for_status(&weir, "/inbox", SERVED);
    assert!(weir.stop().success());
}
