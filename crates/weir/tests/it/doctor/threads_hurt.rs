//! More threads that do less, and more threads that do more, seen by a Weir that watches for a while.

use serde_json::Value;

use super::follow::{change_of, find};
use super::page::show;
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
/// A machine that others use makes windows uneven: until what they say together is surer than this share, a
/// difference may be chance, however many windows of the other number of threads follow.
const UNSURE_SHARE: f64 = 0.1;
/// Longer than the test: how slow the machine is does not matter to who waits for a lock.
const LOCKED_OUT: &str = "deadlock_timeout=5min";

fn watch(redis: &RedisServer) -> Weir {
    let settings = format!(
        "[observe]\ninterval = \"1s\"\n[[observe.redis]]\nurl = \"redis://127.0.0.1:{}/0\"\n",
        redis.port
    );
    Site::new(&settings).start()
}

/// Returns its current findings; null before the first observation.
fn doctor_findings(weir: &Weir) -> Value {
    let (_, text) = get(weir.console(), "/v1/doctor", "");
    serde_json::from_str(&text).unwrap_or_default()
}

/// Runs this many threads until Weir has measured them well enough.
fn measure(
    redis: &RedisServer,
    weir: &Weir,
    threads: u64,
    is_enough: impl Fn(&Value) -> bool,
) -> Option<Sidekiq> {
    let count = threads.to_string();
    // Jobs that lock each other out would hold up its end for longer.
    let running = Sidekiq::start(redis, &["-c", &count, "-t", "1", "-q", "default"])?;
    wait_until("it is measured", || {
        let said = doctor_findings(weir);
        let levels = said["observation"]["goodput"]["known"][0]["levels"].as_array().cloned();
        levels.is_some_and(|levels| {
            levels.iter().any(|level| level["threads"] == threads && is_enough(level))
        })
    });
    Some(running)
}

/// Returns the findings about threads.
fn thread_findings(advice: &Value) -> Vec<&Value> {
    let all = advice["findings"].as_array().expect("it has looked");
    all.iter().filter(|finding| finding["rule"] == "threads-hurt").collect()
}

/// Measures few threads, then many; returns the process with many, which still runs.
fn measure_few_and_many_threads(redis: &RedisServer, weir: &Weir) -> Option<Sidekiq> {
    let is_sure = |level: &Value| {
        let figure = |name: &str| level[name].as_f64().expect("a figure");
        figure("deviation") < UNSURE_SHARE * figure("jobs_per_second")
    };
    measure(redis, weir, FEW, is_sure)?.stop();
    measure(redis, weir, MANY, |_| true)
}

#[test]
fn contending_threads_are_reported() {
    let Some(redis) = RedisServer::start() else { return };
    let Some(postgres) = PostgresServer::start(&[LOCKED_OUT]) else { return };
    postgres.run("CREATE TABLE rows AS SELECT id, 0 AS n FROM generate_series(1, 6) AS id");
    postgres.run("CREATE UNIQUE INDEX ON rows (id)");
    redis.run(&[&["SET", "postgres", &postgres.url("postgres")]]);
    push(&redis, "default", "Swap", JOBS, 5.0);
    let weir = watch(&redis);
    let Some(many) = measure_few_and_many_threads(&redis, &weir) else { return };
    let mut advice = Value::Null;
    // A few more windows, where the first were not enough to be sure.
    wait_until("it is found", || {
        advice = doctor_findings(&weir);
        !thread_findings(&advice).is_empty()
    });
    let found = thread_findings(&advice);
    let evidence = found[0]["evidence"].as_str().expect("evidence");
    assert!(evidence.starts_with(&format!("{FEW} thread completed ")), "{evidence}");
    assert!(evidence.ends_with(&format!("{MANY} run now")), "{evidence}");
    assert_eq!(found[0]["severity"], "warning");
    assert_eq!(change_of(found[0])["line"], format!("-c: {FEW} in all"));
    let cause =
        "`[observe]`: a Sidekiq of one thread, then one of twelve, whose jobs lock each other out";
    let found = find(&advice, "threads-hurt", cause, "threads only");
    many.stop();
    let threads = found.line().trim_start_matches("-c: ").trim_end_matches(" in all");
    let _few = Sidekiq::start(&redis, &["-c", threads, "-q", "default"]).expect("it ran before");
    wait_until("the line is followed", || found.is_healed(&doctor_findings(&weir)));
    show(&[found.healed(&doctor_findings(&weir))]);
    assert!(weir.stop().success());
}

#[test]
fn scaling_threads_have_no_findings() {
    let Some(redis) = RedisServer::start() else { return };
    push(&redis, "default", "Nap", JOBS, 5.0);
    let weir = watch(&redis);
    let Some(_many) = measure_few_and_many_threads(&redis, &weir) else { return };
    assert_eq!(thread_findings(&doctor_findings(&weir)), Vec::<&Value>::new());
    assert!(weir.stop().success());
}
