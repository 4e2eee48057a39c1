//! Moving jobs to another queue, while others use the same Redis, and through crashes and lost replies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redis::Commands as _;
use weir_jobs::model::{EntryKey, JobLocation, SetName};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::store::{Action, Filter, ScanPage, ScanRequest, Selection, Store, StoreError};
use weir_sidekiq::{RedisAddress, RedisEndpoint};

use super::cutting_proxy::CuttingProxy;
use super::rig::{Node, queue_name, run, run_alone, run_for};
use crate::redis_server::RedisServer;
use crate::shared_redis::{client, socket, two_databases};
use crate::slot_proxy::SlotProxy;

/// The texts of the scripts of a move that `SlotProxy::block` rejects: its second half, and what deletes
/// the note.
const ARRIVE: &str = ":arrived";
const END: &str = "HDEL weir:{";

fn queue(name: &str) -> JobLocation {
    JobLocation::Queue(queue_name(name))
}

/// A job as Sidekiq writes it. Every third one is to be moved.
fn sidekiq_job(number: usize, enqueued_at: &str) -> String {
    let class = if number.is_multiple_of(3) { "Digest" } else { "Mail" };
    format!(
        r#"{{"class":"{class}","args":[{number}],"queue":"q","jid":"job-{number:07}","retry":true,"created_at":1795202902.5,"enqueued_at":{enqueued_at}}}"#
    )
}

/// Fills `queue:q` as Sidekiq does. All jobs have one time if `is_bulk`, as those of a large `push_bulk`.
fn fill(redis: &RedisEndpoint, jobs: usize, is_bulk: bool) {
    let mut client = client(redis);
    for start in (0..jobs).step_by(1_000) {
        let numbers = start..(start + 1_000).min(jobs);
        let at = |number: usize| if is_bulk { 1_000_000 } else { 1_000_000 + number };
        let texts: Vec<String> = numbers
            .map(|number| sidekiq_job(number, &format!("1795202902.{}", at(number))))
            .collect();
        let _: u64 = client.lpush("queue:q", texts).unwrap();
    }
    let _: u64 = client.sadd("queues", "q").unwrap();
}

fn jid_of(text: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    json["jid"].as_str().unwrap().to_owned()
}

/// The jids in a list, the one that is served first at first.
fn jids(redis: &RedisEndpoint, list: &str) -> Vec<String> {
    let texts: Vec<String> = client(redis).lrange(list, 0, -1).unwrap();
    texts.iter().rev().map(|text| jid_of(text)).collect()
}

async fn page(
    node: &Node,
    place: &JobLocation,
    after: Option<EntryKey>,
) -> Result<ScanPage, StoreError> {
    let limits = JobServerLimits::default();
    let filter = Filter { jobtype: Some("Digest".to_owned()), ..Filter::default() };
    let (place, newest_first) = (place.clone(), false);
    let (limit, scan_max) = (limits.page_jobs_max, limits.scan_jobs_max);
    let request = ScanRequest { place, after, newest_first, limit, scan_max, filter };
    node.store.scan(request).await
}

async fn move_all(node: &Node, place: &JobLocation, target: &str) -> Result<u64, StoreError> {
    let keys: Vec<EntryKey> =
        page(node, place, None).await?.jobs.into_iter().map(|it| it.key).collect();
    node.store.move_to(place, &keys, &queue_name(target), true).await
}

/// Moves all jobs of type `Digest` from the queue `q`, step by step as the server does. Returns their number.
async fn move_in_steps(node: &Node, target: &str, mut after_step: impl FnMut()) -> u64 {
    let (mut after, mut moved) = (None, 0);
    loop {
        let found = page(node, &queue("q"), after).await.unwrap();
        let keys: Vec<EntryKey> = found.jobs.into_iter().map(|job| job.key).collect();
        moved += node.store.move_to(&queue("q"), &keys, &queue_name(target), true).await.unwrap();
        after_step();
        after = found.next;
        if after.is_none() {
            return moved;
        }
    }
}

