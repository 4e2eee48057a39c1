//! The autopilot with a real Postgres: job workers whose jobs hold a row lock that all others wait for.

mod faults;
mod lease;
mod sidekiq;
mod sidekiq_class;
mod slow_database;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::alert_rules::assert_metrics_exist;
use crate::doctor::postgres_server::PostgresServer;
use crate::faktory::Client;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir, is_running};

const WORKERS: usize = 8;
/// Of each type; they alternate.
const JOBS: usize = 200;
/// The limit of the type as `weir jobs limits` lists it.
const LIMIT: &str = "autopilot:type:Hog";

/// Starts a Weir whose autopilot reads the database.
fn start(postgres: &PostgresServer, mode: &str) -> Weir {
    start_with(&postgres.url("postgres"), mode, "")
}

/// With more settings, after `[autopilot.limits.advanced]`.
fn start_with(url: &str, mode: &str, more: &str) -> Weir {
    site(url, mode, more).start()
}

fn site(url: &str, mode: &str, more: &str) -> Site {
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\n[console]\nlisten = \"127.0.0.1:0\"\n\
         [observe.postgres]\nurl = \"{url}\"\n\
         [autopilot]\nmode = \"{mode}\"\nmanage = [\"jobs\"]\ninterval = \"1s\"\nhold_for = \"10s\"\n\
         default_target = \"1h\"\n[autopilot.limits.advanced]\nlease = \"4s\"\n{more}"
    ));
    site
}

fn database() -> Option<PostgresServer> {
    let postgres = PostgresServer::start(&[])?;
    postgres.run("CREATE TABLE accounts (id int PRIMARY KEY, n int)");
    postgres.run("INSERT INTO accounts VALUES (1, 0)");
    Some(postgres)
}

