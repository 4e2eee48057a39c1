//! The jobs of a class moved to a queue of their own and back, without a job lost, duplicated or out of order.

use std::time::Duration;

use weir_base::secret::Secret;
use weir_sidekiq::{
    BroughtBack, LimitedQueue, LimitedQueues, READ_ONLY_ACL, RedisConnection, RedisEndpoint,
    SampleLimits, WINDOW_JOBS,
};

use crate::connections::is_denied;
use crate::redis_cluster::RedisCluster;
use crate::redis_server::RedisServer;

const LEASE: Duration = Duration::from_secs(60);
/// Of a lease that ends within milliseconds.
const CHECKS_MAX: usize = 10_000;

async fn queues(endpoint: &RedisEndpoint) -> LimitedQueues {
    let connection = RedisConnection::open(endpoint, &SampleLimits::default()).await.unwrap();
    LimitedQueues::new(connection)
}

fn import() -> LimitedQueue {
    LimitedQueue::of("default", "Import").unwrap()
}

fn job(class: &str, number: u64) -> String {
    format!(r#"{{"class":"{class}","args":["Import",{number}],"jid":"{number}"}}"#)
}

/// The newest at the head of the list, as Sidekiq pushes.
fn push(redis: &RedisServer, jobs: &[String]) {
    redis.run(&[&["SADD", "queues", "default"]]);
    for chunk in jobs.chunks(500) {
        let mut command = redis::cmd("LPUSH");
        command.arg("queue:default").arg(chunk).exec(&mut redis.client()).unwrap();
    }
}

/// The next one first.
fn list(redis: &RedisServer, queue: &str) -> Vec<String> {
    let key = format!("queue:{queue}");
    let mut all: Vec<String> =
        redis::cmd("LRANGE").arg(key).arg(0).arg(-1).query(&mut redis.client()).unwrap();
    all.reverse();
    all
}

fn names(redis: &RedisServer) -> Vec<String> {
    let mut all: Vec<String> =
        redis::cmd("SMEMBERS").arg("queues").query(&mut redis.client()).unwrap();
    all.sort();
    all
}

fn keys(redis: &RedisServer) -> Vec<String> {
    let mut all: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut redis.client()).unwrap();
    all.sort();
    all
}

/// Every third job is of the class.
fn mixed(jobs: std::ops::Range<u64>) -> Vec<String> {
    let class = |number: u64| if number.is_multiple_of(3) { "Import" } else { "Mail" };
    jobs.map(|number| job(class(number), number)).collect()
}