#[test]
fn a_crash_between_the_steps_of_a_move_loses_no_job_and_doubles_none() {
    for (blocked, source) in
        [(ARRIVE, "queue:q"), (END, "queue:q"), (ARRIVE, "retry"), (END, "dead")]
    {
        let Some(databases) = two_databases() else { return };
        let proxy = SlotProxy::start(&databases);
        run_alone(async move {
            let redis = proxy.endpoint();
            let texts: Vec<String> = (0..9).map(|it| sidekiq_job(it, "1795202902.5")).collect();
            let place = match source {
                "queue:q" => {
                    fill(&redis, 9, false);
                    queue("q")
                }
                set => {
                    for text in &texts {
                        // Neither due nor too old.
                        let _: u64 = client(&redis).zadd(set, text, 4_000_000_000_u64).unwrap();
                    }
                    JobLocation::Set(if set == "dead" { SetName::Dead } else { SetName::Retries })
                }
            };
            let dying = Node::open(&redis);
            assert_eq!(dying.fetch_now("none").await, None);
            proxy.block(&[blocked]);
            assert_eq!(move_all(&dying, &place, "quarantine.x.q").await, Ok(3), "{blocked}");
            drop(dying.crash());
            let arrived = jids(&redis, "queue:quarantine.x.q").len();
            assert_eq!(arrived, if blocked == END { 3 } else { 0 });
            proxy.block(&[]);
            let living = Node::open(&redis);
            let leaving = format!("weir:{{{source}}}:leaving");
            living.until(async || !client(&redis).exists::<_, bool>(&leaving).unwrap()).await;
            let mut moved = jids(&redis, "queue:quarantine.x.q");
            moved.sort();
            assert_eq!(moved, ["job-0000000", "job-0000003", "job-0000006"], "{blocked}, {source}");
            assert_eq!(living.fetch_now("quarantine.x.q").await, None, "it is paused");
            let left: usize = match source {
                "queue:q" => client(&redis).llen("queue:q").unwrap(),
                set => client(&redis).zcard(set).unwrap(),
            };
            assert_eq!(left, 6);
        });
    }
}

/// Checks that each of these jobs is in one place, once, and that each place has them in their order.
fn check_each_once(jobs: usize, places: &[&[String]]) {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for place in places {
        assert!(place.is_sorted(), "the order is kept");
        for jid in *place {
            *found.entry(jid.as_str()).or_default() += 1;
        }
    }
    let twice: Vec<_> = found.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(found.len(), jobs, "no job is lost");
}

const RACE_JOBS: usize = 30_000;
/// So that there are jobs left to move.
const POP_INTERVAL: Duration = Duration::from_millis(1);
/// Longer than any test.
const LONG_LEASE: Duration = Duration::from_secs(600);

