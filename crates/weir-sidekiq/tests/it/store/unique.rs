//! Unique jobs: several nodes, lost replies, Sidekiq, and servers that can't hold locks.

use std::time::Duration;

use redis::Connection;
use weir_base::clock::Clock;
use weir_jobs::job::JobBatch;
use weir_jobs::model::{EntryKey, SetName};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{Action, Selection, Store, StoreError};
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::{NO_UNIQUE_JOBS, ShardedStore};

use super::cutting_proxy::CuttingProxy;
use super::rig::{Node, report, run, run_alone, run_for};
use super::sharded_rig::sharded_options;
use crate::shared_redis::{client, socket, two_databases};
use crate::slot_proxy::SlotProxy;

const LONG: Duration = Duration::from_secs(30);

fn job(jid: &str, args: &str, members: &str) -> String {
    format!(
        r#"{{"jid":"{jid}","jobtype":"Test","args":[{args}],"queue":"q","custom":{{"unique_for":600}}{members}}}"#
    )
}

fn unique(jid: &str) -> String {
    job(jid, "", "")
}

fn number(client: &mut Connection, command: &str, key: &str) -> i64 {
    redis::cmd(command).arg(key).query(client).unwrap()
}

/// Stores jobs as PUSHB does.
async fn push_each<S: Store>(store: &S, jobs: &[String]) -> Vec<Result<(), StoreError>> {
    let mut batch = JobBatch::new();
    for job in jobs {
        batch.add(job.as_bytes(), Clock::system().now(), &JobServerLimits::default()).unwrap();
    }
    store.push_each(&batch.jobs()).await
}

fn remembering(redis: &RedisEndpoint) -> Node {
    Node::open_with(redis, JobServerLimits::default(), |settings| {
        settings.push_memory = Some(Duration::from_secs(600));
    })
}

#[test]
fn of_pushes_of_many_nodes_each_lock_stores_one_job() {
    run_for(Duration::from_secs(300), async {
        let Some(redis) = crate::shared_redis::database() else { return };
        let nodes: Vec<Node> = (0..8).map(|_| Node::open(&redis)).collect();
        let pushing = nodes.iter().enumerate().map(async |(node, it): (usize, &Node)| {
            let mut stored = 0;
            for number in 0..2_500 {
                // The first half of a node are the second half of the next one.
                let args = ((node + number / 1_250) % 8) * 1_250 + number % 1_250;
                let jid = format!("job-{node}-{number:05}");
                match it.push(&job(&jid, &args.to_string(), "")).await {
                    Ok(()) => stored += 1,
                    Err(error) => assert_eq!(error, StoreError::NotUnique),
                }
            }
            stored
        });
        let stored: Vec<u64> = futures_util::future::join_all(pushing).await;
        assert_eq!(stored.iter().sum::<u64>(), 10_000, "{stored:?}");
        let mut client = client(&redis);
        assert_eq!(number(&mut client, "LLEN", "queue:q"), 10_000);
        assert_eq!(number(&mut client, "HLEN", "weir:unique"), 10_000);
        let texts: Vec<String> =
            redis::cmd("LRANGE").arg("queue:q").arg(0).arg(-1).query(&mut client).unwrap();
        let args = |text: &String| {
            let job: serde_json::Value = serde_json::from_str(text).unwrap();
            job["args"][0].as_u64().unwrap()
        };
        let args: std::collections::BTreeSet<u64> = texts.iter().map(args).collect();
        assert_eq!(args.len(), 10_000);
    });
}

#[test]
fn of_the_batches_of_many_nodes_each_lock_stores_one_job() {
    run(async |redis| {
        let nodes: Vec<Node> = (0..4).map(|_| Node::open(&redis)).collect();
        let pushing = nodes.iter().enumerate().map(async |(node, it): (usize, &Node)| {
            let jobs: Vec<String> = (0..1_000)
                .map(|number| job(&format!("job-{node}-{number:05}"), &number.to_string(), ""))
                .collect();
            let results = push_each(&it.store, &jobs).await;
            assert!(results.iter().all(|it| matches!(it, Ok(()) | Err(StoreError::NotUnique))));
            results.iter().filter(|it| it.is_ok()).count()
        });
        let stored: Vec<usize> = futures_util::future::join_all(pushing).await;
        assert_eq!(stored.iter().sum::<usize>(), 1_000, "{stored:?}");
        assert_eq!(number(&mut client(&redis), "LLEN", "queue:q"), 1_000);
    });
}