/// Workers that run what their jobs ask for in the database.
struct Workers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Pushes the jobs, and starts to run them.
    fn start(weir: &Weir, postgres: &PostgresServer) -> Self {
        let mut producer = Client::connect(weir.jobs());
        for number in 0..JOBS {
            for jobtype in ["Hog", "Mail"] {
                let push = format!(
                    r#"PUSH {{"jid":"{jobtype}-{number:05}","jobtype":"{jobtype}","queue":"default","args":[]}}"#
                );
                assert_eq!(producer.run_command(&push), "+OK");
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let thread = |_| {
            let (stop, url) = (Arc::clone(&stop), postgres.url("postgres"));
            let client = Client::connect(weir.jobs());
            std::thread::spawn(move || work(client, &url, &stop))
        };
        let threads = (0..WORKERS).map(thread).collect();
        Self { stop, threads }
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
fn work(mut client: Client, url: &str, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let _ = client.try_run_command(r#"BEAT {"wid":"it-worker"}"#);
        let Some(fetched) = client.try_run_command("FETCH default") else { return };
        if fetched == "nil" {
            continue;
        }
        let Ok(job) = serde_json::from_str::<Value>(&fetched) else { return };
        let statement = match job["jobtype"].as_str() {
            Some("Hog") => {
                "SELECT /*job:Hog*/ n FROM accounts WHERE id = 1 FOR UPDATE; SELECT pg_sleep(0.5)"
            }
            _ => "UPDATE /*job:Mail*/ accounts SET n = n + 1 WHERE id = 1",
        };
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-d", url, "-c", statement]);
        let _ = psql.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let ack = format!(r#"ACK {{"jid":{}}}"#, job["jid"]);
        if client.try_run_command(&ack).is_none() {
            return;
        }
    }
}

fn json(weir: &Weir, arguments: &[&str]) -> Value {
    let all = [arguments, &["--json", "--data-dir", "data"]].concat();
    serde_json::from_str(&weir.site.ok(&all)).expect("JSON")
}

fn status(weir: &Weir) -> Value {
    json(weir, &["autopilot", "status"])
}

/// Returns whether the autopilot knows how long a job of a type is in the database in calm times.
fn knows_normal_time(weir: &Weir, job_type: &str) -> bool {
    let status = status(weir);
    let types = status["classes"].as_array().expect("a list");
    types.iter().any(|it| it["name"] == job_type && !it["normal_seconds"].is_null())
}

/// Returns the texts of the journal's entries of a kind, the oldest first.
fn journal(weir: &Weir, kind: &str) -> Vec<String> {
    let entries = json(weir, &["autopilot", "journal", "--limit", "1000"]);
    let entries = entries.as_array().expect("a list").iter();
    let of_kind = entries.filter(|entry| entry["kind"] == kind);
    of_kind.map(|entry| entry["text"].as_str().expect("a text").to_owned()).collect()
}

/// Returns the limit of the type in the job server.
fn limit(weir: &Weir) -> Option<u64> {
    let limits = json(weir, &["jobs", "limits"]);
    let resources = limits["resources"].as_array().expect("a list");
    resources.iter().find(|it| it["name"] == LIMIT)?["concurrency"].as_u64()
}

fn wait_for_limit(weir: &Weir) {
    wait_until("the holder of the lock is paused", || limit(weir) == Some(0));
}

#[test]
fn the_holder_of_a_lock_is_limited_and_let_go_again() {
    let Some(postgres) = database() else { return };
    let weir = start(&postgres, "on");
    let _workers = Workers::start(&weir, &postgres);
    wait_for_limit(&weir);
    let decisions = journal(&weir, "decision");
    let first = decisions.first().expect("a decision");
    assert!(first.starts_with("limited Hog to 1 at once"), "{decisions:?}");
    assert!(first.contains("sessions wait for locks that it holds. Expected within"), "{first}");
    let shown = weir.site.ok(&["autopilot", "status", "--data-dir", "data"]);
    for part in ["mode:      on", "query comments, confidence 1.00", "LIMIT OF", "Hog"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    wait_until("all mails are sent, and the others wait", || {
        let queues = json(&weir, &["jobs", "list"]);
        let queue = &queues[0];
        queue["working"] == 0 && queue["depth"].as_u64().is_some_and(|it| it > JOBS as u64 / 2)
    });
    wait_until("it was judged", || !journal(&weir, "outcome").is_empty());
    let rules = include_str!("../../../../deploy/prometheus/weir-autopilot.rules.yml");
    let metrics = get(weir.console(), "/metrics", "").1;
    assert!(metrics.contains("weir_autopilot_mode{mode=\"on\"} 1"), "{metrics}");
    assert!(metrics.contains("weir_autopilot_limits 1"), "{metrics}");
    assert_metrics_exist(rules, "weir_autopilot_", 4, &metrics);
    let page = get(weir.console(), "/autopilot", "").1;
    for part in ["limited Hog to 1 at once", "<th scope=\"row\" class=\"breakable\">Hog</th>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // The cause is over: nothing of it waits any more.
    let cleared = weir.site.run(&["jobs", "clear", "default", "--yes", "--data-dir", "data"]);
    assert!(cleared.status.success(), "{}", String::from_utf8_lossy(&cleared.stderr));
    wait_until("the limit has ended", || limit(&weir).is_none());
    let last = journal(&weir, "decision").pop().expect("a decision");
    assert_eq!(last, "ended the limit of Hog: none of its jobs waits");
}

#[test]
fn advice_changes_nothing_and_operators_can_limit_by_hand() {
    let Some(postgres) = database() else { return };
    let weir = start(&postgres, "advise");
    let _workers = Workers::start(&weir, &postgres);
    wait_until("there is advice", || !journal(&weir, "advice").is_empty());
    let advice = journal(&weir, "advice");
    assert!(advice[0].starts_with("limited Hog to 1 at once"), "{advice:?}");
    assert_eq!((limit(&weir), status(&weir)["limits"].as_array().map(Vec::len)), (None, Some(0)));

    let set = ["autopilot", "override", "3", "--class", "Hog", "--for", "10m"];
    let limits = json(&weir, &set)["limits"].clone();
    assert_eq!((&limits[0]["jobs"], &limits[0]["class"]), (&3.into(), &"Hog".into()));
    assert!(limits[0]["set_by"].as_str().is_some_and(|by| by.starts_with("command line")));
    assert_eq!(limit(&weir), Some(3));
    assert_eq!(journal(&weir, "override").len(), 1);
    json(&weir, &["autopilot", "override", "--class", "Hog", "--end"]);
    assert_eq!(limit(&weir), None);

    let zero = weir.site.run(&["autopilot", "override", "0", "--data-dir", "data"]);
    let error = String::from_utf8_lossy(&zero.stderr).into_owned();
    assert!(error.contains("0 for all queues would stop all jobs"), "{error}");
    assert_eq!(json(&weir, &["autopilot", "override", "2"])["limits"][0]["jobs"], 2);
    assert_eq!(json(&weir, &["autopilot", "off"])["mode"], "off");
    assert_eq!(json(&weir, &["jobs", "limits"])["resources"].as_array().map(Vec::len), Some(0));
    // It was changed by hand, and weir.toml was not.
    let weir = weir.end().start();
    let status = status(&weir);
    assert_eq!((&status["mode"], &status["mode_in_settings"]), (&"off".into(), &"advise".into()));
    assert!(journal(&weir, "mode").pop().expect("an entry").ends_with("from advise to off"));
}

#[test]
fn limits_go_on_after_a_kill_and_end_when_the_database_is_gone() {
    let Some(postgres) = database() else { return };
    let weir = start(&postgres, "on");
    let workers = Workers::start(&weir, &postgres);
    wait_for_limit(&weir);
    let service = weir.service();
    kill_process(service, Signal::KILL).expect("killed");
    wait_until("another service process serves", || {
        let arguments = ["autopilot", "status", "--data-dir", "data"];
        !is_running(service) && weir.site.run(&arguments).status.success()
    });
    let restart = journal(&weir, "restart");
    assert!(
        restart[0].starts_with("limits from before the restart go on (Hog at 0)"),
        "{restart:?}"
    );
    assert_eq!(limit(&weir), Some(0));
    drop(workers);
    wait_until("there are data again", || status(&weir)["data_age_seconds"].is_number());
    drop(postgres);
    wait_until("the error is shown", || {
        status(&weir)["problem"].as_str().is_some_and(|it| it.starts_with("the database: "))
    });
    wait_until("the limit has ended", || limit(&weir).is_none());
    let decisions = journal(&weir, "decision");
    let last = decisions.last().expect("a decision");
    let why = last.strip_prefix("returned a step towards the static plan: ").expect(last);
    // The lease is in the same database.
    let is_cause = |cause: &&str| why.starts_with(cause);
    let causes = ["no data for", "this autopilot has not held the lease for"];
    assert!(causes.iter().any(is_cause), "{last}");
    assert!(weir.stop().success());
}
