//! Two Weirs whose autopilots share a real Redis, or a real Postgres: one acts.

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use super::{Workers, database, json, limit, start_with, status};
use crate::doctor::pgbouncer::PgBouncer;
use crate::doctor::postgres_server::PostgresServer;
use crate::doctor::redis_server::RedisServer;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

const KEY: &str = "weir:autopilot:lease";

/// The settings of the Redis that has the lease.
fn redis_settings(redis: &RedisServer, user: &str) -> String {
    format!("[[observe.redis]]\nurl = \"redis://{user}127.0.0.1:{}/0\"\n", redis.port)
}

fn lease_state(weir: &Weir) -> String {
    status(weir)["lease"]["state"].as_str().unwrap_or_default().to_owned()
}

fn lease_text(weir: &Weir) -> String {
    status(weir)["lease"]["text"].as_str().unwrap_or_default().to_owned()
}

/// Returns the journal, the oldest entry first.
fn entries(weir: &Weir) -> Vec<Value> {
    let entries = json(weir, &["autopilot", "journal", "--limit", "1000"]);
    entries.as_array().expect("a list").clone()
}

fn texts<'a>(entries: &'a [Value], kind: &str) -> Vec<&'a str> {
    let of_kind = entries.iter().filter(|entry| entry["kind"] == kind);
    of_kind.filter_map(|entry| entry["text"].as_str()).collect()
}

/// Two Weirs of which the first holds the lease, with work that both would limit.
struct Two {
    holder: Weir,
    other: Weir,
    workers: [Workers; 2],
}

impl Two {
    /// `store`: how the lease's place is named.
    fn start(postgres: &PostgresServer, url: &str, more: &str, store: &str) -> Self {
        let holder = start_with(url, "on", more);
        wait_until("the first holds the lease", || lease_state(&holder) == "held");
        let other = start_with(url, "on", more);
        wait_until("the second knows it", || lease_state(&other) == "other");
        let path = holder.data_dir().canonicalize().expect("a folder");
        let expected =
            format!("{} holds the lease in {store}: this autopilot only advises", path.display());
        assert!(lease_text(&other).ends_with(&expected), "{}: {expected}", lease_text(&other));
        let workers = [&holder, &other].map(|weir| Workers::start(weir, postgres));
        Self { holder, other, workers }
    }

    /// The first limits the holder of the lock. The second says that it would, and where to look.
    fn assert_that_one_acts(&self) {
        let Self { holder, other, .. } = self;
        wait_until("the first acts", || limit(holder).is_some());
        wait_until("the second advises", || !texts(&entries(other), "advice").is_empty());
        assert_eq!(limit(other), None);
        let said = entries(other);
        assert_eq!(texts(&said, "decision"), Vec::<&str>::new());
        assert!(texts(&said, "lease")[0].ends_with("this autopilot only advises"), "{said:?}");
        let shown = other.site.ok(&["autopilot", "status", "--data-dir", "data"]);
        assert!(shown.contains("lease:     ") && shown.contains("only advises"), "{shown}");
        let page = get(other.console(), "/autopilot", "").1;
        assert!(page.contains("<span class=\"tag warning\">only advises</span>"), "{page}");
        let metrics = get(other.console(), "/metrics", "").1;
        assert!(metrics.contains("weir_autopilot_lease{state=\"other\"} 1"), "{metrics}");
        let metrics = get(holder.console(), "/metrics", "").1;
        assert!(metrics.contains("weir_autopilot_lease{state=\"held\"} 1"), "{metrics}");
    }

    /// Kills the first with all its processes; returns the second, which acts then.
    fn kill_holder(self) -> (Weir, [Workers; 2]) {
        let Self { holder, other, workers } = self;
        let service = holder.service();
        // It must not start another one, nor end in order.
        holder.signal(Signal::STOP);
        kill_process(service, Signal::KILL).expect("killed");
        drop(holder.kill_parent());
        wait_until("the second acts", || limit(&other).is_some());
        assert_eq!(lease_state(&other), "held");
        let said = entries(&other);
        assert!(
            texts(&said, "lease").last().is_some_and(|it| it.ends_with(", and acts")),
            "{said:?}"
        );
        assert!(texts(&said, "decision")[0].starts_with("limited Hog to "), "{said:?}");
        (other, workers)
    }
}

/// Nothing but steps back is decided after the lease was missed.
fn assert_that_it_only_steps_back(weir: &Weir) {
    let said = entries(weir);
    let lost = said.iter().rposition(|entry| {
        let text = entry["text"].as_str().unwrap_or_default();
        entry["kind"] == "lease" && text.contains("cannot be taken, so this autopilot only advises")
    });
    let later = texts(&said[lost.expect("it says so")..], "decision");
    assert!(!later.is_empty(), "{said:?}");
    let step = "returned a step towards the static plan: ";
    assert!(later.iter().all(|text| text.starts_with(step)), "{later:?}");
}

