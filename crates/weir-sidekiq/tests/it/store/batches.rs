//! Batches of jobs: several nodes, lost replies, Sidekiq's layout, and servers that can't keep batches.

use std::time::Duration;

use redis::Connection;
use weir_base::clock::Clock;
use weir_jobs::batches::{BatchDefinition, BatchStatus};
use weir_jobs::custom::BatchId;
use weir_jobs::job::JobBatch;
use weir_jobs::settings::{JobServerLimits, JobServerSettings};
use weir_jobs::store::{BatchSize, FetchRequest, QueueAction, Store, StoreError};
use weir_sidekiq::store::ShardedStore;

use super::cutting_proxy::CuttingProxy;
use super::rig::{Node, queue_name, report, run, run_alone, run_for};
use super::sharded_rig::sharded_options;
use crate::shared_redis::{client, socket, two_databases};
use crate::slot_proxy::SlotProxy;

const LONG: Duration = Duration::from_secs(30);

fn definition() -> BatchDefinition {
    let callback = |name: &str| {
        let json = format!(r#"{{"jid":"the-{name}","jobtype":"Done","args":[1],"queue":"done"}}"#);
        Some(json.into_bytes())
    };
    let (complete, success) = (callback("complete"), callback("success"));
    BatchDefinition { complete, success, ..BatchDefinition::default() }
}

fn job(jid: &str, batch: BatchId) -> String {
    format!(
        r#"{{"jid":"{jid}","jobtype":"Test","args":[],"queue":"q","custom":{{"bid":"{batch}"}}}}"#
    )
}

fn number(client: &mut Connection, command: &str, key: &str) -> i64 {
    redis::cmd(command).arg(key).query(client).unwrap()
}

async fn counts(node: &Node, batch: BatchId) -> (u64, u64, u64) {
    let BatchStatus { total, pending, failed, .. } = node.store.batch_status(batch).await.unwrap();
    (total, pending, failed)
}

#[test]
fn many_nodes_end_the_jobs_of_a_batch_and_each_callback_is_enqueued_once() {
    run_for(Duration::from_secs(300), async {
        let Some(redis) = crate::shared_redis::database() else { return };
        let nodes: Vec<Node> = (0..4).map(|_| Node::open(&redis)).collect();
        let parent = nodes[0].store.batch_new(definition()).await.unwrap();
        let mut batches = Vec::new();
        for _ in 0..5 {
            let child = BatchDefinition { parent: Some(parent), ..definition() };
            batches.push(nodes[0].store.batch_new(child).await.unwrap());
        }
        let pushing = nodes.iter().enumerate().map(async |(node, it): (usize, &Node)| {
            for number in 0..250 {
                let jid = format!("job-{node}-{number:05}");
                it.push(&job(&jid, batches[number % 5])).await.unwrap();
            }
        });
        futures_util::future::join_all(pushing).await;
        for batch in batches.iter().chain([&parent]) {
            nodes[1].store.batch_commit(*batch).await.unwrap();
        }
        let working = nodes.iter().enumerate().map(async |(node, it): (usize, &Node)| {
            let mut callbacks = 0;
            let mut failures = 0;
            let mut idle = 0;
            // Callbacks of children make further callbacks of the parent due.
            while idle < 3 {
                let Some(delivery) = it.fetch("w1", "q done", Duration::from_millis(100)).await
                else {
                    idle += 1;
                    continue;
                };
                idle = 0;
                let jid = &*delivery.jid;
                callbacks += u64::from(jid.starts_with("the-"));
                if failures < 20 && node == 0 && !jid.starts_with("the-") {
                    failures += 1;
                    it.store.fail(report(jid)).await.unwrap();
                } else {
                    assert_eq!(it.store.ack(&[jid]).await, Ok(vec![]));
                }
            }
            callbacks
        });
        let callbacks: u64 = futures_util::future::join_all(working).await.iter().sum();
        let mut sum = (0, 0, 0);
        for batch in &batches {
            let (total, pending, failed) = counts(&nodes[2], *batch).await;
            sum = (sum.0 + total, sum.1 + pending, sum.2 + failed);
        }
        assert_eq!(sum, (1_000, 20, 20));
        assert_eq!(nodes[2].store.counts().await.batches, 6);
        // Success of the batches with a failed job is missing, and of the parent.
        let mut unsuccessful = 0;
        for batch in &batches {
            unsuccessful += u64::from(counts(&nodes[2], *batch).await.1 > 0);
        }
        assert_eq!(callbacks, 5 + (5 - unsuccessful) + 1);
    });
}

#[test]
fn a_push_or_an_ack_whose_reply_was_lost_counts_once() {
    run(async |redis| {
        let proxy = CuttingProxy::start(socket(&redis));
        let node =
            Node::open_with(&proxy.endpoint(&redis), JobServerLimits::default(), |settings| {
                settings.push_memory = Some(Duration::from_secs(600))
            });
        let other = Node::open(&redis);
        let batch = node.store.batch_new(definition()).await.unwrap();
        node.push(&job("job-00000", batch)).await.unwrap();
        proxy.cut_after("job-00001");
        let error = node.push(&job("job-00001", batch)).await.unwrap_err();
        assert!(matches!(error, StoreError::Uncertain(_)), "{error}");
        while counts(&other, batch).await.0 < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        while let Err(error) = node.push(&job("job-00001", batch)).await {
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(counts(&other, batch).await, (2, 2, 0));
        assert_eq!(number(&mut client(&redis), "LLEN", "queue:q"), 2);
        other.store.batch_commit(batch).await.unwrap();
        for _ in 0..2 {
            node.fetch_now("q").await.unwrap();
        }
        node.store.ack(&["job-00000"]).await.unwrap();
        proxy.cut_after("succeeded");
        node.store.ack(&["job-00001"]).await.unwrap_err();
        while counts(&other, batch).await.1 > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        while let Err(error) = node.store.ack(&["job-00001"]).await {
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(counts(&other, batch).await, (2, 0, 0));
        assert_eq!(number(&mut client(&redis), "LLEN", "queue:done"), 1);
    });
}

#[test]
fn a_batch_goes_on_when_a_node_dies() {
    run(async |redis| {
        let (dying, living) = (Node::open(&redis), Node::open(&redis));
        let batch = dying.store.batch_new(definition()).await.unwrap();
        dying.push(&job("job-00001", batch)).await.unwrap();
        dying.store.batch_commit(batch).await.unwrap();
        dying.fetch_now("q").await.unwrap();
        drop(dying.crash());
        let back = living.fetch("w1", "q", LONG).await.unwrap();
        assert_eq!(counts(&living, batch).await, (1, 1, 0));
        living.store.ack(&[&back.jid]).await.unwrap();
        for callback in ["the-complete", "the-success"] {
            assert_eq!(living.fetch_now("done").await.as_deref(), Some(callback));
            living.store.ack(&[callback]).await.unwrap();
            assert_eq!(living.store.ack(&[callback]).await, Ok(vec![0]));
        }
        let status = living.store.batch_status(batch).await.unwrap();
        assert_eq!((status.complete.as_str(), status.success.as_str()), ("2", "2"));
        assert_eq!(living.fetch_now("done").await, None);
    });
}

#[test]
fn a_callback_is_a_job_as_sidekiq_reads_it() {
    run(async |redis| {
        let node = Node::open(&redis);
        let mut client = client(&redis);
        let batch = node.store.batch_new(definition()).await.unwrap();
        node.store.batch_commit(batch).await.unwrap();
        let text: String =
            redis::cmd("LINDEX").arg("queue:done").arg(0).query(&mut client).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["class"], &json["retry"]), (&"Done".into(), &true.into()));
        assert!(json["enqueued_at"].is_f64(), "{text}");
        assert_eq!(json["custom"]["_bid"], batch.to_string());
        let is_known: bool =
            redis::cmd("SISMEMBER").arg("queues").arg("done").query(&mut client).unwrap();
        assert!(is_known);
        // A job that only looks like the callback changes nothing.
        let fake = format!(
            r#"{{"jid":"fake-0001","jobtype":"T","args":[],"queue":"q","custom":{{"_bid":"{batch}"}}}}"#
        );
        node.push(&fake).await.unwrap();
        node.fetch_now("q").await.unwrap();
        node.store.ack(&["fake-0001"]).await.unwrap();
        assert_eq!(number(&mut client, "LLEN", "queue:done"), 1);
    });
}

#[test]
fn a_callback_whose_queue_is_no_list_is_dead() {
    run(async |redis| {
        let node = Node::open(&redis);
        let mut client = client(&redis);
        redis::cmd("SET").arg("queue:done").arg("x").exec(&mut client).unwrap();
        let batch = node.store.batch_new(definition()).await.unwrap();
        node.store.batch_commit(batch).await.unwrap();
        assert_eq!(number(&mut client, "ZCARD", "dead"), 1);
        assert_eq!(node.store.batch_status(batch).await.unwrap().complete.as_str(), "1");
    });
}

#[test]
fn a_scheduled_callback_waits_and_a_unique_one_has_its_lock() {
    run(async |redis| {
        let node = Node::open(&redis);
        let unique = r#"{"jid":"the-success","jobtype":"Done","args":[],"queue":"q","at":"2100-01-01T00:00:00Z","custom":{"unique_for":600}}"#;
        let success = Some(unique.as_bytes().to_vec());
        let batch =
            node.store.batch_new(BatchDefinition { success, ..BatchDefinition::default() }).await;
        node.store.batch_commit(batch.unwrap()).await.unwrap();
        let mut client = client(&redis);
        assert_eq!(number(&mut client, "ZCARD", "schedule"), 1);
        let again = r#"{"jid":"job-00001","jobtype":"Done","args":[],"queue":"q","custom":{"unique_for":600}}"#;
        assert_eq!(node.push(again).await, Err(StoreError::NotUnique));
    });
}

#[test]
fn one_pushb_fills_a_batch_and_a_flush_deletes_it() {
    run(async |redis| {
        let node = Node::open(&redis);
        let mut client = client(&redis);
        let batch = node.store.batch_new(definition()).await.unwrap();
        let mut jobs = JobBatch::new();
        for number in 0..500 {
            let text = match number % 5 {
                0 => {
                    job(&format!("job-{number:05}"), BatchId::parse("b-00000000000000ff").unwrap())
                }
                _ => job(&format!("job-{number:05}"), batch),
            };
            jobs.add(text.as_bytes(), Clock::system().now(), &JobServerLimits::default()).unwrap();
        }
        let results = node.store.push_each(&jobs.jobs()).await;
        let unknown = BatchId::parse("b-00000000000000ff").unwrap();
        for (number, result) in results.into_iter().enumerate() {
            let expected =
                if number % 5 == 0 { Err(StoreError::NoSuchBatch(unknown)) } else { Ok(()) };
            assert_eq!(result, expected, "{number}");
        }
        assert_eq!(counts(&node, batch).await, (400, 400, 0));
        let queues = [queue_name("q")];
        assert_eq!(node.store.act_on_queues(&queues, QueueAction::Remove).await, Ok(400));
        assert_eq!(counts(&node, batch).await, (400, 400, 400));
        node.store.flush().await.unwrap();
        assert_eq!(node.store.counts().await.batches, 0);
        let left: Vec<String> = redis::cmd("KEYS").arg("weir:batches*").query(&mut client).unwrap();
        assert_eq!(left, Vec::<String>::new());
    });
}

#[test]
fn jobs_are_fetched_and_acknowledged_in_one_batch() {
    run(async |redis| {
        let node = Node::open(&redis);
        let batch = node.store.batch_new(definition()).await.unwrap();
        for number in 0..100 {
            node.push(&job(&format!("job-{number:05}"), batch)).await.unwrap();
        }
        node.store.batch_commit(batch).await.unwrap();
        let (wid, queues) = (weir_jobs::model::Wid::new("w1"), [queue_name("q")]);
        let max = BatchSize::of(1_000);
        let request = FetchRequest { wid: Some(&wid), queues: &queues, max, wait: Duration::ZERO };
        let jobs = node.store.fetch(request).await.unwrap();
        let jids: Vec<&str> = jobs.iter().map(|job| &*job.jid).collect();
        assert_eq!(jids.len(), 100);
        assert_eq!(node.store.ack(&jids).await, Ok(vec![]));
        assert_eq!(counts(&node, batch).await, (100, 0, 0));
        assert_eq!(node.fetch_now("done").await.as_deref(), Some("the-complete"));
    });
}

async fn assert_rejected<S: Store>(store: &S) {
    let text = "BATCH and custom.bid need one Redis server";
    let rejected = store.batch_new(definition()).await.unwrap_err();
    assert!(matches!(rejected, StoreError::Unsupported(_)), "{rejected}");
    assert!(rejected.to_string().starts_with(text), "{rejected}");
    let json = job("job-00001", BatchId::parse("b-00000000000000ff").unwrap());
    let mut batch = JobBatch::new();
    let now = Clock::system().now();
    let job = batch.parse_one(json.as_bytes(), now, &JobServerLimits::default()).unwrap();
    let rejected = store.push(&[job]).await.unwrap_err();
    assert!(rejected.to_string().starts_with(text), "{rejected}");
}

#[test]
fn batches_are_rejected_where_each_step_uses_one_slot() {
    let Some(endpoints) = two_databases() else { return };
    let proxy = SlotProxy::start(&endpoints);
    run_alone(async move { assert_rejected(&Node::open(&proxy.endpoint()).store).await });
}

#[test]
fn batches_are_rejected_on_several_servers() {
    let Some(endpoints) = two_databases() else { return };
    run_alone(async move {
        let directory = tempfile::tempdir().unwrap();
        let options = sharded_options(&endpoints, directory.path());
        let settings = JobServerSettings::default();
        let mut registry = prometheus_client::registry::Registry::default();
        let metrics = weir_jobs::metrics::JobsMetrics::register(&mut registry, &settings.limits);
        let store = ShardedStore::open(&options, &settings, Clock::system(), metrics).unwrap();
        assert_rejected(&store).await;
    });
}
