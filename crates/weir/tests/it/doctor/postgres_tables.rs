//! Tables of a Postgres that are read from end to end or not vacuumed, and sorts that go to disk.

use serde_json::Value;

use super::follow::{Found, find, find_in_time};
use super::json;
use super::meanwhile::meanwhile;
use super::page::{Row, show};
use super::postgres_server::PostgresServer;

/// Consumes as many transaction IDs: each block with an exception handler is a transaction within.
const CONSUME: &str = "DO $$ BEGIN FOR number IN 1..210000 LOOP BEGIN INSERT INTO ids VALUES (number); \
    EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$";
/// Tries until a statement in progress is seen.
const TRIES_MAX: usize = 100;

#[test]
fn problems_of_tables_are_found_and_their_actions_work() {
    let settings = [
        "shared_buffers=128MB",
        "autovacuum_naptime=3600",
        "autovacuum_freeze_max_age=100000",
        "fsync=off",
    ];
    let Some(mut server) = PostgresServer::start(&settings) else { return };
    server.run(
        "CREATE TABLE orders AS SELECT number AS id, number % 1000 AS customer, 'x' AS note \
         FROM generate_series(1, 300000) AS number",
    );
    server.run("ANALYZE orders");
    // The first sample is to have the table.
    server.run("SELECT count(*) FROM orders");
    let mut rows = vec![provoke_scans(&server), provoke_sorts(&server)];
    rows.push(provoke_dead_rows(&mut server));
    rows.push(provoke_wraparound(&server));
    show(&rows);
}

/// Runs doctor while a session repeats a statement, and returns the finding with the output of its command.
fn found_while(
    server: &PostgresServer,
    statement: &str,
    find: impl Fn(&Value) -> Found,
) -> (Found, String) {
    let url = server.url("postgres");
    let arguments = ["--postgres", &url, "--window", "6s", "--pgbouncer", "0"];
    let mut client = server.client("postgres", "sidekiq");
    meanwhile(
        || client.say(statement),
        || {
            let found = find(&json(&arguments));
            let output = (0..TRIES_MAX).map(|_| found.run()).find(|it| it.contains("orders"));
            (found, output.unwrap_or_default())
        },
    )
}

fn provoke_scans(server: &PostgresServer) -> Row {
    let cause =
        "a statement that looks for a customer in 300,000 rows without an index, again and again";
    let statement = "SELECT count(*) FROM orders WHERE customer = 7";
    let (found, output) = found_while(server, statement, |advice| {
        find(advice, "sequential-scans", cause, "table orders")
    });
    found.shown(&output, "orders")
}

fn provoke_sorts(server: &PostgresServer) -> Row {
    let cause = "a statement that sorts 150,000 rows with `work_mem = 64kB`, some times a second";
    let statement = "SET work_mem = '64kB'; SELECT count(*), (SELECT pg_sleep(0.2)) FROM (SELECT note, id FROM orders \
                     WHERE id <= 150000 ORDER BY id DESC OFFSET 0) AS sorted";
    let (found, output) = found_while(server, statement, |advice| {
        find(advice, "temporary-files", cause, "temporary files")
    });
    found.shown(&output, "orders")
}

fn provoke_dead_rows(server: &mut PostgresServer) -> Row {
    server.run("ALTER TABLE orders SET (autovacuum_enabled = off)");
    server.run("UPDATE orders SET note = 'y'");
    let url = server.url("postgres");
    let arguments = ["--postgres", &url, "--window", "300ms", "--pgbouncer", "0"];
    let cause = "`UPDATE` of 300,000 rows of a table with `autovacuum_enabled = off`";
    let found = find_in_time(&arguments, "dead-rows", cause, "autovacuum is off for it");
    found.change_in(server);
    found.healed_in_time(&arguments)
}

/// Keeps a transaction open, so that no vacuum makes the transaction IDs young again.
fn provoke_wraparound(server: &PostgresServer) -> Row {
    let mut open = server.client("postgres", "report");
    open.say("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()");
    server.run("CREATE TABLE ids (number int)");
    server.run(CONSUME);
    let url = server.url("postgres");
    let arguments = ["--postgres", &url, "--window", "300ms", "--pgbouncer", "0"];
    let cause = "210,000 transactions behind one that stays open, with `autovacuum_freeze_max_age = 100000`";
    let found = find_in_time(&arguments, "wraparound", cause, "transaction IDs of database");
    let output = found.run();
    found.shown(&output, "pg_")
}
