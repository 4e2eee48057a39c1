//! Sessions of a Postgres that wait for each other, or for nobody who comes.

use std::path::Path;

use super::follow::find_in_time;
use super::json;
use super::page::{Row, show};
use super::postgres_server::{PostgresClient, PostgresServer};
use crate::process::wait_until;

#[test]
fn problems_of_locks_are_found_and_their_commands_work() {
    let settings = ["max_connections=40", "shared_buffers=128MB", "max_prepared_transactions=5"];
    let Some(server) = PostgresServer::start(&settings) else { return };
    server.run("CREATE ROLE shop LOGIN");
    for table in ["accounts", "orders", "users", "carts", "writes"] {
        server.run(&format!("CREATE TABLE {table} (id int)"));
        server.run(&format!("ALTER TABLE {table} OWNER TO shop"));
    }
    let rows = provoke_waits(&server);
    show(&rows);
}

/// Returns a session of the web that has run these statements.
fn hold(server: &PostgresServer, statements: &str) -> PostgresClient {
    let mut client = server.client("shop", "puma");
    client.say(statements);
    client
}

/// Returns a session that waits.
fn wait(server: &PostgresServer, service: &str, statement: &str) -> PostgresClient {
    let mut client = server.client("shop", service);
    client.begin(statement);
    client
}

/// Provokes waits of several kinds at once, as each takes ten seconds to be found.
fn provoke_waits(server: &PostgresServer) -> Vec<Row> {
    let url = server.url("postgres");
    let arguments = ["--postgres", &url, "--window", "300ms", "--pgbouncer", "0"];
    let _holders = [
        hold(server, "BEGIN; LOCK TABLE accounts"),
        hold(server, "BEGIN; SELECT * FROM orders"),
        hold(server, "BEGIN; LOCK TABLE users; PREPARE TRANSACTION 'payment-7'"),
        wait(server, "puma", "BEGIN; LOCK TABLE carts; SELECT pg_sleep(600)"),
        hold(server, "BEGIN; SELECT pg_advisory_lock(7)"),
        hold(server, "BEGIN; SELECT 'forgotten'"),
    ];
    let _change = wait(server, "psql", "ALTER TABLE orders ADD COLUMN note text");
    let _behind = [
        wait(server, "sidekiq", "SELECT count(*) FROM accounts"),
        wait(server, "sidekiq", "SELECT count(*) FROM users"),
        wait(server, "sidekiq", "SELECT count(*) FROM carts"),
        wait(server, "sidekiq", "SELECT pg_advisory_lock(7)"),
    ];
    wait_until("all of them wait", || {
        let advice = json(&arguments);
        let waits = &advice["observation"]["postgres"]["known"]["lock_waits"]["known"];
        waits.as_array().is_some_and(|waits| waits.len() >= 5)
    });
    let _after_change = wait(server, "sidekiq", "SELECT count(*) FROM orders");
    // A minute, after which no other finding comes by itself.
    let cause = "a session of the web that is idle in a transaction for a minute";
    let idle = find_in_time(&arguments, "idle-in-transaction", cause, "idle in transaction");
    let find = |cause, names| find_in_time(&arguments, "lock-waits", cause, names);

    let cause = "a session that waits for another's `LOCK TABLE`";
    let found = find(cause, "waits for its lock on accounts");
    found.run();
    let mut all = vec![found.healed_in_time(&arguments)];
    let found = find("a session that waits for another's advisory lock", "its advisory lock");
    found.run();
    all.push(found.healed_in_time(&arguments));
    let cause = "`ALTER TABLE` that waits for a reader, and a session behind it";
    let found = find(cause, "on orders");
    found.run();
    all.push(found.healed_in_time(&arguments));
    let cause = "`PREPARE TRANSACTION`, and nobody commits it";
    let found = find(cause, "neither committed nor rolled back");
    let output = found.run();
    all.push(found.shown(&output, "payment-7"));
    let cause = "a session that works for minutes with a lock";
    let found = find(cause, "its lock on carts");
    let output = found.run();
    all.push(found.shown(&output, "pg_sleep(600)"));
    all.push(provoke_missing_standby(server));
    server.append("postgresql.conf", idle.line());
    server.run("SELECT pg_reload_conf()");
    idle.run();
    all.push(idle.healed_in_time(&arguments));
    all
}

/// Provokes commits that wait for a standby that does not exist.
fn provoke_missing_standby(server: &PostgresServer) -> Row {
    server.run("ALTER SYSTEM SET synchronous_standby_names = 'elsewhere'");
    server.run("SELECT pg_reload_conf()");
    let url = server.url("postgres");
    let arguments = ["--postgres", &url, "--window", "300ms", "--pgbouncer", "0"];
    let _writer = wait(server, "sidekiq", "INSERT INTO writes VALUES (1)");
    let cause = "`synchronous_standby_names` names a standby that does not exist";
    let found = find_in_time(&arguments, "lock-waits", cause, "no standby is connected");
    let folder = server.folder().display().to_string();
    found.run_in(Path::new("/"), &[("PGHOST", &folder)]);
    found.healed_in_time(&arguments)
}
