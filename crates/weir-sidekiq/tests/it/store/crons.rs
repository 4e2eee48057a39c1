//! Cron jobs of nodes that share a Redis: one job for each time.

use std::time::Duration;

use redis::Commands as _;
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::cron::{CRON_KEPT, CronRunOutcome};
use weir_jobs::job::JobBatch;
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{Store, StoreError};
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::NO_UNIQUE_JOBS;

use super::cutting_proxy::CuttingProxy;
use super::rig::{Node, run, run_alone, run_for};
use crate::redis_cluster::RedisCluster;
use crate::redis_server::RedisServer;
use crate::shared_redis::{client, database, socket, two_databases};
use crate::slot_proxy::SlotProxy;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// A minute begins.
const START: Timestamp = Timestamp::from_micros(1_795_202_880_000_000);
const CRON: &str = "weir:cron";
const CLAIMS: &str = "weir:{weir:cron}:claims";

async fn run_time(
    node: &Node,
    name: &str,
    at: Timestamp,
    queue: &str,
) -> Result<CronRunOutcome, StoreError> {
    run_job(node, name, at, &job(name, at, queue)).await
}

async fn run_job(
    node: &Node,
    name: &str,
    at: Timestamp,
    json: &str,
) -> Result<CronRunOutcome, StoreError> {
    let mut batch = JobBatch::new();
    let job = batch.parse_one(json.as_bytes(), at, &JobServerLimits::default()).unwrap();
    node.store.cron_run(name, at, Some(job)).await
}

