//! Tracked jobs of nodes that share a Redis.

use std::time::Duration;

use redis::Commands as _;
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::store::{FailOutcome, Store, StoreError};
use weir_jobs::tracks::{Track, TrackState, TrackUpdate};

use super::rig::{Node, report, run, run_alone};
use super::sharded_rig::{self, ShardedNode, queues};
use crate::redis_server::RedisServer;
use crate::shared_redis::client;

const LONG: Duration = Duration::from_secs(30);
const TRACKS: &str = "weir:{tracks}:updated";

fn job(jid: &str) -> String {
    format!(
        r#"{{"jid":"{jid}","jobtype":"Test","args":[],"queue":"q","retry":3,"custom":{{"track":1}}}}"#
    )
}

async fn state(node: &Node, jid: &str) -> &'static str {
    let track = node.store.track(jid).await.unwrap();
    track.map_or("unknown", |track| track.state.as_str())
}

fn progress(percent: u8, description: &str) -> TrackUpdate {
    TrackUpdate { percent: Some(percent), description: Some(description.into()) }
}

#[test]
fn a_track_is_known_on_all_nodes() {
    run(async |redis| {
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        one.push(&job("job-00001")).await.unwrap();
        assert_eq!(state(&one, "job-00001").await, "enqueued");
        assert_eq!(state(&other, "job-00001").await, "enqueued");
        assert_eq!(one.fetch_now("q").await.as_deref(), Some("job-00001"));
        one.until(async || state(&other, "job-00001").await == "working").await;
        let text = "half \u{1f600}\n done: 1 of 2";
        other.store.set_track("job-00001", progress(50, text)).await.unwrap();
        let track = one.store.track("job-00001").await.unwrap().unwrap();
        assert_eq!((track.percent, track.description.as_deref()), (Some(50), Some(text)));
        assert_eq!(other.store.ack(&["job-00001"]).await, Ok(vec![]), "through the other node");
        assert_eq!(state(&other, "job-00001").await, "success");
        assert_eq!(state(&one, "job-00001").await, "success");
    });
}

#[test]
fn a_job_of_a_dead_node_is_enqueued_again() {
    run(async |redis| {
        let (dying, living) = (Node::open(&redis), Node::open(&redis));
        dying.push(&job("job-00001")).await.unwrap();
        assert_eq!(dying.fetch_now("q").await.as_deref(), Some("job-00001"));
        assert_eq!(state(&dying, "job-00001").await, "working");
        drop(dying.crash());
        living.until(async || state(&living, "job-00001").await == "enqueued").await;
        assert!(living.fetch("w2", "q", LONG).await.is_some());
    });
}

#[test]
fn a_job_that_sidekiq_pushed_is_tracked_from_its_fetch() {
    run(async |redis| {
        let node = Node::open(&redis);
        let text = r#"{"class":"Test","args":[],"jid":"0123456789abcdef01234567","custom":{"track":true}}"#;
        client(&redis).sadd::<_, _, ()>("queues", "q").unwrap();
        client(&redis).lpush::<_, _, ()>("queue:q", text).unwrap();
        let jid = node.fetch_now("q").await.unwrap();
        assert_eq!(state(&node, &jid).await, "working");
        let failed = node.store.fail(report(&jid)).await;
        assert!(matches!(failed, Ok(FailOutcome::Retry { .. })), "{failed:?}");
        assert_eq!(state(&node, &jid).await, "failed");
    });
}

