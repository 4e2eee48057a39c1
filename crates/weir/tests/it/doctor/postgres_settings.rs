//! Settings of a Postgres that are wrong, wherever they were set, and what its users may see.

use super::follow::{Found, find, find_in_time};
use super::json;
use super::page::{Row, show};
use super::postgres_server::PostgresServer;

/// A problem: how it is caused, in SQL or as a line of the included file, and how it is found.
struct Setting {
    rule: &'static str,
    cause: &'static str,
    names: &'static str,
    provoke: Provoke,
}

enum Provoke {
    Statement(&'static str),
    Line(&'static str),
    CommandLine(&'static str),
    /// It is wrong as it is shipped.
    Shipped,
}

const fn setting(
    rule: &'static str,
    cause: &'static str,
    names: &'static str,
    provoke: Provoke,
) -> Setting {
    Setting { rule, cause, names, provoke }
}

/// Each is mended before the next one is caused.
const SETTINGS: [Setting; 12] = [
    setting(
        "untuned-database",
        "a server as it is shipped, and 8 GB for it",
        "128 MB is",
        Provoke::Shipped,
    ),
    setting(
        "untuned-database",
        "`-c shared_buffers=1MB` on the command line, and 8 GB for it",
        "1 MB is",
        Provoke::CommandLine("shared_buffers=1MB"),
    ),
    setting(
        "untuned-database",
        "`ALTER SYSTEM SET effective_cache_size = '64MB'`",
        "effective_cache_size",
        Provoke::Statement("ALTER SYSTEM SET effective_cache_size = '64MB'"),
    ),
    setting(
        "work-memory",
        "`work_mem = 1GB` in a file that `postgresql.conf` includes",
        "1 GB for each of 20 sessions",
        Provoke::Line("work_mem = 1GB"),
    ),
    setting(
        "work-memory",
        "`ALTER SYSTEM SET work_mem = '1GB'`",
        "1 GB for each of 20 sessions",
        Provoke::Statement("ALTER SYSTEM SET work_mem = '1GB'"),
    ),
    setting(
        "work-memory",
        "`ALTER ROLE shop SET work_mem = '1GB'`",
        "work_mem of role shop",
        Provoke::Statement("ALTER ROLE shop SET work_mem = '1GB'"),
    ),
    setting(
        "work-memory",
        "`ALTER DATABASE postgres SET work_mem = '1GB'`",
        "1 GB for each of 20 sessions",
        Provoke::Statement("ALTER DATABASE postgres SET work_mem = '1GB'"),
    ),
    setting(
        "read-only-database",
        "`ALTER SYSTEM SET default_transaction_read_only = on`",
        "default_transaction_read_only is on",
        Provoke::Statement("ALTER SYSTEM SET default_transaction_read_only = on"),
    ),
    setting(
        "read-only-database",
        "`ALTER DATABASE postgres SET default_transaction_read_only = on`",
        "default_transaction_read_only is on",
        Provoke::Statement("ALTER DATABASE postgres SET default_transaction_read_only = on"),
    ),
    setting(
        "read-only-database",
        "`default_transaction_read_only = on` in a file that `postgresql.conf` includes",
        "default_transaction_read_only is on",
        Provoke::Line("default_transaction_read_only = on"),
    ),
    setting(
        "unseen",
        "`track_activities = off`, and a session of the web",
        "track_activities is off",
        Provoke::Line("track_activities = off"),
    ),
    setting(
        "pending-restart",
        "`ALTER SYSTEM SET max_locks_per_transaction`, and a reload",
        "max_locks_per_transaction was changed",
        Provoke::Statement("ALTER SYSTEM SET max_locks_per_transaction = 128"),
    ),
];

#[test]
fn problems_of_postgres_settings_are_found_and_their_lines_work() {
    let file = "max_connections = 20\nlisten_addresses = '127.0.0.1'\n";
    let Some(mut server) = PostgresServer::start_including(&[], file) else { return };
    server.run("CREATE ROLE shop LOGIN");
    let mut rows: Vec<Row> = SETTINGS.iter().map(|it| provoke(it, &mut server)).collect();
    // A value that was reset waits for it.
    server.restart_with(&[]);
    rows.push(provoke_new_limit(&server));
    rows.extend(provoke_permissions(&mut server));
    show(&rows);
}

fn arguments(url: &str) -> [&str; 8] {
    ["--postgres", url, "--postgres-memory", "8GiB", "--window", "10ms", "--pgbouncer", "0"]
}

fn provoke(setting: &Setting, server: &mut PostgresServer) -> Row {
    let included = server.folder().join("included.conf").display().to_string();
    match setting.provoke {
        Provoke::Statement(statement) => server.run(statement),
        Provoke::Line(line) => server.append(&included, line),
        Provoke::CommandLine(option) => server.restart_with(&[option]),
        Provoke::Shipped => {}
    }
    server.run("SELECT pg_reload_conf()");
    let web = server.client("shop", "puma");
    let url = server.url("postgres");
    let found = find_in_time(&arguments(&url), setting.rule, setting.cause, setting.names);
    // Its state stays unknown until its next statement.
    drop(web);
    let row = follow(found, server);
    // The values that were right would override what the next problem sets.
    for holder in ["SYSTEM", "DATABASE postgres", "ROLE shop"] {
        server.run(&format!("ALTER {holder} RESET ALL"));
    }
    row
}

/// Makes the change; a restart is the action where none is to be made.
fn follow(found: Found, server: &mut PostgresServer) -> Row {
    match found.has_line() {
        true => found.change_in(server),
        false => server.restart_with(&[]),
    }
    let url = server.url("postgres");
    let _web = server.client("shop", "puma");
    found.healed_in_time(&arguments(&url))
}

/// Changes the number of connections, which doctor can't read before a restart.
fn provoke_new_limit(server: &PostgresServer) -> Row {
    server.run("ALTER SYSTEM SET max_connections = 12");
    server.run("SELECT pg_reload_conf()");
    let url = server.url("postgres");
    let cause = "`ALTER SYSTEM SET max_connections`, and a reload";
    let found = find_in_time(&arguments(&url), "pending-restart", cause, "max_connections was");
    let output = found.run();
    server.run("ALTER SYSTEM RESET max_connections");
    server.run("SELECT pg_reload_conf()");
    found.shown(&output, "12")
}

/// Provokes a role that does not exist, that may not connect, and that may not see others.
fn provoke_permissions(server: &mut PostgresServer) -> Vec<Row> {
    let _web = server.client("shop", "puma");
    let mut all = Vec::new();
    for (statement, user, rule, cause, names) in [
        (
            "SELECT 1",
            "newcomer",
            "unreachable",
            "`--postgres postgres://weir@..`, a role that does not exist",
            "does not exist",
        ),
        (
            "REVOKE CONNECT ON DATABASE postgres FROM PUBLIC; CREATE ROLE guest LOGIN",
            "guest",
            "unreachable",
            "`REVOKE CONNECT ON DATABASE`",
            "permission denied",
        ),
        (
            "GRANT CONNECT ON DATABASE postgres TO PUBLIC; CREATE ROLE watcher LOGIN",
            "watcher",
            "unseen",
            "a role without `pg_monitor`",
            "are hidden",
        ),
    ] {
        server.paste(&format!("{statement};"));
        let url = server.url(user);
        let found = find(&json(&arguments(&url)), rule, cause, names);
        found.change_in(server);
        all.push(found.healed(&json(&arguments(&url))));
    }
    all
}