#[test]
fn a_push_whose_reply_was_lost_is_not_refused_as_its_own_duplicate() {
    run(async |redis| {
        let proxy = CuttingProxy::start(socket(&redis));
        let node = remembering(&proxy.endpoint(&redis));
        let other = remembering(&redis);
        node.push(&job("job-00000", "0", "")).await.unwrap();
        proxy.cut_after("job-00001");
        let error = node.push(&unique("job-00001")).await.unwrap_err();
        assert!(matches!(error, StoreError::Uncertain(_)), "{error}");
        let mut client = client(&redis);
        while number(&mut client, "LLEN", "queue:q") < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(other.push(&unique("job-00002")).await, Err(StoreError::NotUnique));
        // The push is repeated, also at another node, alone and in a batch.
        assert_eq!(other.push(&unique("job-00001")).await, Ok(()));
        let batch = [unique("job-00001"), unique("job-00003")];
        assert_eq!(push_each(&other.store, &batch).await, [Ok(()), Err(StoreError::NotUnique)]);
        assert_eq!(number(&mut client, "LLEN", "queue:q"), 2);
        // A job that was refused is not remembered as stored.
        assert_eq!(other.fetch_now("q").await.as_deref(), Some("job-00000"));
        assert_eq!(other.fetch_now("q").await.as_deref(), Some("job-00001"));
        other.store.ack(&["job-00001"]).await.unwrap();
        assert_eq!(other.push(&unique("job-00003")).await, Ok(()));
        assert_eq!(other.fetch_now("q").await.as_deref(), Some("job-00003"));
    });
}