fn job(name: &str, at: Timestamp, queue: &str) -> String {
    let jid = format!("cron-{name}-{}", at.as_micros());
    format!(r#"{{"jid":"{jid}","jobtype":"Test","args":[],"queue":"{queue}"}}"#)
}

/// Does what a server does that has the cron job of each minute. Returns the number of jobs that it enqueued.
async fn enqueue_due(node: &Node, clock: &Clock, queue: &str) -> u64 {
    let states = node.store.cron_register(&["a"]).await.unwrap();
    let minute = clock.now().as_micros() / 60_000_000 * 60_000_000;
    let at = Timestamp::from_micros(minute);
    if states.by_name["a"].last >= at {
        return 0;
    }
    let outcome = run_time(node, "a", at, queue).await.unwrap();
    u64::from(outcome == CronRunOutcome::Handled)
}

fn length(redis: &RedisEndpoint, queue: &str) -> u64 {
    client(redis).llen(format!("queue:{queue}")).unwrap()
}

/// Three nodes run one schedule, and one of them ends every few minutes. Their clocks are ahead by so many seconds.
/// Returns the number of jobs.
async fn enqueue_for_two_hours(redis: &RedisEndpoint, ahead: [u64; 3]) -> u64 {
    let skews = ahead.map(Duration::from_secs);
    let clocks = skews.map(|skew| Clock::manual(START + skew));
    let mut nodes = clocks.each_ref().map(|clock| Node::at(redis, clock));
    let mut enqueued = 0;
    for (node, clock) in nodes.iter().zip(&clocks) {
        enqueued += enqueue_due(node, clock, "q").await;
    }
    for half_minute in 0..240 {
        clocks.iter().for_each(|clock| clock.advance(MINUTE / 2));
        let [one, two, three] = &nodes;
        let counts = tokio::join!(
            enqueue_due(one, &clocks[0], "q"),
            enqueue_due(two, &clocks[1], "q"),
            enqueue_due(three, &clocks[2], "q"),
        );
        enqueued += counts.0 + counts.1 + counts.2;
        if half_minute % 7 == 0 {
            let place = half_minute / 7 % 3;
            let old = std::mem::replace(&mut nodes[place], Node::at(redis, &clocks[place]));
            drop(old.crash());
        }
    }
    enqueued
}

#[test]
fn each_time_enqueues_one_job_whatever_the_clocks_of_the_nodes() {
    run(async |redis| {
        let enqueued = Box::pin(enqueue_for_two_hours(&redis, [0, 1, 2])).await;
        assert_eq!((enqueued, length(&redis, "q")), (120, 120));
    });
    run(async |redis| {
        let enqueued = Box::pin(enqueue_for_two_hours(&redis, [0, 31, 150])).await;
        assert_eq!(
            (enqueued, length(&redis, "q")),
            (121, 121),
            "one clock is at the second minute"
        );
    });
}

#[test]
fn each_time_enqueues_one_job_where_keys_are_divided() {
    let Some(endpoints) = two_databases() else { return };
    run_alone(async move {
        let proxy = SlotProxy::start(&endpoints);
        let redis = proxy.endpoint();
        let enqueued = Box::pin(enqueue_for_two_hours(&redis, [0, 1, 2])).await;
        assert_eq!((enqueued, length(&redis, "q")), (120, 120));
        assert_eq!(client(&redis).hlen::<_, u64>(CLAIMS).unwrap(), 0, "each claim has ended");
    });
}

#[test]
fn a_cluster_enqueues_one_job_for_each_time_of_each_queue() {
    let Some(cluster) = RedisCluster::start() else { return };
    run_for(Duration::from_secs(120), async move {
        let clock = Clock::manual(START);
        let redis = cluster.endpoint();
        let nodes = [Node::at(&redis, &clock), Node::at(&redis, &clock)];
        let queues: Vec<String> = (0..3).map(|place| cluster.queue_at(place)).collect();
        for minute in 0..20 {
            let at = START + MINUTE * minute;
            for queue in &queues {
                let [one, other] = nodes.each_ref().map(|node| run_time(node, queue, at, queue));
                let (one, other) = tokio::join!(one, other);
                let outcomes = [one.unwrap(), other.unwrap()];
                let handled = outcomes.iter().filter(|it| **it == CronRunOutcome::Handled);
                assert_eq!(handled.count(), 1, "{outcomes:?}");
            }
        }
        for queue in &queues {
            let list = format!("queue:{queue}");
            assert_eq!(cluster.query::<u64>(&list, &["LLEN", &list]), 20);
        }
    });
}

#[test]
fn a_pause_on_one_node_holds_for_all() {
    run(async |redis| {
        let clock = Clock::manual(START);
        let (one, other) = (Node::at(&redis, &clock), Node::at(&redis, &clock));
        other.store.cron_register(&["a"]).await.unwrap();
        one.store.cron_pause("a", true).await.unwrap();
        // What the other node has read before says that it runs.
        let paused = run_time(&other, "a", START + MINUTE, "q").await;
        assert_eq!((paused, length(&redis, "q")), (Ok(CronRunOutcome::Paused), 0));
        other.store.cron_pause("a", false).await.unwrap();
        let handled = run_time(&one, "a", START + MINUTE * 2, "q").await;
        assert_eq!((handled, length(&redis, "q")), (Ok(CronRunOutcome::Handled), 1));
    });
}

#[test]
fn a_new_cron_job_begins_once() {
    run(async |redis| {
        let clocks = [Clock::manual(START), Clock::manual(START + MINUTE)];
        let (one, other) = (Node::at(&redis, &clocks[0]), Node::at(&redis, &clocks[1]));
        one.store.cron_register(&["a"]).await.unwrap();
        let states = other.store.cron_register(&["a"]).await.unwrap();
        assert_eq!(states.by_name["a"].last, START, "its times since then are not lost");
    });
}

#[test]
fn a_node_without_a_cron_job_does_not_forget_that_of_another() {
    run(async |redis| {
        let clock = Clock::manual(START);
        let (one, other) = (Node::at(&redis, &clock), Node::at(&redis, &clock));
        one.store.cron_register(&["a"]).await.unwrap();
        one.store.cron_pause("a", true).await.unwrap();
        let mut left = CRON_KEPT;
        while left > DAY {
            clock.advance(DAY);
            left -= DAY;
            let states = other.store.cron_register(&["b"]).await.unwrap();
            assert!(states.by_name["a"].paused);
        }
        one.store.cron_register(&["a"]).await.unwrap();
        clock.advance(CRON_KEPT);
        other.store.cron_register(&["b"]).await.unwrap();
        assert!(other.store.cron_states().await.unwrap().by_name.contains_key("a"));
        clock.advance(Duration::from_secs(1));
        let states = one.store.cron_register(&["a"]).await.unwrap();
        let state = &states.by_name["a"];
        assert_eq!((state.last, state.paused), (clock.now(), false), "it is new");
        let left: i64 = redis::cmd("TTL").arg(CRON).query(&mut client(&redis)).unwrap();
        assert!(left > 0, "the key expires with its last cron job");
    });
}

#[test]
fn a_time_whose_reply_was_lost_is_not_enqueued_again() {
    let Some(redis) = database() else { return };
    run_alone(async move {
        let proxy = CuttingProxy::start(socket(&redis));
        let clock = Clock::manual(START);
        let node = Node::at(&proxy.endpoint(&redis), &clock);
        let first = run_time(&node, "vacuum", START, "q").await;
        assert_eq!(first, Ok(CronRunOutcome::Handled), "the script is known from now on");
        proxy.cut_after("vacuum");
        let lost = run_time(&node, "vacuum", START + MINUTE, "q").await;
        assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
        node.until(async || {
            let again = run_time(&node, "vacuum", START + MINUTE, "q").await;
            assert_ne!(again, Ok(CronRunOutcome::Handled));
            again == Ok(CronRunOutcome::HandledBefore)
        })
        .await;
        assert_eq!(length(&redis, "q"), 2);
    });
}

#[test]
fn a_queue_whose_key_is_no_list_leaves_the_time_open() {
    run(async |redis| {
        let node = Node::at(&redis, &Clock::manual(START));
        client(&redis).set::<_, _, ()>("queue:q", "text").unwrap();
        run_time(&node, "a", START, "q").await.unwrap_err();
        client(&redis).del::<_, ()>("queue:q").unwrap();
        assert_eq!(run_time(&node, "a", START, "q").await, Ok(CronRunOutcome::Handled));
        assert_eq!(length(&redis, "q"), 1);
    });
}

/// Nodes with other settings, as during a rolling change of the settings.
#[test]
fn a_time_enters_one_queue_although_nodes_name_different_ones() {
    let Some(endpoints) = two_databases() else { return };
    run_alone(async move {
        let proxy = SlotProxy::start(&endpoints);
        for redis in [endpoints[0].clone(), proxy.endpoint()] {
            let clock = Clock::manual(START);
            let (old, new) = (Node::at(&redis, &clock), Node::at(&redis, &clock));
            for minute in 0..20 {
                let at = START + MINUTE * minute;
                let (one, other) =
                    tokio::join!(run_time(&old, "c", at, "old"), run_time(&new, "c", at, "new"));
                assert_ne!(one.unwrap(), other.unwrap());
            }
            assert_eq!(length(&redis, "old") + length(&redis, "new"), 20);
            client(&redis).del::<_, ()>(&[CRON]).unwrap();
            client(&redis).del::<_, ()>("queue:old").unwrap();
            client(&redis).del::<_, ()>("queue:new").unwrap();
        }
    });
}

/// The time in `minute` of a cron job whose job has these members of `custom`.
async fn run_custom(node: &Node, minute: u32, custom: &str) -> Result<CronRunOutcome, StoreError> {
    let at = START + MINUTE * minute;
    let jid = format!("cron-u-{minute}");
    let json = format!(
        r#"{{"jid":"{jid}","jobtype":"Test","args":[],"queue":"q","custom":{{{custom}}}}}"#
    );
    run_job(node, "u", at, &json).await
}

#[test]
fn a_job_is_left_out_while_an_earlier_one_has_its_lock() {
    run(async |redis| {
        let node = Node::at(&redis, &Clock::manual(START));
        let unique = r#""unique_for":3600"#;
        for minute in 0..2 {
            assert_eq!(run_custom(&node, minute, unique).await, Ok(CronRunOutcome::Handled));
            assert_eq!(length(&redis, "q"), 1, "{minute}");
        }
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("cron-u-0"));
        assert_eq!(node.store.ack(&["cron-u-0"]).await, Ok(vec![]));
        assert_eq!(run_custom(&node, 1, unique).await, Ok(CronRunOutcome::HandledBefore));
        assert_eq!(run_custom(&node, 2, unique).await, Ok(CronRunOutcome::Handled));
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("cron-u-2"));
    });
}

