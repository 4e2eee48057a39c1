//! FETCHes that wait.

use std::time::Duration;

use futures_util::future::join_all;
use redis::Commands as _;
use weir_jobs::model::Delivery;
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::Store;

use super::cutting_proxy::CuttingProxy;
use super::rig::{Node, run, run_alone};
use crate::redis_server::RedisServer;
use crate::shared_redis::client;

#[test]
fn a_job_that_sidekiq_pushes_is_found_while_a_fetch_waits() {
    run(async |redis| {
        // No other task looks for jobs in this time.
        let node = Node::open_with(&redis, JobServerLimits::default(), |settings| {
            settings.schedule_interval = Duration::from_secs(60);
            settings.lease = Duration::from_secs(3_600);
        });
        // The serving task is idle before the FETCH begins to wait.
        assert_eq!(node.fetch_now("q").await, None);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let push = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let job = r#"{"class":"A","args":[],"queue":"q","jid":"job-00001"}"#;
            let _: u64 = client(&redis).lpush("queue:q", job).unwrap();
        };
        let (fetched, ()) = tokio::join!(node.fetch("w1", "q", Duration::from_secs(20)), push);
        assert_eq!(&*fetched.expect("a job").jid, "job-00001");
    });
}

/// Round trips after which a node knows that its Redis is far.
const TRIPS: usize = 64;

fn job(number: usize) -> String {
    format!(r#"{{"jid":"job-{number:05}","jobtype":"Test","args":[],"queue":"q"}}"#)
}

/// Returns how often Redis has run a script.
fn scripts(redis: &RedisServer) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut redis.client()).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[test]
fn fetches_ask_alone_where_redis_is_far() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async {
        let proxy = CuttingProxy::start_far(&redis.socket(), Duration::from_millis(1));
        // No other task runs scripts in this time.
        let node = Node::open_with(
            &proxy.endpoint(&redis.endpoint()),
            JobServerLimits::default(),
            |settings| {
                settings.schedule_interval = Duration::from_secs(60);
                settings.lease = Duration::from_secs(3_600);
            },
        );
        let fetch = || node.fetch("w1", "q", Duration::from_secs(20));
        let jids = |jobs: Vec<Option<Delivery>>| {
            jobs.into_iter().map(|job| job.unwrap().jid.to_string()).collect::<Vec<_>>()
        };
        for number in 0..TRIPS + 10 {
            node.push(&job(number)).await.unwrap();
        }
        // The first use of a script loads it.
        node.fetch("w1", "empty", Duration::ZERO).await;
        // They are in one group, until enough jobs were acknowledged alone.
        let before = scripts(&redis);
        let shared = jids(join_all((0..5).map(|_| fetch())).await);
        assert_eq!(scripts(&redis) - before, 1);
        let rest = jids(join_all((5..TRIPS).map(|_| fetch())).await);
        for jid in shared.iter().chain(&rest) {
            node.store.ack(&[jid]).await.unwrap();
        }
        let before = scripts(&redis);
        let alone = jids(join_all((0..10).map(|_| fetch())).await);
        assert_eq!(scripts(&redis) - before, 10);
        let expected: Vec<_> =
            (TRIPS..TRIPS + 10).map(|number| format!("job-{number:05}")).collect();
        assert_eq!(alone, expected, "each its own, in the order in which they came");
        // One that waits is woken by a push, and is not overtaken.
        let last = async {
            while node.store.counts().await.fetches_waiting == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let push = async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                for number in 900..902 {
                    node.push(&job(number)).await.unwrap();
                }
            };
            tokio::join!(fetch(), push).0
        };
        let (first, second) = tokio::join!(fetch(), last);
        assert_eq!(jids(vec![first, second]), ["job-00900", "job-00901"]);
    });
}
