//! Keys of other types, in Sidekiq's layout and under Weir's prefix: they lose no job and stop nothing
//! else.

use std::time::Duration;

use redis::Commands as _;
use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::store::{FailOutcome, Store};
use weir_sidekiq::RedisEndpoint;

use super::rig::{LEASE, Node, report, run};
use crate::shared_redis::client;

const RESERVED: &str = "weir:{queue:q}:reserved";
const JOB: &str = r#"{"jid":"job-00001","jobtype":"Test","args":[],"queue":"q","retry":3}"#;
const OF_SIDEKIQ: &str = r#"{"class":"A","args":[1],"queue":"q","jid":"job-00001"}"#;

fn set(redis: &RedisEndpoint, key: &str) {
    let _: () = client(redis).set(key, "not what it should be").unwrap();
}

fn delete(redis: &RedisEndpoint, key: &str) {
    let _: u64 = client(redis).del(key).unwrap();
}

#[test]
fn a_job_that_can_not_be_reserved_stays_in_its_list() {
    run(async |redis| {
        set(&redis, RESERVED);
        let mut client = client(&redis);
        let _: u64 = client.lpush("queue:q", OF_SIDEKIQ).unwrap();
        let node = Node::open(&redis);
        assert_eq!(node.fetch_now("q").await, None);
        let waiting: Vec<String> = client.lrange("queue:q", 0, -1).unwrap();
        assert_eq!(waiting, [OF_SIDEKIQ]);
        delete(&redis, RESERVED);
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
    });
}

#[test]
fn a_job_that_can_not_return_stays_reserved() {
    run(async |redis| {
        let dead = Node::open(&redis);
        dead.push(JOB).await.unwrap();
        assert_eq!(dead.fetch_now("q").await.as_deref(), Some("job-00001"));
        set(&redis, "queue:q");
        let node = Node::open_in(dead.crash(), &redis, LEASE);
        assert_eq!(node.fetch_now("other").await, None);
        let held: u64 = client(&redis).hlen(RESERVED).unwrap();
        assert_eq!(held, 1);
        delete(&redis, "queue:q");
        let back = node.fetch("w1", "q", Duration::from_secs(30)).await.unwrap();
        assert_eq!(&*back.jid, "job-00001");
    });
}

#[test]
fn a_failure_that_can_not_be_stored_leaves_the_job_reserved() {
    run(async |redis| {
        let node = Node::open(&redis);
        node.push(JOB).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        set(&redis, "retry");
        let error = node.store.fail(report("job-00001")).await.unwrap_err();
        assert!(error.to_string().contains("WRONGTYPE"), "{error}");
        delete(&redis, "retry");
        let outcome = node.store.fail(report("job-00001")).await;
        assert!(matches!(outcome, Ok(FailOutcome::Retry { .. })), "{outcome:?}");
    });
}

#[test]
fn a_dead_set_of_another_type_keeps_no_other_job_reserved() {
    run(async |redis| {
        let node = Node::open(&redis);
        let lose = async || node.store.release(&Wid::new("w1"), WorkerEnd::Killed).await;
        let hits = || {
            let hits = node.metrics.limit_hits().into_iter();
            hits.filter(|hit| hit.limit == "returns_max").map(|hit| hit.hits).sum::<u64>()
        };
        node.push(JOB).await.unwrap();
        for _ in 0..2 {
            assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
            assert_eq!(lose().await, Ok(1));
        }
        node.push(&JOB.replace("job-00001", "job-00002")).await.unwrap();
        for jid in ["job-00001", "job-00002"] {
            assert_eq!(node.fetch_now("q").await.as_deref(), Some(jid));
        }
        set(&redis, "dead");
        for _ in 0..2 {
            assert!(lose().await.is_err());
        }
        let other = node.fetch("w2", "q", Duration::ZERO).await.unwrap();
        assert_eq!((&*other.jid, hits()), ("job-00002", 0));
        delete(&redis, "dead");
        assert_eq!(lose().await, Ok(1));
        assert_eq!((node.store.counts().await.dead, hits()), (1, 1));
    });
}

