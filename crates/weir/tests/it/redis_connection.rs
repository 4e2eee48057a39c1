//! The connection to the Redis of the job store: `weir check`, the log, an outage under load.

#![allow(clippy::disallowed_methods, reason = "waits are limited by the machine's clock")]

use std::net::SocketAddr;
use std::time::Instant;

use rustix::process::Pid;
use serde_json::Value;

use crate::doctor::redis_server::{RedisServer, free_port};
use crate::faktory::Client;
use crate::process::TEST_TIMEOUT;
use crate::weir::Site;

/// Settings with jobs in Redis.
fn site(url: &str, members: &str, more: &str) -> Site {
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{{ url = \"{url}\"{members} }}] }}\n\
         [console]\nlisten = \"off\"\n{more}"
    ));
    site
}

#[test]
fn check_prints_the_permissions_and_says_whether_redis_can_be_used() {
    let Some(redis) = RedisServer::start() else { return };
    let url = format!("redis://weir@127.0.0.1:{}/3", redis.port);
    let site = site(&url, ", password = { file = \"password\" }", "[jobs.redis]\nprefix = \"w\"\n");
    site.write_file("password", b"hunter2\n");
    let line = "its user needs: ACL SETUSER weir ~queues ~queue:* ~schedule ~retry ~dead";
    let printed = site.shown(&["check"]);
    assert!(printed.starts_with("exit: 1\n") && printed.contains(line), "{printed}");
    assert!(printed.contains("problem: jobs.store: Redis"), "{printed}");
    assert!(printed.contains("rejects that user or that password"), "{printed}");
    assert!(!printed.contains("hunter2"), "{printed}");
    let offline = site.shown(&["check", "--offline"]);
    assert!(offline.starts_with("exit: 0\n") && offline.contains(line), "{offline}");
    let of_cluster = "if it is a Redis Cluster, its user needs as well: +asking +cluster|slots";
    assert!(offline.contains(of_cluster), "{offline}");
    // The printed line is all that is needed.
    let report = site.run(&["check", "--offline", "--json"]).stdout;
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let line = report["redis"][0]["acl_line"].as_str().expect("a line");
    let mut words: Vec<&str> = line.split(' ').collect();
    words.splice(3..3, ["on", ">hunter2"]);
    redis.run(&[&words]);
    let printed = site.shown(&["check"]);
    assert!(printed.starts_with("exit: 0\n") && !printed.contains("problem"), "{printed}");
    assert!(!printed.contains("Redis Cluster"), "it is none: {printed}");
    redis.run(&[&["ACL", "SETUSER", "weir", "-zadd"]]);
    let report = site.run(&["check", "--json"]).stdout;
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let problem = report["redis"][0]["problem"].as_str().expect("a problem");
    assert!(problem.contains("lacks permissions: +zadd;"), "{problem}");
}

#[test]
fn the_log_at_start_says_why_redis_can_not_be_used_and_when_it_can() {
    let port = free_port();
    let mut weir = site(&format!("redis://127.0.0.1:{port}"), "", "").start();
    let line = weir.wait_for_log("jobs in Redis can't be used");
    assert!(line.contains("nothing listens there"), "{line}");
    let mut client = Client::connect(weir.jobs());
    let job = r#"PUSH {"jid":"it-job-0001","jobtype":"Hello","args":[]}"#;
    let reply = client.run_command(job);
    assert!(reply.contains(&format!("Redis 127.0.0.1:{port} can't be used since")), "{reply}");
    let Some(_redis) = RedisServer::start_at(port) else { return };
    weir.wait_for_log("jobs in Redis can be used again");
    assert_eq!(client.run_command(job), "+OK");
    assert!(weir.stop().success());
}

/// Far more than an idle Weir changes by, and far less than what is pushed.
const GROWTH_BYTES_MAX: u64 = 64 << 20;
const CLIENTS: usize = 16;
const PUSHES: usize = 200;
const PAYLOAD_BYTES: usize = 128 << 10;

#[test]
fn pushes_to_a_redis_that_hangs_fail_and_are_not_kept_in_memory() {
    let Some(redis) = RedisServer::start() else { return };
    let timeouts =
        "[jobs.redis.advanced]\ncommand_timeout = \"500ms\"\nconnect_timeout = \"250ms\"\n";
    let weir = site(&format!("redis://127.0.0.1:{}", redis.port), "", timeouts).start();
    let (jobs, service) = (weir.jobs(), weir.service());
    push_all(jobs, 4);
    let before = resident_bytes(service);
    redis.signal("STOP");
    let began = Instant::now();
    let replies = push_all(jobs, PUSHES);
    let growth = resident_bytes(service).saturating_sub(before);
    let waited = replies.iter().filter(|it| it.contains("may be stored")).count();
    let at_once = replies.len() - waited;
    let seconds = began.elapsed().as_secs_f64();
    eprintln!(
        "{waited} waited, {at_once} of {} failed in {seconds:.1} s, {growth} bytes more",
        replies.len()
    );
    assert!(replies.iter().all(|reply| reply.starts_with("-ERR")), "{:?}", replies.first());
    assert!(waited > 0 && at_once > replies.len() / 2);
    assert!(replies.iter().all(|reply| reply.contains("can't be used since")));
    assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes more");
    redis.signal("CONT");
    let mut client = Client::connect(jobs);
    let deadline = Instant::now() + TEST_TIMEOUT;
    let job = r#"PUSH {"jid":"it-job-0001","jobtype":"Hello","args":[]}"#;
    while client.run_command(job) != "+OK" {
        assert!(Instant::now() < deadline, "Redis is not used again");
    }
    assert!(weir.stop().success());
}

/// Pushes this many large jobs with each client. Returns the replies.
fn push_all(jobs: SocketAddr, pushes: usize) -> Vec<String> {
    let payload = "x".repeat(PAYLOAD_BYTES);
    let push = |client: usize| {
        let payload = &payload;
        move || {
            let mut connection = Client::connect(jobs);
            let push = |number: usize| {
                let jid = format!("it-job-{client:02}-{number:05}");
                let job = format!(r#"PUSH {{"jid":"{jid}","jobtype":"A","args":["{payload}"]}}"#);
                connection.run_command(&job)
            };
            (0..pushes).map(push).collect::<Vec<_>>()
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(push(client))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    })
}

fn resident_bytes(pid: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}
