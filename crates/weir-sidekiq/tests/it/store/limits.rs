//! Limits of queues and of shared resources, over several nodes on one Redis.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::Commands as _;
use weir_base::clock::{Clock, Timestamp};
use weir_base::token_bucket::Rate;
use weir_jobs::allocation::{Allocation, QueueAllocation, ResourceLimits, ResourceRules};
use weir_jobs::lanes::BlockedJobs;
use weir_jobs::model::{Wid, WorkerEnd};
use weir_jobs::store::{BatchSize, FetchRequest, QueueAction, QueueCounts, Store, StoreError};
use weir_sidekiq::store::{NO_RESOURCES_IN_CLUSTER, RedisStoreSettings, check_server};

use super::rig::{LEASE, Node, queue_name, run, run_alone};
use crate::redis_server::RedisServer;
use crate::shared_redis::{client, two_databases};
use crate::slot_proxy::SlotProxy;

const LONG: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);
const START: Timestamp = Timestamp::from_micros(1_795_202_902_000_000);

/// So many at once after a pause, and one more per second.
fn rate(burst: u32) -> Allocation {
    rate_of(Rate::new(burst, SECOND))
}

fn rate_of(rate: Rate) -> Allocation {
    of_queue(QueueAllocation { rate: Some(rate), ..QueueAllocation::default() })
}

/// Rules of the queue `q`.
fn of_queue(rules: QueueAllocation) -> Allocation {
    Allocation { queues: [(queue_name("q"), rules)].into(), ..Allocation::default() }
}

/// One resource of queues.
fn resource(concurrency: Option<u32>, rate: Option<&str>, queues: &str) -> Allocation {
    let queues: BTreeSet<_> = queues.split(' ').map(queue_name).collect();
    let rate = rate.map(|rate| rate.parse().unwrap());
    let limits = ResourceLimits { concurrency, rate, queues, ..ResourceLimits::default() };
    let of = [("pay".to_owned(), limits)].into();
    Allocation { resources: ResourceRules { of }, ..Allocation::default() }
}

/// Pushes the jobs `q-000001` and so on.
async fn push(node: &Node, queue: &str, jobs: u32) {
    for number in 1..=jobs {
        let json = format!(
            r#"{{"jid":"{queue}-{number:06}","jobtype":"Test","args":[],"queue":"{queue}"}}"#
        );
        node.push(&json).await.unwrap();
    }
}

async fn allocate(nodes: &[&Node], allocation: &Allocation) {
    for node in nodes {
        node.store.allocate(allocation.clone());
    }
}

async fn queue(node: &Node, name: &str) -> QueueCounts {
    let queues = node.store.counts().await.queues;
    queues.into_iter().find(|queue| queue.name.as_str() == name).unwrap()
}

/// Returns the jobs that use the resource, and those that wait for it.
async fn used(node: &Node) -> (u64, u64) {
    let counts = node.store.counts().await;
    assert_eq!(counts.resources.len(), 1);
    (counts.resources[0].used, counts.resources[0].blocked)
}

#[test]
fn nodes_share_the_rate_of_a_queue_and_a_killed_one_gives_no_start_back() {
    run(async |redis| {
        let clock = Clock::manual(START);
        let (one, other) = (Node::at(&redis, &clock), Node::at(&redis, &clock));
        allocate(&[&one, &other], &rate(3)).await;
        push(&one, "q", 9).await;
        assert_eq!(one.fetch_now("q").await.as_deref(), Some("q-000001"));
        assert_eq!(other.fetch_now("q").await.as_deref(), Some("q-000002"));
        // Without a goodbye.
        drop(one.crash());
        let third = Node::at(&redis, &clock);
        allocate(&[&third], &rate(3)).await;
        assert_eq!(third.fetch_now("q").await.as_deref(), Some("q-000003"));
        assert_eq!((third.fetch_now("q").await, other.fetch_now("q").await), (None, None));
        let blocked = BlockedJobs { rate: 6, ..BlockedJobs::default() };
        assert_eq!(queue(&other, "q").await.blocked, blocked);
        clock.advance(SECOND);
        assert_eq!(other.fetch_now("q").await.as_deref(), Some("q-000004"));
        assert_eq!(third.fetch_now("q").await, None);
        clock.advance(10 * SECOND);
        for number in 5..8 {
            assert_eq!(third.fetch_now("q").await, Some(format!("q-{number:06}")));
        }
        assert_eq!(other.fetch_now("q").await, None);
    });
}