/// What a Sidekiq process does meanwhile.
fn move_beside_a_consumer(redis: &RedisEndpoint, weir: &RedisEndpoint) {
    fill(redis, RACE_JOBS, false);
    let is_over = Arc::new(AtomicBool::new(false));
    let (consumer, over) = (redis.clone(), Arc::clone(&is_over));
    let consumer = thread::spawn(move || {
        let (mut client, mut popped) = (client(&consumer), Vec::new());
        while !over.load(Ordering::Relaxed) {
            let text: Option<String> = client.rpop("queue:q", None).unwrap();
            popped.extend(text.map(|text| jid_of(&text)));
            thread::sleep(POP_INTERVAL);
        }
        popped
    });
    let weir = weir.clone();
    let (mut pushing, endpoint) = (0..3_000, redis.clone());
    run_alone(async move {
        let node = Node::open_in(tempfile::tempdir().unwrap(), &weir, LONG_LEASE);
        let mut producer = client(&endpoint);
        let moved = move_in_steps(&node, "quarantine.x.q", || {
            // Sidekiq pushes as well.
            for number in pushing.by_ref().take(100) {
                let late = sidekiq_job(RACE_JOBS + number * 3 + 1, "4000000000.5");
                let _: u64 = producer.lpush("queue:q", late).unwrap();
            }
        });
        let moved = moved.await;
        is_over.store(true, Ordering::Relaxed);
        let popped = consumer.join().unwrap();
        let late = |jid: &String| **jid >= *format!("job-{RACE_JOBS:07}");
        let of_start = |all: &[String]| -> Vec<String> {
            all.iter().filter(|jid| !late(jid)).cloned().collect()
        };
        let (left, apart) = (jids(&endpoint, "queue:q"), jids(&endpoint, "queue:quarantine.x.q"));
        assert!(popped.len() > 100, "the consumer comes in between");
        assert!(moved > 1_000, "{moved}");
        assert_eq!(apart.len() as u64, moved);
        check_each_once(RACE_JOBS, &[&of_start(&popped), &of_start(&left), &apart]);
        let digests = left.iter().filter(|jid| jid[4..].parse::<usize>().unwrap() % 3 == 0);
        assert_eq!(digests.count(), 0, "all that were there are moved");
    });
}

#[test]
fn jobs_that_a_sidekiq_pops_meanwhile_are_neither_lost_nor_moved() {
    let Some(redis) = crate::shared_redis::database() else { return };
    move_beside_a_consumer(&redis, &redis);
}

#[test]
fn between_slots_jobs_that_another_process_pops_meanwhile_are_neither_lost_nor_moved() {
    let Some(databases) = two_databases() else { return };
    let proxy = SlotProxy::start(&databases);
    move_beside_a_consumer(&proxy.endpoint(), &proxy.endpoint());
}

#[test]
fn a_move_whose_reply_is_lost_is_repeated_without_harm() {
    run(async |redis| {
        let proxy = CuttingProxy::start(socket(&redis));
        let node = Node::open(&proxy.endpoint(&redis));
        fill(&redis, 9, false);
        // Redis knows the script.
        let _: u64 = client(&redis).lpush("queue:warm", sidekiq_job(0, "1795202902.5")).unwrap();
        assert_eq!(move_all(&node, &queue("warm"), "cold").await, Ok(1));
        // The mark, which is an argument of the script.
        proxy.cut_after("weir-moved-");
        let lost = move_all(&node, &queue("q"), "quarantine.x.q").await;
        assert!(lost.is_err(), "{lost:?}");
        node.until(async || move_all(&node, &queue("q"), "quarantine.x.q").await == Ok(0)).await;
        let (left, moved) = (jids(&redis, "queue:q"), jids(&redis, "queue:quarantine.x.q"));
        assert_eq!((left.len(), moved.len()), (6, 3));
        check_each_once(9, &[&left, &moved]);
    });
}

/// `push_bulk` of older Sidekiqs gives all its jobs one time.
#[test]
fn jobs_of_one_time_are_moved_however_many_there_are() {
    run(async |redis| {
        fill(&redis, 25_000, true);
        let node = Node::open(&redis);
        assert_eq!(move_in_steps(&node, "other", || {}).await, 25_000_u64.div_ceil(3));
        let (left, moved) = (jids(&redis, "queue:q"), jids(&redis, "queue:other"));
        check_each_once(25_000, &[&left, &moved]);
    });
}

#[test]
fn a_moved_job_is_one_that_sidekiq_runs() {
    run(async |redis| {
        fill(&redis, 1, false);
        let node = Node::open(&redis);
        assert_eq!(move_all(&node, &queue("q"), "quarantine.x.q").await, Ok(1));
        let text: String = client(&redis).lindex("queue:quarantine.x.q", 0).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&json["queue"], &json["args"], &json["retry"], &json["created_at"]),
            (
                &"quarantine.x.q".into(),
                &serde_json::json!([0]),
                &true.into(),
                &1_795_202_902.5.into()
            )
        );
        let enqueued_at = json["enqueued_at"].as_f64();
        assert!(enqueued_at.is_some_and(|at| (at - 1_795_202_903.0).abs() > 1e-3), "{text}");
        let names: Vec<String> = client(&redis).smembers("queues").unwrap();
        assert!(names.contains(&"quarantine.x.q".to_owned()), "{names:?}");
        let paused: String =
            client(&redis).hget("weir:{queue:quarantine.x.q}:control", "paused").unwrap();
        assert_eq!(paused, "1");
    });
}

