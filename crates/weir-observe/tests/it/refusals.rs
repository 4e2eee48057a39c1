//! A real Redis that refuses everybody: what it says is a finding, with what ends it.

use std::time::Duration;

use weir_advisor::{Advice, Severity, advise};
use weir_base::clock::Clock;
use weir_base::secret::Secret;
use weir_observe::{PollSchedule, Sources, Watcher, observe};
use weir_sidekiq::RedisEndpoint;

use crate::findings::{push, rules, serve, sources};
use crate::redis_server::RedisServer;

/// Samples before a test gives up: half a minute.
const SAMPLES_MAX: usize = 300;

async fn sample(redis: &RedisServer) -> Advice {
    sample_at(&redis.endpoint()).await
}

async fn sample_at(endpoint: &RedisEndpoint) -> Advice {
    let window = Duration::from_millis(1);
    let sources = Sources { window, ..sources(vec![endpoint.clone()]) };
    advise(&observe(&sources).await)
}

async fn sample_until(redis: &RedisServer, rule: &str) -> Advice {
    for _ in 0..SAMPLES_MAX {
        let advice = sample(redis).await;
        if rules(&advice).contains(&rule) {
            return advice;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{rule} was not found in {SAMPLES_MAX} samples");
}

#[tokio::test]
async fn the_last_connection_is_told_with_the_setting() {
    let Some(redis) = RedisServer::start() else { return };
    let mut held = redis.client();
    let _: () = ::redis::cmd("CONFIG").arg(&["SET", "maxclients", "1"]).query(&mut held).unwrap();
    let with_password =
        RedisEndpoint { password: Some(Secret::new("hunter2")), ..redis.endpoint() };
    // Who sends a password at once mostly loses the error.
    for endpoint in [redis.endpoint(), with_password].iter().cycle().take(20) {
        let advice = sample_at(endpoint).await;
        assert_eq!(rules(&advice), ["redis-refuses"], "{:?}", advice.findings);
        let finding = &advice.findings[0];
        assert_eq!(finding.severity, Severity::Critical);
        assert!(finding.evidence.contains("max number of clients reached"), "{finding:?}");
        let next = finding.next_step().unwrap();
        assert!(next.contains(&format!("-p {} CONFIG GET maxclients", redis.port)), "{next}");
    }
}

#[tokio::test]
async fn a_script_that_does_not_end_is_told_with_what_ends_it() {
    let Some(redis) = RedisServer::start() else { return };
    redis.run(&[&["CONFIG", "SET", "busy-reply-threshold", "1"]]);
    let mut client = redis.client();
    let endless = std::thread::spawn(move || {
        let script = ::redis::cmd("EVAL").arg("while true do end").arg(0).query(&mut client);
        let _: Result<(), _> = script;
    });
    let advice = sample_until(&redis, "redis-refuses").await;
    let next = advice.findings[0].next_step().map(str::to_owned).unwrap();
    assert_eq!(next, format!("redis-cli -h 127.0.0.1 -p {} SCRIPT KILL", redis.port));
    // What it says ends it.
    redis.run(&[&["SCRIPT", "KILL"]]);
    endless.join().unwrap();
    assert!(!rules(&sample(&redis).await).contains(&"redis-refuses"));
}

#[tokio::test]
async fn a_redis_without_its_folder_is_told_with_how_to_save_the_jobs() {
    let Some(redis) = RedisServer::start() else { return };
    push(&redis, "default", 3, 0.5).await;
    // The default before Redis 7: a copy is first written to the folder. And no wait for other copies.
    redis.run(&[
        &["CONFIG", "SET", "repl-diskless-sync", "no"],
        &["CONFIG", "SET", "repl-diskless-sync-delay", "0"],
    ]);
    std::fs::remove_dir_all(redis.folder()).unwrap();
    let advice = sample(&redis).await;
    let finding = advice.findings.iter().find(|it| it.rule == "redis-persistence").unwrap();
    assert_eq!(finding.severity, Severity::Critical);
    assert!(finding.evidence.starts_with("its folder (dir) was removed"), "{finding:?}");
    let kept = tempfile::tempdir().unwrap();
    let command = finding.next_step().unwrap();
    let command = format!("unset REDISCLI_AUTH; cd {} && {command}", kept.path().display());
    let (ended, printed) = pasted(&command, "");
    assert_eq!(ended, Some(0), "{printed}");
    let file = std::fs::read(kept.path().join("redis-copy.rdb")).unwrap();
    assert!(file.starts_with(b"REDIS") && contains(&file, b"queue:default"), "{printed}");
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|it| it == word)
}

#[tokio::test]
async fn a_redis_that_loads_is_told_with_how_to_wait() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dump.rdb");
    {
        let Some(redis) = RedisServer::start() else { return };
        let fill = "for i = 1, 100000 do redis.call('SET', 'k' .. i, 'x') end";
        let dir: Vec<String> =
            ::redis::cmd("CONFIG").arg(&["GET", "dir"]).query(&mut redis.client()).unwrap();
        redis.run(&[&["EVAL", fill, "0"], &["SAVE"]]);
        std::fs::copy(std::path::Path::new(&dir[1]).join("dump.rdb"), &file).unwrap();
    }
    // Each key takes a millisecond: it loads for longer than the test.
    let Some(redis) = RedisServer::start_loading(&file) else { return };
    let advice = sample_until(&redis, "redis-refuses").await;
    let finding = &advice.findings[0];
    assert!(finding.evidence.contains("LOADING"), "{finding:?}");
    let next = finding.next_step().unwrap();
    assert!(next.contains(&format!("-p {} INFO persistence", redis.port)), "{next}");
    let (ended, _) = pasted(&format!("timeout 1 sh -c '{next}'"), "");
    assert_eq!(ended, Some(124), "it waits: {next}");
    waits_for_nothing_else(next, redis.port);
}

