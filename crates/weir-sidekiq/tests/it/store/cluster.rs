//! A real Redis Cluster of three masters.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_jobs::settings::JobServerSettings;
use weir_jobs::store::{FailOutcome, ShardState, Store, StoreCondition};
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::{RedisStoreSettings, check_server};

use super::rig::{LEASE, Node, report, run_for};
use crate::redis_cluster::{ClusterOptions, RedisCluster};
use crate::redis_server::RedisServer;

/// A cluster takes a while to notice what happens.
const TIME_MAX: Duration = Duration::from_secs(120);
const LONG: Duration = Duration::from_secs(30);

pub(crate) fn job(jid: &str, queue: &str) -> String {
    format!(r#"{{"jid":"{jid}","jobtype":"Test","args":[],"queue":"{queue}","retry":3}}"#)
}

/// One for each master.
fn queues(cluster: &RedisCluster) -> [String; 3] {
    std::array::from_fn(|place| cluster.queue_at(place))
}

/// A node whose lease outlives the test, and that notices soon that a server is away.
fn node(redis: &RedisEndpoint) -> Node {
    let settings = RedisStoreSettings {
        command_timeout: Duration::from_secs(1),
        retry_wait_max: Duration::from_millis(200),
        lease: Duration::from_secs(600),
        ..RedisStoreSettings::default()
    };
    Node::open_as(redis, settings, &JobServerSettings::default())
}

#[test]
fn old_counts_of_a_queue_that_is_never_idle_are_forgotten() {
    let Some(cluster) = RedisCluster::start() else { return };
    run_for(TIME_MAX, async move {
        let queue = &queues(&cluster)[0];
        let key = |name: &str| format!("weir:{{queue:{queue}}}:{name}");
        let (kills, earlier) = (key("kills"), key("vanished"));
        let _: u64 = cluster.query(&kills, &["HSET", &kills, "old-00001", "2 1"]);
        let _: u64 = cluster.query(&earlier, &["HSET", &earlier, "old-00001", "2 1"]);
        let node = Node::open(&cluster.endpoint());
        node.push(&job("job-00001", queue)).await.unwrap();
        assert_eq!(node.fetch_now(queue).await.as_deref(), Some("job-00001"));
        let is_there = |key: &str| cluster.query::<u64>(key, &["EXISTS", key]) == 1;
        node.until(async || !is_there(&kills) && !is_there(&earlier)).await;
        assert_eq!(
            node.store.ack(&["job-00001"]).await,
            Ok(vec![]),
            "it was reserved all the time"
        );
    });
}

#[test]
fn a_job_passes_through_all_its_states() {
    let Some(cluster) = RedisCluster::start() else { return };
    run_for(TIME_MAX, async move {
        let redis = cluster.endpoint();
        assert_eq!(check_server(&redis, &RedisStoreSettings::default()).await.problem, None);
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        for (number, queue) in queues(&cluster).iter().enumerate() {
            let jid = format!("job-{number:05}");
            one.push(&job(&jid, queue)).await.unwrap();
            assert_eq!(other.fetch_now(queue).await.as_deref(), Some(&*jid));
            let failed = other.store.fail(report(&jid)).await;
            assert!(matches!(failed, Ok(FailOutcome::Retry { .. })), "{failed:?}");
            let retries: Vec<String> = cluster.query("retry", &["ZRANGE", "retry", "0", "-1"]);
            assert_eq!(retries.len(), 1);
            let _: u64 = cluster.query("retry", &["ZADD", "retry", "1", &retries[0]]);
            let back = one.fetch("w1", queue, LONG).await.unwrap();
            assert_eq!(*back.jid, *jid);
            assert_eq!(one.store.ack(&[&*jid]).await, Ok(vec![]));
        }
        let counts = one.store.counts().await;
        assert_eq!((counts.queues.len(), counts.retries, counts.reserved), (3, 0, 0));
        assert!(one.store.storage().await.bytes > 0);
        one.store.close().await.unwrap();
        other.store.close().await.unwrap();
        let processed: u64 = cluster.query("stat:processed", &["GET", "stat:processed"]);
        assert_eq!(processed, 6);
    });
}

#[test]
fn the_jobs_of_a_dead_node_come_back_after_its_lease() {
    let Some(cluster) = RedisCluster::start() else { return };
    run_for(TIME_MAX, async move {
        let redis = cluster.endpoint();
        let (dying, living) = (Node::open(&redis), Node::open(&redis));
        let queues = queues(&cluster);
        for queue in &queues {
            dying.push(&job(&format!("job-of-{queue}"), queue)).await.unwrap();
            assert!(dying.fetch_now(queue).await.is_some());
        }
        drop(dying.crash());
        let died = tokio::time::Instant::now();
        for queue in &queues {
            let back = living.fetch("w1", queue, LONG).await.unwrap();
            assert_eq!(*back.jid, *format!("job-of-{queue}"));
            assert!(died.elapsed() >= LEASE / 2, "{:?}", died.elapsed());
        }
    });
}

#[test]
fn a_slot_that_moves_under_load_loses_no_job_and_doubles_none() {
    const JOBS: usize = 300;
    let Some(cluster) = RedisCluster::start() else { return };
    run_for(TIME_MAX, async move {
        let node = node(&cluster.endpoint());
        let from = cluster.owner_of("queue:q");
        node.push(&job("job-first", "q")).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-first"));
        assert_eq!(node.store.ack(&["job-first"]).await, Ok(vec![]));
        let moving = tokio::task::spawn_blocking(move || {
            for round in 1..=6 {
                cluster.move_slot("queue:q", (from + round) % 3);
            }
            cluster
        });
        let mut fetched = Vec::new();
        for number in 0..JOBS {
            let jid = format!("job-{number:05}");
            // Before a push is stored, its slot may be between two servers for too long.
            while let Err(error) = node.push(&job(&jid, "q")).await {
                assert!(matches!(error, weir_jobs::store::StoreError::Unavailable(_)), "{error}");
            }
            if let Ok(Some(jid)) = try_fetch(&node, "q").await {
                while node.store.ack(&[&jid]).await != Ok(vec![]) {}
                fetched.push(jid);
            }
        }
        let cluster = moving.await.unwrap();
        cluster.wait_until_ready();
        while let Some(jid) = node.fetch_now("q").await {
            assert_eq!(node.store.ack(&[&jid]).await, Ok(vec![]));
            fetched.push(jid);
        }
        assert_eq!(fetched.iter().collect::<BTreeSet<_>>().len(), JOBS);
        assert_eq!(fetched.len(), JOBS);
    });
}

pub(super) async fn try_fetch(
    node: &Node,
    queue: &str,
) -> Result<Option<String>, weir_jobs::store::StoreError> {
    use weir_jobs::model::Wid;
    use weir_jobs::store::{BatchSize, FetchRequest};
    let (wid, queues) = (Wid::new("w1"), [super::rig::queue_name(queue)]);
    let (max, wait) = (BatchSize::ONE, Duration::ZERO);
    let request = FetchRequest { wid: Some(&wid), queues: &queues, max, wait };
    Ok(node.store.fetch(request).await?.pop().map(|delivery| delivery.jid.into()))
}

#[test]
fn a_master_that_fails_stops_its_queues_only_and_loses_nothing_that_it_has() {
    let Some(cluster) = RedisCluster::start() else { return };
    run_for(TIME_MAX, async move {
        let node = node(&cluster.endpoint());
        let queues = queues(&cluster);
        // The names of queues are on one master, which stays.
        let kept = cluster.owner_of("queues");
        let failing =
            (0..3).find(|it| *it != kept && *it != cluster.owner_of("weir:{nodes}:leases"));
        let failing = failing.expect("one has neither");
        let other = (0..3).find(|it| *it != failing).unwrap();
        for queue in &queues {
            node.push(&job(&format!("job-of-{queue}"), queue)).await.unwrap();
        }
        assert_eq!(state_of(&node, &cluster, failing).await.enqueued, 1);
        cluster.masters[failing].signal("STOP");
        let jid = node.fetch("w1", &queues[other], LONG).await.unwrap().jid;
        assert_eq!(*jid, *format!("job-of-{}", queues[other]));
        assert_eq!(node.store.ack(&[&*jid]).await, Ok(vec![]));
        let error = node.push(&job("job-late", &queues[failing])).await.unwrap_err();
        assert!(error.to_string().contains("Redis 127.0.0.1"), "{error}");
        let error = node.push(&job("job-late", &queues[failing])).await.unwrap_err();
        assert!(
            error.to_string().contains(&cluster.masters[failing].port.to_string()),
            "it names the node: {error}"
        );
        node.push(&job("job-meanwhile", &queues[other])).await.unwrap();
        let wanted: Vec<_> = queues.iter().map(|it| super::rig::queue_name(it)).collect();
        let meanwhile = fetch_any(&node, &wanted).await;
        assert!(meanwhile.is_some(), "the others are served");
        let away = state_of(&node, &cluster, failing).await;
        assert_eq!((away.enqueued, away.away_since.is_some()), (1, true), "{away:?}");
        let served = state_of(&node, &cluster, other).await;
        assert_eq!((served.away_since, served.problem), (None, None));
        assert!(served.memory_bytes > 0);
        let StoreCondition::Degraded(text) = node.store.storage().await.condition else {
            panic!("the jobs of a master are not served")
        };
        assert!(text.contains(&cluster.masters[failing].port.to_string()), "{text}");
        cluster.masters[failing].signal("CONT");
        let expected = format!("job-of-{}", queues[failing]);
        node.until(async || try_fetch(&node, &queues[failing]).await == Ok(Some(expected.clone())))
            .await;
        node.until(async || node.store.storage().await.condition == StoreCondition::Ok).await;
        drop(cluster);
    });
}

/// What is shown of a master, with current counts.
async fn state_of(node: &Node, cluster: &RedisCluster, place: usize) -> ShardState {
    node.store.counts().await;
    let address = format!("127.0.0.1:{}", cluster.masters[place].port);
    let shards = node.store.storage().await.shards;
    shards.into_iter().find(|shard| shard.name == address).expect("each master is listed")
}

#[test]
fn a_cluster_that_is_not_complete_and_rejects_everything_is_not_ready() {
    let options = ClusterOptions {
        arguments: ["--cluster-require-full-coverage", "yes"].map(str::to_owned).to_vec(),
        ..ClusterOptions::default()
    };
    let Some(mut cluster) = RedisCluster::start_with(&options) else { return };
    run_for(TIME_MAX, async move {
        let node = node(&cluster.endpoint());
        node.push(&job("job-00001", "q")).await.unwrap();
        assert_eq!(node.store.storage().await.condition, StoreCondition::Ok);
        cluster.masters[2].kill();
        node.until(async || {
            let _ = node.push(&job("job-00002", "q")).await;
            let condition = node.store.storage().await.condition;
            matches!(condition, StoreCondition::Unavailable(text) if text.contains("CLUSTERDOWN"))
        })
        .await;
        cluster.masters[2].start_again();
        node.until(async || node.push(&job("job-00003", "q")).await.is_ok()).await;
        node.until(async || node.store.storage().await.condition == StoreCondition::Ok).await;
    });
}

#[test]
fn all_masters_that_are_away_are_reported() {
    let Some(mut cluster) = RedisCluster::start() else { return };
    run_for(TIME_MAX, async move {
        let node = node(&cluster.endpoint());
        node.push(&job("job-00001", "q")).await.unwrap();
        cluster.masters.iter_mut().for_each(RedisServer::kill);
        node.until(async || {
            let _ = node.push(&job("job-00002", "q")).await;
            let condition = node.store.storage().await.condition;
            matches!(condition, StoreCondition::Unavailable(_))
        })
        .await;
        cluster.masters.iter_mut().for_each(RedisServer::start_again);
        node.until(async || node.push(&job("job-00003", "q")).await.is_ok()).await;
        node.until(async || node.store.storage().await.condition == StoreCondition::Ok).await;
    });
}

#[test]
fn each_master_reports_its_commands_and_its_memory() {
    let Some(cluster) = RedisCluster::start() else { return };
    run_for(TIME_MAX, async move {
        let node = node(&cluster.endpoint());
        for queue in queues(&cluster) {
            node.push(&job(&format!("job-of-{queue}"), &queue)).await.unwrap();
        }
        let has_all = |scraped: &str| {
            cluster.masters.iter().all(|master| {
                let shard = format!("{{shard=\"127.0.0.1:{}\"", master.port);
                ["memory_bytes", "cpu_seconds_total", "commands_total", "command_seconds_total"]
                    .iter()
                    .all(|name| scraped.contains(&format!("weir_jobs_store_{name}{shard}")))
            })
        };
        node.until(async || has_all(&node.scrape())).await;
    });
}

async fn fetch_any(node: &Node, queues: &[weir_jobs::model::QueueName]) -> Option<String> {
    use weir_jobs::model::Wid;
    use weir_jobs::store::{BatchSize, FetchRequest};
    let wid = Wid::new("w1");
    let request = FetchRequest { wid: Some(&wid), queues, max: BatchSize::ONE, wait: LONG };
    node.store.fetch(request).await.unwrap().pop().map(|delivery| delivery.jid.into())
}
