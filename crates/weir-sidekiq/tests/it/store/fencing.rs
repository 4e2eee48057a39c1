//! What a node may do after its lease is over: nothing that another node does as well.

use std::time::Duration;

use redis::Commands as _;
use weir_jobs::metrics::StaleReport;
use weir_jobs::store::{Store, StoreError};
use weir_sidekiq::RedisEndpoint;

use super::rig::{Node, report, run};
use crate::shared_redis::client;

/// Its node notices a lost lease only from a script, not from a renewal.
const LONG: Duration = Duration::from_secs(600);
const JOB: &str = r#"{"jid":"job-00001","jobtype":"Test","args":[],"queue":"q","retry":3}"#;

fn slow_node(redis: &RedisEndpoint) -> Node {
    Node::open_in(tempfile::tempdir().unwrap(), redis, LONG)
}

/// Takes all leases away, as time does from a process that is stopped.
fn end_leases(redis: &RedisEndpoint) {
    let ended: u64 = client(redis).del("weir:nodes").unwrap();
    assert_eq!(ended, 1);
}

/// Two nodes: the first has reserved a job and lost it to the second without knowing.
async fn stolen(redis: &RedisEndpoint) -> (Node, Node) {
    let slow = slow_node(redis);
    slow.push(JOB).await.unwrap();
    assert_eq!(slow.fetch_now("q").await.as_deref(), Some("job-00001"));
    end_leases(redis);
    let other = slow_node(redis);
    assert_eq!(other.fetch_now("q").await.as_deref(), Some("job-00001"));
    (slow, other)
}

#[test]
fn an_ack_after_the_lease_was_lost_is_that_of_an_unknown_job() {
    run(async |redis| {
        let (slow, other) = stolen(&redis).await;
        assert_eq!(slow.store.ack(&["job-00001"]).await, Ok(vec![0]));
        assert_eq!(slow.metrics.stale_reports(StaleReport::Ack), 1);
        assert_eq!(slow.store.counts().await.processed_total, 0);
        assert_eq!(other.store.ack(&["job-00001"]).await, Ok(vec![]), "it is still the other's");
        assert_eq!(other.metrics.stale_reports(StaleReport::Ack), 0);
    });
}

#[test]
fn a_fail_after_the_lease_was_lost_is_that_of_an_unknown_job() {
    run(async |redis| {
        let (slow, other) = stolen(&redis).await;
        let not_found = StoreError::NotFound("job-00001".into());
        assert_eq!(slow.store.fail(report("job-00001")).await, Err(not_found));
        assert_eq!(slow.metrics.stale_reports(StaleReport::Fail), 1);
        assert_eq!(slow.store.counts().await.retries, 0);
        assert_eq!(other.store.ack(&["job-00001"]).await, Ok(vec![]), "it is still the other's");
    });
}

#[test]
fn reports_are_stale_also_after_the_node_has_noticed() {
    run(async |redis| {
        let (slow, other) = stolen(&redis).await;
        // Its script is rejected, and it takes a lease under a new epoch.
        assert_eq!(slow.fetch_now("empty").await, None);
        assert_eq!(slow.store.ack(&["job-00001"]).await, Ok(vec![0]));
        assert_eq!(slow.metrics.stale_reports(StaleReport::Ack), 1);
        assert_eq!(other.store.ack(&["job-00001"]).await, Ok(vec![]), "it is still the other's");
    });
}

#[test]
fn a_node_without_a_lease_reserves_no_job() {
    run(async |redis| {
        let node = slow_node(&redis);
        node.push(JOB).await.unwrap();
        end_leases(&redis);
        let delivery = node.fetch("w1", "q", Duration::from_secs(20)).await;
        assert_eq!(&*delivery.unwrap().jid, "job-00001");
        let mut client = client(&redis);
        let held: Vec<String> = client.hkeys("weir:{queue:q}:reserved").unwrap();
        assert!(held.len() == 1 && held[0].contains("-2:"), "under the next epoch: {held:?}");
    });
}

#[test]
fn a_node_without_a_lease_enqueues_no_due_job() {
    run(async |redis| {
        let node = slow_node(&redis);
        assert_eq!(node.fetch_now("q").await, None);
        let mut client = client(&redis);
        let due = r#"{"class":"A","args":[],"queue":"q","jid":"job-00001"}"#;
        let mut both = redis::pipe();
        both.atomic().del("weir:nodes").ignore().zadd("schedule", due, 1).ignore();
        both.exec(&mut client).unwrap();
        let fenced = node.store.tick().await;
        node.until(async || client_length(&redis) == 1).await;
        let epochs: Vec<u64> = client.hvals("weir:epochs").unwrap();
        assert_eq!(epochs, [2], "{fenced:?}: the job was moved under the next epoch only");
    });
}

fn client_length(redis: &RedisEndpoint) -> u64 {
    client(redis).llen("queue:q").unwrap()
}

#[test]
fn a_node_without_a_lease_returns_no_jobs_of_others() {
    run(async |redis| {
        let dead = slow_node(&redis);
        dead.push(JOB).await.unwrap();
        assert_eq!(dead.fetch_now("q").await.as_deref(), Some("job-00001"));
        let node = Node::open(&redis);
        assert_eq!(node.fetch_now("q").await, None);
        drop(dead.crash());
        let mut client = client(&redis);
        let _: u64 = client.del("weir:nodes").unwrap();
        node.until(async || client_length(&redis) == 1).await;
        let mut epochs: Vec<u64> = client.hvals("weir:epochs").unwrap();
        epochs.sort_unstable();
        assert_eq!(epochs, [1, 2], "a node returns jobs only while its own lease is alive");
    });
}

#[test]
fn statistics_of_two_processes_of_a_node_add_up() {
    run(async |redis| {
        let mut directory = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let node = Node::open_in(directory, &redis, LONG);
            node.push(JOB).await.unwrap();
            assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
            assert_eq!(node.store.ack(&["job-00001"]).await, Ok(vec![]));
            node.store.close().await.unwrap();
            directory = node.crash();
        }
        let processed: u64 = client(&redis).get("stat:processed").unwrap();
        assert_eq!(processed, 2);
    });
}
