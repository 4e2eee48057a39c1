//! What a look may cost is a limit each, and what one cuts off is named.

use std::time::Duration;

use weir_sidekiq::{Connection, Limits, Scope, SidekiqError};

use crate::redis_server::RedisServer;

fn fill(redis: &RedisServer, queues: usize) {
    let names: Vec<_> = (0..queues).map(|number| format!("q{number}")).collect();
    let words: Vec<_> =
        ["SADD", "queues"].into_iter().chain(names.iter().map(String::as_str)).collect();
    redis.run(&[&words]);
}

#[tokio::test]
async fn more_queues_than_the_limit_are_cut_and_named() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis, 2_000);
    let limits = Limits { queues_max: 700, ..Limits::default() };
    let snapshot = redis.look(Scope::Everything, &limits).await;
    assert_eq!(snapshot.queues.unwrap().len(), 700);
    assert_eq!(snapshot.cut, ["queues_max (700)"]);
}

#[tokio::test]
async fn processes_and_threads_are_cut_and_named() {
    let Some(redis) = RedisServer::start() else { return };
    let identity = "web:7:0123456789ac";
    let work: Vec<String> =
        (0..9).flat_map(|n| [format!("t{n}"), r#"{"queue":"a"}"#.to_owned()]).collect();
    let key = format!("{identity}:work");
    let hash: Vec<_> = ["HSET", &key].into_iter().chain(work.iter().map(String::as_str)).collect();
    redis.run(&[
        &["SADD", "processes", identity],
        &["HSET", identity, "info", r#"{"concurrency":9,"queues":["a"]}"#, "busy", "9"],
        &hash,
    ]);
    let full = redis.look(Scope::Everything, &Limits::default()).await;
    assert_eq!(full.processes.unwrap()[0].work.len(), 9);
    let limits = Limits { threads_max: 8, ..Limits::default() };
    let cut = redis.look(Scope::Everything, &limits).await;
    assert_eq!(cut.cut, ["threads_max (8)"]);
    let process = &cut.processes.unwrap()[0];
    assert_eq!((process.work.len(), process.busy), (0, 9));
}

#[tokio::test]
async fn too_many_commands_end_the_look() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis, 50);
    let limits = Limits { commands_max: 40, ..Limits::default() };
    let mut connection = Connection::open(&redis.endpoint(), &limits).await.unwrap();
    let error = connection.look(Scope::Everything, &limits).await.unwrap_err();
    assert!(matches!(error, SidekiqError::TooManyCommands { commands_max: 40, .. }), "{error}");
    assert!(error.to_string().contains("commands_max"), "{error}");
}

#[tokio::test]
async fn a_redis_that_does_not_answer_ends_the_look() {
    let Some(redis) = RedisServer::start() else { return };
    let limits = Limits {
        answer_timeout: Duration::from_secs(60),
        deadline: Duration::from_millis(300),
        ..Limits::default()
    };
    let mut connection = Connection::open(&redis.endpoint(), &limits).await.unwrap();
    redis.run(&[&["CLIENT", "PAUSE", "60000", "ALL"]]);
    let error = connection.look(Scope::Everything, &limits).await.unwrap_err();
    assert!(matches!(error, SidekiqError::Deadline { .. }), "{error}");
}

#[tokio::test]
async fn windows_of_large_jobs_hold_fewer() {
    let Some(redis) = RedisServer::start() else { return };
    let job =
        format!(r#"{{"class":"A","args":["{}"],"enqueued_at":1763790000.5}}"#, "x".repeat(20_000));
    let push: Vec<_> =
        ["LPUSH", "queue:big"].into_iter().chain((0..50).map(|_| job.as_str())).collect();
    redis.run(&[&["SADD", "queues", "big"], &push]);
    let limits = Limits { window_bytes: 100_000, ..Limits::default() };
    let queues = redis.look(Scope::Everything, &limits).await.queues.unwrap();
    assert_eq!((queues[0].length, queues[0].newest.len()), (50, 4));
}
