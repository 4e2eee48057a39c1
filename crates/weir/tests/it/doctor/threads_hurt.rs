//! More threads that do less, and more threads that do more, seen by a Weir that watches for a while.

use serde_json::Value;

use super::postgres_server::PostgresServer;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, push};
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

const FEW: u64 = 1;
const MANY: u64 = 12;
/// More than all threads work off meanwhile.
const JOBS: usize = 40_000;

fn watch(redis: &RedisServer) -> Weir {
    let settings = format!(
        "[observe]\ninterval = \"1s\"\n[[observe.redis]]\nurl = \"redis://127.0.0.1:{}/0\"\n",
        redis.port
    );
    Site::new(&settings).start()
}

/// What it says now; nothing before the first look.
fn look(weir: &Weir) -> Value {
    let (_, text) = get(weir.console(), "/v1/doctor", "");
    serde_json::from_str(&text).unwrap_or_default()
}

/// Runs so many threads until Weir has measured them.
fn measure(redis: &RedisServer, weir: &Weir, threads: u64) -> Option<Sidekiq> {
    let count = threads.to_string();
    let running = Sidekiq::start(redis, &["-c", &count, "-q", "default"])?;
    wait_until("it is measured", || {
        let said = look(weir);
        let levels = said["observation"]["goodput"]["known"][0]["levels"].as_array().cloned();
        levels.is_some_and(|levels| levels.iter().any(|level| level["threads"] == threads))
    });
    Some(running)
}

fn said(weir: &Weir) -> Vec<Value> {
    let all = look(weir)["findings"].as_array().cloned();
    all.expect("it has looked")
        .into_iter()
        .filter(|finding| finding["rule"] == "threads-hurt")
        .collect()
}

/// With few threads and then with many; what is said then.
fn few_and_many(redis: &RedisServer, weir: &Weir) -> Option<Vec<Value>> {
    measure(redis, weir, FEW)?.end();
    let _many = measure(redis, weir, MANY)?;
    Some(said(weir))
}

#[test]
fn threads_that_lock_each_other_out_are_too_many() {
    let Some(redis) = RedisServer::start() else { return };
    let Some(postgres) = PostgresServer::start(&["deadlock_timeout=3s"]) else { return };
    postgres.run("CREATE TABLE rows AS SELECT id, 0 AS n FROM generate_series(1, 6) AS id");
    postgres.run("CREATE UNIQUE INDEX ON rows (id)");
    redis.run(&[&["SET", "postgres", &postgres.url("postgres")]]);
    push(&redis, "default", "Swap", JOBS, 5.0);
    let weir = watch(&redis);
    let Some(mut found) = few_and_many(&redis, &weir) else { return };
    // A few more windows, where the first were not enough to be sure.
    wait_until("it is found", || {
        found = said(&weir);
        !found.is_empty()
    });
    let evidence = found[0]["evidence"].as_str().expect("evidence");
    assert!(evidence.starts_with(&format!("{FEW} threads worked off ")), "{evidence}");
    assert!(evidence.ends_with(&format!("{MANY} run now")), "{evidence}");
    assert_eq!(found[0]["severity"], "warning");
    assert_eq!(found[0]["change"]["line"], format!("-c: {FEW} in all"));
    assert!(weir.stop().success());
}

#[test]
fn threads_that_do_more_are_met_with_silence() {
    let Some(redis) = RedisServer::start() else { return };
    push(&redis, "default", "Nap", JOBS, 5.0);
    let weir = watch(&redis);
    let Some(found) = few_and_many(&redis, &weir) else { return };
    assert_eq!(found, Vec::<Value>::new());
    assert!(weir.stop().success());
}
