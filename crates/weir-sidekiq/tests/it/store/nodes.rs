//! Several nodes on one Redis.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis::Commands as _;
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::node::NodeReport;
use weir_jobs::settings::{JobServerLimits, JobServerSettings};
use weir_jobs::store::{FailOutcome, Store, StoreError, WorkerReport};

use super::rig::{LEASE, Node, options, report, run};
use crate::shared_redis::client;

const LONG: Duration = Duration::from_secs(30);
const RESERVED: &str = "weir:{queue:q}:reserved";

fn job(jid: &str) -> String {
    format!(r#"{{"jid":"{jid}","jobtype":"Test","args":[],"queue":"q"}}"#)
}

#[test]
fn no_job_is_delivered_twice() {
    run(async |redis| {
        let nodes = [Node::open(&redis), Node::open(&redis)];
        for number in 0..200 {
            nodes[number % 2].push(&job(&format!("job-{number:05}"))).await.unwrap();
        }
        let drain = async |node: &Node| {
            let mut jids = Vec::new();
            while let Some(jid) = node.fetch_now("q").await {
                jids.push(jid);
            }
            jids
        };
        let (one, other) = tokio::join!(drain(&nodes[0]), drain(&nodes[1]));
        assert_eq!(one.len() + other.len(), 200);
        assert_eq!(one.iter().chain(&other).collect::<BTreeSet<_>>().len(), 200);
        assert!(!one.is_empty() && !other.is_empty());
        for (node, jids) in nodes.iter().zip([one, other]) {
            let jids: Vec<&str> = jids.iter().map(String::as_str).collect();
            assert_eq!(node.store.ack(&jids).await, Ok(vec![]));
        }
        let left: u64 =
            redis::cmd("EXISTS").arg("weir:{queue:q}:reserved").query(&mut client(&redis)).unwrap();
        assert_eq!(left, 0);
    });
}

#[test]
fn a_fetch_that_waits_gets_what_another_node_pushes() {
    run(async |redis| {
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        let (fetched, pushed) = tokio::join!(one.fetch("w1", "q", LONG), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            other.push(&job("job-00001")).await
        });
        pushed.unwrap();
        assert_eq!(&*fetched.unwrap().jid, "job-00001");
    });
}

#[test]
fn the_jobs_of_a_dead_node_come_back_after_its_lease() {
    run(async |redis| {
        let (dying, living) = (Node::open(&redis), Node::open(&redis));
        dying.push(&job("job-00001")).await.unwrap();
        assert_eq!(dying.fetch_now("q").await.as_deref(), Some("job-00001"));
        assert_eq!(living.fetch_now("q").await, None);
        drop(dying.crash());
        let died = tokio::time::Instant::now();
        let back = living.fetch("w1", "q", LONG).await.unwrap();
        assert_eq!(&*back.jid, "job-00001");
        assert!(died.elapsed() >= LEASE / 2, "{:?}", died.elapsed());
        assert_eq!(living.store.ack(&["job-00001"]).await, Ok(vec![]));
    });
}

#[test]
fn the_next_process_of_a_node_brings_its_jobs_back_at_once() {
    run(async |redis| {
        let long_lease = Duration::from_secs(600);
        let node = Node::open_in(tempfile::tempdir().unwrap(), &redis, long_lease);
        node.push(&job("job-00001")).await.unwrap();
        node.fetch_now("q").await.unwrap();
        let node = Node::open_in(node.crash(), &redis, long_lease);
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        // Closed in order, the next process keeps what workers have.
        node.store.close().await.unwrap();
        let node = Node::open_in(node.crash(), &redis, long_lease);
        assert_eq!(node.fetch_now("q").await, None);
        assert_eq!(node.store.ack(&["job-00001"]).await, Ok(vec![]));
    });
}

