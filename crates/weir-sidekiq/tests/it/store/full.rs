//! A Redis that is full (`maxmemory` with `noeviction`): work goes on, so that it becomes empty again.

use std::time::Duration;

use redis::Commands as _;
use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::store::{Store, StoreError};

use super::rig::{LEASE, Node, report, run_alone};
use crate::redis_server::RedisServer;

fn set_full(redis: &RedisServer, is_full: bool) {
    redis.run(&[&["CONFIG", "SET", "maxmemory", if is_full { "1" } else { "0" }]]);
}

async fn push(node: &Node, jobs: usize) {
    for number in 0..jobs {
        node.push(&format!(
            r#"{{"jid":"job-{number:05}","jobtype":"T","args":[],"queue":"q","reserve_for":600}}"#
        ))
        .await
        .unwrap();
    }
}

async fn fetch(node: &Node, worker: &str) -> Option<String> {
    node.fetch(worker, "q", Duration::ZERO).await.map(|job| job.jid.into())
}

#[test]
fn work_goes_on_for_longer_than_a_lease() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async move {
        let node = Node::open(&redis.endpoint());
        push(&node, 5).await;
        assert_eq!(fetch(&node, "w1").await.as_deref(), Some("job-00000"));
        assert_eq!(fetch(&node, "w1").await.as_deref(), Some("job-00001"));
        assert_eq!(fetch(&node, "w2").await.as_deref(), Some("job-00002"));
        set_full(&redis, true);
        let pushed = node.push(r#"{"jid":"job-00009","jobtype":"T","args":[],"queue":"q"}"#).await;
        assert!(matches!(pushed, Err(StoreError::Full(_))), "{pushed:?}");
        tokio::time::sleep(3 * LEASE).await;
        assert_eq!(node.store.ack(&["job-00000"]).await, Ok(vec![]), "its lease was renewed");
        node.store.fail(report("job-00001")).await.unwrap();
        let released = node.store.release(&Wid::new("w2"), WorkerEnd::Stopped).await;
        assert_eq!(released, Ok(1));
        assert_eq!(fetch(&node, "w3").await.as_deref(), Some("job-00002"));
        let mut client = redis.client();
        let (retries, reserved): (u64, u64) =
            (client.zcard("retry").unwrap(), client.hlen("weir:{queue:q}:reserved").unwrap());
        assert_eq!((retries, reserved), (1, 1));
    });
}

#[test]
fn jobs_reserved_meanwhile_return_after_a_crash() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async move {
        let node = Node::open(&redis.endpoint());
        push(&node, 2).await;
        set_full(&redis, true);
        assert_eq!(fetch(&node, "w1").await.as_deref(), Some("job-00000"));
        let directory = node.crash();
        set_full(&redis, false);
        let other = Node::open(&redis.endpoint());
        assert_eq!(fetch(&other, "w2").await.as_deref(), Some("job-00001"));
        other.until(async || fetch(&other, "w2").await.as_deref() == Some("job-00000")).await;
        drop(directory);
    });
}