fn of(jobs: &[String], class: &str) -> Vec<String> {
    let text = format!(r#""class":"{class}""#);
    jobs.iter().filter(|job| job.contains(&text)).cloned().collect()
}

#[tokio::test]
async fn jobs_of_the_class_move_in_their_order_and_come_back_as_the_oldest() {
    let Some(redis) = RedisServer::start() else { return };
    let jobs = mixed(0..2_500);
    push(&redis, &jobs);
    let mut queues = queues(&redis.endpoint()).await;
    let moved = queues.move_jobs(&import(), LEASE).await.unwrap();
    let window = usize::try_from(WINDOW_JOBS).unwrap();
    assert_eq!(list(&redis, "default_limited_Import"), of(&jobs[..window], "Import"));
    assert_eq!(moved, of(&jobs[..window], "Import").len() as u64);
    // Those behind the window are where they were.
    let expected = [of(&jobs[..window], "Mail"), jobs[window..].to_vec()].concat();
    assert_eq!(list(&redis, "default"), expected);
    assert_eq!(names(&redis), ["default", "default_limited_Import"]);
    while queues.move_jobs(&import(), LEASE).await.unwrap() > 0 {}
    // Another process goes on after a kill, with newer jobs.
    let mut queues = self::queues(&redis.endpoint()).await;
    let newer = mixed(2_500..2_510);
    push(&redis, &newer);
    let state = queues.all().await.unwrap().remove(0);
    assert_eq!((state.queue, state.is_leased), (import(), true));
    assert_eq!(queues.bring_back(&import(), false).await.unwrap(), BroughtBack::Leased);
    let mut left = state.length;
    while left > 0 {
        let step = queues.bring_back(&import(), true).await.unwrap();
        let BroughtBack::Moved { moved, left: now } = step else { panic!("{step:?}") };
        assert_eq!((moved, now), (WINDOW_JOBS.min(left), left.saturating_sub(WINDOW_JOBS)));
        left = now;
    }
    let back = list(&redis, "default");
    assert_eq!(of(&back, "Import"), of(&[jobs.clone(), newer.clone()].concat(), "Import"));
    assert_eq!(of(&back, "Mail"), of(&[jobs.clone(), newer].concat(), "Mail"));
    assert_eq!(back.len(), 2_510);
    assert_eq!(back[0], job("Import", 0), "they are the oldest");
    assert_eq!(names(&redis), ["default"]);
    assert_eq!(queues.all().await.unwrap().len(), 1, "a process may still return a job");
    queues.forget(&import()).await.unwrap();
    assert_eq!(keys(&redis), ["queue:default", "queues"]);
}

#[tokio::test]
async fn what_is_not_of_the_class_or_no_job_stays_in_its_place() {
    let Some(redis) = RedisServer::start() else { return };
    let wrapper = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper";
    let wrapped = format!(r#"{{"class":"{wrapper}","wrapped":"Import","args":[]}}"#);
    let renamed = r#"{"class":"Import","wrapped":"Other","args":[]}"#.to_owned();
    let others = [
        job("Mail", 1),
        "no JSON Import".to_owned(),
        r#"["Import"]"#.to_owned(),
        r#"{"class":["Import"],"wrapped":null}"#.to_owned(),
        r#"{"class":null,"args":["Import"]}"#.to_owned(),
        renamed,
        job("Importer", 2),
        String::new(),
        format!("{}Import{}", "[".repeat(2_000), "]".repeat(2_000)),
    ];
    let mut jobs = others.to_vec();
    jobs.insert(3, wrapped.clone());
    jobs.insert(6, job("Import", 7));
    push(&redis, &jobs);
    let mut queues = queues(&redis.endpoint()).await;
    assert_eq!(queues.move_jobs(&import(), LEASE).await.unwrap(), 2);
    assert_eq!(list(&redis, "default"), others);
    assert_eq!(list(&redis, "default_limited_Import"), [wrapped, job("Import", 7)]);
}

#[tokio::test]
async fn a_round_without_jobs_of_the_class_writes_nothing() {
    let Some(redis) = RedisServer::start() else { return };
    let mut queues = queues(&redis.endpoint()).await;
    queues.check().await.unwrap();
    assert_eq!(queues.move_jobs(&import(), LEASE).await.unwrap(), 0);
    let nothing = BroughtBack::Moved { moved: 0, left: 0 };
    assert_eq!(queues.bring_back(&import(), false).await.unwrap(), nothing);
    queues.forget(&import()).await.unwrap();
    assert_eq!(keys(&redis), [""; 0]);
    push(&redis, &[job("Mail", 1)]);
    assert_eq!(queues.move_jobs(&import(), LEASE).await.unwrap(), 0);
    assert_eq!(keys(&redis), ["queue:default", "queues"]);
    // All jobs of a queue move, and the queue is gone until they are back.
    redis.run(&[&["DEL", "queue:default"]]);
    push(&redis, &[job("Import", 1), job("Import", 2)]);
    assert_eq!(queues.move_jobs(&import(), LEASE).await.unwrap(), 2);
    assert_eq!(list(&redis, "default"), [""; 0]);
    redis.run(&[&["SREM", "queues", "default"]]);
    queues.bring_back(&import(), true).await.unwrap();
    assert_eq!(list(&redis, "default"), [job("Import", 1), job("Import", 2)]);
    assert_eq!(names(&redis), ["default"]);
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_lets_anyone_bring_the_jobs_back() {
    let Some(redis) = RedisServer::start() else { return };
    push(&redis, &[job("Import", 1)]);
    let mut queues = queues(&redis.endpoint()).await;
    queues.move_jobs(&import(), LEASE).await.unwrap();
    // A round without a job renews the lease: it is as long as it was asked for.
    queues.move_jobs(&import(), Duration::from_millis(1)).await.unwrap();
    let mut outcome = BroughtBack::Leased;
    for _ in 0..CHECKS_MAX {
        outcome = queues.bring_back(&import(), false).await.unwrap();
        if outcome != BroughtBack::Leased {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(outcome, BroughtBack::Moved { moved: 1, left: 0 });
    assert_eq!(list(&redis, "default"), [job("Import", 1)]);
}

/// A user with what a sample needs, and with these rules.
fn user(redis: &RedisServer, rules: &[&str]) -> RedisEndpoint {
    let mut user = vec!["ACL", "SETUSER", "weir", "reset", "on", ">hunter2", "~*"];
    user.extend(READ_ONLY_ACL.split_whitespace());
    user.extend(rules);
    redis.run(&[&user]);
    RedisEndpoint {
        username: Some("weir".to_owned()),
        password: Some(Secret::new("hunter2")),
        ..redis.endpoint()
    }
}

/// Returns the rules that an error names.
fn grant(error: &weir_sidekiq::SidekiqError) -> Vec<String> {
    let text = error.to_string();
    text.split(' ').filter(|word| word.starts_with('+')).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_user_who_may_only_read_gets_the_rules_that_suffice() {
    let Some(redis) = RedisServer::start() else { return };
    push(&redis, &[job("Import", 1), job("Mail", 2)]);
    let mut denied = queues(&user(&redis, &[])).await;
    for error in
        [denied.check().await.unwrap_err(), denied.move_jobs(&import(), LEASE).await.unwrap_err()]
    {
        assert!(is_denied(&error), "{error}");
    }
    let rules = grant(&denied.check().await.unwrap_err());
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let mut queues = queues(&user(&redis, &rules)).await;
    queues.check().await.unwrap();
    assert_eq!(queues.move_jobs(&import(), LEASE).await.unwrap(), 1);
    assert_eq!(queues.all().await.unwrap()[0].length, 1);
    let all = BroughtBack::Moved { moved: 1, left: 0 };
    assert_eq!(queues.bring_back(&import(), true).await.unwrap(), all);
    queues.forget(&import()).await.unwrap();
    assert_eq!(list(&redis, "default"), [job("Import", 1), job("Mail", 2)]);
}

#[tokio::test]
async fn each_command_that_is_denied_leaves_every_job_where_it_was() {
    let Some(redis) = RedisServer::start() else { return };
    let everything = user(&redis, &["allcommands"]);
    let jobs = [job("Import", 1), job("Mail", 2), job("Import", 3)];
    push(&redis, &jobs);
    for command in ["ltrim", "rpush", "lpush", "sadd", "hset", "set", "lrange"] {
        user(&redis, &["allcommands", &format!("-{command}")]);
        let mut queues = queues(&everything).await;
        let error = queues.check().await.unwrap_err();
        assert!(is_denied(&error), "{command}: {error}");
        let error = queues.move_jobs(&import(), LEASE).await.unwrap_err();
        assert!(is_denied(&error), "{command}: {error}");
        assert_eq!(list(&redis, "default"), jobs, "{command}");
        assert_eq!(list(&redis, "default_limited_Import"), [""; 0], "{command}");
        redis.run(&[&["DEL", "weir:limited_queues", "weir:limited_queues:default_limited_Import"]]);
        redis.run(&[&["SREM", "queues", "default_limited_Import"]]);
        assert_eq!(keys(&redis), ["queue:default", "queues"], "{command}");
    }
    user(&redis, &["allcommands"]);
    queues(&everything).await.move_jobs(&import(), LEASE).await.unwrap();
    for command in ["ltrim", "rpush", "sadd", "lrange"] {
        user(&redis, &["allcommands", &format!("-{command}")]);
        let mut queues = queues(&everything).await;
        let error = queues.bring_back(&import(), true).await.unwrap_err();
        assert!(is_denied(&error), "{command}: {error}");
        assert_eq!(list(&redis, "default"), [job("Mail", 2)], "{command}");
        assert_eq!(list(&redis, "default_limited_Import").len(), 2, "{command}");
    }
    for command in ["del", "srem", "hdel", "exists", "hexists", "llen"] {
        user(&redis, &["allcommands", &format!("-{command}")]);
        let error = queues(&everything).await.check().await.unwrap_err();
        assert!(is_denied(&error), "{command}: {error}");
    }
}

#[tokio::test]
async fn in_a_cluster_no_job_is_moved() {
    let Some(cluster) = RedisCluster::start() else { return };
    for master in &cluster.masters {
        let mut queues = queues(&master.endpoint()).await;
        for error in [
            queues.check().await.unwrap_err(),
            queues.move_jobs(&import(), LEASE).await.unwrap_err(),
        ] {
            assert!(!is_denied(&error) && error.to_string().contains("slot"), "{error}");
        }
        assert_eq!(keys(master), [""; 0]);
    }
}
