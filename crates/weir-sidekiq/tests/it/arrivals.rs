//! How many jobs have come since another look, in one that has more of them than are read.

use weir_sidekiq::{RedisConnection, SampleLimits, SampleScope};

use crate::redis_server::RedisServer;

fn push(redis: &RedisServer, queue: &str, jobs: usize, enqueued_at: f64) {
    let job = |number: usize| {
        format!(r#"{{"class":"A","jid":"{number}","args":[],"enqueued_at":{enqueued_at:.6}}}"#)
    };
    let jobs: Vec<String> = (0..jobs).map(job).collect();
    let key = format!("queue:{queue}");
    let words: Vec<&str> =
        ["LPUSH", &key].into_iter().chain(jobs.iter().map(String::as_str)).collect();
    redis.run(&[&["SADD", "queues", queue], &words]);
}

#[tokio::test]
async fn a_burst_is_counted_to_the_last_job() {
    let Some(redis) = RedisServer::start() else { return };
    let limits = SampleLimits::default();
    let mut connection = RedisConnection::open(&redis.endpoint(), &limits).await.unwrap();
    let first = connection.sample(SampleScope::Everything, &limits).await.unwrap();
    let at = first.at.as_secs_f64();
    push(&redis, "long", 5_000, at - 60.0);
    push(&redis, "long", 1_234, at + 0.001);
    push(&redis, "new", 700, at + 0.001);
    push(&redis, "short", 3, at - 60.0);
    push(&redis, "odd", 300, at + 0.001);
    redis.run(&[&["LPUSH", "queue:odd", "no job"], &["RPUSH", "queue:odd", "no job"]]);
    let second =
        connection.sample_since(SampleScope::Changes, Some(first.at), &limits).await.unwrap();
    let queues = second.queues.unwrap();
    let until = |name: &str| queues.iter().find(|it| it.name == name).unwrap().came_until.unwrap();
    assert!(second.at <= second.lengths_at && second.lengths_at <= second.counted_at);
    assert!(second.lengths_at <= until("short") && until("short") <= until("long"));
    let came = |name: &str| queues.iter().find(|it| it.name == name).unwrap().came;
    assert_eq!(came("long"), Some(1_234));
    assert_eq!(came("new"), Some(700));
    assert_eq!(came("short"), Some(0));
    assert_ne!(came("odd"), Some(0), "what is no job tells nothing");
    assert!(second.commands < first.commands + 100, "{}", second.commands);
}