#[test]
fn due_jobs_of_a_queue_that_is_no_list_stop_no_others() {
    run(async |redis| {
        set(&redis, "queue:bad");
        let mut client = client(&redis);
        let mut bad = Vec::new();
        for number in 0..150 {
            let text = format!(r#"{{"class":"A","args":[{number}],"queue":"bad","mine":1e999}}"#);
            let _: u64 = client.zadd("schedule", &text, 1).unwrap();
            bad.push(text);
        }
        let _: u64 = client.zadd("schedule", "no job", 2).unwrap();
        let _: u64 = client.zadd("schedule", OF_SIDEKIQ, 3).unwrap();
        let node = Node::open(&redis);
        let delivery = node.fetch("w1", "q", Duration::from_secs(30)).await.unwrap();
        assert_eq!(&*delivery.jid, "job-00001");
        let mut dead: Vec<String> = client.zrange("dead", 0, -1).unwrap();
        bad.push("no job".to_owned());
        dead.sort();
        bad.sort();
        assert_eq!(dead, bad, "byte for byte");
    });
}

#[test]
fn a_schedule_of_another_type_stops_no_retries() {
    run(async |redis| {
        for key in ["schedule", "processes", "stat:processed", "weir:kills", "weir:queues"] {
            set(&redis, key);
        }
        let _: u64 = client(&redis).zadd("retry", OF_SIDEKIQ, 1).unwrap();
        let node = Node::open(&redis);
        let delivery = node.fetch("w1", "q", Duration::from_secs(30)).await.unwrap();
        assert_eq!(&*delivery.jid, "job-00001");
        assert_eq!(node.store.ack(&["job-00001"]).await, Ok(vec![]));
        assert_eq!(node.store.counts().await.scheduled, 0);
        node.store.close().await.unwrap();
    });
}

#[test]
fn strange_fields_among_reservations_stop_nothing_and_stay() {
    run(async |redis| {
        let mut client = client(&redis);
        let strange: [(&[u8], &[u8]); 3] =
            [(b"\xff\xfe", b"x"), (b"no number", b"x"), (b"a-1:99999999999999999999", b"\xff")];
        for (field, value) in strange {
            let _: u64 = client.hset(RESERVED, field, value).unwrap();
        }
        let _: u64 = client.hset(RESERVED, "0123456789ab-1:5", "no header").unwrap();
        let orphan = format!("0123456789ab-1\tw\t1\n{OF_SIDEKIQ}");
        let _: u64 = client.hset(RESERVED, "0123456789ab-1:6", orphan).unwrap();
        let _: u64 = client.sadd("weir:queues", "q").unwrap();
        let _: u64 = client.zadd("weir:nodes", b"\xff\xfe", 1).unwrap();
        let node = Node::open(&redis);
        let delivery = node.fetch("w1", "q", Duration::from_secs(30)).await.unwrap();
        assert_eq!(&*delivery.jid, "job-00001");
        let dead: Vec<String> = client.zrange("dead", 0, -1).unwrap();
        assert_eq!(dead, ["no header"], "what is no job is kept with the dead");
        for (field, value) in strange {
            let kept: Vec<u8> = client.hget(RESERVED, field).unwrap();
            assert_eq!(kept, value);
        }
        assert_eq!(node.store.reservations(10).await.len(), 1);
    });
}

#[test]
fn payloads_that_nest_deeply_or_have_absurd_numbers_stop_no_fetch() {
    run(async |redis| {
        let mut client = client(&redis);
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let deep = format!(r#"{{"class":"A","args":{deep},"jid":"deep-0001"}}"#);
        let absurd = r#"{"class":"A","args":[1e999,-0.0],"jid":"absurd-01","retry":1e999,"retry_count":-99999999999999999999,"enqueued_at":1e308,"created_at":-1e308,"reserve_for":1e30,"backtrace":-7,"failed_at":1e-308,"at":"x"}"#;
        for text in [&*deep, absurd, OF_SIDEKIQ] {
            let _: u64 = client.lpush("queue:q", text).unwrap();
        }
        let node = Node::open(&redis);
        let mut jids = Vec::new();
        while let Some(jid) = node.fetch_now("q").await {
            jids.push(jid);
        }
        assert_eq!(jids.last().map(String::as_str), Some("job-00001"), "{jids:?}");
        assert!(jids.contains(&"absurd-01".to_owned()), "{jids:?}");
        let (dead, held): (u64, u64) =
            (client.zcard("dead").unwrap(), client.hlen(RESERVED).unwrap());
        assert_eq!(dead + held, 3, "none is lost");
        node.store.counts().await;
        node.store.reservations(10).await;
    });
}

#[test]
fn ten_megabytes_a_job_do_not_fill_memory_when_they_are_due() {
    run(async |redis| {
        let mut client = client(&redis);
        let filler = "x".repeat(10 << 20);
        for number in 0..3 {
            let text = format!(
                r#"{{"class":"A","args":["{filler}"],"queue":"q","jid":"big-{number:05}"}}"#
            );
            let _: u64 = client.zadd("schedule", text, 1).unwrap();
        }
        // Without optimization, such a payload takes longer than the short lease of other tests.
        let directory = tempfile::tempdir().unwrap();
        let node = Node::open_in(directory, &redis, Duration::from_secs(30));
        for _ in 0..3 {
            let delivery = node.fetch("w1", "q", Duration::from_secs(30)).await.unwrap();
            assert!(delivery.json.len() > 10 << 20);
        }
        assert_eq!(node.store.counts().await.queues[0].depth, 0);
    });
}