#[test]
fn jobs_stay_if_their_target_is_no_list_or_they_could_not_be_taken_back() {
    run(async |redis| {
        fill(&redis, 1, false);
        let mut commands = client(&redis);
        let _: () = commands.set("queue:other", "no list").unwrap();
        let node = Node::open(&redis);
        let rejected = move_all(&node, &queue("q"), "other").await;
        let expected = "queue:other in Redis has another type";
        assert_eq!(rejected, Err(StoreError::Unavailable(expected.to_owned())));
        assert_eq!(jids(&redis, "queue:q"), ["job-0000000"]);
        // Weir shows a job of a queue that it does not serve as one of `default`.
        let foreign = r#"{"class":"Digest","args":[],"queue":"a queue","jid":"job-foreign"}"#;
        let malformed = "no job";
        for text in [foreign, malformed] {
            let _: u64 = commands.zadd("dead", text, 4_000_000_000_u64).unwrap();
        }
        let dead = JobLocation::Set(SetName::Dead);
        assert_eq!(move_all(&node, &dead, "quarantine.x.default").await, Ok(0));
        let left: u64 = commands.zcard("dead").unwrap();
        assert_eq!(left, 2);
    });
}

fn by_socket(redis: &RedisServer) -> RedisEndpoint {
    RedisEndpoint { address: RedisAddress::Unix(redis.socket()), ..redis.endpoint() }
}

/// In a Redis that is full, jobs can still be deleted, killed and moved.
#[test]
fn a_full_redis_lets_operators_act() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async move {
        let endpoint = by_socket(&redis);
        let node = Node::open_in(tempfile::tempdir().unwrap(), &endpoint, LONG_LEASE);
        fill(&endpoint, 300, false);
        assert_eq!(node.fetch_now("none").await, None);
        let listed = page(&node, &queue("q"), None).await.unwrap().jobs;
        assert_eq!(listed.len(), 100);
        redis.run(&[&["CONFIG", "SET", "maxmemory", "1"]]);
        let pushed: Result<u64, _> = client(&endpoint).lpush("queue:q", "x");
        assert!(pushed.is_err(), "it is full");
        let keys: Vec<EntryKey> = listed.into_iter().map(|job| job.key).collect();
        for (action, keys) in [(Action::Discard, &keys[..10]), (Action::Kill, &keys[10..20])] {
            let what = Selection::Entries(keys.to_vec());
            assert_eq!(node.store.act(&queue("q"), &what, action).await, Ok(10), "{action:?}");
        }
        let (from, to) = (queue("q"), queue_name("other"));
        assert_eq!(node.store.move_to(&from, &keys[20..30], &to, false).await, Ok(10));
        let left: u64 = client(&endpoint).llen("queue:q").unwrap();
        let dead: u64 = client(&endpoint).zcard("dead").unwrap();
        assert_eq!((left, dead), (270, 10));
    });
}

/// The longest time that Redis took for one script since its statistics were reset, in milliseconds.
fn slowest_script(redis: &RedisServer) -> f64 {
    let log: Vec<Vec<redis::Value>> =
        redis::cmd("SLOWLOG").arg("GET").arg(1_000).query(&mut redis.client()).unwrap();
    let micros = |entry: &Vec<redis::Value>| match (&entry[2], &entry[3]) {
        (redis::Value::Int(micros), redis::Value::Array(words)) => match &words[0] {
            redis::Value::BulkString(name) if name == b"EVALSHA" => *micros,
            _ => 0,
        },
        _ => 0,
    };
    let slowest = log.iter().map(micros).max().unwrap_or_default();
    let millis = Duration::from_micros(u64::try_from(slowest).unwrap()).as_secs_f64() * 1_000.0;
    redis.run(&[&["SLOWLOG", "RESET"]]);
    millis
}

