//! What can be wrong with the database.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::json;
use super::page::{Row, row_in_time, rows};
use super::postgres_server::PostgresServer;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy};

/// Looks of half a second or more: a transaction must be idle for a minute to be found.
const LOOKS_MAX: usize = 250;

/// A pool of Rails: each of its threads holds a connection.
const POOL: &str = "require 'active_record'\n$0 = ARGV[1]\n\
    ActiveRecord::Base.establish_connection(adapter: 'postgresql', host: '127.0.0.1', \
    port: ARGV[0], username: 'shop', database: 'postgres', pool: ARGV[2].to_i)\n\
    held = ARGV[2].to_i.times.map { ActiveRecord::Base.connection_pool.checkout }\n\
    held.each { |it| it.execute(%q(SET application_name = '')) }\n\
    puts 'all checked out'\n$stdout.flush\nsleep";

struct Pool(Child);

impl Pool {
    fn start(server: &PostgresServer, title: &str, size: u32) -> Option<Self> {
        let mut ruby = Command::new("ruby");
        ruby.args(["-e", POOL, &server.port.to_string(), title, &size.to_string()]);
        ruby.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut pool = Self(ruby.spawn().ok()?);
        let mut line = String::new();
        BufReader::new(pool.0.stdout.take()?).read_line(&mut line).ok()?;
        if line.is_empty() {
            eprintln!("skipped: no pool of ActiveRecord (Debian: ruby-activerecord, ruby-pg)");
            return None;
        }
        Some(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn provoke_all() -> Option<Vec<Row>> {
    let settings = ["max_connections=20", "shared_buffers=1MB", "max_wal_size=32MB"];
    let server = PostgresServer::start(&settings)?;
    server.run("CREATE ROLE shop LOGIN");
    server.run("CREATE TABLE accounts (id int)");
    server.run("GRANT ALL ON accounts TO shop");
    // What its command line says waits for no restart.
    server.run("ALTER SYSTEM SET max_locks_per_transaction = 128");
    server.run("ALTER SYSTEM SET work_mem = '1GB'");
    server.run("SELECT pg_reload_conf()");
    let mut holder = server.client("shop", "puma");
    holder.say("BEGIN; LOCK TABLE accounts");
    let mut waiter = server.client("shop", "sidekiq");
    waiter.begin("SELECT count(*) FROM accounts");

    let url = server.url("postgres");
    let common = ["--postgres", &url, "--postgres-memory", "8GiB"];
    // A pooler of another test may run on this machine.
    let direct = ["--window", "10ms", "--pool", "web=3x15", "--pgbouncer", "0"];
    let few = [&common[..], &direct].concat();
    let cause = "a server with `shared_buffers = 1MB`, and 8 GB for it";
    let mut all = rows(
        &json(&few),
        &[
            ("untuned-database", cause),
            ("over-commit", "`--pool web=3x15` on a server with 20 connections"),
            ("work-memory", "`work_mem = 1GB`"),
            ("pending-restart", "`ALTER SYSTEM SET max_locks_per_transaction`, and a reload"),
        ],
    );
    let pool = ["--window", "10ms", "--pool", "web=1x5/8"];
    let cause = "`--pool web=1x5/8`: eight threads";
    all.extend(rows(&json(&[&common[..], &pool].concat()), &[("small-pool", cause)]));
    all.extend(provoke_replication_slot(&server, &common));
    all.extend(provoke_open_transactions(&server, &common));
    // With 8 GB, the size of the cache would be reported as the cause.
    let small = ["--postgres", &url, "--postgres-memory", "8MiB", "--window", "3s"];
    all.extend(provoke_cache_misses(&server, &small));
    all.extend(provoke_full_slots(&few, &server)?);
    let slow = [&common[..], &["--window", "500ms"]].concat();
    let cause = "a session that waits for another's `LOCK TABLE`";
    all.push(row_in_time(&slow, "lock-waits", cause, LOOKS_MAX).expect("it was found"));
    let cause = "that other session, a minute later";
    all.push(row_in_time(&slow, "idle-in-transaction", cause, LOOKS_MAX).expect("it was found"));
    server.run("ALTER SYSTEM SET default_transaction_read_only = on");
    server.run("SELECT pg_reload_conf()");
    let cause = "`ALTER SYSTEM SET default_transaction_read_only = on`";
    all.push(row_in_time(&slow, "read-only-database", cause, LOOKS_MAX).expect("it was found"));
    Some(all)
}

/// Provokes the finding about the slot of a removed replica.
fn provoke_replication_slot(server: &PostgresServer, common: &[&str]) -> Vec<Row> {
    server.run("SELECT pg_create_physical_replication_slot('standby', true)");
    server.run("CREATE TABLE gone AS SELECT repeat('x', 1000) FROM generate_series(1, 40000)");
    let cause = "`pg_create_physical_replication_slot('standby', true)`, and 40 MB written with \
               `max_wal_size = 32MB`";
    let advice = json(&[common, &["--window", "10ms", "--pgbouncer", "0"]].concat());
    server.run("SELECT pg_drop_replication_slot('standby')");
    rows(&advice, &[("replication-slot", cause)])
}

/// Opens all connections of a pooler, each in a transaction.
fn provoke_open_transactions(server: &PostgresServer, common: &[&str]) -> Vec<Row> {
    let mut pool = [server.client("shop", "pgbouncer"), server.client("shop", "pgbouncer")];
    pool.iter_mut().for_each(|connection| connection.say("BEGIN; SELECT 1"));
    let cause = "`--pgbouncer 2`, and both of its connections in a transaction";
    let said = [common, &["--window", "10ms", "--pgbouncer", "2"]].concat();
    rows(&json(&said), &[("busy-pooler", cause)])
}

/// Reads a table that does not fit into the cache, repeatedly.
fn provoke_cache_misses(server: &PostgresServer, arguments: &[&str]) -> Vec<Row> {
    server.run("CREATE TABLE large AS SELECT repeat('x', 1000) FROM generate_series(1, 30000)");
    let mut reader = server.client("postgres", "report");
    for _ in 0..1_500 {
        reader.begin("SELECT count(*) FROM large");
    }
    let cause = "a table that is larger than `shared_buffers`, read again and again";
    rows(&json(arguments), &[("cache-hits", cause)])
}

/// Opens real pools until there is no free slot.
fn provoke_full_slots(arguments: &[&str], server: &PostgresServer) -> Option<Vec<Row>> {
    let _web = Pool::start(server, "puma: cluster worker 0: 7 [shop]", 10)?;
    let _jobs = Pool::start(server, "sidekiq 6.4.1 shop [0 of 5 busy]", 5)?;
    let cause = "pools of two Rails processes, 10 and 5, on a server with 20 connections";
    let mut all =
        rows(&json(arguments), &[("connection-slots", cause), ("idle-connections", cause)]);
    server.run("ALTER ROLE shop CONNECTION LIMIT 16");
    let cause = "`ALTER ROLE shop CONNECTION LIMIT 16`, and the same pools";
    all.extend(rows(&json(arguments), &[("connection-limit", cause)]));
    server.run("ALTER ROLE shop CONNECTION LIMIT -1");
    let shop = server.url("shop");
    let advice = json(&["--postgres", &shop, "--window", "10ms"]);
    all.extend(rows(&advice, &[("slots-exhausted", "the same, for one session more")]));
    Some(all)
}

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
    assert_eq!(finding["change"]["line"], "max_db_connections = 37");
    let direct = said(&["--pgbouncer", "0"]);
    let finding = find_finding(&direct, "over-commit").expect("nothing stands between");
    assert_eq!(
        (&finding["severity"], finding["change"]["line"].as_str()),
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
    assert_eq!(finding["change"], Value::Null, "nothing is known about the database");
    let consequence = finding["consequence"].as_str().expect("words");
    assert!(consequence.contains("(DB_POOL=5). 2 threads need no larger pool."), "{consequence}");
    // Said of all of Sidekiq, it is not counted beside what was seen.
    let all = say(&["--pool", "sidekiq=1x5"]);
    assert_eq!(services(&all), [("sidekiq".to_owned(), 5, Some(5))]);
    short.stop();
}
