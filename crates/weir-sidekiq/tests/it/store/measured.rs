//! What a node measures of its operations and of its Redis.

use std::time::Duration;

use weir_jobs::store::Store;

use super::rig::{Node, report, run};
use super::sharded_rig::{self, ShardedNode};

/// Between two scrapes.
const SCRAPE_WAIT: Duration = Duration::from_millis(50);
/// For a job that does not come.
const WAIT: Duration = Duration::from_secs(2);

fn value(scrape: &str, series: &str) -> Option<f64> {
    let line = scrape.lines().find_map(|line| line.strip_prefix(series))?;
    line.trim().parse().ok()
}

#[test]
fn operations_are_timed_without_the_wait_for_a_job() {
    run(async |redis| {
        let node = Node::open(&redis);
        let job = |jid: &str| format!(r#"{{"jid":"{jid}","jobtype":"A","args":[],"queue":"q"}}"#);
        for jid in ["job-00001", "job-00002"] {
            node.push(&job(jid)).await.unwrap();
            assert_eq!(node.fetch_now("q").await.as_deref(), Some(jid));
        }
        node.store.ack(&["job-00001"]).await.unwrap();
        node.store.fail(report("job-00002")).await.unwrap();
        assert!(node.fetch("w1", "q", WAIT).await.is_none());
        let scrape = node.scrape();
        let series = |name: &str, operation: &str| {
            format!("weir_jobs_store_{name}{{shard=\"{redis}\",operation=\"{operation}\"}}")
        };
        for (operation, times) in [("push", 2.0), ("fetch", 3.0), ("ack", 1.0), ("fail", 1.0)] {
            for name in ["operations_total", "seconds_count"] {
                let found = value(&scrape, &series(name, operation));
                assert_eq!(found, Some(times), "{operation}: {scrape}");
            }
        }
        let waited = value(&scrape, &series("seconds_sum", "fetch")).unwrap();
        assert!(waited > 0.0 && waited < WAIT.as_secs_f64(), "{waited}");
    });
}

#[test]
fn operations_of_several_shards_are_counted_on_the_shard_that_has_the_job() {
    sharded_rig::run(async |[one, two]| {
        let node = ShardedNode::open_with(tempfile::tempdir().unwrap(), &[&one, &two], |options| {
            sharded_rig::in_turn(options);
        });
        let queues = ["q".to_owned()];
        for jid in ["job-00001", "job-00002", "job-00003", "job-00004"] {
            node.push("q", jid).await.unwrap();
        }
        for fails in [false, false, true, true] {
            let jobs = node.fetch(&queues, 1, Duration::ZERO).await.unwrap();
            if fails {
                node.store.fail(report(&jobs[0].jid)).await.unwrap();
            } else {
                assert_eq!(node.store.ack(&[&jobs[0].jid]).await, Ok(vec![]));
            }
        }
        let scrape = node.scrape();
        for server in [&one, &two] {
            let count = |operation: &str| {
                let label = format!("shard=\"{}\",operation=\"{operation}\"", server.endpoint());
                value(&scrape, &format!("weir_jobs_store_operations_total{{{label}}}"))
            };
            for operation in ["push", "fetch"] {
                assert_eq!(count(operation), Some(2.0), "{operation}: {scrape}");
            }
            assert_eq!(count("ack").unwrap() + count("fail").unwrap(), 2.0, "{scrape}");
        }
    });
}

#[test]
fn redis_reports_its_memory_and_its_commands_by_kind() {
    run(async |redis| {
        let node = Node::open(&redis);
        node.push(r#"{"jid":"job-00001","jobtype":"A","args":[],"queue":"q"}"#).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        let memory = format!("weir_jobs_store_memory_bytes{{shard=\"{redis}\"}}");
        let scrape = loop {
            let scrape = node.scrape();
            if value(&scrape, &memory).is_some() {
                break scrape;
            }
            tokio::time::sleep(SCRAPE_WAIT).await;
        };
        assert!(value(&scrape, &memory).unwrap() > 100_000.0);
        for kind in ["read", "write", "script", "other"] {
            let label = format!("{{shard=\"{redis}\",kind=\"{kind}\"}}");
            let calls = value(&scrape, &format!("weir_jobs_store_commands_total{label}"));
            assert!(calls.unwrap() >= 1.0, "{kind}: {scrape}");
            let took = value(&scrape, &format!("weir_jobs_store_command_seconds_total{label}"));
            assert!(took.unwrap() > 0.0, "{kind}: {scrape}");
        }
        let cpu =
            value(&scrape, &format!("weir_jobs_store_cpu_seconds_total{{shard=\"{redis}\"}}"));
        assert!(cpu.unwrap() > 0.0, "{scrape}");
    });
}
