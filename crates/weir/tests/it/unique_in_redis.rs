//! Unique jobs and batches in Redis, while the Weir that serves them is killed again and again.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::crash::client::Client;
use crate::doctor::redis_server::RedisServer;
use crate::weir::{Site, Weir};

const LOCKS: u64 = 500;
const PRODUCERS: u64 = 8;
const WORKERS: u64 = 4;
const KILLS: usize = 4;
const BETWEEN_KILLS: Duration = Duration::from_millis(400);
const RETRY: Duration = Duration::from_millis(20);

fn start(redis: &RedisServer) -> Weir {
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}\n\
         redis.push_memory = \"10m\"\nlimits.advanced.fetch_wait = \"100ms\"\n\
         [console]\nlisten = \"off\"\n",
        redis.port
    ));
    site.start()
}

/// Where clients find the Weir that runs now.
struct Place(Mutex<SocketAddr>);

impl Place {
    fn connect(&self, wid: &str) -> Client {
        loop {
            let address = *self.0.lock().expect("not poisoned");
            if let Some(client) = Client::connect(address, wid) {
                return client;
            }
            thread::sleep(RETRY);
        }
    }

    /// Sends a command until it has a reply that is no error of the store.
    fn ask(&self, client: &mut Client, wid: &str, command: &str) -> String {
        loop {
            match client.try_send_command(command) {
                Some(reply) if !reply.starts_with("-ERR") => return reply,
                Some(_) => thread::sleep(RETRY),
                None => *client = self.connect(wid),
            }
        }
    }

    /// Kills the Weir some times, and starts the next one.
    fn kill_repeatedly(&self, mut weir: Weir) -> Weir {
        for _ in 0..KILLS {
            thread::sleep(BETWEEN_KILLS);
            weir = weir.kill_parent().start();
            *self.0.lock().expect("not poisoned") = weir.jobs();
        }
        weir
    }
}

/// Pushes a job for each lock. Returns how many were stored.
fn produce(place: &Place, producer: u64, bid: &str) -> u64 {
    let mut client = place.connect("");
    let mut stored = 0;
    for number in 0..LOCKS {
        let args = (number + producer * LOCKS / PRODUCERS) % LOCKS;
        let push = format!(
            r#"PUSH {{"jid":"job-{producer}-{number:05}","jobtype":"A","args":[{args}],"queue":"q","custom":{{"unique_for":3600,"bid":"{bid}"}}}}"#
        );
        match place.ask(&mut client, "", &push).as_str() {
            "OK" => stored += 1,
            reply => assert_eq!(reply, "-NOTUNIQUE Job not unique"),
        }
    }
    stored
}

/// Fetches and acknowledges jobs.
fn work(place: &Place, wid: &str, is_over: &AtomicBool, ended: &AtomicU64) {
    let mut client = place.connect(wid);
    while !is_over.load(Ordering::Relaxed) {
        let job = place.ask(&mut client, wid, "FETCH q");
        let Ok(job) = serde_json::from_str::<Value>(&job) else { continue };
        let ack = format!(r#"ACK {{"jid":{}}}"#, job["jid"]);
        place.ask(&mut client, wid, &ack);
        ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn kills_store_no_unique_job_twice_and_enqueue_each_callback_once() {
    let Some(redis) = RedisServer::start() else { return };
    let weir = start(&redis);
    let place = Place(Mutex::new(weir.jobs()));
    let mut client = place.connect("");
    let callback = |jid: &str| format!(r#"{{"jid":"{jid}","jobtype":"C","args":[],"queue":"c"}}"#);
    let new = format!(
        r#"BATCH NEW {{"complete":{},"success":{}}}"#,
        callback("complete-01"),
        callback("success-01")
    );
    let bid = client.try_send_command(&new).expect("a reply");
    let (weir, stored) = thread::scope(|scope| {
        let (place, bid) = (&place, &bid);
        let producing = (0..PRODUCERS).map(|it| scope.spawn(move || produce(place, it, bid)));
        let producing: Vec<_> = producing.collect();
        let weir = place.kill_repeatedly(weir);
        let stored = producing.into_iter().map(|it| it.join().expect("ended")).sum::<u64>();
        (weir, stored)
    });
    assert_eq!(stored, LOCKS, "each lock has stored one job, and its producer knows");
    let mut redis_client = redis.client();
    let texts: Vec<String> =
        redis::cmd("LRANGE").arg("queue:q").arg(0).arg(-1).query(&mut redis_client).expect("read");
    let args: BTreeSet<u64> = texts
        .iter()
        .map(|text| {
            let job: Value = serde_json::from_str(text).expect("JSON");
            job["args"][0].as_u64().expect("a number")
        })
        .collect();
    assert_eq!((texts.len() as u64, args.len() as u64), (LOCKS, LOCKS));

    let mut client = place.connect("");
    assert_eq!(place.ask(&mut client, "", &format!("BATCH COMMIT {bid}")), "OK");
    let (is_over, ended) = (AtomicBool::new(false), AtomicU64::new(0));
    let weir = thread::scope(|scope| {
        let (place, is_over, ended) = (&place, &is_over, &ended);
        for worker in 0..WORKERS {
            scope.spawn(move || work(place, &format!("worker-{worker}"), is_over, ended));
        }
        let weir = place.kill_repeatedly(weir);
        let mut client = place.connect("");
        loop {
            let status = place.ask(&mut client, "", &format!("BATCH STATUS {bid}"));
            if status.contains("\"pending\":0") {
                break;
            }
            thread::sleep(RETRY);
        }
        is_over.store(true, Ordering::Relaxed);
        weir
    });
    let mut client = place.connect("last");
    let status = place.ask(&mut client, "last", &format!("BATCH STATUS {bid}"));
    let counts = format!(r#""total":{LOCKS},"pending":0,"failed":0,"complete_st":"1""#);
    assert!(status.contains(&counts), "{status}");
    for jid in ["complete-01", "success-01"] {
        let length: u64 = redis::cmd("LLEN").arg("queue:c").query(&mut redis_client).expect("read");
        assert_eq!(length, 1, "{jid}");
        let job = place.ask(&mut client, "last", "FETCH c");
        assert!(job.contains(jid), "{job}");
        place.ask(&mut client, "last", &format!(r#"ACK {{"jid":"{jid}"}}"#));
    }
    let held: u64 = redis::cmd("HLEN").arg("weir:unique").query(&mut redis_client).expect("read");
    assert_eq!(held, 0, "each job has freed its lock");
    assert!(weir.stop().success());
}