/// `WEIR_SIDEKIQ_JOBS=1000000 cargo test --release -p weir-sidekiq moving::a_long -- --nocapture` prints what the
/// steps take.
#[test]
fn a_long_queue_is_moved_in_short_steps() {
    let Some(redis) = RedisServer::start() else { return };
    #[expect(clippy::disallowed_methods, reason = "a measurement by hand sets the size")]
    let jobs = std::env::var("WEIR_SIDEKIQ_JOBS").map_or(20_000, |jobs| jobs.parse().unwrap());
    run_for(Duration::from_secs(600), async move {
        let endpoint = by_socket(&redis);
        fill(&endpoint, jobs, false);
        redis.run(&[&["CONFIG", "SET", "slowlog-log-slower-than", "1000"], &["SLOWLOG", "RESET"]]);
        redis.run(&[&["CONFIG", "SET", "slowlog-max-len", "1000"]]);
        let node = Node::open_in(tempfile::tempdir().unwrap(), &endpoint, LONG_LEASE);
        let (mut step, mut slowest) = (0_u32, 0.0_f64);
        let moved = move_in_steps(&node, "other", || {
            step += 1;
            let millis = slowest_script(&redis);
            slowest = slowest.max(millis);
            if step.is_multiple_of(20) {
                println!("step {step}: slowest script {millis:.1} ms");
            }
        });
        let moved = moved.await;
        println!("{moved} of {jobs} jobs in {step} steps, slowest script {slowest:.1} ms");
        assert_eq!(moved, (jobs as u64).div_ceil(3));
        let (left, moved) = (jids(&endpoint, "queue:q"), jids(&endpoint, "queue:other"));
        check_each_once(jobs, &[&left, &moved]);
    });
}

/// What one script reads is bounded, also if the jobs between those that are moved are large.
#[test]
fn small_jobs_are_moved_from_among_large_ones() {
    let Some(redis) = RedisServer::start() else { return };
    run_alone(async move {
        let endpoint = by_socket(&redis);
        let mut commands = client(&endpoint);
        // Every third one is moved.
        for number in 0..73 {
            let mut text = sidekiq_job(number, &format!("1795202902.{}", 1_000_000 + number));
            if !number.is_multiple_of(36) {
                let padding = "x".repeat(400_000);
                text = text
                    .replace("Digest", "Mail")
                    .replace("\"args\"", &format!("\"x\":\"{padding}\",\"args\""));
            }
            let _: u64 = commands.lpush("queue:q", text).unwrap();
        }
        let _: u64 = commands.sadd("queues", "q").unwrap();
        let node = Node::open_in(tempfile::tempdir().unwrap(), &endpoint, LONG_LEASE);
        let read = |commands: &mut redis::Connection| -> u64 {
            let stats: String = redis::cmd("INFO").arg("commandstats").query(commands).unwrap();
            let line = stats.lines().find(|line| line.starts_with("cmdstat_lrange:")).unwrap();
            line.split(['=', ',']).nth(1).unwrap().parse().unwrap()
        };
        let keys: Vec<EntryKey> = page(&node, &queue("q"), None)
            .await
            .unwrap()
            .jobs
            .into_iter()
            .map(|it| it.key)
            .collect();
        assert_eq!(keys.len(), 3);
        let before = read(&mut commands);
        let moved = node.store.move_to(&queue("q"), &keys, &queue_name("other"), false).await;
        assert_eq!(moved, Ok(3));
        assert_eq!(jids(&endpoint, "queue:other"), ["job-0000000", "job-0000036", "job-0000072"]);
        println!("{} reads", read(&mut commands) - before);
    });
}