#[test]
fn a_node_whose_lease_was_lost_drops_its_reservations() {
    run(async |redis| {
        let node = Node::open(&redis);
        node.push(&job("job-00001")).await.unwrap();
        node.fetch_now("q").await.unwrap();
        let mut client = client(&redis);
        // As a clock that jumps, or a process that was stopped for long.
        redis::cmd("DEL").arg("weir:nodes").exec(&mut client).unwrap();
        let again = node.fetch("w2", "q", LONG).await.unwrap();
        assert_eq!(&*again.jid, "job-00001");
        let held = node.store.reservations(10).await;
        assert_eq!(held.len(), 1);
        assert_eq!(held[0].wid.as_ref().unwrap().as_str(), "w2");
        let epoch: u64 =
            redis::cmd("HVALS").arg("weir:epochs").query::<Vec<u64>>(&mut client).unwrap()[0];
        assert_eq!(epoch, 2);
    });
}

#[test]
fn a_worker_may_acknowledge_to_another_node() {
    run(async |redis| {
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        one.push(&job("job-00001")).await.unwrap();
        one.fetch_now("q").await.unwrap();
        assert_eq!(other.store.reservations(10).await.len(), 1);
        assert_eq!(other.store.ack(&["job-00001"]).await, Ok(vec![]));
        let late = one.store.fail(report("job-00001")).await;
        assert_eq!(late, Err(StoreError::NotFound("job-00001".into())), "it has ended");
    });
}

#[test]
fn nodes_that_end_do_not_count_against_a_job_but_killed_workers_do() {
    run(async |redis| {
        let first = Node::open(&redis);
        first.push(&job("job-00001")).await.unwrap();
        let mut directory = first.crash();
        for _ in 0..4 {
            let node = Node::open_in(directory, &redis, LEASE);
            assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
            directory = node.crash();
        }
        // The kills of workers are counted for all nodes.
        for left in [1, 1, 0] {
            let node = Node::open_in(directory, &redis, LEASE);
            let fetched = node.fetch("w1", "q", LONG).await.unwrap();
            assert_eq!(&*fetched.jid, "job-00001");
            node.store.release(&Wid::new("w1"), WorkerEnd::Killed).await.unwrap();
            let counts = node.store.counts().await;
            assert_eq!((counts.queues[0].depth, counts.dead), (left, 1 - left));
            directory = node.crash();
        }
        let node = Node::open_in(directory, &redis, LEASE);
        let dead = node.store.find("job-00001").await.unwrap().job().unwrap();
        assert_eq!(dead.failure.unwrap().errtype, "WorkerKilled");
    });
}

/// A release as it is repeated if the script has run and its reply was lost.
#[test]
fn a_repeated_release_lets_a_job_live_that_waits_already() {
    run(async |redis| {
        let node = Node::open(&redis);
        node.push(&job("job-00001")).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        let mut client = client(&redis);
        let reserved: BTreeMap<String, String> = client.hgetall(RESERVED).unwrap();
        let (field, value) = reserved.first_key_value().unwrap();
        let _: u64 = client.hdel(RESERVED, field).unwrap();
        let _: u64 = client.rpush("queue:q", value.split_once('\n').unwrap().1).unwrap();
        let kills = format!("2 {}", Clock::system().now().as_millis() / 1_000);
        let _: u64 = client.hset("weir:kills", "job-00001", &kills).unwrap();
        assert_eq!(node.store.release(&Wid::new("w1"), WorkerEnd::Killed).await, Ok(1));
        let counts = node.store.counts().await;
        assert_eq!((counts.queues[0].depth, counts.dead, counts.reserved), (1, 0, 0));
        let kept: Option<String> = client.hget("weir:kills", "job-00001").unwrap();
        assert_eq!(kept.as_deref(), Some(&*kills));
        let hits = node.metrics.limit_hits();
        assert!(hits.iter().all(|hit| hit.limit != "returns_max"), "{hits:?}");
        assert_eq!(node.store.ack(&["job-00001"]).await, Ok(vec![]), "its worker lives on");
        assert_eq!(node.store.counts().await.queues[0].depth, 0);
    });
}

