//! A backlog set aside and brought back, without a job lost or out of order.

use weir_base::secret::Secret;
use weir_sidekiq::{
    Backlog, READ_ONLY_ACL, RedisConnection, RedisEndpoint, SampleLimits, SetAside,
};

use crate::connections::is_denied;
use crate::redis_server::RedisServer;

async fn backlog(endpoint: &RedisEndpoint) -> Backlog {
    let connection = RedisConnection::open(endpoint, &SampleLimits::default()).await.unwrap();
    Backlog::of(connection, "pull")
}

fn push(redis: &RedisServer, jobs: impl Iterator<Item = u32>) {
    for job in jobs {
        redis.run(&[&["LPUSH", "queue:pull", &format!("{{\"n\": {job}}} ")]]);
    }
}

/// Newest first, as Redis keeps them.
fn list(redis: &RedisServer, key: &str) -> Vec<u32> {
    let all: Vec<String> =
        redis::cmd("LRANGE").arg(key).arg(0).arg(-1).query(&mut redis.client()).unwrap();
    let number = |job: &String| {
        let number = job.strip_prefix("{\"n\": ").and_then(|it| it.strip_suffix("} "));
        number.unwrap().parse().unwrap()
    };
    all.iter().map(number).collect()
}

fn queues(redis: &RedisServer) -> Vec<String> {
    let mut all: Vec<String> =
        redis::cmd("SMEMBERS").arg("queues").query(&mut redis.client()).unwrap();
    all.sort();
    all
}

#[tokio::test]
async fn where_nothing_was_set_aside_an_undo_leaves_no_name() {
    let Some(redis) = RedisServer::start() else { return };
    assert_eq!(backlog(&redis.endpoint()).await.bring_back().await.unwrap(), 0);
    assert_eq!(queues(&redis), [""; 0], "a queue that was misspelt would be one from then on");
}

#[tokio::test]
async fn what_was_set_aside_comes_back_as_older_over_a_kill_between_steps() {
    let Some(redis) = RedisServer::start() else { return };
    redis.run(&[&["SADD", "queues", "pull"]]);
    push(&redis, 1..=2_500);
    assert_eq!(backlog(&redis.endpoint()).await.set_aside().await.unwrap(), SetAside::Done(2_500));
    assert_eq!(queues(&redis), ["pull", "pull_backlog"]);
    push(&redis, 2_501..=2_502);
    assert_eq!(list(&redis, "queue:pull"), [2_502, 2_501]);

    let again = backlog(&redis.endpoint()).await.set_aside().await.unwrap();
    assert_eq!(again, SetAside::Exists, "a backlog is never overwritten");
    assert_eq!(list(&redis, "queue:pull").len(), 2);

    assert_eq!(backlog(&redis.endpoint()).await.bring_back().await.unwrap(), 1_500);
    // Whoever did that is gone; another goes on.
    push(&redis, 2_503..=2_503);
    let mut next = backlog(&redis.endpoint()).await;
    assert_eq!(next.bring_back().await.unwrap(), 500);
    assert_eq!(next.bring_back().await.unwrap(), 0);
    assert_eq!(list(&redis, "queue:pull"), (1..=2_503).rev().collect::<Vec<_>>());
    assert_eq!(queues(&redis), ["pull"]);
    assert_eq!(next.bring_back().await.unwrap(), 0, "once more does no harm");
    let empty = Backlog::of(
        RedisConnection::open(&redis.endpoint(), &SampleLimits::default()).await.unwrap(),
        "push",
    )
    .set_aside()
    .await;
    assert_eq!(empty.unwrap(), SetAside::Empty);
}

#[tokio::test]
async fn what_comes_back_is_seen_where_the_queue_had_been_forgotten() {
    let Some(redis) = RedisServer::start() else { return };
    redis.run(&[&["SADD", "queues", "pull"]]);
    push(&redis, 1..=3);
    backlog(&redis.endpoint()).await.set_aside().await.unwrap();
    // As Sidekiq's page does with a queue that is empty.
    redis.run(&[&["SREM", "queues", "pull"]]);
    assert_eq!(backlog(&redis.endpoint()).await.bring_back().await.unwrap(), 0);
    assert_eq!(queues(&redis), ["pull"]);
}

#[tokio::test]
async fn who_may_do_all_but_rename_is_told_so() {
    let Some(redis) = RedisServer::start() else { return };
    push(&redis, 1..=3);
    redis.run(&[&["ACL", "SETUSER", "default", "-rename"]]);
    let error = backlog(&redis.endpoint()).await.set_aside().await.unwrap_err();
    assert!(is_denied(&error), "{error}");
    assert_eq!(list(&redis, "queue:pull"), [3, 2, 1]);
}

#[tokio::test]
async fn who_may_only_look_is_told_what_is_missing() {
    let Some(redis) = RedisServer::start() else { return };
    push(&redis, 1..=3);
    let mut user = vec!["ACL", "SETUSER", "weir", "reset", "on", ">hunter2", "~*"];
    user.extend(READ_ONLY_ACL.split_whitespace());
    redis.run(&[&user]);
    let endpoint = RedisEndpoint {
        username: Some("weir".to_owned()),
        password: Some(Secret::new("hunter2")),
        ..redis.endpoint()
    };
    let error = backlog(&endpoint).await.set_aside().await.unwrap_err();
    assert!(is_denied(&error), "{error}");
    assert!(error.to_string().contains("+eval +evalsha"), "{error}");
    assert_eq!(list(&redis, "queue:pull"), [3, 2, 1]);

    // With what it names it can.
    let grant = error.to_string();
    let grant: Vec<_> = grant.split(' ').filter(|word| word.starts_with('+')).collect();
    let more = [&["ACL", "SETUSER", "weir"], &grant[..]].concat();
    redis.run(&[&more]);
    assert_eq!(backlog(&endpoint).await.set_aside().await.unwrap(), SetAside::Done(3));
    assert_eq!(backlog(&endpoint).await.bring_back().await.unwrap(), 0);
}
