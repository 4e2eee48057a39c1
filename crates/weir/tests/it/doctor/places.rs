//! A doctor that is pointed at the wrong place says so, and does not end as if all were well.

use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy, push};
use super::{code, run};

#[test]
fn wrong_database_namespace_and_missing_sidekiq_are_reported() {
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    let Some(sidekiq) = Sidekiq::start(&redis, &["-c", "1", "-q", "default"]) else { return };
    push(&redis, "default", "Mark", 1, 0.0);
    crate::process::wait_until("its job is done", || {
        let marked: bool =
            ::redis::cmd("EXISTS").arg("marked").query(&mut redis.client()).expect("a number");
        marked
    });
    let said = |database: &str| {
        let url = format!("redis://127.0.0.1:{}/{database}", redis.port);
        let output = run(&["--redis", &url, "--window", "10ms"]);
        (code(&output), String::from_utf8(output.stdout).expect("text"))
    };
    assert_eq!(said("0"), (0, String::new()), "that is the place");
    let (ended, text) = said("1");
    assert_eq!(ended, 1);
    assert!(text.contains("database 1 is empty; database 0 has "), "{text}");
    assert!(text.contains("\n            /0\n"), "{text}");

    sidekiq.stop();
    let (ended, text) = said("0");
    assert_eq!(ended, 1);
    let expected = "no Sidekiq process has a heartbeat in database 0; no job is waiting yet";
    assert!(text.contains(expected), "{text}");

    redis.run(&[&["FLUSHALL"], &["SADD", "shop:queues", "default"]]);
    let (ended, text) = said("0");
    assert_eq!(ended, 1);
    assert!(text.contains("there are keys of one under \"shop:\""), "{text}");
}
