//! A Redis Cluster whose masters are killed and whose replicas take over.
//!
//! Before a kill, the replicas have received all that was acknowledged. What a replica lacks is counted
//! in `power_cut/cluster.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_jobs::settings::JobServerSettings;
use weir_jobs::store::{FailOutcome, Store};
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::RedisStoreSettings;

use super::cluster::{job, try_fetch};
use super::rig::{Node, report, run_for};
use crate::redis_cluster::RedisCluster;

/// A replica takes over within seconds. On a busy machine, much later.
const TIME_MAX: Duration = Duration::from_secs(240);
const WAITING: usize = 20;
const RESERVED: [&str; 3] = ["job-reserved-0", "job-reserved-1", "job-reserved-2"];
const LEASES: &str = "weir:{nodes}:leases";

/// A node that notices soon that a server is away, and keeps its lease until a replica takes over.
fn node(redis: &RedisEndpoint) -> Node {
    let settings = RedisStoreSettings {
        command_timeout: Duration::from_secs(1),
        retry_wait_max: Duration::from_millis(200),
        lease: Duration::from_secs(60),
        // A push whose reply was lost is sent again.
        push_memory: Some(Duration::from_secs(60)),
        ..RedisStoreSettings::default()
    };
    Node::open_as(redis, settings, &JobServerSettings::default())
}

/// The end of the lease of each node.
fn leases(cluster: &RedisCluster) -> BTreeMap<String, f64> {
    let leases: Vec<(String, f64)> =
        cluster.query(LEASES, &["ZRANGE", LEASES, "0", "-1", "WITHSCORES"]);
    leases.into_iter().collect()
}

/// Pushes a job as often as it takes.
async fn push(node: &Node, jid: &str, queue: &str) {
    node.until(async || node.push(&job(jid, queue)).await.is_ok()).await;
}

/// Fetches and acknowledges all jobs of a queue that wait.
async fn drain(node: &Node, queue: &str) -> Vec<String> {
    let mut jids = Vec::new();
    loop {
        match try_fetch(node, queue).await {
            Ok(None) => return jids,
            Ok(Some(jid)) => {
                node.until(async || node.store.ack(&[&jid]).await == Ok(vec![])).await;
                jids.push(jid);
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Kills the master that has `key`, while it has jobs in all states.
fn kill_the_master_of(key: &str) {
    let Some(mut cluster) = RedisCluster::start_with_replicas() else { return };
    run_for(TIME_MAX, async move {
        let (one, other) = (node(&cluster.endpoint()), node(&cluster.endpoint()));
        let killed = cluster.owner_of(key);
        let queue = cluster.queue_at(killed);
        for jid in RESERVED {
            push(&one, jid, &queue).await;
            assert_eq!(one.fetch_now(&queue).await.as_deref(), Some(jid));
        }
        push(&one, "job-failed", &queue).await;
        assert_eq!(one.fetch_now(&queue).await.as_deref(), Some("job-failed"));
        let failed = one.store.fail(report("job-failed")).await;
        assert!(matches!(failed, Ok(FailOutcome::Retry { .. })), "{failed:?}");
        // It is not due before the test ends.
        let retries: Vec<String> = cluster.query("retry", &["ZRANGE", "retry", "0", "-1"]);
        let _: u64 = cluster.query("retry", &["ZADD", "retry", "9999999999", &retries[0]]);
        let waiting: Vec<String> = (0..WAITING).map(|it| format!("job-waiting-{it:02}")).collect();
        for jid in &waiting {
            push(&one, jid, &queue).await;
        }
        // The other node has a lease, too.
        assert_eq!(try_fetch(&other, "none").await, Ok(None));
        let before = leases(&cluster);
        assert_eq!(before.len(), 2);
        cluster.wait_until_replicated();
        cluster.masters[killed].kill();

        push(&one, "job-late", &queue).await;
        // Both leases go on. Meanwhile, each node looks for jobs of dead nodes.
        let are_renewed = || {
            let now = leases(&cluster);
            before.iter().all(|(owner, end)| now.get(owner).is_some_and(|it| it > end))
        };
        one.until(async || are_renewed()).await;
        let expected: Vec<String> = waiting.into_iter().chain(["job-late".to_owned()]).collect();
        assert_eq!(drain(&other, &queue).await, expected, "each once, and none that is reserved");
        for jid in RESERVED {
            assert_eq!(one.store.ack(&[jid]).await, Ok(vec![]), "{jid} is still that of its node");
        }
        assert_eq!(leases(&cluster).into_keys().collect::<Vec<_>>(), owners(&before));
        let counts = other.store.counts().await;
        assert_eq!((counts.retries, counts.reserved, counts.dead), (1, 0, 0));
    });
}

fn owners(leases: &BTreeMap<String, f64>) -> Vec<String> {
    leases.keys().cloned().collect()
}

#[test]
fn a_replica_of_the_leases_takes_over() {
    kill_the_master_of(LEASES);
}

#[test]
fn a_replica_of_the_names_of_queues_takes_over() {
    kill_the_master_of("queues");
}

#[test]
fn a_replica_of_the_retry_set_takes_over() {
    kill_the_master_of("retry");
}

#[test]
fn a_master_that_comes_back_as_a_replica_takes_over_again() {
    let Some(mut cluster) = RedisCluster::start_with_replicas() else { return };
    run_for(TIME_MAX, async move {
        let node = node(&cluster.endpoint());
        let place = cluster.owner_of("queues");
        let queue = cluster.queue_at(place);
        push(&node, "job-first", &queue).await;
        cluster.wait_until_replicated();
        cluster.masters[place].kill();
        push(&node, "job-second", &queue).await;
        cluster.masters[place].start_again();
        cluster.wait_until_replicated();
        cluster.replicas[place].kill();
        push(&node, "job-third", &queue).await;
        assert_eq!(drain(&node, &queue).await, ["job-first", "job-second", "job-third"]);
    });
}
