//! Two Weirs on one Redis. One is stopped beyond its lease, as a machine that swaps or a virtual
//! machine that is moved, and then continued.

use std::collections::BTreeMap;

use redis::Commands as _;
use rustix::process::{Signal, kill_process};

use crate::doctor::redis_server::RedisServer;
use crate::faktory::Client;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

const DUE_JOBS: usize = 300;

fn start(redis: &RedisServer) -> Weir {
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}\n\
         [jobs.redis]\nlease = \"6s\"\n[console]\nlisten = \"127.0.0.1:0\"\n",
        redis.port
    ));
    site.start()
}

/// Adds jobs to a set that are due at once.
fn make_due(redis: &RedisServer, set: &str, prefix: &str) {
    let mut jobs = redis::pipe();
    for number in 0..DUE_JOBS {
        let jid = format!("{prefix}-{number:05}");
        jobs.zadd(set, format!(r#"{{"class":"A","args":[],"queue":"due","jid":"{jid}"}}"#), 1);
    }
    jobs.exec(&mut redis.client()).expect("stored");
}

/// Fetches and acknowledges all jobs. Counts each.
fn drain(client: &mut Client, delivered: &mut BTreeMap<String, usize>) {
    loop {
        let fetched = client.run_command("FETCH due");
        if fetched == "nil" {
            return;
        }
        let job: serde_json::Value = serde_json::from_str(&fetched).expect("a job");
        let jid = job["jid"].as_str().expect("a jid");
        assert_eq!(client.run_command(&format!(r#"ACK {{"jid":"{jid}"}}"#)), "+OK");
        *delivered.entry(jid.to_owned()).or_default() += 1;
    }
}

#[test]
fn a_node_that_was_stopped_beyond_its_lease_does_nothing_twice() {
    let Some(redis) = RedisServer::start() else { return };
    let (slow, other) = (start(&redis), start(&redis));
    let (mut slow_client, mut client) =
        (Client::connect(slow.jobs()), Client::connect(other.jobs()));
    let push = |queue: &str, jid: &str| {
        format!(r#"PUSH {{"jid":"{jid}","jobtype":"A","args":[],"queue":"{queue}"}}"#)
    };
    assert_eq!(slow_client.run_command(&push("held", "held-0001")), "+OK");
    assert!(slow_client.run_command("FETCH held").contains("held-0001"));
    let pids = [slow.pid(), slow.service()];
    let signal = |signal| pids.map(|pid| kill_process(pid, signal).expect("signalled"));
    signal(Signal::STOP);
    make_due(&redis, "schedule", "scheduled");
    let length = || redis.client().llen::<_, usize>("queue:due").unwrap();
    wait_until("the other node enqueues what is due", || length() == DUE_JOBS);
    let mut delivered = BTreeMap::new();
    drain(&mut client, &mut delivered);
    wait_until("the job returns after the lease", || {
        client.run_command("FETCH held").contains("held-0001")
    });
    make_due(&redis, "retry", "retried");
    signal(Signal::CONT);
    // The worker of the stopped node has finished its job, too late.
    assert_eq!(slow_client.run_command(r#"ACK {"jid":"held-0001"}"#), "+OK");
    let reserved: usize = redis.client().hlen("weir:{queue:held}:reserved").unwrap();
    assert_eq!(reserved, 1, "it is the other's");
    wait_until("retries are enqueued", || redis.client().zcard::<_, u64>("retry").unwrap() == 0);
    drain(&mut slow_client, &mut delivered);
    drain(&mut client, &mut delivered);
    assert_eq!(delivered.len(), 2 * DUE_JOBS);
    assert!(delivered.values().all(|times| *times == 1), "{delivered:?}");
    assert_eq!(client.run_command(r#"ACK {"jid":"held-0001"}"#), "+OK");
    let (_, metrics) = get(slow.console(), "/metrics", "");
    let stale = "weir_jobs_stale_reports_total{verb=\"ACK\"} 1";
    assert!(metrics.contains(stale), "{metrics}");
    assert!(slow.stop().success() && other.stop().success());
    let processed: usize = redis.client().get("stat:processed").unwrap();
    assert_eq!(processed, 2 * DUE_JOBS + 1, "each job is counted once");
}
