//! What can be wrong with the connections of a Postgres, and with what is kept for those that are gone.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::follow::{Found, find};
use super::json;
use super::page::{Row, show};
use super::postgres_server::PostgresServer;
use super::redis::url;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy};
use crate::process::wait_until;

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

#[test]
fn problems_of_connections_are_found_and_their_lines_work() {
    let settings = ["max_connections=20", "shared_buffers=1MB", "max_wal_size=32MB"];
    let Some(mut server) = PostgresServer::start(&settings) else { return };
    server.run("CREATE ROLE shop LOGIN");
    server.run("CREATE ROLE limited LOGIN CONNECTION LIMIT 0");
    let mut rows = provoke_declared_pools(&server);
    let cause = "`CONNECTION LIMIT 0` for the role that doctor uses";
    let problem = ("connection-limit", cause, "role \"limited\"");
    rows.push(provoke_rejection(&server, "limited", problem, "limited"));
    rows.extend(provoke_sidekiq_pool(&server));
    rows.push(provoke_cache_misses(&server));
    rows.push(provoke_open_transactions(&server));
    rows.extend(provoke_open_pools(&server).unwrap_or_default());
    rows.extend(provoke_replication_slots(&mut server));
    show(&rows);
}

/// Runs doctor with options of its own.
fn look(server: &PostgresServer, more: &[&str]) -> serde_json::Value {
    let url = server.url("postgres");
    let common = ["--postgres", &url, "--postgres-memory", "1GiB", "--window", "10ms"];
    json(&[&common[..], more].concat())
}

/// Returns the number of a line such as `DB_POOL=5`.
fn value<'a>(found: &'a Found, name: &str) -> &'a str {
    let line = found.line();
    line.strip_prefix(name).unwrap_or_else(|| panic!("{line} has no {name}"))
}

/// Provokes pools that their options say: none of their connections is open.
fn provoke_declared_pools(server: &PostgresServer) -> Vec<Row> {
    let direct = |pool: &str| look(server, &["--pool", pool, "--pgbouncer", "0"]);
    let cause = "`--pool web=3x15` on a server with 20 connections";
    let found = find(&direct("web=3x15"), "over-commit", cause, "pools sum to 45");
    assert_eq!(found.place(), "the environment of web alone");
    let pool = format!("web=3x{}", value(&found, "DB_POOL="));
    let mut all = vec![found.healed(&direct(&pool))];

    let cause = "`--pool web=1x5/8`: eight threads";
    let found = find(&direct("web=1x5/8"), "small-pool", cause, "8 threads share a pool of 5");
    let pool = format!("web=1x{}/8", value(&found, "DB_POOL="));
    all.push(found.healed(&direct(&pool)));

    let pooled = |most: &str| {
        let _pooler = server.client("shop", "pgbouncer");
        look(server, &["--pool", "web=3x15", "--pgbouncer", most])
    };
    let cause = "`--pgbouncer 38` on a server with 20 connections";
    let found = find(&pooled("38"), "over-commit", cause, "pgbouncer 38");
    assert_eq!(found.place(), "pgbouncer's settings");
    let most = value(&found, "max_db_connections = ").to_owned();
    all.push(found.healed(&pooled(&most)));

    server.run("ALTER DATABASE postgres CONNECTION LIMIT 8");
    let cause = "`ALTER DATABASE postgres CONNECTION LIMIT 8`, and `--pool web=2x5`";
    let found = find(&direct("web=2x5"), "over-commit", cause, "allows 8 (CONNECTION LIMIT)");
    server.paste(found.line());
    all.push(found.healed(&direct("web=2x5")));
    server.run("ALTER DATABASE postgres CONNECTION LIMIT -1");
    all
}

/// Provokes a Sidekiq with fewer connections than threads.
fn provoke_sidekiq_pool(server: &PostgresServer) -> Option<Row> {
    let redis = RedisServer::start()?;
    make_healthy(&redis);
    let url = url(&redis);
    let say = || look(server, &["--redis", &url, "--pgbouncer", "0"]);
    let queues = ["-c", "5", "-q", "default"];
    let short = Sidekiq::start_with(&redis, &queues, &[("DB_POOL", "2")])?;
    let cause = "a Sidekiq with `DB_POOL=2` and `-c 5`";
    let found = find(&say(), "small-pool", cause, "5 threads share a pool of 2");
    assert_eq!(found.place(), "the environment of sidekiq default alone");
    short.stop();
    let pool = value(&found, "DB_POOL=").to_owned();
    let _enough = Sidekiq::start_with(&redis, &queues, &[("DB_POOL", &pool)])?;
    Some(found.healed(&say()))
}

