//! Pools of connections that doctor counts as they are.

use serde_json::Value;

use super::follow::change_of;
use super::json;
use super::postgres_server::PostgresServer;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy};

/// Returns the finding of a rule, if there is one.
fn find_finding<'a>(advice: &'a Value, rule: &str) -> Option<&'a Value> {
    advice["findings"].as_array()?.iter().find(|finding| finding["rule"] == rule)
}

#[test]
fn pools_behind_a_pooler_are_not_over_committed() {
    let settings = ["max_connections=40", "shared_buffers=512MB"];
    let Some(server) = PostgresServer::start(&settings) else { return };
    server.run("CREATE ROLE shop LOGIN");
    let _pooled = server.client("shop", "pgbouncer");
    let url = server.url("postgres");
    let said = |more: &[&str]| {
        let look = ["--postgres", &url, "--postgres-memory", "2GiB", "--window", "10ms"];
        json(&[&look[..], &["--pool", "web=10x10"], more].concat())
    };
    let advice = said(&[]);
    let finding = find_finding(&advice, "over-commit").expect("nobody has said what it opens");
    assert_eq!(finding["severity"], "unknown");
    let evidence = finding["evidence"].as_str().expect("words");
    assert!(evidence.contains("pgbouncer is in between (it holds 1 connection)"), "{evidence}");

    assert_eq!(find_finding(&said(&["--pgbouncer", "30"]), "over-commit"), None);
    let advice = said(&["--pgbouncer", "38"]);
    let finding = find_finding(&advice, "over-commit").expect("it opens too many");
    assert_eq!(change_of(finding)["line"], "max_db_connections = 37");
    let direct = said(&["--pgbouncer", "0"]);
    let finding = find_finding(&direct, "over-commit").expect("nothing stands between");
    assert_eq!(
        (&finding["severity"], change_of(finding)["line"].as_str()),
        (&Value::from("warning"), Some("DB_POOL=3"))
    );
}

/// Returns how many connections each service may open, by name.
fn services(advice: &Value) -> Vec<(String, u64, Option<u64>)> {
    let services = advice["observation"]["services"]["known"].as_array().expect("services");
    let of = |service: &Value| {
        let name = service["name"].as_str().expect("a name").to_owned();
        (name, service["pool"].as_u64().expect("a pool"), service["threads"].as_u64())
    };
    services.iter().map(of).collect()
}

#[test]
fn threads_and_pools_match_sidekiq() {
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let say = |more: &[&str]| json(&[&["--redis", &url, "--window", "10ms"], more].concat());
    // Nothing on its command line says how many.
    let environment = [("RAILS_MAX_THREADS", "7")];
    let Some(by_variable) = Sidekiq::start_with(&redis, &["-q", "default"], &environment) else {
        return;
    };
    let advice = say(&[]);
    assert_eq!(services(&advice), [("sidekiq default".to_owned(), 7, Some(7))]);
    assert_eq!(find_finding(&advice, "small-pool"), None, "{advice:#}");
    by_variable.stop();

    let environment = [("DB_POOL", "2")];
    let arguments = ["-c", "5", "-q", "default"];
    let Some(short) = Sidekiq::start_with(&redis, &arguments, &environment) else { return };
    let advice = say(&[]);
    assert_eq!(services(&advice), [("sidekiq default".to_owned(), 2, Some(5))]);
    let finding = find_finding(&advice, "small-pool").expect("threads wait for a connection");
    assert_eq!(finding["evidence"], "5 threads share a pool of 2 connections");
    assert_eq!(change_of(finding), &Value::Null, "nothing is known about the database");
    let consequence = finding["consequence"].as_str().expect("words");
    assert!(consequence.contains("(DB_POOL=5). 2 threads need no larger pool."), "{consequence}");
    // Said of all of Sidekiq, it is not counted beside what was seen.
    let all = say(&["--pool", "sidekiq=1x5"]);
    assert_eq!(services(&all), [("sidekiq".to_owned(), 5, Some(5))]);
    short.stop();
}