#[test]
fn an_ack_whose_reply_was_lost_frees_the_lock_of_its_job_only() {
    run(async |redis| {
        let proxy = CuttingProxy::start(socket(&redis));
        let node = Node::open(&proxy.endpoint(&redis));
        let other = Node::open(&redis);
        node.push(&unique("job-00001")).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        proxy.cut_after("succeeded");
        node.store.ack(&["job-00001"]).await.unwrap_err();
        while other.push(&unique("job-00002")).await == Err(StoreError::NotUnique) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // The repeated ACK finds no job, and the lock is another one's now.
        while let Err(error) = node.store.ack(&["job-00001"]).await {
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(other.push(&unique("job-00003")).await, Err(StoreError::NotUnique));
    });
}

#[test]
fn the_lock_of_a_job_stays_with_it_when_its_node_dies() {
    run(async |redis| {
        let (dying, living) = (Node::open(&redis), Node::open(&redis));
        dying.push(&unique("job-00001")).await.unwrap();
        assert_eq!(dying.fetch_now("q").await.as_deref(), Some("job-00001"));
        drop(dying.crash());
        assert_eq!(living.push(&unique("job-00002")).await, Err(StoreError::NotUnique));
        let back = living.fetch("w1", "q", LONG).await.unwrap();
        assert_eq!(&*back.jid, "job-00001");
        assert_eq!(living.push(&unique("job-00002")).await, Err(StoreError::NotUnique));
        living.store.ack(&["job-00001"]).await.unwrap();
        assert_eq!(living.push(&unique("job-00002")).await, Ok(()));
    });
}

#[test]
fn other_ways_to_acknowledge_a_job_free_its_lock() {
    run(async |redis| {
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        one.push(&unique("job-00001")).await.unwrap();
        assert_eq!(one.fetch_now("q").await.as_deref(), Some("job-00001"));
        assert_eq!(other.store.ack(&["job-00001"]).await, Ok(vec![]), "of another node");
        one.push(&unique("job-00002")).await.unwrap();
        assert_eq!(one.fetch_now("q").await.as_deref(), Some("job-00002"));
        // Its worker vanished, and acknowledges it after all.
        let wid = weir_jobs::model::Wid::new("w1");
        one.store.release(&wid, weir_jobs::model::WorkerEnd::Killed).await.unwrap();
        assert_eq!(one.push(&unique("job-00003")).await, Err(StoreError::NotUnique));
        assert_eq!(one.store.ack(&["job-00002"]).await, Ok(vec![]));
        assert_eq!(number(&mut client(&redis), "LLEN", "queue:q"), 0);
        assert_eq!(one.push(&unique("job-00003")).await, Ok(()));
    });
}

#[test]
fn a_lock_whose_job_sidekiq_runs_ends_with_its_time() {
    run(async |redis| {
        let node = Node::open(&redis);
        let mut client = client(&redis);
        let short = r#"{"jid":"job-00001","jobtype":"Test","args":[],"queue":"q","custom":{"unique_for":1}}"#;
        node.push(short).await.unwrap();
        let _: String = redis::cmd("RPOP").arg("queue:q").query(&mut client).unwrap();
        assert_eq!(node.push(&unique("job-00002")).await, Err(StoreError::NotUnique));
        for key in ["weir:unique", "weir:unique:ends"] {
            assert!((1..=2).contains(&number(&mut client, "TTL", key)), "{key}");
        }
        while node.push(short).await == Err(StoreError::NotUnique) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Redis forgets the keys by itself.
        while number(&mut client, "EXISTS", "weir:unique") == 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(number(&mut client, "EXISTS", "weir:unique:ends"), 0);
    });
}

#[test]
fn a_retry_in_another_queue_frees_the_lock() {
    run(async |redis| {
        let node = Node::open(&redis);
        node.push(&job("job-00001", "", r#","retry_queue":"slow""#)).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        node.store.fail(report("job-00001")).await.unwrap();
        assert_eq!(node.push(&unique("job-00002")).await, Ok(()));
    });
}

#[test]
fn a_dead_job_that_is_deleted_for_others_frees_its_lock() {
    run(async |redis| {
        let limits = JobServerLimits { dead_jobs_max: 2, ..JobServerLimits::default() };
        let node = Node::open_with(&redis, limits, |_| ());
        for number in 0..4 {
            let jid = format!("job-{number:05}");
            let text = match number {
                0 => job(&jid, "", r#","retry":-1"#),
                _ => format!(r#"{{"jid":"{jid}","jobtype":"T","args":[],"queue":"q","retry":-1}}"#),
            };
            node.push(&text).await.unwrap();
            assert_eq!(node.fetch_now("q").await.as_deref(), Some(&*jid));
            let is_locked = node.push(&unique("other-001")).await == Err(StoreError::NotUnique);
            assert_eq!(is_locked, number < 3, "{number}");
            node.store.fail(report(&jid)).await.unwrap();
        }
        assert_eq!(number(&mut client(&redis), "ZCARD", "dead"), 2);
    });
}

#[test]
fn a_queue_with_unique_jobs_is_cleared_and_removed_with_their_locks() {
    run(async |redis| {
        let node = Node::open(&redis);
        let mut client = client(&redis);
        for action in [weir_jobs::store::QueueAction::Clear, weir_jobs::store::QueueAction::Remove]
        {
            for number in 0..600 {
                let text = match number % 2 {
                    0 => job(&format!("job-{number:05}"), &number.to_string(), ""),
                    _ => format!(
                        r#"{{"jid":"job-{number:05}","jobtype":"T","args":[],"queue":"q"}}"#
                    ),
                };
                node.push(&text).await.unwrap();
            }
            node.push(&job("other-001", "", "").replace("\"q\"", "\"r\"")).await.unwrap();
            let queues = [super::rig::queue_name("q")];
            assert_eq!(node.store.act_on_queues(&queues, action).await, Ok(600));
            assert_eq!(number(&mut client, "HLEN", "weir:unique"), 1, "that of the other queue");
            assert_eq!(number(&mut client, "ZCARD", "weir:unique:ends"), 1);
            assert_eq!(number(&mut client, "EXISTS", "queue:q"), 0);
            let is_known: bool =
                redis::cmd("SISMEMBER").arg("queues").arg("q").query(&mut client).unwrap();
            assert_eq!(is_known, action == weir_jobs::store::QueueAction::Clear);
            let queues = [super::rig::queue_name("r")];
            node.store.act_on_queues(&queues, action).await.unwrap();
            assert_eq!(number(&mut client, "EXISTS", "weir:unique"), 0);
        }
    });
}

#[test]
fn a_push_that_would_be_refused_is_redundant() {
    run(async |redis| {
        let node = Node::open(&redis);
        node.push(&unique("job-00001")).await.unwrap();
        let texts = [unique("job-00002"), job("job-00003", "1", "")];
        let mut batch = JobBatch::new();
        for text in &texts {
            batch.add(text.as_bytes(), Clock::system().now(), &JobServerLimits::default()).unwrap();
        }
        assert_eq!(node.store.are_redundant(&batch.jobs()).await, [true, false]);
    });
}

#[test]
fn a_page_shows_when_the_lock_of_a_job_ends() {
    run(async |redis| {
        let node = Node::open(&redis);
        node.push(&unique("job-00001")).await.unwrap();
        let request = |place| weir_jobs::store::ScanRequest {
            place,
            after: None,
            newest_first: false,
            limit: 10,
            scan_max: 10,
            filter: weir_jobs::store::Filter::default(),
        };
        let queue = weir_jobs::model::JobLocation::Queue(super::rig::queue_name("q"));
        let page = node.store.scan(request(queue.clone())).await.unwrap();
        let left = page.jobs[0].features.lock_until.unwrap().since(Clock::system().now());
        assert!((590..=600).contains(&left.as_secs()), "{left:?}");
        let keys: Vec<EntryKey> = page.jobs.iter().map(|job| job.key.clone()).collect();
        node.store.act(&queue, &Selection::Entries(keys), Action::Kill).await.unwrap();
        let dead = weir_jobs::model::JobLocation::Set(SetName::Dead);
        let page = node.store.scan(request(dead)).await.unwrap();
        assert_eq!(page.jobs[0].features.lock_until, None);
    });
}

#[test]
fn keys_of_another_type_stop_no_other_job() {
    run(async |redis| {
        let node = Node::open(&redis);
        redis::cmd("SET").arg("weir:unique").arg("x").exec(&mut client(&redis)).unwrap();
        let error = node.push(&unique("job-00001")).await.unwrap_err();
        assert!(error.to_string().contains("WRONGTYPE"), "{error}");
        let plain = r#"{"jid":"job-00002","jobtype":"Test","args":[],"queue":"q"}"#;
        node.push(plain).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00002"));
        assert_eq!(node.store.ack(&["job-00002"]).await, Ok(vec![]));
        assert_eq!(node.store.counts().await.unique_locks, 0);
    });
}

#[test]
fn locks_are_rejected_where_each_step_uses_one_slot() {
    let Some(endpoints) = two_databases() else { return };
    let proxy = SlotProxy::start(&endpoints);
    run_alone(async move {
        let node = Node::open(&proxy.endpoint());
        let rejected = StoreError::Unsupported(NO_UNIQUE_JOBS);
        assert_eq!(node.push(&unique("job-00001")).await, Err(rejected.clone()));
        let plain = r#"{"jid":"job-00002","jobtype":"Test","args":[],"queue":"q"}"#.to_owned();
        let results = push_each(&node.store, &[unique("job-00001"), plain]).await;
        assert_eq!(results, [Err(rejected), Ok(())]);
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00002"));
        assert!(!node.store.capabilities().enterprise);
    });
}

#[test]
fn locks_are_rejected_on_several_servers() {
    let Some(endpoints) = two_databases() else { return };
    run_alone(async move {
        let directory = tempfile::tempdir().unwrap();
        let options = sharded_options(&endpoints, directory.path());
        let settings = weir_jobs::settings::JobServerSettings::default();
        let mut registry = prometheus_client::registry::Registry::default();
        let metrics = weir_jobs::metrics::JobsMetrics::register(&mut registry, &settings.limits);
        let store = ShardedStore::open(&options, &settings, Clock::system(), metrics).unwrap();
        let rejected = StoreError::Unsupported(NO_UNIQUE_JOBS);
        let plain = r#"{"jid":"job-00002","jobtype":"Test","args":[],"queue":"q"}"#.to_owned();
        let results = push_each(&store, &[unique("job-00001"), plain]).await;
        assert_eq!(results, [Err(rejected), Ok(())]);
        assert!(!store.capabilities().enterprise);
    });
}