#[test]
fn a_time_stays_open_while_the_batch_of_its_job_does_not_exist() {
    run(async |redis| {
        let node = Node::at(&redis, &Clock::manual(START));
        let bid = weir_jobs::custom::BatchId::random();
        let custom = format!(r#""bid":"{bid}""#);
        let missing = Err(StoreError::NoSuchBatch(bid));
        assert_eq!(run_custom(&node, 0, &custom).await, missing);
        assert_eq!(run_custom(&node, 0, r#""track":1"#).await, Ok(CronRunOutcome::Handled));
        assert_eq!(length(&redis, "q"), 1);
    });
}

#[test]
fn a_job_with_a_lock_is_rejected_where_keys_are_divided() {
    run_divided(async |_, node| {
        let rejected = run_custom(&node, 0, r#""unique_for":3600"#).await;
        assert_eq!(rejected, Err(StoreError::Unsupported(NO_UNIQUE_JOBS)));
    });
}

/// Runs `test` with a proxy before two servers, and a node there.
fn run_divided(test: impl AsyncFnOnce(SlotProxy, Node)) {
    let Some(endpoints) = two_databases() else { return };
    run_alone(async move {
        let proxy = SlotProxy::start(&endpoints);
        let node = Node::at(&proxy.endpoint(), &Clock::manual(START));
        test(proxy, node).await;
    });
}

#[test]
fn another_node_stores_the_job_of_a_claim() {
    run_divided(async |proxy, node| {
        proxy.block(&["weir:{queue:old}:cron"]);
        run_time(&node, "a", START, "old").await.unwrap_err();
        proxy.block(&[]);
        let redis = proxy.endpoint();
        assert_eq!((length(&redis, "old"), length(&redis, "new")), (0, 0));
        let other = Node::at(&redis, &Clock::manual(START));
        let handled = run_time(&other, "a", START, "new").await;
        assert_eq!(handled, Ok(CronRunOutcome::Handled));
        assert_eq!((length(&redis, "old"), length(&redis, "new")), (1, 0), "the claim decides");
        assert_eq!(run_time(&node, "a", START, "old").await, Ok(CronRunOutcome::HandledBefore));
        assert_eq!(length(&redis, "old"), 1);
    });
}

#[test]
fn a_claim_whose_job_is_stored_is_only_ended() {
    run_divided(async |proxy, node| {
        let claim = format!("{} {}", START.as_micros(), job("a", START, "q"));
        assert_eq!(run_time(&node, "a", START, "q").await, Ok(CronRunOutcome::Handled));
        let redis = proxy.endpoint();
        // Redis has the job and not the end of the claim.
        client(&redis).hset::<_, _, _, ()>(CLAIMS, "a", claim).unwrap();
        client(&redis).hdel::<_, _, ()>(CRON, "a").unwrap();
        let other = Node::at(&redis, &Clock::manual(START));
        assert_eq!(run_time(&other, "a", START, "q").await, Ok(CronRunOutcome::HandledBefore));
        assert_eq!(length(&redis, "q"), 1);
        assert_eq!(client(&redis).hlen::<_, u64>(CLAIMS).unwrap(), 0);
    });
}

#[test]
fn a_claim_of_an_earlier_time_ends_without_a_job() {
    run_divided(async |proxy, node| {
        proxy.block(&["weir:{queue:q}:cron"]);
        run_time(&node, "a", START, "q").await.unwrap_err();
        run_time(&node, "b", START, "q").await.unwrap_err();
        proxy.block(&[]);
        let redis = proxy.endpoint();
        let later = START + MINUTE;
        assert_eq!(run_time(&node, "a", later, "q").await, Ok(CronRunOutcome::Handled));
        let newest: String = client(&redis).lindex("queue:q", 0).unwrap();
        assert_eq!(length(&redis, "q"), 1, "only the last of several missed times counts");
        assert!(newest.contains(&later.as_micros().to_string()), "{newest}");
        // It is skipped, or the cron job was paused.
        assert_eq!(node.store.cron_run("b", START, None).await, Ok(CronRunOutcome::Handled));
        assert_eq!(run_time(&node, "b", START, "q").await, Ok(CronRunOutcome::HandledBefore));
        assert_eq!(length(&redis, "q"), 1);
    });
}

#[test]
fn a_claim_that_can_not_be_read_is_named() {
    run_divided(async |proxy, node| {
        client(&proxy.endpoint()).hset::<_, _, _, ()>(CLAIMS, "a", "what").unwrap();
        let error = run_time(&node, "a", START, "q").await.unwrap_err();
        assert!(error.to_string().contains(r#"the claim of the cron job "a""#), "{error}");
    });
}

#[test]
fn on_a_full_redis_a_time_stays_open() {
    let Some(server) = RedisServer::start() else { return };
    run_alone(async move {
        let node = Node::at(&server.endpoint(), &Clock::manual(START));
        node.store.cron_register(&["a"]).await.unwrap();
        server.run(&[&["CONFIG", "SET", "maxmemory", "1"]]);
        let full = run_time(&node, "a", START + MINUTE, "q").await;
        assert!(matches!(full, Err(StoreError::Full(_))), "{full:?}");
        let states = node.store.cron_states().await.unwrap();
        assert_eq!(states.by_name["a"].last, START, "it is read, and the time is open");
        server.run(&[&["CONFIG", "SET", "maxmemory", "0"]]);
        let handled = run_time(&node, "a", START + MINUTE, "q").await;
        assert_eq!(handled, Ok(CronRunOutcome::Handled));
        assert_eq!(server.client().llen::<_, u64>("queue:q").unwrap(), 1);
    });
}