#[test]
fn nodes_that_fetch_at_once_start_as_many_jobs_as_the_rate_allows() {
    run(async |redis| {
        let clock = Clock::manual(START);
        let nodes = [Node::at(&redis, &clock), Node::at(&redis, &clock)];
        allocate(&[&nodes[0], &nodes[1]], &rate(50)).await;
        push(&nodes[0], "q", 100).await;
        let drain = async |node: &Node| {
            let mut jobs = 0;
            while node.fetch_now("q").await.is_some() {
                jobs += 1;
            }
            jobs
        };
        let (one, other) = tokio::join!(drain(&nodes[0]), drain(&nodes[1]));
        assert_eq!(one + other, 50);
        assert!(one > 0 && other > 0);
    });
}

#[test]
fn a_rate_changes_at_a_reload_and_starts_count() {
    run(async |redis| {
        let clock = Clock::manual(START);
        let node = Node::at(&redis, &clock);
        let hourly = rate_of(Rate::new(1, Duration::from_secs(3_600)));
        allocate(&[&node], &hourly).await;
        push(&node, "q", 5).await;
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("q-000001"));
        assert_eq!(node.fetch_now("q").await, None);
        allocate(&[&node], &rate(1)).await;
        assert_eq!(node.fetch_now("q").await, None, "the start counts for the new rate");
        clock.advance(SECOND);
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("q-000002"), "not after an hour");
        allocate(&[&node], &hourly).await;
        assert_eq!(node.fetch_now("q").await, None);
        allocate(&[&node], &Allocation::default()).await;
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("q-000003"));
        allocate(&[&node], &hourly).await;
        assert_eq!(node.fetch_now("q").await, None, "what started before counts");
        node.store.act_on_queues(&[queue_name("q")], QueueAction::Remove).await.unwrap();
        push(&node, "q", 1).await;
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("q-000001"), "it is another queue");
    });
}

#[test]
fn a_clock_that_is_set_back_holds_a_rate_back_for_one_interval() {
    run(async |redis| {
        let clock = Clock::manual(START);
        let node = Node::at(&redis, &clock);
        allocate(&[&node], &rate(1)).await;
        push(&node, "q", 3).await;
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("q-000001"));
        clock.set_back(Duration::from_secs(3_600));
        assert_eq!(node.fetch_now("q").await, None);
        clock.advance(SECOND);
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("q-000002"));
    });
}

#[test]
fn a_queue_that_sleeps_is_not_read() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async {
        let node = Node::open(&redis.endpoint());
        allocate(&[&node], &rate_of(Rate::new(1, Duration::from_secs(3_600)))).await;
        push(&node, "q", 2).await;
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("q-000001"));
        assert_eq!(node.fetch_now("q").await, None);
        // What a round does: it reads lengths, or takes a job.
        let reads = || {
            let stats: String =
                redis::cmd("INFO").arg("commandstats").query(&mut redis.client()).unwrap();
            let calls = |name: &str| {
                let line = stats.lines().find_map(|line| line.strip_prefix(name))?;
                line.strip_prefix(":calls=")?.split(',').next()?.parse::<u64>().ok()
            };
            ["cmdstat_llen", "cmdstat_rpop"]
                .map(|name| calls(name).unwrap_or(0))
                .iter()
                .sum::<u64>()
        };
        let before = reads();
        // While it waits, it would poll some ten times.
        assert!(node.fetch("w1", "q", Duration::from_millis(500)).await.is_none());
        assert_eq!(reads(), before);
        assert!(node.fetch("w1", "q other", Duration::from_millis(500)).await.is_none());
        assert!(reads() > before, "another queue is");
    });
}

#[test]
fn a_fetch_that_waits_for_a_rate_is_served_in_time_beside_others() {
    run(async |redis| {
        let node = Node::open(&redis);
        allocate(&[&node], &rate_of(Rate::new(1, Duration::from_millis(5)))).await;
        push(&node, "q", 200).await;
        let fetches = (0..4).map(|worker| {
            let node = &node;
            async move {
                let mut jobs = 0;
                let wid = format!("w{worker}");
                while jobs < 50 && node.fetch(&wid, "q", LONG).await.is_some() {
                    jobs += 1;
                }
                jobs
            }
        });
        // If each waited for the next poll, of 20 to 100 ms, it would take longer than `LEASE` many times.
        let all = futures_util::future::join_all(fetches);
        let served = tokio::time::timeout(Duration::from_secs(12), all).await;
        assert_eq!(served.unwrap().iter().sum::<u32>(), 200);
    });
}

