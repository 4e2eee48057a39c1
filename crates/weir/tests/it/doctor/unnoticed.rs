//! Problems that leave no trace in a set or a log: slow commands, jobs without retries, limits of CPU time,
//! a queue of two applications.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::follow::{find, find_in_time, try_find};
use super::json;
use super::page::show;
use super::redis::url;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy, now, push};

/// Enough that a search of all takes tens of milliseconds.
const KEYS: &str = "for i = 1, 600000 do redis.call('SET', 'cache:' .. i, 'x') end";
const SEARCH: &str = "return #redis.call('KEYS', 'nothing*')";
/// Samples after the limit was raised; the first one may still contain throttled periods.
const LOOKS_MAX: usize = 5;
/// Where control groups of version 1 and 2 are.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"];

#[test]
fn repeated_slow_commands_are_found_without_a_slow_log() {
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    redis.run(&[&["EVAL", KEYS, "0"], &["EVAL", SEARCH, "0"]]);
    let url = url(&redis);
    let arguments = ["--redis", &url, "--window", "5s"];
    let is_over = AtomicBool::new(false);
    let row = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = redis.client();
            while !is_over.load(Ordering::Relaxed) {
                let mut search = ::redis::cmd("EVAL");
                let _: i64 = search.arg(SEARCH).arg(0).query(&mut client).expect("a number");
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
        let cause = "a script that runs `KEYS` over 600,000 keys some times a second, slow log off";
        let found = try_find(&json(&arguments), "slow-commands", cause, "of KEYS in");
        let row = found.map(|found| {
            let output = found.run();
            found.shown(&output, "cmd=eval")
        });
        is_over.store(true, Ordering::Relaxed);
        row
    });
    show(&[row.expect("slow-commands")]);
}

/// Pushes jobs of a class that does not exist and has no retries, among others that succeed.
#[test]
fn failures_that_are_not_retried_are_found() {
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    let Some(_sidekiq) = Sidekiq::start(&redis, &["-c", "2", "-q", "default"]) else { return };
    let lost = r#"{"class":"Gone","args":[],"queue":"default","jid":"0123456789abcdef01234567","retry":false}"#;
    for _ in 0..10 {
        redis.run(&[&["LPUSH", "queue:default", lost, lost, lost, lost]]);
        push(&redis, "default", "Nap", 12, 0.0);
    }
    let url = url(&redis);
    let cause = "jobs with `retry: false`, a quarter of all, fail";
    // Sidekiq counts with its heartbeats.
    let advice = json(&["--redis", &url, "--window", "12s"]);
    let found = find(&advice, "failing-jobs", cause, "are in no set");
    show(&[found.not_followed("what makes them fail must be repaired")]);
}

#[test]
fn a_queue_of_two_applications_is_found() {
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    let of = |tag| Sidekiq::start(&redis, &["-c", "1", "-q", "default", "-g", tag]);
    let (Some(_shop), Some(_blog)) = (of("shop"), of("blog")) else { return };
    let failed_at = now(&redis) - 60.0;
    let later = format!("{}", failed_at + 3_600.0);
    for number in 0..8 {
        let job = format!(
            r#"{{"class":"Import","args":[],"queue":"default","jid":"{number}","retry":true,"retry_count":0,"failed_at":{failed_at},"error_class":"NameError","error_message":"uninitialized constant Import"}}"#
        );
        redis.run(&[&["ZADD", "retry", &later, &job]]);
    }
    let url = url(&redis);
    let cause = "`-g shop` and `-g blog` serve `default`, and jobs failed with NameError";
    let names = "processes with the tags blog and shop serve it";
    let found = find(&json(&["--redis", &url, "--window", "300ms"]), "shared-queue", cause, names);
    show(&[found.not_followed("the applications must get queues of their own")]);
}

/// A control group of a test. Its process must have ended before it is dropped.
struct Group(PathBuf);

impl Group {
    /// Creates a group with a limit. None: this system does not allow that.
    fn limited() -> Option<Self> {
        let name = format!("weir-doctor-{}", std::process::id());
        GROUPS.iter().find_map(|mount| {
            let group = Self(Path::new(mount).join(&name));
            std::fs::create_dir(&group.0).ok()?;
            group.limit(true).then_some(group)
        })
    }

    /// Limits it to a fifth of a core, or ends the limit.
    fn limit(&self, is_limited: bool) -> bool {
        let (old, new) = if is_limited { ("20000", "20000 100000") } else { ("-1", "max") };
        [("cpu.cfs_quota_us", old), ("cpu.max", new)].into_iter().any(|(file, text)| {
            let file = self.0.join(file);
            file.exists() && std::fs::write(file, text).is_ok()
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_limit_of_cpu_time_is_found() {
    let Some(group) = Group::limited() else {
        eprintln!(
            "skipped: control groups cannot be created, so cpu-limit keeps the row that it has"
        );
        return;
    };
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    push(&redis, "spin", "Spin", 2, 0.0);
    let Some(spinning) = Sidekiq::start(&redis, &["-c", "2", "-q", "spin"]) else { return };
    spinning.wait_until_busy(&redis, 2);
    std::fs::write(group.0.join("cgroup.procs"), spinning.pid().to_string()).expect("moved");
    let url = url(&redis);
    let arguments = ["--redis", &url, "--window", "4s"];
    let cause = "a Sidekiq that computes in a control group with 0.2 cores";
    let found = find_in_time(&arguments, "cpu-limit", cause, "is limited to 0.2 cores");
    assert!(group.limit(false));
    let remains =
        || try_find(&json(&arguments), "cpu-limit", cause, "is limited to 0.2 cores").is_some();
    assert!((0..LOOKS_MAX).any(|_| !remains()), "the limit is gone");
    drop(spinning);
    // Then it uses a core, which is another finding.
    show(&[found.not_followed("a limit is set on purpose; without it, the finding was gone")]);
}