#[test]
fn two_jobs_with_one_jid_count_one_kill_and_those_of_earlier_versions_none() {
    run(async |redis| {
        let mut client = client(&redis);
        let now = Clock::system().now().as_millis() / 1_000;
        let _: u64 = client.hset("weir:vanished", "job-00001", format!("2 {now}")).unwrap();
        let node = Node::open(&redis);
        for _ in 0..2 {
            node.push(&job("job-00001")).await.unwrap();
            assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        }
        assert_eq!(node.store.release(&Wid::new("w1"), WorkerEnd::Killed).await, Ok(2));
        let counts = node.store.counts().await;
        assert_eq!((counts.queues[0].depth, counts.dead), (2, 0));
        let kills: String = client.hget("weir:kills", "job-00001").unwrap();
        assert!(kills.starts_with("1 "), "{kills}");
        let client = std::cell::RefCell::new(client);
        let has_earlier = || -> bool { client.borrow_mut().exists("weir:vanished").unwrap() };
        node.until(async || !has_earlier()).await;
    });
}

#[test]
fn only_one_of_two_schedulers_enqueues_a_job() {
    run(async |redis| {
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        for number in 0..150 {
            let jid = format!("job-{number:05}");
            let json =
                format!(r#"{{"jid":"{jid}","jobtype":"Test","args":[],"queue":"q","retry":5}}"#);
            one.push(&json).await.unwrap();
            assert_eq!(one.fetch_now("q").await.as_deref(), Some(&*jid));
            assert!(matches!(one.store.fail(report(&jid)).await, Ok(FailOutcome::Retry { .. })));
        }
        let mut client = client(&redis);
        let retries: Vec<String> =
            redis::cmd("ZRANGE").arg("retry").arg(0).arg(-1).query(&mut client).unwrap();
        for text in &retries {
            redis::cmd("ZADD").arg("retry").arg(1).arg(text).exec(&mut client).unwrap();
        }
        let (first, second) = tokio::join!(one.store.tick(), other.store.tick());
        first.and(second).unwrap();
        let length: u64 = redis::cmd("LLEN").arg("queue:q").query(&mut client).unwrap();
        assert_eq!(length, 150);
    });
}

#[test]
fn a_later_layout_is_refused_by_name() {
    run(async |redis| {
        redis::cmd("SET").arg("weir:layout").arg("2").exec(&mut client(&redis)).unwrap();
        let error = Node::open(&redis).store.check_layout().await.unwrap_err();
        assert!(error.to_string().contains("weir:layout"), "{error}");
    });
}

#[test]
fn the_jobs_of_a_worker_that_does_not_return_after_an_orderly_restart_come_back() {
    run(async |redis| {
        let node = Node::open(&redis);
        for jid in ["job-00001", "job-00002"] {
            node.push(&job(jid)).await.unwrap();
        }
        let (gone, back) =
            (node.fetch("gone", "q", Duration::ZERO).await, node.fetch("back", "q", LONG).await);
        assert_eq!(gone.map(|it| it.jid).as_deref(), Some("job-00001"));
        assert_eq!(back.map(|it| it.jid).as_deref(), Some("job-00002"));
        node.store.close().await.unwrap();
        let limits =
            JobServerLimits { heartbeat_timeout: Duration::ZERO, ..JobServerLimits::default() };
        let settings = JobServerSettings { limits, ..JobServerSettings::default() };
        let directory = node.crash();
        let options = options(&redis, &directory, LEASE);
        let node = Node::with(directory, &options, &settings);
        assert_eq!(node.fetch_now("q").await, None, "both may still be at work");
        node.store.exchange_reports(NodeReport::default(), vec![connected("back")]).await;
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        assert_eq!(node.fetch_now("q").await, None);
        assert_eq!(node.store.ack(&["job-00002"]).await, Ok(vec![]));
    });
}

fn connected(wid: &str) -> WorkerReport {
    WorkerReport {
        wid: Wid::new(wid),
        hostname: "host".to_owned(),
        pid: 1,
        labels: Vec::new(),
        started: Timestamp::default(),
        rss_kb: 0,
        queues: Vec::new(),
        quiet: false,
        busy: 1,
    }
}
