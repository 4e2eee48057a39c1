//! Limits of jobs in Redis, over two Weirs: one is killed, and settings are reloaded.

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::doctor::redis_server::RedisServer;
use crate::faktory::Client;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

fn write(site: &Site, redis: &RedisServer, payments: u32) {
    let limits = format!(
        "[jobs.queues.api]\nrate = \"1/d burst 3\"\n\
         [jobs.resources.payments]\nconcurrency = {payments}\nqueues = [\"charges\", \"refunds\"]\n"
    );
    write_limits(site, redis, &limits);
}

fn write_limits(site: &Site, redis: &RedisServer, limits: &str) {
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}\n\
         redis.lease = \"6s\"\nlimits.advanced.fetch_wait = \"100ms\"\n{limits}\
         [console]\nlisten = \"127.0.0.1:0\"\n",
        redis.port
    ));
}

fn start(redis: &RedisServer) -> Weir {
    let site = Site::new("");
    write(&site, redis, 1);
    site.start()
}

fn push(client: &mut Client, queue: &str, jobs: u32) {
    for number in 0..jobs {
        let push = format!(
            r#"PUSH {{"jid":"{queue}-{number:04}","jobtype":"A","args":[],"queue":"{queue}"}}"#
        );
        assert_eq!(client.run_command(&push), "+OK");
    }
}

/// Returns the jid of a job, if there is one now.
fn fetch(client: &mut Client, queues: &str) -> Option<String> {
    let fetched = client.run_command(&format!("FETCH {queues}"));
    if !fetched.starts_with('{') {
        return None;
    }
    let job: Value = serde_json::from_str(&fetched).expect("JSON");
    job["jid"].as_str().map(str::to_owned)
}

fn queue(weir: &Weir, name: &str) -> Value {
    let list: Value =
        serde_json::from_str(&weir.site.ok(&["jobs", "list", "--json"])).expect("JSON");
    let queues = list["queues"].as_array().or_else(|| list.as_array()).expect("queues");
    queues.iter().find(|queue| queue["name"] == name).expect("the queue").clone()
}

