//! Shared resources that jobs use by their type, over several nodes on one Redis.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis::Commands as _;
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::allocation::{Allocation, QueueAllocation, ResourceLimits, ResourceRules};
use weir_jobs::model::{EntryKey, JobLocation, Wid, WorkerEnd};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{
    Action, BatchSize, FetchRequest, FindOutcome, JobState, QueueAction, QueueCounts, ScanRequest,
    Selection, Store,
};
use weir_sidekiq::RedisEndpoint;

use super::rig::{Node, queue_name, run, run_alone};
use crate::redis_server::RedisServer;
use crate::shared_redis::client;

const LONG: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);
const START: Timestamp = Timestamp::from_micros(1_795_202_902_000_000);

/// The resource `pay` of some types.
fn pay(concurrency: Option<u32>, rate: Option<&str>, types: &str) -> Allocation {
    let types: BTreeSet<_> = types.split(' ').map(str::to_owned).collect();
    let rate = rate.map(|rate| rate.parse().unwrap());
    let limits = ResourceLimits { concurrency, rate, types, ..ResourceLimits::default() };
    let of = [("pay".to_owned(), limits)].into();
    Allocation { resources: ResourceRules { of }, ..Allocation::default() }
}

async fn allocate(nodes: &[&Node], allocation: &Allocation) {
    for node in nodes {
        node.store.allocate(allocation.clone());
    }
}

/// Pushes jobs named by a letter, their type: `A X` are `A-000001` and `X-000002`, counted from `first`.
async fn push(node: &Node, queue: &str, first: usize, jobs: &str) {
    for (number, jobtype) in (first..).zip(jobs.split(' ')) {
        let json = format!(
            r#"{{"jid":"{jobtype}-{number:06}","jobtype":"{jobtype}","args":[],"queue":"{queue}"}}"#
        );
        node.push(&json).await.unwrap();
    }
}

/// What is fetched until nothing may start: `A1 X2`.
async fn served(node: &Node, queues: &str) -> String {
    let mut jobs = Vec::new();
    while let Some(job) = node.fetch("w1", queues, Duration::ZERO).await {
        let (jobtype, number) = job.jid.split_once('-').unwrap();
        jobs.push(format!("{jobtype}{}", number.trim_start_matches('0')));
    }
    jobs.join(" ")
}

async fn fetch_many(node: &Node, queues: &str, max: usize) -> Vec<Box<str>> {
    let queues: Vec<_> = queues.split(' ').map(queue_name).collect();
    let (max, wait) = (BatchSize::of(max), Duration::ZERO);
    let request = FetchRequest { wid: None, queues: &queues, max, wait };
    let jobs = node.store.fetch(request).await.unwrap();
    jobs.into_iter().map(|job| job.jid).collect()
}

async fn ack(node: &Node, jid: &str) {
    assert_eq!(node.store.ack(&[jid]).await, Ok(vec![]), "{jid}");
}

/// The jobs that use the resource, and those that wait for it.
async fn used(node: &Node) -> (u64, u64) {
    let counts = node.store.counts().await;
    (counts.resources[0].used, counts.resources[0].blocked)
}

async fn queue(node: &Node, name: &str) -> QueueCounts {
    let queues = node.store.counts().await.queues;
    queues.into_iter().find(|queue| queue.name.as_str() == name).unwrap()
}

fn list(redis: &RedisEndpoint, queue: &str) -> Vec<String> {
    client(redis).lrange(format!("queue:{queue}"), 0, -1).unwrap()
}

/// Jids of a list, the one that is served next first.
fn jids(redis: &RedisEndpoint, queue: &str) -> String {
    let jid = |text: &String| {
        let job: serde_json::Value = serde_json::from_str(text).unwrap();
        job["jid"].as_str().unwrap().trim_end_matches(char::is_numeric).to_owned()
            + job["jid"].as_str().unwrap().trim_start_matches(|it| !('1'..='9').contains(&it))
    };
    let jids: Vec<String> = list(redis, queue).iter().rev().map(jid).collect();
    jids.join(" ").replace('-', "")
}

