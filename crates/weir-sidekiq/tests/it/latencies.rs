//! How long the next jobs of queues have waited, read alone.

use std::time::Duration;

use weir_sidekiq::{QueueLatency, RedisConnection, SampleLimits};

use crate::redis_server::RedisServer;

fn at_least(latency: QueueLatency, seconds: u64) -> bool {
    // A minute is more than the test takes.
    let range = Duration::from_secs(seconds)..Duration::from_secs(seconds + 60);
    matches!(latency, QueueLatency::Waited(waited) if range.contains(&waited))
}

#[tokio::test]
async fn the_latency_of_queues_is_read_in_both_formats() {
    let Some(redis) = RedisServer::start() else { return };
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut redis.client()).unwrap();
    let job = |at: String| format!(r#"{{"class":"A","args":[],"enqueued_at":{at}}}"#);
    let float = job(format!("{}.{micros:06}", seconds - 100));
    let millis = job(format!("{}", (seconds - 200) * 1_000));
    let ahead = job(format!("{}", seconds + 3_600));
    redis.run(&[
        &["LPUSH", "queue:float", &float, "no job"],
        &["LPUSH", "queue:millis", &millis, &float],
        // The next job has no time, the one after it does.
        &["LPUSH", "queue:second", "no job", &millis],
        &["RPUSH", "queue:second", "no job"],
        &["LPUSH", "queue:untimed", r#"{"class":"A","args":[]}"#],
        &["LPUSH", "queue:ahead", &ahead],
    ]);
    let limits = SampleLimits::default();
    let mut connection = RedisConnection::open(&redis.endpoint(), &limits).await.unwrap();
    let names = ["float", "millis", "second", "untimed", "ahead", "none"].map(str::to_owned);
    let read = connection.latencies(&names).await.unwrap().unwrap();
    assert!(at_least(read[0], 100) && at_least(read[1], 200) && at_least(read[2], 200), "{read:?}");
    assert_eq!(
        read[3..],
        [QueueLatency::Untimed, QueueLatency::Waited(Duration::ZERO), QueueLatency::Empty]
    );
    redis.run(&[&["SET", "queue:text", "no list"]]);
    let rejected = connection.latencies(&["text".to_owned()]).await.unwrap().unwrap_err();
    assert!(rejected.command == "LRANGE" && rejected.grant.is_none(), "{rejected:?}");
}
