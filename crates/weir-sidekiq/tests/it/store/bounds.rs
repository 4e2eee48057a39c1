//! Nothing that Weir reads or keeps in Redis grows without a limit.

use redis::Commands as _;
use weir_jobs::store::{Store, StoreError};
use weir_sidekiq::RedisEndpoint;

use super::rig::{Node, run};
use crate::shared_redis::client;

const NAMES: usize = 100_000;

fn job(queue: &str) -> String {
    format!(r#"{{"jid":"job-00001","jobtype":"Test","args":[],"queue":"{queue}"}}"#)
}

/// Adds members to a set, as many as the script says.
fn fill(redis: &RedisEndpoint, script: &str) {
    redis::Script::new(script).arg(NAMES).invoke::<()>(&mut client(redis)).unwrap();
}

#[test]
fn a_hundred_thousand_names_of_queues_are_not_read() {
    run(async |redis| {
        let node = Node::open(&redis);
        node.push(&job("mine")).await.unwrap();
        fill(&redis, "for n = 1, ARGV[1] do redis.call('SADD', 'queues', 'hostile-' .. n) end");
        let counts = node.store.counts().await;
        assert!(counts.queues.len() < NAMES / 5, "{}", counts.queues.len());
        let mine = counts.queues.iter().find(|queue| queue.name.as_str() == "mine");
        assert_eq!(mine.unwrap().depth, 1, "a queue that this node uses is always shown");
        let hits = node.metrics.limit_hits();
        assert!(hits.iter().any(|hit| hit.limit == "queues_max"), "{hits:?}");
        // Queues that exist go on; new ones are rejected.
        node.push(&job("mine")).await.unwrap();
        node.push(&job("hostile-77")).await.unwrap();
        let rejected = node.push(&job("new")).await;
        assert!(matches!(rejected, Err(StoreError::Limit(_))), "{rejected:?}");
        assert_eq!(node.fetch_now("mine").await.as_deref(), Some("job-00001"));
        assert_eq!(node.store.ack(&["job-00001"]).await, Ok(vec![]));
    });
}

#[test]
fn counts_of_returned_jobs_are_forgotten() {
    run(async |redis| {
        let fresh = "local now = redis.call('TIME')[1] for n = 1, ARGV[1] + 500 do \
                     redis.call('HSET', 'weir:kills', 'job-' .. n, '1 ' .. now) end";
        fill(&redis, fresh);
        let mut client = client(&redis);
        for (jid, count) in [("old-1", "1 1"), ("old-2", "3 1000000"), ("odd", "what")] {
            let _: u64 = client.hset("weir:kills", jid, count).unwrap();
        }
        let node = Node::open(&redis);
        assert_eq!(node.fetch_now("q").await, None);
        let old = ["old-1", "old-2", "odd"];
        let has_old = |client: &mut redis::Connection| {
            let counts: Vec<Option<String>> = client.hmget("weir:kills", &old).unwrap();
            counts.iter().any(Option::is_some)
        };
        let client = std::cell::RefCell::new(client);
        node.until(async || !has_old(&mut client.borrow_mut())).await;
        let kept: usize = client.borrow_mut().hlen("weir:kills").unwrap();
        assert!((90_000..=NAMES).contains(&kept), "{kept}");
    });
}

#[test]
fn ended_leases_and_names_without_reservations_are_forgotten() {
    run(async |redis| {
        let mut client = client(&redis);
        let _: u64 = client.zadd("weir:nodes", "0123456789ab-1", 1).unwrap();
        let node = Node::open(&redis);
        node.push(&job("q")).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        let reserving: Vec<String> = client.smembers("weir:queues").unwrap();
        assert_eq!(reserving, ["q"]);
        assert_eq!(node.store.ack(&["job-00001"]).await, Ok(vec![]));
        let left = async || {
            let mut client = crate::shared_redis::client(&redis);
            let leases: usize = client.zcard("weir:nodes").unwrap();
            let reserving: usize = client.scard("weir:queues").unwrap();
            (leases, reserving)
        };
        node.until(async || left().await == (1, 0)).await;
        node.push(&job("q")).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        let reserving: Vec<String> = client.smembers("weir:queues").unwrap();
        assert_eq!(reserving, ["q"], "it is noted again with the next job");
    });
}

#[test]
fn a_million_waiting_jobs_cost_a_fetch_nothing() {
    run(async |redis| {
        let jobs = "local text = {} for n = 1, 1000 do text[n] = '{\"class\":\"A\",\"jid\":\"j\"}' end \
                    for n = 1, 1000 do redis.call('LPUSH', 'queue:q', unpack(text)) end \
                    redis.call('SADD', 'queues', 'q') \
                    for n = 1, 1000 do redis.call('ZADD', 'retry', 9e15, 'x' .. n) end";
        fill(&redis, jobs);
        let node = Node::open(&redis);
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("j"));
        let counts = node.store.counts().await;
        assert_eq!((counts.queues[0].depth, counts.retries), (999_999, 1_000));
        node.store.tick().await.unwrap();
        assert_eq!(node.store.counts().await.retries, 1_000);
    });
}

#[test]
fn memory_is_not_asked_for_with_each_poll() {
    run(async |redis| {
        let node = Node::open(&redis);
        let first = node.store.storage().await;
        assert!(first.bytes > 0);
        let filler = "x".repeat(4 << 20);
        let _: () = client(&redis).set("filler", filler).unwrap();
        let second = node.store.storage().await;
        assert_eq!(second.bytes, first.bytes, "it was read a moment ago");
        assert!(second.age > first.age);
    });
}