fn queues(redis: &RedisEndpoint) -> BTreeSet<String> {
    client(redis).smembers("queues").unwrap()
}

#[test]
fn nodes_share_the_limit_of_a_type_over_queues() {
    run(async |redis| {
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        let nodes = [&one, &other];
        allocate(&nodes, &pay(Some(2), None, "A B")).await;
        push(&one, "q", 1, "A A X A").await;
        push(&one, "r", 5, "B X").await;
        assert_eq!(one.fetch_now("q").await.as_deref(), Some("A-000001"));
        assert_eq!(other.fetch_now("q").await.as_deref(), Some("A-000002"));
        assert_eq!(
            (served(&one, "r q").await, served(&other, "q r").await),
            ("X6 X3".into(), "".into())
        );
        for node in nodes {
            assert_eq!(used(node).await, (2, 2));
        }
        let (fetched, ()) = tokio::join!(other.fetch("w1", "r", LONG), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            ack(&one, "A-000001").await;
        });
        assert_eq!(&*fetched.unwrap().jid, "B-000005");
        assert_eq!(served(&one, "q r").await, "");
        allocate(&nodes, &pay(Some(3), None, "A B")).await;
        assert_eq!(served(&one, "q").await, "A4");
        assert_eq!(used(&other).await, (3, 0));
    });
}

#[test]
fn nodes_that_fetch_at_once_do_not_exceed_the_limit_of_a_type() {
    run(async |redis| {
        let nodes = [Node::open(&redis), Node::open(&redis), Node::open(&redis)];
        let all: Vec<&Node> = nodes.iter().collect();
        allocate(&all, &pay(Some(7), None, "A")).await;
        for round in 0..10 {
            push(&nodes[0], "q", 1, "A A A A A A A X").await;
            push(&nodes[1], "r", 9, "A A A A A A A X").await;
            let fetches = all.iter().map(|node| fetch_many(node, "q r", 5));
            let fetched = futures_util::future::join_all(fetches).await;
            let limited = fetched.iter().flatten().filter(|jid| jid.starts_with('A')).count();
            assert!(limited <= 7, "{limited} in round {round}");
            let mut running = limited;
            for node in &nodes {
                running += served(node, "q r").await.matches('A').count();
            }
            assert_eq!(running, 7, "and no slot is left");
            let again = served(&nodes[0], "r q").await;
            assert_eq!(again, "");
            nodes[0].store.flush().await.unwrap();
        }
    });
}