#[test]
fn one_of_two_on_a_redis_acts_and_neither_without_it() {
    let (Some(postgres), Some(mut redis)) = (database(), RedisServer::start()) else { return };
    let store = format!("Redis 127.0.0.1:{}", redis.port);
    let settings = redis_settings(&redis, "");
    let two = Two::start(&postgres, &postgres.url("postgres"), &settings, &store);
    two.assert_that_one_acts();
    let (weir, workers) = two.kill_holder();
    redis.kill();
    wait_until("it does not know who holds the lease", || lease_state(&weir) == "unknown");
    wait_until("its limits have ended", || limit(&weir).is_none());
    assert_that_it_only_steps_back(&weir);
    // Data are fresh, and it says what it would do.
    let advice = || texts(&entries(&weir), "advice").len();
    wait_until("it advises", || advice() > 0);
    // Off needs no Redis.
    assert_eq!(json(&weir, &["autopilot", "off"])["mode"], "off");
    drop(workers);
    assert!(weir.stop().success());
}

#[test]
fn one_of_two_on_a_postgres_acts_also_through_a_pooler() {
    let Some(postgres) = database() else { return };
    let Some(pooler) = PgBouncer::start(&postgres, "default_pool_size = 3") else { return };
    let store = format!("Postgres 127.0.0.1:{}/postgres", pooler.port);
    let two = Two::start(&postgres, &pooler.url("postgres"), "", &store);
    two.assert_that_one_acts();
    let (weir, workers) = two.kill_holder();
    drop(workers);
    let weir = weir.end().start();
    wait_until("it is taken again", || ["waiting", "held"].contains(&lease_state(&weir).as_str()));
    drop(pooler);
    wait_until("it does not know who holds the lease", || lease_state(&weir) == "unknown");
    assert!(weir.stop().success());
}

#[test]
fn the_documented_grants_suffice_and_errors_name_them() {
    let (Some(postgres), Some(redis)) = (database(), RedisServer::start()) else { return };
    let read_only = weir_sidekiq::READ_ONLY_ACL;
    let mut words = vec!["ACL", "SETUSER", "weir", "on", ">secret", "resetkeys", "~*", "-@all"];
    words.extend(read_only.split_whitespace());
    redis.run(&[&words]);
    // Without a password, a connection is the default user's.
    let password = redis.folder().join("password");
    std::fs::write(&password, "secret").expect("written");
    let password = format!("password = {{ file = \"{}\" }}\n", password.display());
    let settings = redis_settings(&redis, "weir@") + &password;
    let weir = start_with(&postgres.url("postgres"), "on", &settings);
    let grant = format!("ACL SETUSER weir \"(~{KEY} +set +get +pexpire +del +eval)\"");
    wait_until("the grant is named", || lease_text(&weir).contains(&grant));
    // As it is printed, without the quotes of redis-cli.
    let (_, selector) = grant.split_once('"').expect("quoted");
    redis.run(&[&["ACL", "SETUSER", "weir", selector.trim_end_matches('"')]]);
    wait_until("it holds the lease", || lease_state(&weir) == "held");
    let site = weir.end();
    let held: Option<String> =
        ::redis::cmd("GET").arg(KEY).query(&mut redis.client()).expect("a reply");
    assert_eq!(held, None, "it is given back");

    postgres.run("CREATE ROLE weir_mon LOGIN");
    postgres.run("GRANT pg_monitor TO weir_mon");
    drop(site);
    let weir = start_with(&postgres.url("weir_mon"), "on", "");
    wait_until("the statements are named", || lease_text(&weir).contains("CREATE TABLE IF NOT"));
    let text = lease_text(&weir);
    let (_, statements) = text.split_once("as its owner: ").expect("statements");
    postgres.run(statements.trim_end_matches(')'));
    wait_until("it holds the lease", || lease_state(&weir) == "held");
    assert!(weir.stop().success());
}

#[test]
fn on_without_redis_and_postgres_is_rejected() {
    let site = Site::new("[autopilot]\nmode = \"on\"\nmanage = [\"jobs\"]\n");
    for command in [&["check"][..], &["up"]] {
        let output = site.run(command);
        assert!(!output.status.success());
        let error = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        let expected = "autopilot.mode: needs [observe.postgres] with url = \"postgres://..\"";
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("the lease that lets only one autopilot act"), "{error}");
    }
}
