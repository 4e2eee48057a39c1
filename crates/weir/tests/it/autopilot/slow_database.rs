//! Decisions about the database's time: jobs on a real Postgres whose work is slow by construction, not because the
//! machine is. A job sleeps in the database for a time that depends on the jobs beside it, so it is a busy session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use super::{journal, json, knows_normal_time, start_with, status};
use crate::doctor::postgres_server::{PostgresClient, PostgresServer};
use crate::faktory::Client;
use crate::process::wait_until;
use crate::weir::Weir;

/// Sessions are sampled often, so that few seconds say enough.
const SAMPLES: &str = "sample_interval = \"200ms\"\n";
/// Jobs of a kind that must have ended before their times are taken for normal.
const NORMAL_JOBS: u64 = 60;

/// How long a job sleeps. `busy(type)` are the jobs of a type that run now, this one included.
const BUSY: &str = "CREATE FUNCTION busy(type text) RETURNS bigint LANGUAGE sql VOLATILE AS $$ \
    SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%/*job:' || type || '*/%' $$";

/// Job workers, each with a session of its own. Dropping them ends them.
struct Workers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Jobs that have ended, of the types of `TYPES`.
    ended: Arc<[AtomicU64; TYPES.len()]>,
}

/// The types of jobs; each has a queue of its own, so that none fills the queue of another one.
const TYPES: [&str; 3] = ["Mail", "Hog", "Sum"];

impl Workers {
    fn start(weir: &Weir, postgres: &PostgresServer, count: usize) -> Self {
        let (stop, ended) = (Arc::<AtomicBool>::default(), Arc::default());
        let thread = |_| {
            let (stop, ended) = (Arc::clone(&stop), Arc::clone(&ended));
            let session = postgres.client("postgres", "worker");
            let client = Client::connect(weir.jobs());
            std::thread::spawn(move || work(client, session, &stop, &ended))
        };
        let threads = (0..count).map(thread).collect();
        Self { stop, threads, ended }
    }