/// Reads a table that does not fit into the cache, repeatedly.
fn provoke_cache_misses(server: &PostgresServer) -> Row {
    server.run("CREATE TABLE large AS SELECT repeat('x', 1000) FROM generate_series(1, 30000)");
    let mut reader = server.client("postgres", "report");
    for _ in 0..1_500 {
        reader.begin("SELECT count(*) FROM large");
    }
    let cause = "a table that is larger than `shared_buffers`, read again and again";
    // With more memory, the size of the cache would be reported as the cause.
    let url = server.url("postgres");
    let advice = json(&["--postgres", &url, "--postgres-memory", "8MiB", "--window", "3s"]);
    let found = find(&advice, "cache-hits", cause, "of blocks were in shared buffers");
    let output = found.run();
    found.shown(&output, "shared_buffers")
}

/// Opens all connections of a pooler, each in a transaction.
fn provoke_open_transactions(server: &PostgresServer) -> Row {
    let mut pool = [server.client("shop", "pgbouncer"), server.client("shop", "pgbouncer")];
    pool.iter_mut().for_each(|connection| connection.say("BEGIN; SELECT 'a-call-meanwhile'"));
    let cause = "`--pgbouncer 2`, and both of its connections in a transaction";
    let found = find(&look(server, &["--pgbouncer", "2"]), "busy-pooler", cause, "2 are idle in a");
    let output = found.run();
    found.shown(&output, "a-call-meanwhile")
}

/// Opens real pools until there is no free slot.
fn provoke_open_pools(server: &PostgresServer) -> Option<Vec<Row>> {
    const WEB: &str = "puma: cluster worker 0: 7 [shop]";
    let web = Pool::start(server, WEB, 10)?;
    let _jobs = Pool::start(server, "sidekiq 6.4.1 shop [0 of 5 busy]", 5)?;
    let _others = [server.client("shop", "report"), server.client("shop", "report")];
    let say = |web: &str| look(server, &["--pool", web, "--pgbouncer", "0"]);
    let advice = say("web=1x10");
    let cause = "pools of two Rails processes, 10 and 5, on a server with 20 connections";
    let slots = find(&advice, "connection-slots", cause, "of 17 usable slots are taken: web 1");
    let output = slots.run();
    let mut all = vec![slots.shown(&output, "idle")];
    all.push(provoke_role_limit(server, &say));
    let problem =
        ("slots-exhausted", "the same, for one session more", "no connection slot is free");
    all.push(provoke_rejection(server, "shop", problem, "20"));
    let idle = find(&advice, "idle-connections", cause, "10 idle connections");
    let pool = value(&idle, "DB_POOL=").to_owned();
    drop(web);
    let _smaller = Pool::start(server, WEB, pool.parse().expect("a number"))?;
    let pool = format!("web=1x{pool}");
    wait_until("the other pool is closed", || idle.is_healed(&say(&pool)));
    all.push(idle.healed(&say(&pool)));
    Some(all)
}

fn provoke_role_limit(server: &PostgresServer, say: &dyn Fn(&str) -> serde_json::Value) -> Row {
    server.run("ALTER ROLE shop CONNECTION LIMIT 16");
    let cause = "`ALTER ROLE shop CONNECTION LIMIT 16`, and the same pools";
    let found = find(&say("web=1x10"), "connection-limit", cause, "of at most 16");
    server.paste(found.line());
    let row = found.healed(&say("web=1x10"));
    server.run("ALTER ROLE shop CONNECTION LIMIT -1");
    row
}

/// Provokes the rejection of doctor itself, by the limit of its role or as all slots are taken.
fn provoke_rejection(
    server: &PostgresServer,
    user: &str,
    (rule, cause, names): (&'static str, &'static str, &str),
    words: &'static str,
) -> Row {
    let url = server.url(user);
    let found = find(&json(&["--postgres", &url, "--window", "10ms"]), rule, cause, names);
    // Psql is compiled with the folder of another server's socket.
    let folder = server.folder().display().to_string();
    let output = found.run_in(Path::new("/"), &[("PGHOST", &folder)]);
    found.shown(&output, words)
}

/// Provokes the slot of a replica that is gone, without a limit and with one.
fn provoke_replication_slots(server: &mut PostgresServer) -> Vec<Row> {
    let follow = |server: &mut PostgresServer, cause, names| {
        server.run("SELECT pg_create_physical_replication_slot('standby', true)");
        server.run("DROP TABLE IF EXISTS gone");
        server.run("CREATE TABLE gone AS SELECT repeat('x', 1000) FROM generate_series(1, 40000)");
        let found = find(&look(server, &["--pgbouncer", "0"]), "replication-slot", cause, names);
        if found.has_line() {
            found.change_in(server);
        }
        found.run();
        found.healed(&look(server, &["--pgbouncer", "0"]))
    };
    let cause = "`pg_create_physical_replication_slot('standby', true)`, and 40 MB written with \
                 `max_wal_size = 32MB`";
    let first = follow(server, cause, "max_slot_wal_keep_size sets no limit");
    let cause = "such a slot again, now with a limit";
    vec![first, follow(server, cause, "max_slot_wal_keep_size is")]
}
