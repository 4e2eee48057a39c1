//! Jobs in the Redis of a Sidekiq: both push, Weir's workers work.

use serde_json::Value;

use crate::doctor::redis_server::RedisServer;
use crate::faktory::Client;
use crate::weir::Site;

const OF_SIDEKIQ: &str = r#"{"class":"Hard","args":[109326485893512345],"jid":"it-job-ruby1","retry":true,"queue":"default","created_at":1795202902.5,"enqueued_at":1795202902.5}"#;

#[test]
fn faktory_clients_and_sidekiq_share_the_jobs_in_redis() {
    let Some(redis) = RedisServer::start() else { return };
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}\n\
         [console]\nlisten = \"off\"\n",
        redis.port
    ));
    let weir = site.start();
    let mut client = Client::connect(weir.jobs());
    let job = r#"{"jid":"it-job-0001","jobtype":"Hello","args":[1]}"#;
    assert_eq!(client.run_command(&format!("PUSH {job}")), "+OK");
    let mut commands = redis.client();
    let pushed: String =
        redis::cmd("LINDEX").arg(&["queue:default", "0"]).query(&mut commands).expect("a job");
    assert!(pushed.contains(r#""class":"Hello""#), "{pushed}");
    redis.run(&[&["LPUSH", "queue:default", OF_SIDEKIQ]]);
    for (jid, text) in [("it-job-0001", "Hello"), ("it-job-ruby1", "109326485893512345")] {
        let fetched = client.run_command("FETCH default");
        assert!(fetched.contains(jid) && fetched.contains(text), "{fetched}");
        assert_eq!(client.run_command(&format!(r#"ACK {{"jid":"{jid}"}}"#)), "+OK");
    }
    let status: Value = serde_json::from_str(&weir.site.ok(&["status", "--json"])).expect("JSON");
    assert_eq!(
        (&status["jobs"]["store"], &status["jobs"]["processed_total"]),
        (&"redis".into(), &2.into())
    );
    drop(redis);
    let rejected = client.run_command(&format!("PUSH {job}"));
    assert!(rejected.starts_with("-ERR"), "{rejected}");
    assert!(weir.stop().success());
}

#[test]
fn the_progress_of_a_job_in_redis_is_tracked() {
    let Some(redis) = RedisServer::start() else { return };
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}\n\
         [console]\nlisten = \"off\"\n",
        redis.port
    ));
    let weir = site.start();
    let mut client = Client::connect(weir.jobs());
    let mut track = |expected: &str| {
        let reply = client.run_command("TRACK GET it-job-0001");
        assert!(reply.contains(expected), "{reply}");
    };
    track(r#""state":"unknown""#);
    let mut worker = Client::connect(weir.jobs());
    let job = r#"{"jid":"it-job-0001","jobtype":"Hello","args":[],"custom":{"track":1}}"#;
    assert_eq!(worker.run_command(&format!("PUSH {job}")), "+OK");
    track(r#""state":"enqueued""#);
    assert!(worker.run_command("FETCH default").contains("it-job-0001"));
    track(r#""state":"working""#);
    let set = r#"TRACK SET {"jid":"it-job-0001","percent":40,"desc":"half"}"#;
    assert_eq!(worker.run_command(set), "+OK");
    track(r#""percent":40,"desc":"half","state":"working""#);
    assert_eq!(worker.run_command(r#"ACK {"jid":"it-job-0001"}"#), "+OK");
    track(r#""percent":40,"desc":"half","state":"success""#);
    let exported = weir.site.ok(&["jobs", "export"]);
    assert!(exported.contains(r#""place":"tracks""#), "{exported}");
    assert!(weir.stop().success());
}

/// More than are sent while a sample is taken.
const PUSHES_MAX: u32 = 300;

#[test]
fn a_full_queue_in_redis_rejects_pushes_until_a_worker_fetches() {
    let Some(redis) = RedisServer::start() else { return };
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}\n\
         [jobs.queues.default]\njobs_max = 2\n[console]\nlisten = \"off\"\n",
        redis.port
    ));
    // One waits already, from Sidekiq.
    redis.run(&[&["SADD", "queues", "default"], &["LPUSH", "queue:default", OF_SIDEKIQ]]);
    let weir = site.start();
    let mut producer = Client::connect(weir.jobs());
    let mut jobs = 0..;
    let mut push = || {
        let number = jobs.next().unwrap_or(0_u32);
        producer.run_command(&format!(
            r#"PUSH {{"jid":"it-job-{number:04}","jobtype":"Hello","args":[]}}"#
        ))
    };
    // The depth is sampled each second, and a push during a sample may be missing until the next.
    let is_full = (0..PUSHES_MAX).any(|_| push().starts_with("-BUSY retry-after="));
    assert!(is_full, "{PUSHES_MAX} pushes are accepted");
    // The number of jobs is up to a second old, so a fetch of the last one may wait for two seconds.
    let mut worker = Client::connect(weir.jobs());
    let is_stored = (0..30).any(|_| {
        worker.run_command("FETCH default");
        push() == "+OK"
    });
    assert!(is_stored, "a worker fetches, and no push is accepted");
    assert!(weir.stop().success());
}

#[test]
fn only_jobs_that_wait_in_redis_count_for_the_limit() {
    let Some(redis) = RedisServer::start() else { return };
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}\n\
         [jobs.redis]\npush_memory = \"10m\"\n\
         [jobs.queues.default]\njobs_max = 3\n[console]\nlisten = \"off\"\n",
        redis.port
    ));
    let weir = site.start();
    let mut client = Client::connect(weir.jobs());
    let job = |number: u32, more: &str| {
        format!(r#"PUSH {{"jid":"it-job-{number:04}","jobtype":"Hello","args":[]{more}}}"#)
    };
    // Many more than the limit within a second; at most one of them waits.
    for number in 0..200 {
        assert_eq!(client.run_command(&job(number, "")), "+OK", "{number}");
        let fetched = client.run_command("FETCH default");
        assert!(fetched.contains(&format!("it-job-{number:04}")), "{fetched}");
    }
    // Pushes that fail, and repeated ones.
    for number in 200..210 {
        let failed = client.run_command(&job(number, r#","custom":{"bid":"b-00000000000000ff"}"#));
        assert!(failed.starts_with("-ERR"), "{failed}");
        assert_eq!(client.run_command(&job(7, "")), "+OK", "it was stored once");
    }
    // For a moment, a push during a sample may be missing, or a fetched job still count.
    let stored = (300..300 + PUSHES_MAX)
        .take_while(|number| client.run_command(&job(*number, "")) == "+OK")
        .count();
    assert!((2..300).contains(&stored), "{stored}");
    assert_eq!(client.run_command(&job(300, "")), "+OK", "repeated: the full queue gets no job");
    assert!(weir.stop().success());
}

#[test]
fn jobs_of_a_sidekiq_are_quarantined_taken_back_and_moved() {
    let Some(redis) = RedisServer::start() else { return };
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}\n\
         [console]\nlisten = \"off\"\n",
        redis.port
    ));
    redis.run(&[&["SADD", "queues", "default"], &["LPUSH", "queue:default", OF_SIDEKIQ]]);
    let weir = site.start();
    let mut client = Client::connect(weir.jobs());
    let later = r#"{"jid":"it-job-0002","jobtype":"Hello","args":[],"queue":"mail","at":"2090-01-01T00:00:00Z"}"#;
    assert_eq!(client.run_command(&format!("PUSH {later}")), "+OK");
    for place in ["default", "scheduled"] {
        let done = weir.site.ok(&["jobs", "quarantine", "add", "poison", "--from", place]);
        assert_eq!(done, "1 job quarantined as poison\n");
    }
    weir.site.ok(&["jobs", "resume", "--all"]);
    let fetched = client.run_command("FETCH quarantine.poison.default quarantine.poison.mail");
    assert_eq!(fetched, "nil", "they are paused");
    let list = weir.site.ok(&["jobs", "quarantine", "list", "--json"]);
    let row =
        |queue: &str| serde_json::json!({"name":"poison","queue":queue,"jobs":1,"paused":true});
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list, serde_json::json!([row("default"), row("mail")]));
    let exported = weir.site.ok(&["jobs", "export", "--output", "-"]);
    for place in ["queue:quarantine.poison.default", "queue:quarantine.poison.mail"] {
        assert!(exported.contains(place), "{exported}");
    }
    let back = weir.site.ok(&["jobs", "quarantine", "take-back", "poison"]);
    assert_eq!(back, "2 jobs taken back from poison\n");
    let moved = weir.site.ok(&["jobs", "move", "--from", "default", "--to", "bulk"]);
    assert_eq!(moved, "1 job moved to bulk\n");
    for (queue, jid) in [("bulk", "it-job-ruby1"), ("mail", "it-job-0002")] {
        let fetched = client.run_command(&format!("FETCH {queue}"));
        assert!(fetched.contains(jid), "{fetched}");
        assert!(fetched.contains(&format!(r#""queue":"{queue}""#)), "{fetched}");
        assert_eq!(client.run_command(&format!(r#"ACK {{"jid":"{jid}"}}"#)), "+OK");
    }
    assert!(weir.stop().success());
}

#[test]
fn check_names_what_the_redis_may_lose() {
    let Some(redis) = RedisServer::start() else { return };
    let (site, port) = (Site::new(""), redis.port);
    let write = |more: &str| {
        site.write(&format!(
            "[jobs]\nstore = {{ redis = [{{ url = \"redis://127.0.0.1:{port}\" }}] }}\n\
             [console]\nlisten = \"off\"\n{more}"
        ));
    };
    write("");
    let shown = site.ok(&["check"]);
    let sentence =
        "appendonly is no: a restart of Redis loses every job; CONFIG SET appendonly yes";
    assert!(shown.contains(sentence), "{shown}");
    redis.run(&[&["CONFIG", "SET", "appendonly", "yes"]]);
    let shown = site.ok(&["check"]);
    assert!(shown.contains("warning: jobs.store: Redis 127.0.0.1:"), "{shown}");
    assert!(shown.contains("appendfsync is everysec: a power cut loses"), "{shown}");
    redis.run(&[&["CONFIG", "SET", "appendfsync", "always"]]);
    let shown = site.ok(&["check"]);
    assert!(!shown.contains("warning"), "{shown}");
    write("[jobs.redis.confirm]\nreplicas = 1\n");
    let shown = site.shown(&["check"]);
    assert!(shown.contains("error: jobs.store: Redis 127.0.0.1:"), "{shown}");
    assert!(shown.contains("0 replicas are connected"), "{shown}");
    drop(redis);
    write("");
    let shown = site.shown(&["check"]);
    assert!(shown.contains("problem: jobs.store: Redis 127.0.0.1:"), "{shown}");
}

#[test]
fn jobs_divided_among_servers_are_served_and_reported() {
    let (Some(one), Some(mut two)) = (RedisServer::start(), RedisServer::start()) else { return };
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nredis.placement = \"turn\"\n\
         store = {{ redis = [{{ name = \"one\", url = \"redis://127.0.0.1:{}\" }}, \
         {{ name = \"two\", url = \"redis://127.0.0.1:{}\" }}] }}\n\
         [console]\nlisten = \"127.0.0.1:0\"\n",
        one.port, two.port
    ));
    let weir = site.start();
    let mut client = Client::connect(weir.jobs());
    for number in 0..4 {
        let job = format!(r#"{{"jid":"it-job-{number:04}","jobtype":"Hello","args":[]}}"#);
        assert_eq!(client.run_command(&format!("PUSH {job}")), "+OK");
    }
    for server in [&one, &two] {
        let length: u64 =
            redis::cmd("LLEN").arg("queue:default").query(&mut server.client()).expect("a list");
        assert_eq!(length, 2);
    }
    let status = || weir.site.ok(&["status"]);
    assert!(status().contains("one at 127.0.0.1:"), "{}", status());
    two.kill();
    let mut is_reported = false;
    for _ in 0..200 {
        assert_eq!(client.run_command("FETCH nothing-here"), "nil");
        is_reported = status().contains(": away, ");
        if is_reported {
            break;
        }
    }
    assert!(is_reported, "{}", status());
    let (_, page) = crate::http::get(weir.console(), "/", "");
    assert!(page.contains("Shards of the job store") && page.contains("away"), "{page}");
    for _ in 0..2 {
        assert!(client.run_command("FETCH default").contains("it-job-"));
    }
    assert!(weir.stop().success());
}