#[test]
fn two_weirs_share_limits_over_kills_and_reloads() {
    let Some(redis) = RedisServer::start() else { return };
    let (killed, mut weir) = (start(&redis), start(&redis));
    let mut first = Client::connect(killed.jobs());
    let mut client = Client::connect(weir.jobs());
    for (name, jobs) in [("charges", 1), ("refunds", 2), ("api", 6)] {
        push(&mut client, name, jobs);
    }
    assert_eq!(fetch(&mut first, "charges").as_deref(), Some("charges-0000"));
    assert_eq!(fetch(&mut client, "refunds charges"), None);
    let refunds = queue(&weir, "refunds");
    assert_eq!(refunds["blocked_by"]["resource"], 2, "{refunds}");
    assert_eq!(refunds["resources"][0]["used"], 1, "{refunds}");
    let lines = [
        "weir_jobs_resource_working{resource=\"payments\"} 1",
        "weir_jobs_resource_blocked{resource=\"payments\"} 2",
        "weir_jobs_queue_resource_blocked{queue=\"refunds\"} 2",
    ];
    wait_until("the next sample shows the resource", || {
        let (_, metrics) = get(weir.console(), "/metrics", "");
        lines.iter().all(|line| metrics.contains(line))
    });

    assert_eq!(fetch(&mut first, "api").as_deref(), Some("api-0000"));
    assert_eq!(fetch(&mut client, "api").as_deref(), Some("api-0001"));
    assert_eq!(fetch(&mut first, "api").as_deref(), Some("api-0002"));
    assert_eq!((fetch(&mut first, "api"), fetch(&mut client, "api")), (None, None));
    assert_eq!(queue(&weir, "api")["blocked_by"]["rate"], 3);

    kill_process(killed.service(), Signal::KILL).expect("killed");
    drop(killed.kill_parent());
    assert_eq!(fetch(&mut client, "refunds charges"), None, "its job counts until it returns");
    let mut back = None;
    wait_until("the job of the killed node returns", || {
        back = fetch(&mut client, "charges");
        back.is_some()
    });
    assert_eq!(back.as_deref(), Some("charges-0000"));
    assert_eq!(fetch(&mut client, "refunds"), None);

    write(&weir.site, &redis, 2);
    weir.signal(Signal::HUP);
    weir.wait_for_log("settings reloaded");
    assert_eq!(fetch(&mut client, "refunds").as_deref(), Some("refunds-0000"));
    assert_eq!(fetch(&mut client, "refunds"), None);
    assert_eq!(client.run_command(r#"ACK {"jid":"charges-0000"}"#), "+OK");
    assert_eq!(fetch(&mut client, "refunds").as_deref(), Some("refunds-0001"));

    let next = start(&redis);
    let mut first = Client::connect(next.jobs());
    assert_eq!(fetch(&mut first, "api"), None, "the rate has no new burst");
    assert!(next.stop().success() && weir.stop().success());
}

/// What is fetched until nothing may start.
fn fetch_all(client: &mut Client, queues: &str) -> Vec<String> {
    std::iter::from_fn(|| fetch(client, queues)).collect()
}

#[test]
fn two_weirs_share_the_limit_of_a_type_over_a_kill_and_the_last_one_returns_blocked_jobs() {
    const LIMITS: &str = "[jobs.resources.payments]\nconcurrency = 2\ntypes = [\"Charge\"]\n";
    let Some(redis) = RedisServer::start() else { return };
    let start = || {
        let site = Site::new("");
        write_limits(&site, &redis, LIMITS);
        site.start()
    };
    let (killed, weir) = (start(), start());
    let mut first = Client::connect(killed.jobs());
    let mut client = Client::connect(weir.jobs());
    for number in 1..=12 {
        let jobtype = if number % 4 == 0 { "Mail" } else { "Charge" };
        let jid = format!("{jobtype}-{number:04}");
        let push =
            format!(r#"PUSH {{"jid":"{jid}","jobtype":"{jobtype}","args":[],"queue":"shop"}}"#);
        assert_eq!(client.run_command(&push), "+OK");
    }
    assert_eq!(fetch(&mut first, "shop").as_deref(), Some("Charge-0001"));
    assert_eq!(fetch(&mut client, "shop").as_deref(), Some("Charge-0002"));
    assert_eq!(fetch_all(&mut first, "shop"), ["Mail-0004", "Mail-0008", "Mail-0012"]);
    let shop = queue(&weir, "shop");
    assert_eq!((&shop["depth"], &shop["blocked_by"]["resource"]), (&7.into(), &7.into()), "{shop}");
    assert_eq!(shop["resources"][0]["used"], 2, "{shop}");
    let limits = weir.site.ok(&["jobs", "limits"]);
    assert!(limits.contains("2/2"), "{limits}");
    wait_until("the next sample shows the resource", || {
        let (_, metrics) = get(weir.console(), "/metrics", "");
        metrics.contains("weir_jobs_resource_working{resource=\"payments\"} 2")
            && metrics.contains("weir_jobs_resource_blocked{resource=\"payments\"} 7")
    });

    kill_process(killed.service(), Signal::KILL).expect("killed");
    drop(killed.kill_parent());
    assert_eq!(client.run_command(r#"ACK {"jid":"Charge-0002"}"#), "+OK");
    assert_eq!(fetch_all(&mut client, "shop"), ["Charge-0003"], "a job of the killed node counts");
    let mut back = Vec::new();
    wait_until("the jobs of the killed node return", || {
        back.extend(fetch(&mut client, "shop"));
        back.len() == 4
    });
    back.sort_unstable();
    assert_eq!(back, ["Charge-0001", "Mail-0004", "Mail-0008", "Mail-0012"]);
    assert_eq!(fetch(&mut client, "shop"), None);
    let lengths = |list: &str| {
        let length: usize =
            redis::cmd("LLEN").arg(list).query(&mut redis.client()).expect("a length");
        length
    };
    assert_eq!((lengths("queue:shop.blocked.payments"), lengths("queue:shop")), (6, 0));
    assert!(weir.stop().success());
    assert_eq!((lengths("queue:shop.blocked.payments"), lengths("queue:shop")), (0, 6));
}