#[test]
fn a_key_of_another_type_stops_only_its_queue() {
    run(async |redis| {
        let clock = Clock::manual(START);
        let node = Node::at(&redis, &clock);
        allocate(&[&node], &rate(5)).await;
        push(&node, "q", 1).await;
        let keys = ["weir:{queue:q}:control", "weir:{queue:q}:reserved"];
        for (number, key) in keys.into_iter().enumerate() {
            push(&node, "other", 1).await;
            let () = client(&redis).set(key, "odd").unwrap();
            let job = node.fetch("w1", "q other", Duration::ZERO).await;
            assert_eq!(job.map(|job| job.jid).as_deref(), Some("other-000001"), "{number}");
            assert_eq!(node.fetch_now("q").await, None);
            let _: u64 = client(&redis).del(key).unwrap();
            clock.advance(Duration::from_secs(1));
        }
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("q-000001"));
    });
}

#[test]
fn nodes_share_a_resource_over_queues() {
    run(async |redis| {
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        let nodes = [&one, &other];
        allocate(&nodes, &resource(Some(2), None, "q r")).await;
        for name in ["q", "r", "free"] {
            push(&one, name, 3).await;
        }
        assert_eq!(one.fetch_now("q").await.as_deref(), Some("q-000001"));
        assert_eq!(other.fetch_now("r").await.as_deref(), Some("r-000001"));
        for node in nodes {
            assert_eq!(node.fetch_now("q").await, None);
            let next = node.fetch("w1", "q r free", Duration::ZERO).await.unwrap();
            assert!(next.jid.starts_with("free"), "other queues are served");
            assert_eq!(used(node).await, (2, 4));
        }
        let counts = queue(&other, "r").await;
        assert_eq!(counts.blocked, BlockedJobs { resource: 2, ..BlockedJobs::default() });
        assert_eq!(counts.blocked_by_resource, [("pay".to_owned(), 2)]);
        let (fetched, acked) = tokio::join!(other.fetch("w1", "r", LONG), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            one.store.ack(&["q-000001"]).await
        });
        assert_eq!((&*fetched.unwrap().jid, acked), ("r-000002", Ok(vec![])));
        assert_eq!(one.fetch_now("q r").await, None);
        allocate(&nodes, &resource(Some(3), None, "q r")).await;
        assert_eq!(one.fetch_now("q r").await.as_deref(), Some("q-000002"));
        assert_eq!(one.fetch_now("q r").await, None);
    });
}

#[test]
fn nodes_that_fetch_at_once_do_not_exceed_a_limit() {
    run(async |redis| {
        let nodes = [Node::open(&redis), Node::open(&redis)];
        let concurrency = Some(7);
        let of_queue = of_queue(QueueAllocation { concurrency, ..QueueAllocation::default() });
        for allocation in [resource(concurrency, None, "q r"), of_queue] {
            allocate(&[&nodes[0], &nodes[1]], &allocation).await;
            push(&nodes[0], "q", 10).await;
            push(&nodes[0], "r", 10).await;
            let other = if allocation.queues.is_empty() { "r" } else { "q" };
            let queues = [queue_name("q"), queue_name(other)];
            let fetch = async |node: &Node| {
                let (max, wait) = (BatchSize::of(5), Duration::ZERO);
                let request = FetchRequest { wid: None, queues: &queues, max, wait };
                node.store.fetch(request).await.unwrap()
            };
            // Each reads that none runs.
            let (one, other) = tokio::join!(fetch(&nodes[0]), fetch(&nodes[1]));
            assert_eq!(one.len() + other.len(), 7);
            for (node, jobs) in nodes.iter().zip([one, other]) {
                let jids: Vec<&str> = jobs.iter().map(|job| &*job.jid).collect();
                assert_eq!(node.store.ack(&jids).await, Ok(vec![]));
            }
            for name in ["q", "r"] {
                let all = [queue_name(name)];
                nodes[0].store.act_on_queues(&all, QueueAction::Clear).await.unwrap();
            }
        }
    });
}

#[test]
fn jobs_in_progress_count_for_a_resource_that_is_new() {
    run(async |redis| {
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        push(&one, "q", 2).await;
        push(&one, "r", 2).await;
        one.fetch_now("q").await.unwrap();
        one.fetch_now("r").await.unwrap();
        allocate(&[&other], &resource(Some(2), None, "q r")).await;
        assert_eq!((other.fetch_now("q r").await, used(&other).await), (None, (2, 2)));
    });
}

