//! Several servers behind one address, where each step may use the keys of one slot only.

use std::time::Duration;

use redis::Commands as _;
use weir_jobs::job::JobBatch;
use weir_jobs::settings::{JobServerLimits, JobServerSettings};
use weir_jobs::store::{FailOutcome, Store, StoreError};
use weir_sidekiq::store::{ConfirmSettings, RedisStoreSettings, check_server};

use super::rig::{Node, report, run_alone};
use crate::shared_redis::{client, two_databases};
use crate::slot_proxy::SlotProxy;

/// The texts of the scripts of a move that `SlotProxy::block` rejects: its second half, and what deletes
/// the note.
const ARRIVE: &str = ":arrived";
const END: &str = "HDEL weir:{";
const LONG: Duration = Duration::from_secs(30);

fn job(jid: &str) -> String {
    format!(r#"{{"jid":"{jid}","jobtype":"Test","args":[],"queue":"q","retry":3}}"#)
}

fn start() -> Option<SlotProxy> {
    Some(SlotProxy::start(&two_databases()?))
}

fn set_length(proxy: &SlotProxy, key: &str) -> u64 {
    client(&proxy.endpoint()).zcard(key).unwrap()
}

#[test]
fn a_job_passes_through_all_its_states() {
    let Some(proxy) = start() else { return };
    run_alone(async move {
        let redis = proxy.endpoint();
        assert_eq!(check_server(&redis, &RedisStoreSettings::default()).await.problem, None);
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        one.push(&job("job-00001")).await.unwrap();
        assert_eq!(other.fetch_now("q").await.as_deref(), Some("job-00001"));
        let failed = other.store.fail(report("job-00001")).await;
        assert!(matches!(failed, Ok(FailOutcome::Retry { .. })), "{failed:?}");
        let mut client = client(&redis);
        let retries: Vec<String> = client.zrange("retry", 0, -1).unwrap();
        assert_eq!(retries.len(), 1);
        let _: u64 = client.zadd("retry", &retries[0], 1).unwrap();
        let back = one.fetch("w1", "q", LONG).await.unwrap();
        assert_eq!(&*back.jid, "job-00001");
        assert_eq!(one.store.ack(&["job-00001"]).await, Ok(vec![]));
        for key in ["weir:{queue:q}:leaving", "weir:{retry}:leaving"] {
            assert!(!client.exists::<_, bool>(key).unwrap(), "{key}");
        }
        let layout: String = client.get("weir:layout").unwrap();
        assert_eq!(layout, "1 slots");
        one.store.close().await.unwrap();
        other.store.close().await.unwrap();
        let counters: Vec<u64> = ["stat:processed", "stat:failed"]
            .map(|key| client.get::<_, u64>(key).unwrap())
            .to_vec();
        assert_eq!(counters, [2, 1]);
    });
}

#[test]
fn a_batch_enters_all_its_queues_and_sets() {
    let Some(proxy) = start() else { return };
    run_alone(async move {
        let node = Node::open(&proxy.endpoint());
        let mut batch = JobBatch::new();
        let now = weir_base::clock::Clock::system().now();
        let json: Vec<String> = (0..20)
            .map(|number| {
                let at = if number < 5 { r#","at":"2099-01-01T00:00:00Z""# } else { "" };
                format!(
                    r#"{{"jid":"job-{number:05}","jobtype":"T","args":[],"queue":"q{}"{at}}}"#,
                    number % 4
                )
            })
            .collect();
        let text = format!("[{}]", json.join(","));
        batch.parse_array(text.as_bytes(), now, &JobServerLimits::default()).unwrap();
        node.store.push(&batch.jobs()).await.unwrap();
        let counts = node.store.counts().await;
        assert_eq!(counts.queues.iter().map(|queue| queue.depth).sum::<u64>(), 15);
        assert_eq!((counts.queues.len(), counts.scheduled), (4, 5));
    });
}

/// A failure whose second step is not executed: the job waits until another node delivers it.
#[test]
fn a_crash_between_the_steps_of_a_failure_loses_no_job_and_doubles_none() {
    for blocked in [ARRIVE, END] {
        let Some(proxy) = start() else { return };
        run_alone(async move {
            let redis = proxy.endpoint();
            let dying = Node::open(&redis);
            dying.push(&job("job-00001")).await.unwrap();
            assert_eq!(dying.fetch_now("q").await.as_deref(), Some("job-00001"));
            proxy.block(&[blocked]);
            let failed = dying.store.fail(report("job-00001")).await;
            assert!(matches!(failed, Ok(FailOutcome::Retry { .. })), "{blocked}: {failed:?}");
            drop(dying.crash());
            let arrived = set_length(&proxy, "retry");
            assert_eq!(arrived, u64::from(blocked == END));
            proxy.block(&[]);
            let living = Node::open(&redis);
            let leaving = "weir:{queue:q}:leaving";
            living.until(async || !client(&redis).exists::<_, bool>(leaving).unwrap()).await;
            assert_eq!(set_length(&proxy, "retry"), 1, "{blocked}");
            assert_eq!(living.fetch_now("q").await, None, "it is not reserved any more");
        });
    }
}

#[test]
fn a_crash_between_the_steps_of_a_due_job_loses_no_job_and_doubles_none() {
    for blocked in [ARRIVE, END] {
        let Some(proxy) = start() else { return };
        run_alone(async move {
            let redis = proxy.endpoint();
            let dying = Node::open(&redis);
            assert_eq!(dying.fetch_now("q").await, None);
            proxy.block(&[blocked]);
            let due = r#"{"class":"A","args":[],"queue":"q","jid":"job-00001"}"#;
            let _: u64 = client(&redis).zadd("schedule", due, 1).unwrap();
            dying.until(async || set_length(&proxy, "schedule") == 0).await;
            drop(dying.crash());
            proxy.block(&[]);
            let living = Node::open(&redis);
            let leaving = "weir:{schedule}:leaving";
            living.until(async || !client(&redis).exists::<_, bool>(leaving).unwrap()).await;
            assert_eq!(living.fetch_now("q").await.as_deref(), Some("job-00001"));
            assert_eq!(living.fetch_now("q").await, None, "once");
        });
    }
}

#[test]
fn a_push_that_is_stored_in_part_says_so() {
    let Some(proxy) = start() else { return };
    run_alone(async move {
        let node = Node::open(&proxy.endpoint());
        let now = weir_base::clock::Clock::system().now();
        let jobs = |queues: [&str; 2]| {
            let jobs = queues.map(|queue| {
                format!(r#"{{"jid":"job-of-{queue}","jobtype":"T","args":[],"queue":"{queue}"}}"#)
            });
            format!("[{}]", jobs.join(","))
        };
        let _: () = client(&proxy.endpoint()).set("queue:text", "x").unwrap();
        let text = jobs(["fine", "text"]);
        let mut batch = JobBatch::new();
        batch.parse_array(text.as_bytes(), now, &JobServerLimits::default()).unwrap();
        let error = node.store.push(&batch.jobs()).await.unwrap_err();
        let StoreError::Uncertain(text) = &error else { panic!("{error:?}") };
        assert!(text.starts_with("1 of 2 jobs are stored"), "{text}");
        assert_eq!(node.fetch_now("fine").await.as_deref(), Some("job-of-fine"));
    });
}

#[test]
fn a_lease_beside_a_queue_that_is_over_stops_its_node_until_it_is_taken_again() {
    let Some(proxy) = start() else { return };
    run_alone(async move {
        let redis = proxy.endpoint();
        let node = Node::open_in(tempfile::tempdir().unwrap(), &redis, Duration::from_secs(600));
        node.push(&job("job-00001")).await.unwrap();
        node.push(&job("job-00002")).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        let mut client = client(&redis);
        assert_eq!(client.del::<_, u64>("weir:{queue:q}:nodes").unwrap(), 1);
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00002"));
        assert!(client.exists::<_, bool>("weir:{queue:q}:nodes").unwrap(), "taken again");
        assert_eq!(node.store.ack(&["job-00001", "job-00002"]).await, Ok(vec![]));
        // Both: the node continues under a new epoch, and its job is delivered again.
        node.push(&job("job-00003")).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00003"));
        assert_eq!(client.del::<_, u64>("weir:{nodes}:leases").unwrap(), 1);
        assert_eq!(client.del::<_, u64>("weir:{queue:q}:nodes").unwrap(), 1);
        let again = node.fetch("w2", "q", LONG).await.unwrap();
        assert_eq!(&*again.jid, "job-00003");
        let epochs: Vec<u64> = client.hvals("weir:{nodes}:epochs").unwrap();
        assert_eq!(epochs, [2]);
    });
}

#[test]
fn the_jobs_of_a_dead_node_come_back_after_its_lease() {
    let Some(proxy) = start() else { return };
    run_alone(async move {
        let redis = proxy.endpoint();
        let (dying, living) = (Node::open(&redis), Node::open(&redis));
        dying.push(&job("job-00001")).await.unwrap();
        assert_eq!(dying.fetch_now("q").await.as_deref(), Some("job-00001"));
        drop(dying.crash());
        let back = living.fetch("w1", "q", LONG).await.unwrap();
        assert_eq!(&*back.jid, "job-00001");
        assert_eq!(living.store.ack(&["job-00001"]).await, Ok(vec![]));
        living.store.close().await.unwrap();
    });
}

#[test]
fn a_server_that_is_found_to_reject_steps_later_gets_others() {
    let Some(databases) = two_databases() else { return };
    let proxy = SlotProxy::start(&databases[..1]);
    run_alone(async move {
        let node = Node::open(&databases[0]);
        node.push(&job("job-00001")).await.unwrap();
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("job-00001"));
        let _: Vec<String> = client(&databases[0]).hkeys("weir:{queue:q}:reserved").unwrap();
        // A later node reaches the same data through a proxy, and keeps to its rules.
        let other = Node::open(&proxy.endpoint());
        other.push(&job("job-00002")).await.unwrap();
        assert_eq!(other.fetch_now("q").await.as_deref(), Some("job-00002"));
        let layout: String = client(&databases[0]).get("weir:layout").unwrap();
        assert_eq!(layout, "1 slots");
        // And a node that finds its layout does so as well, whatever the server accepts.
        let third = Node::open(&databases[0]);
        third.push(&job("job-00003")).await.unwrap();
        assert_eq!(third.fetch_now("q").await.as_deref(), Some("job-00003"));
        assert!(third.store.fail(report("job-00003")).await.is_ok());
        let arrived: bool = client(&databases[0]).exists("weir:{retry}:arrived").unwrap();
        assert!(arrived);
    });
}

#[tokio::test]
async fn what_is_not_possible_is_named() {
    let Some(proxy) = start() else { return };
    let confirm = ConfirmSettings { replicas: 1, ..ConfirmSettings::default() };
    let settings = RedisStoreSettings { confirm, ..RedisStoreSettings::default() };
    let error = check_server(&proxy.endpoint(), &settings).await.problem.unwrap();
    assert!(error.contains("jobs.redis.confirm") && error.contains("one slot"), "{error}");
    let settings =
        RedisStoreSettings { namespace: "{shop}".to_owned(), ..RedisStoreSettings::default() };
    let error = check_server(&proxy.endpoint(), &settings).await.problem.unwrap();
    assert!(error.contains("jobs.redis.namespace"), "{error}");
}

#[test]
fn settings_that_can_not_be_read_are_unknown() {
    use weir_sidekiq::{RedisConnection, SampleLimits, SampleScope};
    let Some(proxy) = start() else { return };
    run_alone(async move {
        let limits = SampleLimits::default();
        let mut connection = RedisConnection::open(&proxy.endpoint(), &limits).await.unwrap();
        let snapshot = connection.sample(SampleScope::Everything, &limits).await.unwrap();
        let server = snapshot.server.unwrap().unwrap();
        assert!(server.snapshots.is_err(), "CONFIG is refused");
    });
}

#[test]
fn rules_of_queues_hold_over_all_slots() {
    let Some(proxy) = start() else { return };
    run_alone(async move {
        let mut settings = JobServerSettings::default();
        let queue = super::rig::queue_name("limited");
        let rules =
            weir_jobs::settings::QueueSettings { concurrency: Some(1), ..Default::default() };
        settings.queues.insert(queue, rules);
        let redis = RedisStoreSettings::default();
        let node = Node::open_as(&proxy.endpoint(), redis, &settings);
        for (jid, queue) in
            [("job-00001", "limited"), ("job-00002", "limited"), ("job-00003", "other")]
        {
            let json = format!(r#"{{"jid":"{jid}","jobtype":"T","args":[],"queue":"{queue}"}}"#);
            node.push(&json).await.unwrap();
        }
        let mut fetched = Vec::new();
        for queue in ["limited", "limited", "other"] {
            fetched.push(node.fetch_now(queue).await);
        }
        assert_eq!(fetched, [Some("job-00001".to_owned()), None, Some("job-00003".to_owned())]);
    });
}
