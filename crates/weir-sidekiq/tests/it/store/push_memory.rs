//! The same job pushed again is stored once.

use std::time::Duration;

use redis::Connection;
use weir_base::clock::Clock;
use weir_jobs::job::JobBatch;
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{Store, StoreError};

use super::cutting_proxy::CuttingProxy;
use super::rig::{Node, run};
use crate::shared_redis::{client, socket};

const HALVES: [&str; 2] = ["weir:{queue:q}:pushed:a", "weir:{queue:q}:pushed:b"];

fn job(jid: &str, args: &str) -> String {
    format!(r#"{{"jid":"{jid}","jobtype":"Test","args":[{args}],"queue":"q"}}"#)
}

fn number(client: &mut Connection, command: &str, key: &str) -> u64 {
    redis::cmd(command).arg(key).query(client).unwrap()
}

fn remembering(endpoint: &weir_sidekiq::RedisEndpoint, memory: Duration) -> Node {
    Node::open_with(endpoint, JobServerLimits::default(), |settings| {
        settings.push_memory = Some(memory);
    })
}

const LONG: Duration = Duration::from_secs(600);

#[test]
fn the_same_job_is_stored_once_whichever_node_it_is_pushed_to() {
    run(async |redis| {
        let (one, other) = (remembering(&redis, LONG), remembering(&redis, LONG));
        let mut client = client(&redis);
        one.push(&job("job-00001", "1")).await.unwrap();
        for node in [&one, &other] {
            node.push(&job("job-00001", "1")).await.unwrap();
        }
        assert_eq!(number(&mut client, "LLEN", "queue:q"), 1);
        one.push(&job("job-00001", "2")).await.unwrap();
        assert_eq!(number(&mut client, "LLEN", "queue:q"), 2, "another payload is another job");
        // Also while a worker has it, and afterwards.
        assert!(one.fetch_now("q").await.is_some());
        one.push(&job("job-00001", "1")).await.unwrap();
        one.store.ack(&["job-00001"]).await.unwrap();
        one.push(&job("job-00001", "1")).await.unwrap();
        assert_eq!(number(&mut client, "LLEN", "queue:q"), 1);
    });
}

#[test]
fn the_store_knows_which_pushes_would_add_no_job_and_what_it_did_to_a_queue() {
    run(async |redis| {
        let (one, other) = (remembering(&redis, LONG), remembering(&redis, LONG));
        one.push(&job("job-00001", "1")).await.unwrap();
        one.push(&job("job-00001", "1")).await.unwrap();
        other.push(&job("job-00002", "1")).await.unwrap();
        let texts = [job("job-00001", "1"), job("job-00002", "1"), job("job-00001", "2")];
        let mut batch = JobBatch::new();
        for text in &texts {
            batch.add(text.as_bytes(), Clock::system().now(), &JobServerLimits::default()).unwrap();
        }
        for node in [&one, &other] {
            assert_eq!(node.store.are_redundant(&batch.jobs()).await, [true, true, false]);
        }
        assert!(one.fetch_now("q").await.is_some());
        let traffic = |node: &Node| (node.store.traffic("q").added, node.store.traffic("q").taken);
        assert_eq!((traffic(&one), traffic(&other)), ((1, 1), (1, 0)), "a repeated push adds none");
    });
}

#[test]
fn a_batch_and_the_scheduled_set_remember_as_well() {
    run(async |redis| {
        let node = remembering(&redis, LONG);
        let mut client = client(&redis);
        let later = |jid: &str| {
            format!(
                r#"{{"jid":"{jid}","jobtype":"T","args":[],"queue":"q","at":"2100-01-01T00:00:00Z"}}"#
            )
        };
        let texts = [
            job("job-00001", "1"),
            later("job-00002"),
            job("job-00003", "1"),
            job("job-00001", "1"),
            later("job-00002"),
        ];
        for _ in 0..2 {
            let mut batch = JobBatch::new();
            for text in &texts {
                let now = Clock::system().now();
                batch.add(text.as_bytes(), now, &JobServerLimits::default()).unwrap();
            }
            node.store.push(&batch.jobs()).await.unwrap();
            assert_eq!(number(&mut client, "LLEN", "queue:q"), 2);
            assert_eq!(number(&mut client, "ZCARD", "schedule"), 1);
        }
        let order: Vec<String> =
            redis::cmd("LRANGE").arg("queue:q").arg(0).arg(-1).query(&mut client).unwrap();
        assert!(order[1].contains("job-00001") && order[0].contains("job-00003"), "{order:?}");
    });
}

#[test]
fn a_job_is_forgotten_after_the_time_of_the_memory() {
    run(async |redis| {
        let node = remembering(&redis, Duration::from_millis(100));
        let mut client = client(&redis);
        node.push(&job("job-00001", "1")).await.unwrap();
        // Each repetition is remembered anew.
        while HALVES.iter().any(|half| number(&mut client, "EXISTS", half) == 1) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        node.push(&job("job-00001", "1")).await.unwrap();
        assert_eq!(number(&mut client, "LLEN", "queue:q"), 2);
    });
}

#[test]
fn without_a_memory_each_push_is_stored() {
    run(async |redis| {
        let node = remembering(&redis, Duration::ZERO);
        let mut client = client(&redis);
        for _ in 0..2 {
            node.push(&job("job-00001", "1")).await.unwrap();
        }
        assert_eq!(number(&mut client, "LLEN", "queue:q"), 2);
        assert_eq!(number(&mut client, "EXISTS", HALVES[0]), 0);
    });
}

#[test]
fn the_memory_has_a_limit_and_forgets_the_oldest_first() {
    run(async |redis| {
        let limits = JobServerLimits { push_memory_jobs_max: 20, ..JobServerLimits::default() };
        let node = Node::open_with(&redis, limits, |settings| settings.push_memory = Some(LONG));
        let mut client = client(&redis);
        for number in 0..95 {
            node.push(&job(&format!("job-{number:05}"), "1")).await.unwrap();
        }
        let remembered: u64 = HALVES.iter().map(|half| number(&mut client, "SCARD", half)).sum();
        assert!((10..=20).contains(&remembered), "{remembered}");
        node.push(&job("job-00094", "1")).await.unwrap();
        assert_eq!(number(&mut client, "LLEN", "queue:q"), 95);
        node.push(&job("job-00000", "1")).await.unwrap();
        assert_eq!(number(&mut client, "LLEN", "queue:q"), 96);
    });
}

#[test]
fn keys_of_another_type_stop_no_push() {
    run(async |redis| {
        let node = remembering(&redis, LONG);
        let mut client = client(&redis);
        for half in HALVES {
            redis::cmd("SET").arg(half).arg("x").exec(&mut client).unwrap();
        }
        for _ in 0..2 {
            node.push(&job("job-00001", "1")).await.unwrap();
        }
        assert_eq!(number(&mut client, "LLEN", "queue:q"), 1);
        redis::cmd("SET").arg("queue:odd").arg("x").exec(&mut client).unwrap();
        let text = job("job-00002", "1").replace("\"q\"", "\"odd\"");
        let error = node.push(&text).await.unwrap_err();
        assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    });
}

#[test]
fn a_push_whose_connection_broke_may_be_sent_again() {
    run(async |redis| {
        let proxy = CuttingProxy::start(socket(&redis));
        let node = remembering(&proxy.endpoint(&redis), LONG);
        let mut client = client(&redis);
        node.push(&job("job-00000", "1")).await.unwrap();
        proxy.cut_after("job-00001");
        let error = node.push(&job("job-00001", "1")).await.unwrap_err();
        assert!(matches!(error, StoreError::Uncertain(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("may be stored") && text.contains("stored once"), "{text}");
        while number(&mut client, "LLEN", "queue:q") < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        while let Err(error) = node.push(&job("job-00001", "1")).await {
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(number(&mut client, "LLEN", "queue:q"), 2);
    });
}