    fn ended(&self, kind: &str) -> u64 {
        let place = TYPES.iter().position(|it| *it == kind).expect("a type");
        self.ended[place].load(Ordering::Relaxed)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Runs jobs until the connection is closed.
fn work(
    mut client: Client,
    mut session: PostgresClient,
    stop: &AtomicBool,
    ended: &[AtomicU64; TYPES.len()],
) {
    while !stop.load(Ordering::Relaxed) {
        let _ = client.try_run_command(r#"BEAT {"wid":"it-worker"}"#);
        let Some(fetched) = client.try_run_command("FETCH Mail Hog Sum") else { return };
        if fetched == "nil" {
            continue;
        }
        let Ok(job) = serde_json::from_str::<Value>(&fetched) else { return };
        let kind = job["jobtype"].as_str().unwrap_or_default();
        let place = TYPES.iter().position(|it| *it == kind).expect("a type");
        session.say(&format!("SELECT /*job:{kind}*/ pg_sleep(seconds('{kind}'))"));
        ended[place].fetch_add(1, Ordering::Relaxed);
        let ack = format!(r#"ACK {{"jid":{}}}"#, job["jid"]);
        if client.try_run_command(&ack).is_none() {
            return;
        }
    }
}

/// Pushes jobs of some types at a steady rate. Dropping it ends it.
struct Producer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Producer {
    fn start(weir: &Weir, kinds: &'static [&str], pause: Duration) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let (mut client, is_stopped) = (Client::connect(weir.jobs()), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut number = 0;
            while !is_stopped.load(Ordering::Relaxed) {
                for kind in kinds {
                    number += 1;
                    if client.try_run_command(&push_command(kind, "steady", number)).is_none() {
                        return;
                    }
                }
                std::thread::sleep(pause);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn push_command(kind: &str, name: &str, number: usize) -> String {
    format!(
        r#"PUSH {{"jid":"{kind}-{name}-{number:05}","jobtype":"{kind}","queue":"{kind}","args":[]}}"#
    )
}

fn flood(weir: &Weir, kind: &str, count: usize) {
    let mut client = Client::connect(weir.jobs());
    for number in 0..count {
        assert_eq!(client.run_command(&push_command(kind, "flood", number)), "+OK");
    }
}

/// A database in which a job sleeps for as long as `body` says.
fn database(body: &str) -> Option<PostgresServer> {
    let postgres = PostgresServer::start(&[])?;
    postgres.run("CREATE TABLE incident (hog_seconds float8)");
    postgres.run("INSERT INTO incident VALUES (0.05)");
    postgres.run(BUSY);
    postgres.run(&format!(
        "CREATE FUNCTION seconds(type text) RETURNS float8 LANGUAGE sql VOLATILE AS $$ {body} $$"
    ));
    Some(postgres)
}

/// Returns the limit of a name in the job server.
fn limit(weir: &Weir, name: &str) -> Option<u64> {
    let limits = json(weir, &["jobs", "limits"]);
    let resources = limits["resources"].as_array().expect("a list");
    resources.iter().find(|it| it["name"] == name)?["concurrency"].as_u64()
}

/// Waits until the autopilot knows what is normal.
fn learn_normal_times(weir: &Weir, workers: &Workers, kinds: &[&str]) {
    wait_until("normal times are known", || kinds.iter().all(|kind| knows_normal_time(weir, kind)));
    let ended: Vec<u64> = kinds.iter().map(|kind| workers.ended(kind)).collect();
    wait_until("more jobs have shown them", || {
        let mut jobs = kinds.iter().zip(&ended);
        jobs.all(|(kind, before)| workers.ended(kind) >= before + NORMAL_JOBS)
    });
    let before = status(weir);
    assert_eq!(before["limits"].as_array().map(Vec::len), Some(0), "{before}");
}

/// Mails take longer the more hogs there are beside them: these take what mails need.
#[test]
fn the_expensive_class_is_limited_alone_and_let_go_again() {
    let body = "SELECT CASE type WHEN 'Hog' THEN hog_seconds ELSE 0.05 * (1 + 0.5 * busy('Hog')) END FROM incident";
    let Some(postgres) = database(body) else { return };
    let weir = start_with(&postgres.url("postgres"), "on", SAMPLES);
    let workers = Workers::start(&weir, &postgres, 8);
    let producer = Producer::start(&weir, &["Mail", "Hog"], Duration::from_millis(120));
    learn_normal_times(&weir, &workers, &["Mail", "Hog"]);
    // An index is missing now, for example. The hogs suffer far more than the mails, also if all threads run hogs: by a
    // factor of 40 beside one of 5.
    postgres.run("UPDATE incident SET hog_seconds = 2");
    flood(&weir, "Hog", 300);
    wait_until("the expensive type is limited", || limit(&weir, "autopilot:type:Hog").is_some());
    let first = journal(&weir, "decision").remove(0);
    assert!(first.starts_with("limited Hog to "), "{first}");
    assert!(first.contains("times their normal time in the database and hold "), "{first}");
    let mails = workers.ended("Mail");
    wait_until("mails go on", || workers.ended("Mail") > mails + 20);
    // The index is there again.
    postgres.run("UPDATE incident SET hog_seconds = 0.05");
    wait_until("the limit has ended", || limit(&weir, "autopilot:type:Hog").is_none());
    let entries = json(&weir, &["autopilot", "journal", "--limit", "1000"]);
    let mut changes = entries.as_array().expect("a list").iter();
    let is_other = |it: &&Value| it["kind"] == "decision" && it["change"]["class"] != "Hog";
    assert_eq!(changes.find(is_other), None, "it is limited alone");
    drop((producer, workers));
    assert!(weir.stop().success());
}

/// The more jobs there are at once, the fewer end: two run side by side, and each further one hinders all.
#[test]
fn the_number_of_jobs_is_reduced_when_more_of_them_do_less() {
    let body = "SELECT 0.05 * greatest(1, busy('Sum') / 2.0) ^ 2";
    let Some(postgres) = database(body) else { return };
    let weir = start_with(
        &postgres.url("postgres"),
        "on",
        &format!("{SAMPLES}[jobs.queues.Sum]\ntarget_latency = \"2s\"\n"),
    );
    let workers = Workers::start(&weir, &postgres, 12);
    let producer = Producer::start(&weir, &["Sum"], Duration::from_millis(80));
    learn_normal_times(&weir, &workers, &["Sum"]);
    flood(&weir, "Sum", 1_000);
    wait_until("there are fewer at once", || {
        limit(&weir, "autopilot:threads").is_some_and(|it| it <= 6)
    });
    let first = journal(&weir, "decision").remove(0);
    assert!(first.starts_with("reduced threads from 12 to "), "{first}");
    assert!(
        first.contains(": queries take ") && first.contains(" sessions do the work of "),
        "{first}"
    );
    wait_until("it is judged", || !journal(&weir, "outcome").is_empty());
    let outcome = journal(&weir, "outcome").remove(0);
    assert!(outcome.contains(" helped: work done"), "{outcome}");
    drop(producer);
    // Nothing waits any more: as many as there are workers.
    clear(&weir);
    wait_until("the limit has ended", || limit(&weir, "autopilot:threads").is_none());
    drop(workers);
    assert!(weir.stop().success());
}

fn clear(weir: &Weir) {
    let cleared = weir.site.run(&["jobs", "clear", "Sum", "--yes", "--data-dir", "data"]);
    assert!(cleared.status.success(), "{}", String::from_utf8_lossy(&cleared.stderr));
}