#[test]
fn jobs_that_were_reserved_before_the_limit_count() {
    run(async |redis| {
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        push(&one, "q", 1, "A A A A X A A").await;
        // Of a node that has ended without a goodbye, of one with other settings, and of this node.
        // Its lease outlasts the test.
        let dying = Node::open_in(tempfile::tempdir().unwrap(), &redis, Duration::from_secs(60));
        assert_eq!(dying.fetch_now("q").await.as_deref(), Some("A-000001"));
        drop(dying.crash());
        assert_eq!(other.fetch_now("q").await.as_deref(), Some("A-000002"));
        assert_eq!(one.fetch_now("q").await.as_deref(), Some("A-000003"));
        allocate(&[&one], &pay(Some(4), None, "A")).await;
        assert_eq!(used(&one).await.0, 3);
        assert_eq!(served(&one, "q").await, "A4 X5");
        // One that does not know the limit yet reserves another job; when it does, that job counts.
        let () =
            client(&redis).lpush("queue:q", r#"{"class":"A","jid":"A-000008","args":[]}"#).unwrap();
        assert_eq!(served(&other, "q").await, "A8");
        allocate(&[&other], &pay(Some(4), None, "A")).await;
        ack(&one, "A-000004").await;
        assert_eq!(served(&other, "q").await, "");
        assert_eq!(used(&other).await.0, 4);
    });
}

#[test]
fn a_killed_node_counts_until_its_lease_is_over_and_no_job_is_lost() {
    run(async |redis| {
        let (dying, living) = (Node::open(&redis), Node::open(&redis));
        allocate(&[&dying, &living], &pay(Some(2), None, "A")).await;
        push(&dying, "q", 1, "A A A A A X").await;
        assert_eq!(served(&dying, "q").await, "A1 A2 X6");
        drop(dying.crash());
        assert_eq!(served(&living, "q").await, "");
        assert_eq!(used(&living).await, (2, 3));
        let mut order = Vec::new();
        for _ in 0..6 {
            let job = living.fetch("w1", "q", LONG).await.unwrap();
            assert!(used(&living).await.0 <= 2);
            ack(&living, &job.jid).await;
            order.push(job.jid.to_string());
        }
        let of_type: Vec<&String> = order.iter().filter(|jid| jid.starts_with('A')).collect();
        let all = ["A-000001", "A-000002", "A-000003", "A-000004", "A-000005"];
        assert_eq!(of_type, all, "in their order");
        assert_eq!((served(&living, "q").await, used(&living).await), (String::new(), (0, 0)));
        assert_eq!(queues(&redis), ["q".to_owned()].into(), "an empty list leaves no name");
    });
}

#[test]
fn jobs_that_return_from_a_worker_come_before_those_that_are_blocked() {
    run(async |redis| {
        let node = Node::open(&redis);
        allocate(&[&node], &pay(Some(3), None, "A")).await;
        let jobs = ["A"; 120].join(" ");
        push(&node, "q", 1, &jobs).await;
        push(&node, "q", 121, "X").await;
        assert_eq!(served(&node, "q").await, "A1 A2 A3 X121");
        assert_eq!(jids(&redis, "q"), "");
        assert_eq!(node.store.release(&Wid::new("w1"), WorkerEnd::Killed).await, Ok(4));
        // Others take the slots before the last of them is looked at.
        assert_eq!(node.fetch("w2", "q", Duration::ZERO).await.unwrap().jid.as_ref(), "A-000001");
        allocate(&[&node], &pay(Some(1), None, "A")).await;
        assert_eq!(served(&node, "q").await, "X121");
        assert!(jids(&redis, "q.blocked.pay").starts_with("A2 A3 A4 A5 "));
        allocate(&[&node], &pay(Some(5), None, "A")).await;
        assert_eq!(served(&node, "q").await, "A2 A3 A4 A5");
    });
}

/// How often Redis has run each command, within scripts as well.
fn calls(redis: &RedisServer) -> BTreeMap<String, u64> {
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut redis.client()).unwrap();
    let line = |line: &str| {
        let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), fields.split(',').next()?.parse().ok()?))
    };
    info.lines().filter_map(line).collect()
}

#[test]
fn blocked_jobs_are_examined_once() {
    const BLOCKED: u64 = 20_000;
    const FILL: &str = "for i = 1, tonumber(ARGV[1]) do redis.call('LPUSH', KEYS[1], \
        '{\"class\":\"A\",\"jid\":\"A-' .. string.format('%06d', i) .. '\",\"args\":[],\"enqueued_at\":' \
        .. string.format('%.3f', 1795000000 + i / 1000) .. '}') end redis.call('SADD', 'queues', 'q')";
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async {
        let (node, other) = (Node::open(&redis.endpoint()), Node::open(&redis.endpoint()));
        allocate(&[&node, &other], &pay(Some(1), None, "A")).await;
        redis.run(&[&["EVAL", FILL, "1", "queue:q", &BLOCKED.to_string()]]);
        push(&node, "q", 900_001, "X X X X X").await;
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("A-000001"));
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("X-900001"));
        let pops = |calls: &BTreeMap<String, u64>| calls["rpop"];
        let after_first = calls(&redis);
        assert!(pops(&after_first) >= BLOCKED, "each was examined");
        for node in [&other, &node, &other] {
            assert!(node.fetch_now("q").await.unwrap().starts_with("X-"));
        }
        assert!(
            node.fetch("w1", "q", Duration::from_millis(200)).await.unwrap().jid.starts_with('X')
        );
        assert_eq!(node.fetch_now("q").await, None);
        let after = calls(&redis);
        assert!(pops(&after) - pops(&after_first) <= 8, "four jobs, and the end of the list");
        let reads = ["lindex", "lrange", "lpush"]
            .map(|name| after.get(name).unwrap_or(&0) - after_first.get(name).unwrap_or(&0));
        assert!(reads.iter().sum::<u64>() < 100, "{reads:?} for {BLOCKED} blocked jobs");
        assert_eq!(used(&node).await, (1, BLOCKED - 1));
        ack(&node, "A-000001").await;
        assert_eq!(other.fetch_now("q").await.as_deref(), Some("A-000002"));
    });
}

