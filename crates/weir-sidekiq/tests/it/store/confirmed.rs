//! Pushes that wait until the disk of Redis, or its replicas, have them.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::StoreError;
use weir_sidekiq::store::ConfirmSettings;

use super::rig::{Node, run_alone};
use crate::redis_server::RedisServer;

fn job(jid: &str) -> String {
    format!(r#"{{"jid":"{jid}","jobtype":"Test","args":[],"queue":"q"}}"#)
}

fn confirming(redis: &RedisServer, confirm: ConfirmSettings) -> Node {
    limited(redis, confirm, JobServerLimits::default())
}

fn limited(redis: &RedisServer, confirm: ConfirmSettings, limits: JobServerLimits) -> Node {
    Node::open_with(&redis.endpoint(), limits, |settings| {
        settings.push_memory = Some(Duration::from_secs(600));
        settings.confirm = confirm;
    })
}

fn replicas(count: u64, timeout: Duration) -> ConfirmSettings {
    ConfirmSettings { replicas: count, timeout, ..ConfirmSettings::default() }
}

/// A replica that has caught up.
fn replica_of(primary: &RedisServer) -> RedisServer {
    let of = |_: &Path, _| {
        ["--replicaof", "127.0.0.1", &primary.port.to_string()].map(str::to_owned).to_vec()
    };
    let replica = RedisServer::start_with(of).unwrap();
    while !info(&replica, "replication").contains("master_link_status:up") {
        std::thread::sleep(Duration::from_millis(10));
    }
    replica
}

fn info(redis: &RedisServer, section: &str) -> String {
    redis::cmd("INFO").arg(section).query(&mut redis.client()).unwrap()
}

fn length(redis: &RedisServer) -> u64 {
    redis::cmd("LLEN").arg("queue:q").query(&mut redis.client()).unwrap()
}

const PATIENT: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(200);

#[test]
fn a_push_waits_for_its_replicas() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async {
        let replica = replica_of(&redis);
        let node = confirming(&redis, replicas(1, PATIENT));
        node.push(&job("job-00001")).await.unwrap();
        assert_eq!(length(&replica), 1);
        assert!(info(&redis, "commandstats").contains("cmdstat_wait:"));
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
    });
}

#[test]
fn without_enough_replicas_the_job_may_be_stored() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async {
        let node = confirming(&redis, replicas(1, SHORT));
        for _ in 0..2 {
            let error = node.push(&job("job-00001")).await.unwrap_err();
            assert!(matches!(error, StoreError::Uncertain(_)), "{error}");
            let text = error.to_string();
            assert!(text.contains("by 0 of 1 replica within 200ms"), "{text}");
            assert!(text.contains("jobs.redis.confirm") && text.contains("stored once"), "{text}");
            assert_eq!(length(&redis), 1);
        }
        let replica = replica_of(&redis);
        // The repetition itself writes, so that its wait covers the first push.
        while node.push(&job("job-00001")).await.is_err() {}
        assert_eq!((length(&redis), length(&replica)), (1, 1));
    });
}

#[test]
fn pushes_share_their_waits() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async {
        let node = confirming(&redis, replicas(1, SHORT));
        let texts: Vec<String> = (0..100).map(|number| job(&format!("job-{number:05}"))).collect();
        let pushed = join_all(texts.iter().map(|text| node.push(text))).await;
        assert!(pushed.iter().all(|it| matches!(it, Err(StoreError::Uncertain(_)))), "{pushed:?}");
        assert_eq!(length(&redis), 100);
        let stats = info(&redis, "commandstats");
        let calls =
            stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls=")).unwrap();
        let calls: u64 = calls.split(',').next().unwrap().parse().unwrap();
        // One on each of two connections, one for the rest, and one to try each connection; more on a
        // machine that is too busy to send all of them before the first wait is over.
        assert!(calls <= 25, "{calls} waits for 100 pushes");
    });
}

#[test]
fn pushes_that_wait_are_limited() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async {
        let limits = JobServerLimits { unconfirmed_jobs_max: 10, ..JobServerLimits::default() };
        let node = limited(&redis, replicas(1, SHORT), limits);
        let texts: Vec<String> = (0..30).map(|number| job(&format!("job-{number:05}"))).collect();
        let pushed = join_all(texts.iter().map(|text| node.push(text))).await;
        let is_limited = |it: &Result<(), StoreError>| {
            it.as_ref().is_err_and(|error| error.to_string().contains("unconfirmed_jobs_max"))
        };
        assert_eq!(pushed.iter().filter(|it| is_limited(it)).count(), 20);
        assert_eq!(length(&redis), 10);
    });
}

#[test]
fn a_redis_without_waitaof_is_refused_by_its_version() {
    let Some(redis) = RedisServer::start() else { return };
    let has_it = !info(&redis, "server").contains("redis_version:7.0")
        && !info(&redis, "server").contains("redis_version:6.");
    if has_it {
        eprintln!("skipped: this redis-server has WAITAOF");
        return;
    }
    run_alone(async {
        let confirm = ConfirmSettings { disk: true, ..ConfirmSettings::default() };
        let node = confirming(&redis, confirm);
        let error = node.store.check_layout().await.unwrap_err().to_string();
        assert!(error.contains("no WAITAOF") && error.contains("7.2"), "{error}");
        let error = node.push(&job("job-00001")).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        assert!(error.to_string().contains("job not stored"), "{error}");
        assert_eq!(length(&redis), 0);
    });
}

#[test]
fn a_push_waits_for_the_disk() {
    let Some(binary) = crate::redis_server::with_waitaof() else { return };
    let arguments = |_: &Path, _| {
        ["--appendonly", "yes", "--appendfsync", "everysec"].map(str::to_owned).to_vec()
    };
    let Some(redis) = RedisServer::start_binary(&binary, arguments) else { return };
    run_alone(async {
        let confirm =
            ConfirmSettings { disk: true, timeout: PATIENT, ..ConfirmSettings::default() };
        let node = confirming(&redis, confirm);
        node.store.check_layout().await.unwrap();
        let texts: Vec<String> = (0..200).map(|number| job(&format!("job-{number:05}"))).collect();
        for pushed in join_all(texts.iter().map(|text| node.push(text))).await {
            pushed.unwrap();
        }
        assert_eq!(length(&redis), 200);
        redis.run(&[&["CONFIG", "SET", "appendonly", "no"]]);
        let error = node.push(&job("job-late1")).await.unwrap_err();
        assert!(error.to_string().contains("appendonly"), "{error}");
    });
}