/// Its exit code, and what it printed.
fn pasted(command: &str, password: &str) -> (Option<i32>, String) {
    let mut shell = std::process::Command::new("timeout");
    let output = shell.args(["30", "sh", "-c", command]).env("REDISCLI_AUTH", password).output();
    let output = output.unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&printed).into_owned())
}

/// What waits for the Redis on `port`, of others.
fn waits_for_nothing_else(next: &str, port: u16) {
    let Some(loaded) = RedisServer::start() else { return };
    let of = |other: u16| next.replace(&format!("-p {port} "), &format!("-p {other} "));
    assert_eq!(pasted(&of(loaded.port), "").0, Some(0), "it has loaded");
    loaded.run(&[&["CONFIG", "SET", "requirepass", "hunter2"]]);
    let (ended, output) = pasted(&of(loaded.port), "hunter3");
    assert_eq!(ended, Some(1), "with a wrong password it ends: {output}");
    assert!(output.contains("stopped; Redis replied: ") && output.contains("NOAUTH"), "{output}");
    assert_eq!(pasted(&of(loaded.port), "hunter2").0, Some(0));
    let (ended, output) = pasted(&of(1), "");
    assert_eq!(ended, Some(1), "of nobody: {output}");
    assert!(output.contains("Could not connect"), "{output}");
}

#[tokio::test]
async fn behind_sentinels_what_comes_next_is_done_at_the_master_that_was_seen() {
    let Some(redis) = RedisServer::start() else { return };
    let Some(sentinel) = RedisServer::start_sentinel(redis.port) else { return };
    serve(&redis, r#"{"default":1}"#).await;
    push(&redis, "default", 3, 0.5).await;
    redis.run(&[&["CONFIG", "SET", "appendonly", "no"]]);
    let url = format!("redis+sentinel://127.0.0.1:{}/mymaster", sentinel.port);
    let endpoint = RedisEndpoint::parse(&url).unwrap();
    let advice = sample_at(&endpoint).await;
    assert_eq!(rules(&advice), ["redis-persistence"]);
    let next = advice.findings[0].next_step().map(str::to_owned).unwrap();
    let cli = format!("redis-cli -h 127.0.0.1 -p {} CONFIG SET appendonly yes", redis.port);
    assert!(next.starts_with(&cli), "{next}");

    let second = Duration::from_secs(1);
    let schedule =
        PollSchedule { interval: second, sample_timeout: 30 * second, retry_max: second };
    let mut watcher = Watcher::new(
        sources(vec![endpoint.clone()]),
        schedule,
        Clock::system(),
        &mut fastrand::Rng::new(),
    );
    let watched = advise(&watcher.round().await.observation);
    assert_eq!(watched.findings[0].next_step(), Some(next.as_str()));

    let (ended, output) = pasted(&next, "");
    assert_eq!(ended, Some(0), "{output}");
    assert_eq!(rules(&sample_at(&endpoint).await), [""; 0]);
}

#[tokio::test]
async fn a_replica_names_its_master_and_one_without_heartbeats_is_critical() {
    let Some(master) = RedisServer::start() else { return };
    let port = master.port.to_string();
    let Some(replica) = RedisServer::start() else { return };
    serve(&master, r#"{"default":1}"#).await;
    push(&master, "default", 3, 0.5).await;
    replica.run(&[&["REPLICAOF", "127.0.0.1", &port]]);
    let severity = |advice: &Advice| {
        let found = advice.findings.iter().find(|it| it.rule == "redis-replica");
        found.map(|it| (it.severity, it.line_change().unwrap().line.clone()))
    };
    let line = format!("redis://127.0.0.1:{port}");
    let mut seen = None;
    for _ in 0..SAMPLES_MAX {
        seen = severity(&sample(&replica).await);
        if seen == Some((Severity::Notice, line.clone())) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(seen, Some((Severity::Notice, line.clone())), "it has its master's heartbeats");
    master.run(&[&["DEL", "processes"]]);
    for _ in 0..SAMPLES_MAX {
        seen = severity(&sample(&replica).await);
        if seen == Some((Severity::Critical, line.clone())) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(seen, Some((Severity::Critical, line)));
}