#[test]
fn a_type_is_that_of_the_text() {
    run(async |redis| {
        let node = Node::open(&redis);
        allocate(&[&node], &pay(Some(1), None, "Clean")).await;
        push(&node, "q", 1, "X").await;
        let deep = format!("{}1{}", "[".repeat(1_100), "]".repeat(1_100));
        let limited = [
            r#"{"class":"Clean","jid":"L-1","args":[]}"#.to_owned(),
            r#"{"class":"C\u006cean","jid":"L-2","args":[]}"#.to_owned(),
            r#"{"class":"Wrapper","wrapped":"Clean","jid":"L-3","args":[]}"#.to_owned(),
            r#"{"class":"Wrapper","custom":{"wrapped":"Clean"},"jid":"L-4","args":[]}"#.to_owned(),
            r#"{"args":[{"class":"X"}],"jid":"L-5","class":"Clean"}"#.to_owned(),
            // Lua's parser does not know it, so its names decide.
            format!(r#"{{"class":"Clean","jid":"L-6","args":[{deep}]}}"#),
        ];
        let others = [
            r#"{"class":"X","jid":"O-1","args":[{"class":"Clean"},"Clean"]}"#.to_owned(),
            r#"{"class":"Clean2","jid":"O-2","args":[]}"#.to_owned(),
            r#"{"class":"X","wrapped":7,"jid":"O-3","args":["Clean"]}"#.to_owned(),
            format!(r#"{{"class":"X","jid":"O-4","args":[{deep}]}}"#),
        ];
        for text in limited.iter().chain(&others) {
            let () = client(&redis).lpush("queue:q", text).unwrap();
        }
        let mut jids = Vec::new();
        while let Some(jid) = node.fetch_now("q").await {
            jids.push(jid);
        }
        assert_eq!(jids, ["X-000001", "L-1", "O-1", "O-2", "O-3", "O-4"]);
        assert_eq!(used(&node).await, (1, 5));
        for last in 1..6 {
            ack(&node, &format!("L-{last}")).await;
            assert_eq!(node.fetch_now("q").await, Some(format!("L-{}", last + 1)));
        }
        // A name that may be written in several ways.
        allocate(&[&node], &pay(Some(1), None, "a/b")).await;
        for (number, class) in [r"a\/b", "a/b", "X"].iter().enumerate() {
            let text = format!(r#"{{"class":"{class}","jid":"S-{number}","args":[]}}"#);
            let () = client(&redis).lpush("queue:q", text).unwrap();
        }
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("S-0"));
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("S-2"));
        assert_eq!(node.fetch_now("q").await, None);
    });
}

#[test]
fn operators_see_blocked_jobs_as_part_of_their_queue() {
    run(async |redis| {
        let node = Node::open(&redis);
        allocate(&[&node], &pay(Some(1), None, "A")).await;
        push(&node, "q", 1, "A A X A X A").await;
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("A-000001"));
        assert_eq!(node.fetch_now("q").await.as_deref(), Some("X-000003"));
        assert_eq!(
            (jids(&redis, "q.blocked.pay"), jids(&redis, "q")),
            ("A2".into(), "A4 X5 A6".into())
        );
        assert_eq!(served(&node, "q").await, "X5");
        push(&node, "q", 7, "X").await;
        let place = JobLocation::Queue(queue_name("q"));
        let names: Vec<String> =
            node.store.counts().await.queues.iter().map(|it| it.name.to_string()).collect();
        assert_eq!(names, ["q"]);
        let counts = queue(&node, "q").await;
        assert_eq!((counts.depth, counts.blocked.resource), (4, 3));
        assert_eq!(counts.blocked_by_resource, [("pay".to_owned(), 3)]);
        let mut keys: Vec<EntryKey> = Vec::new();
        for newest_first in [false, true] {
            let mut listed = Vec::new();
            let mut after = None;
            loop {
                let request = ScanRequest {
                    place: place.clone(),
                    after,
                    newest_first,
                    limit: 1,
                    scan_max: 1,
                    filter: Default::default(),
                };
                let page = node.store.scan(request).await.unwrap();
                assert!(page.jobs.iter().all(|job| job.queue.as_str() == "q"));
                listed.extend(page.jobs.into_iter().map(|job| job.key));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            if newest_first {
                listed.reverse();
                assert_eq!(listed, keys);
            }
            keys = listed;
        }
        let jids_of: Vec<&str> = keys.iter().map(|key| &*key.jid).collect();
        assert_eq!(jids_of, ["A-000002", "A-000004", "A-000006", "X-000007"]);
        let sample = node.store.sample(&place, 100).await.unwrap();
        let drawn: BTreeSet<_> = sample.jobs.iter().map(|job| job.key.jid.clone()).collect();
        assert_eq!(drawn.len(), 4, "{drawn:?}");
        let FindOutcome::Found(found) = node.store.find("A-000004").await.unwrap() else {
            panic!("it is found")
        };
        assert_eq!((found.queue.as_str(), found.state), ("q", JobState::Enqueued));
        let moved = node.store.move_to(&place, &keys[..1], &queue_name("r"), false).await;
        assert_eq!((moved, jids(&redis, "r")), (Ok(1), "A2".into()));
        let chosen = Selection::Entries(keys[1..2].to_vec());
        assert_eq!(node.store.act(&place, &chosen, Action::Kill).await, Ok(1));
        assert_eq!(node.store.act(&place, &Selection::All, Action::Requeue).await, Ok(2));
        let all = [queue_name("q")];
        node.store.act_on_queues(&all, QueueAction::Pause).await.unwrap();
        ack(&node, "A-000001").await;
        assert_eq!(served(&node, "q").await, "", "blocked jobs are paused as well");
        assert_eq!(node.store.act_on_queues(&all, QueueAction::Clear).await, Ok(2));
        assert_eq!((queue(&node, "q").await.depth, list(&redis, "q.blocked.pay").len()), (0, 0));
        assert!(!queues(&redis).contains("q.blocked.pay"));
        node.store.act_on_queues(&all, QueueAction::Resume).await.unwrap();
        assert_eq!(served(&node, "q r").await, "A2");
    });
}

#[test]
fn sidekiq_sees_blocked_jobs_in_a_queue_and_may_take_them() {
    run(async |redis| {
        let node = Node::open(&redis);
        allocate(&[&node], &pay(Some(1), None, "A")).await;
        push(&node, "q", 1, "A A A A X").await;
        assert_eq!(served(&node, "q").await, "A1 X5");
        assert!(queues(&redis).contains("q.blocked.pay"));
        // Processes of Sidekiq that serve both queues.
        let taken: String = client(&redis).rpop("queue:q.blocked.pay", None).unwrap();
        assert!(taken.contains("A-000002"));
        ack(&node, "A-000001").await;
        assert_eq!(served(&node, "q").await, "A3", "what Sidekiq runs does not count");
        let _: u64 = client(&redis).del("queue:q.blocked.pay").unwrap();
        let _: u64 = client(&redis).srem("queues", "q.blocked.pay").unwrap();
        ack(&node, "A-000003").await;
        push(&node, "q", 6, "A A").await;
        assert_eq!(served(&node, "q").await, "A6");
        assert_eq!(jids(&redis, "q.blocked.pay"), "A7");
    });
}

#[test]
fn blocked_jobs_return_when_their_resource_is_removed() {
    run(async |redis| {
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        allocate(&[&one, &other], &pay(Some(1), None, "A")).await;
        push(&one, "q", 1, "A A A A X").await;
        assert_eq!(served(&one, "q").await, "A1 X5");
        push(&one, "q", 6, "A").await;
        assert_eq!(jids(&redis, "q.blocked.pay"), "A2 A3 A4");
        allocate(&[&one, &other], &Allocation::default()).await;
        assert_eq!(served(&other, "q").await, "A2 A3 A4 A6");
        assert_eq!(queues(&redis), ["q".to_owned()].into());
        // A node with other settings, such as one that has not been reloaded, takes nothing away from a queue.
        let () = client(&redis).lpush("queue:s.blocked.mine", "{}").unwrap();
        let () = client(&redis).sadd("queues", "s.blocked.mine").unwrap();
        one.until(async || one.store.tick().await.is_ok()).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(list(&redis, "s.blocked.mine").len(), 1, "it is a queue of somebody else's");
    });
}

#[test]
fn blocked_jobs_return_when_the_last_node_stops() {
    run(async |redis| {
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        allocate(&[&one, &other], &pay(Some(1), None, "A")).await;
        let jobs = ["A"; 2_500].join(" ");
        push(&one, "q", 1, &jobs).await;
        assert_eq!(one.fetch_now("q").await.as_deref(), Some("A-000001"));
        assert_eq!(other.fetch_now("q").await, None);
        let before = jids(&redis, "q.blocked.pay");
        assert_eq!(before.split(' ').count(), 2_499);
        one.store.close().await.unwrap();
        assert_eq!(jids(&redis, "q.blocked.pay"), before, "another node serves them");
        other.store.close().await.unwrap();
        assert_eq!(jids(&redis, "q").replace("A1 ", ""), before, "in their order");
        assert_eq!(queues(&redis), ["q".to_owned()].into());
    });
}

#[test]
fn jobs_in_progress_are_counted_anew_if_their_count_is_lost() {
    run(async |redis| {
        let node = Node::open(&redis);
        allocate(&[&node], &pay(Some(2), None, "A")).await;
        push(&node, "q", 1, "A A A X").await;
        assert_eq!(served(&node, "q").await, "A1 A2 X4");
        let keys: Vec<String> = client(&redis).keys("weir:running:*").unwrap();
        assert_eq!(keys.len(), 1);
        let _: u64 = client(&redis).del(&keys).unwrap();
        assert_eq!(served(&node, "q").await, "");
        assert_eq!(used(&node).await, (2, 1));
        let left: i64 = client(&redis).ttl(&keys[0]).unwrap();
        assert!(left > 80_000, "a count of settings that no node has ends: {left}");
        let _: u64 = client(&redis).del(&keys).unwrap();
        let () = client(&redis).set(&keys[0], "odd").unwrap();
        ack(&node, "A-000001").await;
        assert_eq!(served(&node, "q").await, "A3", "a key of another type is replaced");
        assert_eq!(used(&node).await, (2, 0));
    });
}

#[test]
fn ends_of_jobs_are_found_among_many_in_progress() {
    run(async |redis| {
        let node = Node::open(&redis);
        allocate(&[&node], &pay(Some(600), None, "A")).await;
        let jobs = ["A"; 900].join(" ");
        push(&node, "q", 1, &jobs).await;
        let jids = fetch_many(&node, "q", 900).await;
        assert_eq!((jids.len(), used(&node).await), (600, (600, 300)));
        let ended: Vec<&str> = jids.iter().map(|jid| &**jid).take(300).collect();
        assert_eq!(node.store.ack(&ended).await, Ok(vec![]));
        // More have ended than one script examines.
        let mut started = 0;
        for _ in 0..50 {
            started += fetch_many(&node, "q", 300 - started).await.len();
            assert!(used(&node).await.0 <= 600);
            if started == 300 {
                break;
            }
        }
        assert_eq!((started, used(&node).await), (300, (600, 0)));
        // Those that have ended do not stay for ever.
        let keys: Vec<String> = client(&redis).keys("weir:running:*").unwrap();
        let members: usize = client(&redis).scard(&keys[0]).unwrap();
        assert!(members <= 601, "{members}");
    });
}

#[test]
fn a_key_of_another_type_keeps_blocked_jobs_in_their_queue() {
    run(async |redis| {
        let node = Node::open(&redis);
        allocate(&[&node], &pay(Some(1), None, "A")).await;
        push(&node, "q", 1, "A A X").await;
        push(&node, "r", 4, "X").await;
        let () = client(&redis).set("queue:q.blocked.pay", "odd").unwrap();
        assert_eq!(served(&node, "q r").await, "A1 X4");
        assert_eq!(jids(&redis, "q"), "A2 X3");
        let _: u64 = client(&redis).del("queue:q.blocked.pay").unwrap();
        assert_eq!(served(&node, "q r").await, "X3");
    });
}

#[test]
fn the_rate_of_a_type_holds_over_nodes_and_wakes_fetches() {
    run(async |redis| {
        let clock = Clock::manual(START);
        let (one, other) = (Node::at(&redis, &clock), Node::at(&redis, &clock));
        allocate(&[&one, &other], &pay(None, Some("1/s burst 2"), "A")).await;
        push(&one, "q", 1, "A A A X A").await;
        assert_eq!(
            (served(&one, "q").await, served(&other, "q").await),
            ("A1 A2 X4".into(), "".into())
        );
        clock.advance(SECOND);
        assert_eq!((served(&other, "q").await, served(&one, "q").await), ("A3".into(), "".into()));
    });
    run(async |redis| {
        // If each waited for the next poll, it would take minutes.
        let node = Node::open_with(&redis, JobServerLimits::default(), |settings| {
            settings.poll_interval = Duration::from_secs(5);
        });
        allocate(&[&node], &pay(None, Some("200/s burst 1"), "A")).await;
        let jobs = ["A"; 30].join(" ");
        push(&node, "q", 1, &jobs).await;
        let fetches = async {
            for _ in 0..30 {
                node.fetch("w1", "q", LONG).await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(12), fetches).await.unwrap();
    });
}

#[test]
fn the_limits_of_a_queue_and_of_a_type_hold_together() {
    run(async |redis| {
        let node = Node::open(&redis);
        let limits = QueueAllocation { concurrency: Some(3), ..QueueAllocation::default() };
        let mut rules = pay(Some(2), None, "A");
        rules.queues = [(queue_name("q"), limits)].into();
        rules.resources.of.get_mut("pay").unwrap().queues = [queue_name("all")].into();
        allocate(&[&node], &rules).await;
        push(&node, "q", 1, "A A A X X X").await;
        push(&node, "all", 7, "A X").await;
        assert_eq!(served(&node, "q").await, "A1 A2 X4");
        assert_eq!(served(&node, "all q").await, "");
        ack(&node, "A-000001").await;
        assert_eq!(served(&node, "all").await, "A7", "a job of both kinds counts once");
        assert_eq!(used(&node).await.0, 2);
        ack(&node, "A-000007").await;
        assert_eq!(served(&node, "all").await, "X8");
        assert_eq!(served(&node, "q").await, "X5");
    });
}
