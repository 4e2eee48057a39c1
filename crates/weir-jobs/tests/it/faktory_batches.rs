//! FETCHB, ACKB and FAILB over the real port.

use std::time::Duration;

use tokio::task::LocalSet;
use weir_base::clock::Clock;
use weir_jobs::engine::EmbeddedStore;
use weir_jobs::handle::WorkerSignal;
use weir_jobs::job::JobBatch;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::model::QueueName;
use weir_jobs::settings::{JobServerLimits, JobServerSettings, QueueSettings, StoreKind};
use weir_jobs::store::{BatchSize, FetchRequest, Store};
use weir_log::SimulatedDisk;

use crate::faktory_cases::{Case, plain, run};
use crate::faktory_server::{PATIENCE, STORES, Server, until};

fn small(settings: &mut JobServerSettings) {
    settings.limits.batch_jobs_max = 3;
    settings.limits.batch_bytes_max = 200;
}

fn capped(settings: &mut JobServerSettings) {
    let queue = QueueName::parse("a", &settings.limits).unwrap();
    let capped = QueueSettings { concurrency: Some(1), ..QueueSettings::default() };
    settings.queues.insert(queue, capped);
}

const CASES: &[Case] = &[
    (
        "a batch goes in, out and away",
        plain,
        r#"
        > PUSHB [{"jid":"job-0001","jobtype":"T","args":[1]},{"jid":"job-0002","jobtype":"T","args":[2]},{"jid":"job-0003","jobtype":"T","args":[3],"queue":"b"}]
        < ${}
        > FETCHB 10 b default
        < [${"jid":"job-0003",*} ${"jid":"job-0001",*} ${"jid":"job-0002",*}]
        > ACKB ["job-0001","job-0002","job-0003"]
        < ${}
        > FETCHB 10 b default
        < []
        > INFO
        < $*"working":0*"total_processed":3*
    "#,
    ),
    (
        "at most so many jobs come, also with one FETCH between",
        plain,
        r#"
        > PUSHB [{"jid":"job-0001","jobtype":"T","args":[]},{"jid":"job-0002","jobtype":"T","args":[]},{"jid":"job-0003","jobtype":"T","args":[]},{"jid":"job-0004","jobtype":"T","args":[]}]
        < ${}
        > FETCHB 2 default
        < [$*job-0001* $*job-0002*]
        > FETCH default
        < $*job-0003*
        > FETCHB 2 default
        < [$*job-0004*]
    "#,
    ),
    (
        "what nobody holds is named, and the rest is done",
        plain,
        r#"
        > PUSHB [{"jid":"job-0001","jobtype":"T","args":[]},{"jid":"job-0002","jobtype":"T","args":[]}]
        < ${}
        > FETCHB 2 default
        < [* *]
        > ACKB ["job-0001","unknown-1","job-0001","j\u006fb-0002"]
        < ${"job-0001":"Job not found job-0001","unknown-1":"Job not found unknown-1"}
        > INFO
        < $*"working":0*"total_processed":2*
        > ACKB []
        < ${}
    "#,
    ),
    (
        "a job that waits again is ended by a late ACKB",
        plain,
        r#"
        > PUSH {"jid":"job-0001","jobtype":"T","args":[]}
        < +OK
        > ACKB ["job-0001"]
        < ${}
        > FETCHB 1 default
        < []
    "#,
    ),
    (
        "failures are stored each by its own rules",
        plain,
        r#"
        > PUSHB [{"jid":"job-0001","jobtype":"T","args":[]},{"jid":"job-0002","jobtype":"T","args":[],"retry":0},{"jid":"job-0003","jobtype":"T","args":[],"retry":-1},{"jid":"job-0004","jobtype":"T","args":[]}]
        < ${}
        > FETCHB 3 default
        < [* * *]
        > FAILB [{"jid":"job-0001","errtype":"E","message":"m","backtrace":["a"]},{"jid":"job-0002"},{"jid":"job-0003"},{"jid":"job-0004"},{"jid":"unknown-1"}]
        < ${"job-0004":"Job not found job-0004","unknown-1":"Job not found unknown-1"}
        > INFO
        < $*"queues":{"default":1},"sets":{"scheduled":0,"retries":1,"dead":1,"working":0}*"total_failures":3*
        > MUTATE {"cmd":"requeue","target":"retries"}
        < +OK
        > FETCHB 3 default
        < [$*job-0004* $*"message":"m","errtype":"E","backtrace":["a"]}*]
    "#,
    ),
    (
        "one malformed failure does not keep out the others",
        plain,
        r#"
        > PUSH {"jid":"job-0001","jobtype":"T","args":[]}
        < +OK
        > FETCHB 1 default
        < [*]
        > FAILB [{"jid":"job-0009","message":7},7,["job-0001"],{"jid":"job-0001"}]
        < ${"":"malformed FAIL: a JSON object must follow","job-0009":"malformed FAIL: invalid type*"}
        > INFO
        < $*"retries":1,"dead":0,"working":0*
    "#,
    ),
    (
        "what FETCHB does not take",
        small,
        r#"
        > FETCHB
        < -ERR malformed FETCHB: it must begin with the number of jobs, at least 1: FETCHB N QUEUE [QUEUE ..]
        > FETCHB 0 default
        < -ERR malformed FETCHB: it must begin with the number of jobs, at least 1*
        > FETCHB -1 default
        < -ERR malformed FETCHB: it must begin with the number of jobs, at least 1*
        > FETCHB default
        < -ERR malformed FETCHB: it must begin with the number of jobs, at least 1*
        > FETCHB 1
        < -ERR malformed FETCHB: a queue must follow the number of jobs*
        > FETCHB 1 a/b
        < -ERR queue name has a character outside*
        > FETCHB 4 default
        < -ERR FETCHB of more than 3 jobs (jobs.limits.batch_jobs_max)
        > FETCHB 99999999999999999999999999 default
        < -ERR FETCHB of more than 3 jobs (jobs.limits.batch_jobs_max)
        > FETCHB 3 default
        < []
    "#,
    ),
    (
        "what ACKB and FAILB do not take",
        small,
        r#"
        > PUSH {"jid":"job-0001","jobtype":"T","args":[]}
        < +OK
        > FETCHB 1 default
        < [*]
        > ACKB
        < -ERR malformed ACKB: *
        > ACKB {"jid":"job-0001"}
        < -ERR malformed ACKB: invalid type: map, expected an array*
        > ACKB ["job-0001",7]
        < -ERR malformed ACKB: *
        > ACKB ["job-0001"] x
        < -ERR malformed ACKB: trailing characters*
        > ACKB ["job-0001"
        < -ERR malformed ACKB: EOF*
        > ACKB ["job-0001","a","b","c","d"]
        < -ERR ACKB of more than 3 jobs (jobs.limits.batch_jobs_max)
        > FAILB {"jid":"job-0001"}
        < -ERR malformed FAILB: invalid type: map, expected an array*
        > FAILB [{"jid":"job-0001"},{}
        < -ERR malformed FAILB: EOF*
        > FAILB [{"jid":"job-0001"},{},{},{}]
        < -ERR FAILB of more than 3 jobs (jobs.limits.batch_jobs_max)
        > INFO
        < $*"working":1*"total_processed":0*
    "#,
    ),
    (
        "a batch ends with the job that reaches its bytes",
        small,
        r#"
        > PUSHB [{"jid":"job-0001","jobtype":"T","args":[]},{"jid":"job-0002","jobtype":"T","args":[]},{"jid":"job-0003","jobtype":"T","args":[]}]
        < ${}
        > FETCHB 3 default
        < [$*job-0001* $*job-0002*]
        > FETCHB 3 default
        < [$*job-0003*]
    "#,
    ),
    (
        "a queue's pause and its limit hold within a batch",
        capped,
        r#"
        > PUSHB [{"jid":"job-0001","jobtype":"T","args":[],"queue":"a"},{"jid":"job-0002","jobtype":"T","args":[],"queue":"a"},{"jid":"job-0003","jobtype":"T","args":[],"queue":"b"},{"jid":"job-0004","jobtype":"T","args":[],"queue":"c"}]
        < ${}
        > QUEUE PAUSE b
        < +OK
        > FETCHB 10 a b c
        < [$*job-0001* $*job-0004*]
        > ACKB ["job-0001"]
        < ${}
        > FETCHB 10 a b c
        < [$*job-0002*]
    "#,
    ),
    (
        "a quiet worker gets none",
        plain,
        r#"
        > PUSH {"jid":"job-0001","jobtype":"T","args":[]}
        < +OK
        > BEAT {"wid":"w1","current_state":"quiet"}
        < ${"state":"quiet"}
        > FETCHB 5 default
        < []
        > INFO
        < $*"queues":{"default":1}*
    "#,
    ),
];

#[test]
fn jobs_are_fetched_and_ended_in_batches() {
    run(CASES);
}

#[test]
fn a_batch_waits_for_its_first_job_only() {
    for store in STORES {
        let server = Server::start(store, |settings| settings.limits.fetch_wait = 10 * PATIENCE);
        let waiting = || server.block_on(server.handle().overview()).unwrap().fetches_waiting;
        let (mut worker, mut producer) = (server.worker("w1"), server.producer());
        worker.talk("> FETCHB 10 a b");
        until("the FETCHB waits", || waiting() == 1);
        producer.talk(r#"> PUSH {"jid":"job-0001","jobtype":"T","args":[],"queue":"b"}"#);
        worker.talk("< [$*job-0001*]\n> FETCHB 10 a b");
        until("the FETCHB waits", || waiting() == 1);
        let told = server.handle();
        let told = server.block_on(told.signal_workers(Some("w1".into()), WorkerSignal::Quiet));
        assert_eq!(told, Ok(1));
        worker.talk("< []");
    }
}

#[test]
fn the_batch_of_a_vanished_worker_is_back_but_for_what_has_ended() {
    for store in STORES {
        let server = Server::start(store, |settings| {
            settings.limits.heartbeat_timeout = Duration::from_millis(300);
        });
        let (mut dead, mut alive) = (server.worker("dead"), server.worker("alive"));
        for number in 1..=3 {
            let job = format!(r#"{{"jid":"job-000{number}","jobtype":"T","args":[]}}"#);
            dead.talk(&format!("> PUSH {job}\n< +OK"));
        }
        dead.talk("> FETCHB 3 default\n< [* * *]");
        alive.talk("> ACKB [\"job-0001\"]\n< $*not found*");
        server.producer().talk("> ACKB [\"job-0002\"]\n< ${}");
        until("the dead one is reaped", || {
            alive.talk("> BEAT {\"wid\":\"alive\"}\n< +OK");
            let workers = server.block_on(server.handle().workers()).unwrap();
            workers.iter().all(|worker| worker.wid == "alive")
        });
        dead.talk("< closed");
        alive.talk("> FETCHB 3 default\n< [$*job-0001* $*job-0003*]");
    }
}

#[test]
fn batches_are_announced_only_where_that_is_asked_for() {
    let server = Server::start(StoreKind::Memory, |_| {});
    server.dial().talk("< +HI {\"v\":2}");
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.announce_batch = true;
        settings.limits.batch_jobs_max = 7;
    });
    let mut client = server.dial();
    assert_eq!(client.reply(), r#"+HI {"v":2,"weir":{"batch":7}}"#);
    client.talk("> HELLO {\"v\":2}\n< +OK\n> FETCHB 7 a\n< []");
}

#[test]
fn each_verb_and_limit_is_counted_by_both_stores() {
    for kind in [StoreKind::Memory, StoreKind::Embedded] {
        each_verb_and_limit_is_counted(kind);
    }
}

fn each_verb_and_limit_is_counted(kind: StoreKind) {
    let server = Server::start(kind, small);
    let mut client = server.worker("w1");
    client.talk(r#"> PUSHB [{"jid":"job-0001","jobtype":"T","args":[]},{"jid":"job-0002","jobtype":"T","args":[]},{"jid":"job-0003","jobtype":"T","args":[]}]"#);
    client.talk("< ${}\n> FETCHB 3 default\n< [* *]\n> FETCHB 3 a\n< []\n> FETCHB 9 a\n< -ERR *");
    client.talk("> ACKB [\"job-0001\"]\n< ${}\n> FAILB [{\"jid\":\"job-0002\"}]\n< ${}");
    let scraped = server.scrape();
    for line in [
        "commands_total{verb=\"FETCHB\",result=\"ok\"} 1",
        "commands_total{verb=\"FETCHB\",result=\"empty\"} 1",
        "commands_total{verb=\"FETCHB\",result=\"error\"} 1",
        "commands_total{verb=\"ACKB\",result=\"ok\"} 1",
        "commands_total{verb=\"FAILB\",result=\"ok\"} 1",
        "limit_hits_total{limit=\"batch_jobs_max\"} 1",
        "limit_hits_total{limit=\"batch_bytes_max\"} 1",
        "wait_seconds_count{queue=\"default\"} 2",
        "run_seconds_count{queue=\"default\"} 2",
    ] {
        assert!(scraped.contains(line), "{line} is not in\n{scraped}");
    }
}

/// Jobs 0 to 9 pushed, all fetched together, the even ones acknowledged; then the power fails.
async fn jobs_after_a_power_cut(seed: u64, fsync_acks: bool) -> Vec<String> {
    let disk = SimulatedDisk::new(seed);
    let settings = JobServerSettings {
        fsync_acks,
        limits: JobServerLimits {
            segment_bytes: 64 << 10,
            reserve_bytes: 16 << 10,
            ..JobServerLimits::default()
        },
        ..JobServerSettings::default()
    };
    let open = |disk: SimulatedDisk| {
        let opened =
            EmbeddedStore::open_on(disk, &settings, Clock::system(), JobsMetrics::detached());
        opened.expect("it opens").0
    };
    let store = open(disk.clone());
    let job = |n: u32| format!(r#"{{"jid":"job-{n:05}","jobtype":"T","args":[]}}"#);
    let jobs: Vec<String> = (0..10).map(job).collect();
    let mut batch = JobBatch::new();
    let array = format!("[{}]", jobs.join(","));
    batch.parse_array(array.as_bytes(), Clock::system().now(), &settings.limits).expect("jobs");
    store.push(&batch.jobs()).await.expect("stored");
    let queues = [QueueName::parse("default", &settings.limits).expect("a name")];
    let max = BatchSize::of(10);
    let request = FetchRequest { wid: None, queues: &queues, max, wait: Duration::ZERO };
    let fetched = store.fetch(request).await.expect("fetched");
    let even: Vec<&str> = fetched.iter().step_by(2).map(|job| &*job.jid).collect();
    assert_eq!(store.ack(&even).await, Ok(Vec::new()));
    let after = disk.crash();
    drop(store);
    let store = open(after);
    let back = store.fetch(request).await.expect("fetched");
    back.iter().map(|job| job.jid.to_string()).collect()
}

#[test]
fn with_fsync_acks_an_acknowledged_batch_never_returns() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    for seed in 0..20 {
        let back = LocalSet::new().block_on(&runtime, jobs_after_a_power_cut(seed, true));
        let odd: Vec<String> = (0..10).skip(1).step_by(2).map(|n| format!("job-{n:05}")).collect();
        assert_eq!(back, odd);
        let back = LocalSet::new().block_on(&runtime, jobs_after_a_power_cut(seed, false));
        assert!(odd.iter().all(|jid| back.contains(jid)), "no job is lost: {back:?}");
    }
}
