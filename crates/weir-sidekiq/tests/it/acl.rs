//! The rights that a look needs, and what is said without them.

use weir_base::secret::Secret;
use weir_sidekiq::{
    READ_ONLY_ACL, RedisConnection, RedisEndpoint, RedisSnapshot, SampleLimits, SampleScope,
};

use crate::redis_server::RedisServer;

const PASSWORD: &str = "hunter2";

async fn look_with(redis: &RedisServer, keys: &str, rules: &str) -> RedisSnapshot {
    let mut user = vec!["ACL", "SETUSER", "weir", "reset", "on", ">hunter2", keys];
    user.extend(rules.split_whitespace());
    redis.run(&[&user]);
    let limits = SampleLimits::default();
    let mut connection = RedisConnection::open(&endpoint(redis, PASSWORD), &limits).await.unwrap();
    connection.sample(SampleScope::Everything, &limits).await.unwrap()
}

fn endpoint(redis: &RedisServer, password: &str) -> RedisEndpoint {
    let (username, password) = (Some("weir".to_owned()), Some(Secret::new(password)));
    RedisEndpoint { username, password, ..redis.endpoint() }
}

fn denials(redis: &RedisServer) -> usize {
    let log: Vec<redis::Value> = redis::cmd("ACL").arg("LOG").query(&mut redis.client()).unwrap();
    log.len()
}

fn fill(redis: &RedisServer) {
    redis.run(&[
        &["SADD", "queues", "pull"],
        &["LPUSH", "queue:pull", r#"{"class":"A","args":[],"enqueued_at":1763790000.5}"#],
        &["SADD", "processes", "web:7:0123456789ac"],
        &["HSET", "web:7:0123456789ac", "info", r#"{"concurrency":5,"queues":["pull"]}"#],
        &["HSET", "web:7:0123456789ac:work", "t", r#"{"queue":"pull"}"#],
        &["SET", "other", "x"],
    ]);
}

#[tokio::test]
async fn the_documented_rules_suffice_and_nothing_else_is_tried() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis);
    let snapshot = look_with(&redis, "~*", READ_ONLY_ACL).await;
    assert_eq!(snapshot.queues.unwrap()[0].length, 1);
    assert_eq!(snapshot.processes.unwrap()[0].work.len(), 1);
    let server = snapshot.server.unwrap().unwrap();
    assert!(server.snapshots.is_ok() && server.slow_commands.is_ok());
    assert!(snapshot.foreign_keys.unwrap().is_ok());
    assert!(snapshot.scheduled.is_ok() && snapshot.retries.is_ok() && snapshot.dead.is_ok());
    assert_eq!(denials(&redis), 0);
}

#[tokio::test]
async fn what_is_refused_names_its_grant_and_the_rest_is_known() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis);
    let rules = READ_ONLY_ACL.replace("+slowlog|get ", "").replace("+config|get ", "");
    let snapshot = look_with(&redis, "~*", &rules.replace("+zcard ", "")).await;
    let server = snapshot.server.unwrap().unwrap();
    let grant = |refusal: weir_sidekiq::RejectedCommand| refusal.grant.unwrap();
    let all = "ACL SETUSER weir +config|get +slowlog|get +zcard";
    assert_eq!(grant(server.slow_commands.unwrap_err()), all, "one line has all that is missing");
    assert_eq!(grant(server.snapshots.unwrap_err()), all);
    assert_eq!(grant(snapshot.retries.unwrap_err()), all);
    assert_eq!(snapshot.queues.unwrap()[0].length, 1);
}

#[tokio::test]
async fn keys_that_may_not_be_read_ask_for_all_keys() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis);
    let snapshot = look_with(&redis, "~other*", READ_ONLY_ACL).await;
    assert_eq!(snapshot.queues.unwrap_err().grant.as_deref(), Some("ACL SETUSER weir ~*"));
    assert_eq!(snapshot.processes.unwrap_err().grant.as_deref(), Some("ACL SETUSER weir ~*"));
    assert!(snapshot.server.unwrap().is_ok());
}

#[tokio::test]
async fn without_the_clock_there_is_no_look() {
    let Some(redis) = RedisServer::start() else { return };
    redis.run(&[&["ACL", "SETUSER", "weir", "reset", "on", ">hunter2", "~*", "+ping"]]);
    let limits = SampleLimits::default();
    let mut connection = RedisConnection::open(&endpoint(&redis, PASSWORD), &limits).await.unwrap();
    let error = connection.sample(SampleScope::Everything, &limits).await.unwrap_err().to_string();
    assert!(error.contains("rejects TIME"), "{error}");
    let (_, line) = error.split_once("ACL SETUSER weir ").unwrap();
    redis.run(&[&[&["ACL", "SETUSER", "weir"], &line.split(' ').collect::<Vec<_>>()[..]].concat()]);
    let limits = SampleLimits::default();
    let mut connection = RedisConnection::open(&endpoint(&redis, PASSWORD), &limits).await.unwrap();
    fill(&redis);
    let snapshot = connection.sample(SampleScope::Everything, &limits).await.unwrap();
    assert!(snapshot.server.unwrap().unwrap().slow_commands.is_ok(), "one line was enough");
    assert!(snapshot.queues.is_ok() && snapshot.processes.is_ok() && snapshot.dead.is_ok());
}

#[tokio::test]
async fn a_wrong_password_is_an_error_that_does_not_repeat_it() {
    let Some(redis) = RedisServer::start() else { return };
    let opened =
        RedisConnection::open(&endpoint(&redis, "hunter3"), &SampleLimits::default()).await;
    let error = opened.unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.1:{}", redis.port)), "{error}");
    assert!(!error.contains("hunter3"), "{error}");
}
