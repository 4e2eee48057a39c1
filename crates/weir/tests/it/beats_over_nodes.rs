//! A worker process with connections to two Weirs on one Redis, as behind a load balancer: its BEATs reach one of them.

use std::thread;
use std::time::Duration;

use redis::Commands as _;

use crate::doctor::redis_server::RedisServer;
use crate::faktory::Client;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

/// Enough for three times `heartbeat_timeout`.
const BEATS: u32 = 60;
const BEAT_INTERVAL: Duration = Duration::from_millis(150);

fn start(redis: &RedisServer) -> Weir {
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}\n\
         [jobs.limits]\nheartbeat_timeout = \"3s\"\n[console]\nlisten = \"off\"\n",
        redis.port
    ));
    site.start()
}

#[test]
fn a_worker_that_beats_at_one_node_keeps_its_jobs_at_the_other() {
    let Some(redis) = RedisServer::start() else { return };
    let (beaten, silent) = (start(&redis), start(&redis));
    let mut heart = Client::connect(beaten.jobs());
    let mut worker = Client::connect(silent.jobs());
    let push = |jid: &str| format!(r#"PUSH {{"jid":"{jid}","jobtype":"A","args":[]}}"#);
    for jid in ["long-0001", "long-0002"] {
        assert_eq!(heart.run_command(&push(jid)), "+OK");
        assert!(worker.run_command("FETCH default").contains(jid));
    }
    for _ in 0..BEATS {
        assert_eq!(heart.run_command(r#"BEAT {"wid":"it-worker"}"#), "+OK");
        thread::sleep(BEAT_INTERVAL);
    }
    assert_eq!(worker.run_command(r#"ACK {"jid":"long-0001"}"#), "+OK");
    let reserved =
        || redis.client().hlen::<_, usize>("weir:{queue:default}:reserved").expect("read");
    assert_eq!(reserved(), 1, "the other job is still the worker's");
    // Without beats, both nodes give it up.
    wait_until("the job returns to its queue", || reserved() == 0);
    assert!(silent.stop().success() && beaten.stop().success());
}