#[test]
fn a_job_that_expired_is_dead() {
    run(async |redis| {
        let clock = Clock::manual(Timestamp::from_micros(1_795_202_902_000_000));
        let node = Node::at(&redis, &clock);
        let custom = r#"{"track":1,"expires_at":"2026-11-20T19:28:23Z"}"#;
        node.push(&job("job-00001").replace(r#"{"track":1}"#, custom)).await.unwrap();
        assert_eq!(state(&node, "job-00001").await, "enqueued");
        clock.advance(Duration::from_secs(2));
        assert_eq!(node.fetch_now("q").await, None);
        assert_eq!(state(&node, "job-00001").await, "dead");
    });
}

#[test]
fn jobs_that_are_not_tracked_leave_no_key() {
    run(async |redis| {
        let node = Node::open(&redis);
        node.push(&job("job-00001").replace("\"track\":1", "\"tracks\":1")).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        node.store.set_track("job-00001", progress(1, "")).await.unwrap();
        node.store.fail(report("job-00001")).await.unwrap();
        node.store.tick().await.unwrap();
        assert_eq!(node.store.counts().await.tracked, 0);
        assert_eq!(state(&node, "job-00001").await, "unknown");
        assert!(!client(&redis).exists::<_, bool>(TRACKS).unwrap());
    });
}

#[test]
fn tracks_expire_by_themselves_and_flush_deletes_them() {
    run(async |redis| {
        let node = Node::open(&redis);
        node.push(&job("job-00001")).await.unwrap();
        assert_eq!(state(&node, "job-00001").await, "enqueued");
        for key in [TRACKS, "weir:{tracks}:states"] {
            let left: i64 = redis::cmd("TTL").arg(key).query(&mut client(&redis)).unwrap();
            assert!((1_700..=1_800).contains(&left), "{key}: {left}");
        }
        node.store.flush().await.unwrap();
        assert_eq!(state(&node, "job-00001").await, "unknown");
    });
}

#[test]
fn a_full_redis_delays_states_and_no_job() {
    let Some(server) = RedisServer::start() else { return };
    run_alone(async move {
        let node = Node::open(&server.endpoint());
        node.push(&job("job-00001")).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        assert_eq!(state(&node, "job-00001").await, "working");
        server.run(&[&["CONFIG", "SET", "maxmemory", "1"]]);
        assert_eq!(node.store.ack(&["job-00001"]).await, Ok(vec![]));
        let full = node.store.set_track("job-00001", progress(1, "")).await;
        assert!(matches!(full, Err(StoreError::Full(_))), "{full:?}");
        server.run(&[&["CONFIG", "SET", "maxmemory", "0"]]);
        node.until(async || {
            let left: Option<String> =
                server.client().hget("weir:{tracks}:states", "job-00001").unwrap();
            left.is_some_and(|text| text.starts_with("success"))
        })
        .await;
    });
}

#[test]
fn an_import_replaces_only_what_is_older() {
    run(async |redis| {
        let clock = Clock::manual(Timestamp::from_micros(1_795_202_902_000_000));
        let node = Node::at(&redis, &clock);
        node.push(&job("job-00001")).await.unwrap();
        let track = |state, seconds| Track {
            state,
            percent: Some(7),
            description: None,
            updated_at: clock.now() - Duration::from_secs(seconds),
        };
        let import = async |it| node.store.import_track("job-00001", it).await.unwrap();
        import(track(TrackState::Failed, 60)).await;
        assert_eq!(state(&node, "job-00001").await, "failed", "its own import is no change");
        import(track(TrackState::Dead, 90)).await;
        assert_eq!(state(&node, "job-00001").await, "failed");
        import(track(TrackState::Working, 30)).await;
        assert_eq!(state(&node, "job-00001").await, "enqueued", "no worker here has it");
    });
}

#[test]
fn a_track_is_found_on_its_shard_and_not_unknown_while_that_is_away() {
    sharded_rig::run_durable(async |[mut one, two]: [RedisServer; 2]| {
        let node = ShardedNode::open(&[&one, &two]);
        let queues = queues(8);
        for (number, queue) in queues.iter().enumerate() {
            let jid = format!("job-{number:05}");
            node.push_with(queue, &jid, r#","custom":{"track":1}"#).await.unwrap();
            let track = node.store.track(&jid).await.unwrap();
            assert_eq!(track.map(|it| it.state), Some(TrackState::Enqueued));
            node.store.set_track(&jid, progress(9, "")).await.unwrap();
            assert_eq!(node.store.track(&jid).await.unwrap().and_then(|it| it.percent), Some(9));
        }
        let tracked = |server: &RedisServer| server.client().zcard::<_, u64>(TRACKS).unwrap();
        assert!(tracked(&one) > 0 && tracked(&two) > 0);
        assert_eq!(node.storage().await.shards.len(), 2);
        assert_eq!(node.store.counts().await.tracked, 8);
        assert_eq!(node.store.export_tracks(None, 100).await.unwrap().len(), 8);
        assert_eq!(node.store.track("job-other").await, Ok(None));
        one.kill();
        let away = node.store.track("job-other").await;
        assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
        one.start_again();
        node.until_whole().await;
        assert_eq!(node.store.track("job-other").await, Ok(None));
    });
}
