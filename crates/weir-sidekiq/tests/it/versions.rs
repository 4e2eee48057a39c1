//! The layouts of Sidekiq 6.4, 7 and 8 side by side in one Redis.

use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_sidekiq::{
    CapsuleMode, ProcessSample, QueueSample, RedisSnapshot, SampleLimits, SampleScope,
};

use crate::redis_server::RedisServer;

const SIX: &str = "old:6:0123456789ab";
const SEVEN: &str = "web:7:0123456789ac";
const EIGHT: &str = "web:8:0123456789ad";
const GHOST: &str = "web:9:0123456789ae";

fn fill(redis: &RedisServer) {
    redis.run(&[
        &["SADD", "processes", SIX, SEVEN, EIGHT, GHOST],
        &["SADD", "queues", "pull", "mailers", "empty", "quarantine.x.pull"],
        &["SADD", "paused", "mailers"],
        // 6.4: order only, seconds, `:workers`, payload as text.
        &["HSET", SIX, "busy", "1", "beat", "1763792000.25", "rtt_us", "150", "quiet", "true",
          "rss", "1000", "info",
          r#"{"hostname":"old","started_at":1763790000.5,"pid":6,"tag":"shop","concurrency":5,"queues":["pull","mailer"],"labels":[],"identity":"old:6:0123456789ab"}"#],
        &["HSET", "old:6:0123456789ab:workers", "t1",
          r#"{"queue":"pull","payload":"{\"class\":\"LinkCrawlWorker\",\"args\":[\"private\"]}","run_at":1763791999}"#],
        // 7: weights for each capsule, `:work`.
        &["HSET", SEVEN, "busy", "0", "beat", "1763792001.0", "rtt_us", "90", "quiet", "false",
          "rss", "2000", "info",
          r#"{"hostname":"web","started_at":1763790000.5,"pid":7,"concurrency":4,"queues":["push"],"weights":[{"push":0,"pull":0}],"version":"7.3.9","identity":"web:7:0123456789ac"}"#],
        // 8: milliseconds, capsules.
        &["HSET", EIGHT, "busy", "1", "beat", "1763792002000", "quiet", "false", "concurrency", "3",
          "info",
          r#"{"hostname":"web","started_at":1763790000500,"pid":8,"concurrency":3,"queues":["pull"],"weights":[{"pull":2,"a":1}],"version":"8.0.9","capsules":{"default":{"concurrency":2,"mode":"weighted","weights":{"pull":2,"a":1}},"single":{"concurrency":1,"mode":"strict","weights":{"one":0}}}}"#],
        &["HSET", "web:8:0123456789ad:work", "t1",
          r#"{"queue":"pull","payload":"{\"class\":\"A\",\"args\":[]}","run_at":1763792001500}"#],
        // The oldest was pushed by 6, the newest by 8.
        &["LPUSH", "queue:pull",
          r#"{"class":"LinkCrawlWorker","args":["https://far.example/1"],"enqueued_at":1763790000.5}"#,
          r#"{"class":"LinkCrawlWorker","args":["https://far.example/2"],"enqueued_at":1763791000000}"#],
        &["LPUSH", "queue:mailers", r#"{"class":"M","args":[],"enqueued_at":1763790000.5}"#],
        &["ZADD", "schedule", "1763790000.5", r#"{"class":"S","args":[]}"#, "9999999999",
          r#"{"class":"Later","args":[]}"#],
        &["ZADD", "retry", "9999999999",
          r#"{"class":"DeliveryWorker","args":[],"error_class":"HTTP::TimeoutError","retry_count":3}"#],
        &["ZADD", "dead", "1763790000.5", r#"{"class":"Dead","args":[],"error_class":"IOError"}"#],
        &["SET", "stat:processed", "1234"],
        &["SET", "stat:failed", "56"],
        &["SET", "views/1", "x", "EX", "1000"],
        &["SET", "feed:home:1", "x"],
    ]);
}

fn process<'a>(snapshot: &'a RedisSnapshot, identity: &str) -> &'a ProcessSample {
    let processes = snapshot.processes.as_ref().unwrap();
    processes.iter().find(|process| process.identity == identity).unwrap()
}

fn queue<'a>(snapshot: &'a RedisSnapshot, name: &str) -> &'a QueueSample {
    let queues = snapshot.queues.as_ref().unwrap();
    queues.iter().find(|queue| queue.name == name).unwrap()
}

#[tokio::test]
async fn processes_of_three_versions_are_read() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis);
    let snapshot = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
    assert_eq!(snapshot.ghosts, [GHOST]);

    let six = process(&snapshot, SIX);
    assert!(six.quiet);
    assert_eq!((six.pid, six.hostname.as_str(), six.tag.as_deref()), (6, "old", Some("shop")));
    assert_eq!(six.beat, Some(Timestamp::from_millis(1_763_792_000_250)));
    assert_eq!((six.rss_bytes, six.round_trip_us), (Some(1_024_000), Some(150)));
    assert_eq!(six.capsules[0].mode, CapsuleMode::Unknown);
    assert_eq!(six.work[0].job.as_ref().unwrap().class, "LinkCrawlWorker");

    let seven = process(&snapshot, SEVEN);
    assert_eq!((seven.capsules[0].mode, seven.capsules[0].concurrency), (CapsuleMode::Strict, 4));
    assert_eq!(seven.version.as_deref(), Some("7.3.9"));
    assert_eq!(seven.served().collect::<Vec<_>>(), ["push", "pull"]);

    let eight = process(&snapshot, EIGHT);
    assert_eq!(eight.beat, Some(Timestamp::from_millis(1_763_792_002_000)));
    assert_eq!(eight.started_at, six.started_at);
    let modes: Vec<_> = eight.capsules.iter().map(|it| (it.mode, it.concurrency)).collect();
    assert_eq!(modes, [(CapsuleMode::Weighted, 2), (CapsuleMode::Strict, 1)]);
    assert_eq!(eight.work[0].run_at, Some(Timestamp::from_millis(1_763_792_001_500)));
    assert!(!format!("{snapshot:?}").contains("private"), "arguments stay where they are");
}

#[tokio::test]
async fn queues_say_who_named_them_and_how_old_they_are() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis);
    let snapshot = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
    let names: Vec<_> =
        snapshot.queues.as_ref().unwrap().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        names,
        ["a", "empty", "mailer", "mailers", "one", "pull", "push", "quarantine.x.pull"]
    );

    let pull = queue(&snapshot, "pull");
    assert_eq!((pull.length, pull.pushed, pull.paused), (2, true, false));
    assert_eq!(pull.oldest, Some(Timestamp::from_millis(1_763_790_000_500)));
    let newest = [1_763_791_000_000, 1_763_790_000_500].map(Timestamp::from_millis);
    assert_eq!(pull.newest, newest);
    // The misspelt name is a process's own; jobs wait under the real one.
    assert!(!queue(&snapshot, "mailer").pushed);
    assert!(queue(&snapshot, "mailers").paused);
    assert!(queue(&snapshot, "quarantine.x.pull").paused, "by Weir");
    assert_eq!(queue(&snapshot, "empty").length, 0);
}

#[tokio::test]
async fn sets_counters_and_redis_itself_are_read() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis);
    let slower_than = |micros| ["CONFIG", "SET", "slowlog-log-slower-than", micros];
    redis.run(&[&slower_than("0"), &["PING"], &slower_than("-1")]);
    let snapshot = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
    let scheduled = snapshot.scheduled.unwrap();
    assert_eq!((scheduled.size, scheduled.due), (2, 1));
    assert_eq!(scheduled.first, Some(Timestamp::from_millis(1_763_790_000_500)));
    let retries = snapshot.retries.unwrap();
    assert_eq!((retries.size, retries.due), (1, 0));
    assert_eq!(retries.sample[0].error.as_deref(), Some("HTTP::TimeoutError"));
    assert_eq!(retries.sample[0].retries, 4);
    assert_eq!(snapshot.dead.unwrap().sample[0].class, "Dead");
    assert_eq!((snapshot.processed, snapshot.failed), (Ok(1_234), Ok(56)));

    let server = snapshot.server.unwrap().unwrap();
    assert_eq!(server.info.maxmemory_policy, "noeviction");
    assert_eq!(server.snapshots, Ok(false));
    assert!(
        server.info.used_memory_bytes > 0
            && server.info.system_memory_bytes > server.info.used_memory_bytes
    );
    assert!(server.slow_commands.unwrap().iter().any(|slow| slow.command == "PING"));
    let keys = snapshot.foreign_keys.unwrap().unwrap();
    assert_eq!((keys.foreign, keys.expiring), (2, 1));
    assert_eq!(snapshot.cut, [""; 0]);
}