#[test]
fn a_killed_node_holds_a_resource_until_its_lease_is_over() {
    run(async |redis| {
        let (dying, living) = (Node::open(&redis), Node::open(&redis));
        allocate(&[&dying, &living], &resource(Some(1), None, "q r")).await;
        push(&dying, "q", 1).await;
        push(&dying, "r", 1).await;
        assert_eq!(dying.fetch_now("q").await.as_deref(), Some("q-000001"));
        drop(dying.crash());
        assert_eq!(living.fetch_now("q r").await, None);
        assert_eq!(used(&living).await.0, 1);
        let mut jids = BTreeSet::new();
        for _ in 0..2 {
            let job = living.fetch("w1", "q r", LONG).await.unwrap();
            assert_eq!((used(&living).await.0, living.fetch_now("q r").await), (1, None));
            assert_eq!(living.store.ack(&[&*job.jid]).await, Ok(vec![]));
            jids.insert(job.jid);
        }
        assert_eq!(jids.len(), 2, "{LEASE:?}: none is lost, none runs twice");
    });
}

#[test]
fn a_worker_that_ends_leaves_a_resource() {
    run(async |redis| {
        let node = Node::open(&redis);
        allocate(&[&node], &resource(Some(1), None, "q r")).await;
        push(&node, "q", 1).await;
        push(&node, "r", 1).await;
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("q-000001"));
        assert_eq!(node.fetch_now("r").await, None);
        assert_eq!(node.store.release(&Wid::new("w1"), WorkerEnd::Killed).await, Ok(1));
        assert_eq!(used(&node).await.0, 0);
        assert_eq!(node.fetch_now("r").await.as_deref(), Some("r-000001"));
    });
}

#[test]
fn a_resource_has_a_rate_over_queues_and_nodes() {
    run(async |redis| {
        let clock = Clock::manual(START);
        let (one, other) = (Node::at(&redis, &clock), Node::at(&redis, &clock));
        let nodes = [&one, &other];
        allocate(&nodes, &resource(None, Some("1/s burst 2"), "q r")).await;
        push(&one, "q", 5).await;
        push(&one, "r", 5).await;
        assert_eq!(one.fetch_now("q").await.as_deref(), Some("q-000001"));
        assert_eq!(other.fetch_now("r").await.as_deref(), Some("r-000001"));
        assert_eq!((one.fetch_now("r").await, other.fetch_now("q").await), (None, None));
        assert_eq!(used(&one).await, (2, 8));
        clock.advance(SECOND);
        assert_eq!(other.fetch_now("q r").await.as_deref(), Some("q-000002"));
        assert_eq!(one.fetch_now("r").await, None);
        assert_eq!(queue(&one, "q").await.blocked_by_resource, [("pay".to_owned(), 3)]);
        clock.advance(10 * SECOND);
        // The limits of a queue and of its resources hold together.
        let both = Allocation {
            resources: resource(None, Some("1/s burst 2"), "q r").resources,
            ..rate(1)
        };
        allocate(&nodes, &both).await;
        assert_eq!(one.fetch_now("q r").await.as_deref(), Some("q-000003"));
        assert_eq!(one.fetch_now("q r").await.as_deref(), Some("r-000002"));
        assert_eq!(one.fetch_now("q r").await, None);
    });
}

#[test]
fn resources_are_rejected_where_each_step_uses_one_slot() {
    let Some(endpoints) = two_databases() else { return };
    let proxy = SlotProxy::start(&endpoints);
    run_alone(async move {
        let redis = proxy.endpoint();
        assert!(check_server(&redis, &RedisStoreSettings::default()).await.is_split);
        let node = Node::open(&redis);
        push(&node, "q", 2).await;
        allocate(&[&node], &resource(Some(5), None, "q")).await;
        let queues = [queue_name("q")];
        let wid = Wid::new("w1");
        let max = BatchSize::ONE;
        let request = FetchRequest { wid: Some(&wid), queues: &queues, max, wait: LONG };
        let rejected = node.store.fetch(request).await;
        assert_eq!(rejected.unwrap_err(), StoreError::Unsupported(NO_RESOURCES_IN_CLUSTER));
        assert!(node.store.check_layout().await.is_err());
        let rates = rate_of(Rate::new(1, Duration::from_secs(3_600)));
        allocate(&[&node], &rates).await;
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("q-000001"));
        assert_eq!(node.fetch_now("q").await, None);
    });
}
