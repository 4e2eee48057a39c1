//! What a look may cost is a limit each, and what one cuts off is named.

use std::time::Duration;

use weir_sidekiq::{RedisConnection, SampleLimits, SampleScope, SidekiqError};

use crate::redis_server::RedisServer;

fn fill(redis: &RedisServer, queues: usize) {
    let names: Vec<_> = (0..queues).map(|number| format!("q{number}")).collect();
    let words: Vec<_> =
        ["SADD", "queues"].into_iter().chain(names.iter().map(String::as_str)).collect();
    redis.run(&[&words]);
}

#[tokio::test]
async fn more_queues_than_the_limit_are_cut_and_named() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis, 2_000);
    let limits = SampleLimits { queues_max: 700, ..SampleLimits::default() };
    let snapshot = redis.sample(SampleScope::Everything, &limits).await;
    assert_eq!(snapshot.queues.unwrap().len(), 700);
    assert_eq!(snapshot.cut, ["queues_max (700)"]);
}

#[tokio::test]
async fn processes_and_threads_are_cut_and_named() {
    let Some(redis) = RedisServer::start() else { return };
    let identity = "web:7:0123456789ac";
    let work: Vec<String> =
        (0..9).flat_map(|n| [format!("t{n}"), r#"{"queue":"a"}"#.to_owned()]).collect();
    let key = format!("{identity}:work");
    let hash: Vec<_> = ["HSET", &key].into_iter().chain(work.iter().map(String::as_str)).collect();
    redis.run(&[
        &["SADD", "processes", identity],
        &["HSET", identity, "info", r#"{"concurrency":9,"queues":["a"]}"#, "busy", "9"],
        &hash,
    ]);
    let full = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
    assert_eq!(full.processes.unwrap()[0].work.len(), 9);
    let limits = SampleLimits { threads_max: 8, ..SampleLimits::default() };
    let cut = redis.sample(SampleScope::Everything, &limits).await;
    assert_eq!(cut.cut, ["threads_max (8)"]);
    let process = &cut.processes.unwrap()[0];
    assert_eq!((process.work.len(), process.busy), (0, 9));
}

#[tokio::test]
async fn processes_that_were_killed_take_no_room_from_those_that_live() {
    let Some(redis) = RedisServer::start() else { return };
    let ghosts: Vec<_> = (0..90).map(|number| format!("a:{number}:0123456789ab")).collect();
    let lives = "web:7:0123456789ac";
    let words = ["SADD", "processes", lives].into_iter();
    redis.run(&[
        &words.chain(ghosts.iter().map(String::as_str)).collect::<Vec<_>>(),
        &["HSET", lives, "info", r#"{"concurrency":9,"queues":["a"]}"#],
    ]);
    let limits = SampleLimits { processes_max: 10, identities_max: 100, ..SampleLimits::default() };
    let seen = redis.sample(SampleScope::Everything, &limits).await;
    assert_eq!((seen.ghosts.len(), seen.has_more_processes()), (90, false));
    assert_eq!(seen.processes.unwrap()[0].identity, lives);
    let limits = SampleLimits { identities_max: 80, ..limits };
    let cut = redis.sample(SampleScope::Everything, &limits).await;
    assert!(cut.has_more_processes());
    assert_eq!(cut.cut, ["identities in the list of processes (80)"]);
}

#[tokio::test]
async fn a_name_that_is_not_utf_8_is_left_out_and_said() {
    let Some(redis) = RedisServer::start() else { return };
    let lives = "web:7:0123456789ac";
    redis.run(&[
        &["SADD", "processes", lives],
        &["HSET", lives, "info", r#"{"concurrency":9,"queues":["a"]}"#],
        &["SADD", "queues", "a"],
    ]);
    for (set, member) in
        [("queues", b"q\xff".as_slice()), ("queues", b"\xfe"), ("processes", b"\xff:7")]
    {
        let mut add = redis::cmd("SADD");
        let _: u64 = add.arg(set).arg(member).query(&mut redis.client()).unwrap();
    }
    let seen = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
    assert_eq!(seen.processes.unwrap()[0].identity, lives);
    assert_eq!(seen.queues.unwrap().iter().map(|it| &*it.name).collect::<Vec<_>>(), ["a"]);
    let odd: Vec<_> = seen.odd.iter().map(|odd| odd.what.as_str()).collect();
    let said = [r"the member \xff:7 of processes", r"2 members of queues (q\xff is one)"];
    assert_eq!(odd, said);
}

#[tokio::test]
async fn too_many_commands_end_the_look() {
    let Some(redis) = RedisServer::start() else { return };
    fill(&redis, 50);
    let limits = SampleLimits { commands_max: 40, ..SampleLimits::default() };
    let mut connection = RedisConnection::open(&redis.endpoint(), &limits).await.unwrap();
    let error = connection.sample(SampleScope::Everything, &limits).await.unwrap_err();
    assert!(matches!(error, SidekiqError::TooManyCommands { commands_max: 40, .. }), "{error}");
    assert!(error.to_string().contains("commands_max"), "{error}");
}

#[tokio::test]
async fn a_redis_that_does_not_answer_ends_the_look() {
    let Some(redis) = RedisServer::start() else { return };
    let limits = SampleLimits {
        answer_timeout: Duration::from_secs(60),
        deadline: Duration::from_millis(300),
        ..SampleLimits::default()
    };
    let mut connection = RedisConnection::open(&redis.endpoint(), &limits).await.unwrap();
    redis.run(&[&["CLIENT", "PAUSE", "60000", "ALL"]]);
    let error = connection.sample(SampleScope::Everything, &limits).await.unwrap_err();
    assert!(matches!(error, SidekiqError::Deadline { .. }), "{error}");
}

fn job(number: usize, bytes: usize) -> String {
    let filler = "x".repeat(bytes);
    format!(r#"{{"class":"A","jid":"{number}","args":["{filler}"],"enqueued_at":1763790000.5}}"#)
}

/// The last is the newest.
fn push(redis: &RedisServer, queue: &str, jobs: &[String]) {
    let key = format!("queue:{queue}");
    let words: Vec<_> =
        ["LPUSH", &key].into_iter().chain(jobs.iter().map(String::as_str)).collect();
    redis.run(&[&["SADD", "queues", queue], &words]);
}

fn output_bytes(redis: &RedisServer) -> usize {
    let info: String = redis::cmd("INFO").arg("stats").query(&mut redis.client()).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn windows_of_large_jobs_hold_fewer() {
    let Some(redis) = RedisServer::start() else { return };
    push(&redis, "big", &(0..50).map(|number| job(number, 20_000)).collect::<Vec<_>>());
    let limits = SampleLimits { window_bytes: 100_000, ..SampleLimits::default() };
    let queues = redis.sample(SampleScope::Everything, &limits).await.queues.unwrap();
    assert_eq!((queues[0].length, queues[0].newest.len()), (50, 4));
}

#[tokio::test]
async fn large_jobs_behind_small_ones_are_not_read_by_the_hundred() {
    let Some(redis) = RedisServer::start() else { return };
    push(&redis, "mixed", &(0..900).map(|number| job(number, 10)).collect::<Vec<_>>());
    push(&redis, "mixed", &(900..1_100).map(|number| job(number, 200_000)).collect::<Vec<_>>());
    for number in 0..100 {
        redis.run(&[&["ZADD", "retry", &number.to_string(), &job(number, 200_000)]]);
        redis.run(&[&["ZADD", "dead", &number.to_string(), &job(number, 200_000)]]);
    }
    let before = output_bytes(&redis);
    let snapshot = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
    let bytes = output_bytes(&redis) - before;
    // Two of each window that begins with large ones, and the first of each set.
    assert!(bytes < 10 * 200_000, "{bytes} bytes");
    let queue = &snapshot.queues.unwrap()[0];
    assert_eq!((queue.length, queue.newest.len(), queue.sample.len()), (1_100, 2, 2 + 2 * 40));
    assert_eq!(snapshot.retries.unwrap().sample.len(), 2);
    assert_eq!((snapshot.dead.unwrap().sample.len(), snapshot.cut.len()), (2, 0));
}

#[tokio::test]
async fn jobs_of_all_queues_together_have_a_limit_that_is_named() {
    let Some(redis) = RedisServer::start() else { return };
    for queue in 0..20 {
        let jobs: Vec<_> = (0..20).map(|number| job(number, 1_000)).collect();
        push(&redis, &format!("q{queue}"), &jobs);
    }
    let limits =
        SampleLimits { jobs_bytes_max: 50_000, jobs_per_round: 20, ..SampleLimits::default() };
    let before = output_bytes(&redis);
    let snapshot = redis.sample(SampleScope::Everything, &limits).await;
    let bytes = output_bytes(&redis) - before;
    assert_eq!(snapshot.cut, ["jobs_bytes_max (50000)"]);
    assert!(bytes < 50_000 + 20 * 1_100 + 30_000, "{bytes} bytes");
    let queues = snapshot.queues.unwrap();
    assert!(queues.iter().all(|queue| queue.length == 20), "lengths are known all the same");
}

#[tokio::test]
async fn large_jobs_in_hand_are_left_where_they_are() {
    let Some(redis) = RedisServer::start() else { return };
    let identity = "web:7:0123456789ac";
    let work = format!(r#"{{"queue":"a","payload":{}}}"#, job(1, 60_000));
    redis.run(&[
        &["SADD", "processes", identity],
        &["HSET", identity, "info", r#"{"concurrency":9,"queues":["a"]}"#, "busy", "1"],
        &["HSET", &format!("{identity}:work"), "t1", &work],
    ]);
    let limits = SampleLimits { jobs_bytes_max: 50_000, ..SampleLimits::default() };
    let snapshot = redis.sample(SampleScope::Everything, &limits).await;
    assert_eq!(snapshot.cut, ["jobs_bytes_max (50000)"]);
    assert_eq!(snapshot.processes.unwrap()[0].work.len(), 0);
    let snapshot = redis.sample(SampleScope::Everything, &SampleLimits::default()).await;
    assert_eq!(snapshot.processes.unwrap()[0].work.len(), 1);
}