#[tokio::test]
async fn a_queue_that_expires_is_reported_with_the_time_that_is_left() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis);
    redis.run(&[&["EXPIRE", "queue:pull", "1000"]]);
    let snapshot = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
    let left = queue(&snapshot, "pull").expires_in.unwrap();
    assert!((900..=1_000).contains(&left.as_secs()), "{left:?}");
    assert_eq!(queue(&snapshot, "mailers").expires_in, None);
}

#[tokio::test]
async fn the_second_look_tells_changes_only() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis);
    let limits = SampleLimits::default();
    let first = redis.sample(SampleScope::Everything, &limits).await;
    redis.run(&[&["RPOP", "queue:pull"], &["SADD", "processes", "new:9:x"]]);
    let second = redis.sample(SampleScope::Changes, &limits).await;
    assert_eq!(queue(&second, "pull").length, 1);
    assert!(second.at.since(first.at) > Duration::ZERO);
    assert_eq!(second.ghosts, ["new:9:x", GHOST], "a process may have started since");
    let server = second.server.unwrap().unwrap();
    assert!(server.info.operations > first.server.unwrap().unwrap().info.operations);
    assert_eq!(server.slow_commands, Ok(Vec::new()), "read in complete samples only");
    assert_eq!((second.days, second.foreign_keys), (None, None));
    assert!(second.commands < first.commands);
}

#[tokio::test]
async fn a_heartbeat_that_is_not_understood_is_no_ghost() {
    let Some(redis) = RedisServer::start() else { return };
    redis.run(&[&["SADD", "processes", SIX], &["HSET", SIX, "info", "[]", "busy", "2"]]);
    let snapshot = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
    assert_eq!(snapshot.ghosts, [""; 0]);
    assert_eq!(process(&snapshot, SIX).busy, 2);
}

#[tokio::test]
async fn an_empty_redis_is_an_empty_snapshot() {
    let Some(redis) = RedisServer::start() else { return };
    let snapshot = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
    assert_eq!((snapshot.queues, snapshot.processes), (Ok(Vec::new()), Ok(Vec::new())));
    assert_eq!(snapshot.processed, Ok(0));
}

#[tokio::test]
async fn a_key_of_another_kind_is_named_and_takes_nothing_else_with_it() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis);
    redis.run(&[
        &["SADD", "queues", "odd"],
        &["SET", "queue:odd", "x"],
        &["DEL", "retry", "web:8:0123456789ad:work"],
        &["SET", "retry", "x"],
        &["SADD", "processes", "bogus"],
        &["SET", "bogus", "x"],
        &["SET", "web:8:0123456789ad:work", "x"],
        &["SET", "stat:processed", "many"],
    ]);
    let snapshot = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
    let odd: Vec<_> = snapshot.odd.iter().map(|odd| odd.what.as_str()).collect();
    assert_eq!(odd, ["process bogus", "jobs in web:8:0123456789ad:work", "queue odd"]);
    assert!(snapshot.odd.iter().all(|odd| odd.refusal.reason.contains("wrong kind of value")));
    assert_eq!(queue(&snapshot, "pull").length, 2);
    assert!(snapshot.queues.as_ref().unwrap().iter().all(|queue| queue.name != "odd"));
    assert_eq!(process(&snapshot, SIX).work.len(), 1);
    assert_eq!(process(&snapshot, EIGHT).work.len(), 0);
    assert_eq!(snapshot.processes.as_ref().unwrap().len(), 3);
    assert!(snapshot.retries.unwrap_err().grant.is_none());
    assert!(snapshot.dead.is_ok() && snapshot.processed.is_err());
}

#[tokio::test]
async fn a_job_that_can_not_be_read_hides_no_age() {
    let Some(redis) = RedisServer::start() else { return };
    let job = r#"{"class":"A","args":[],"enqueued_at":1763790000.5}"#;
    redis.run(&[&["SADD", "queues", "pull"], &["LPUSH", "queue:pull", job, "later"]]);
    for odd in ["{broken", r#"{"class":"A"}"#, "[[[["] {
        redis.run(&[&["RPUSH", "queue:pull", odd]]);
        let snapshot = redis.sample(SampleScope::Changes, &SampleLimits::default()).await;
        let oldest = queue(&snapshot, "pull").oldest;
        assert_eq!(oldest, Some(Timestamp::from_millis(1_763_790_000_500)), "{odd}");
    }
}
