//! A PgBouncer that is asked what it is: by doctor, by plan, by a service that looks all the time.

use super::follow::{find_in_time, shell};
use super::observe::{metric_value, metrics, wait_for_value};
use super::page::show;
use super::pgbouncer::PgBouncer;
use super::postgres_server::{PostgresClient, PostgresServer};
use super::{code, json, run};
use crate::http::get;
use crate::process::{output_of, wait_until};
use crate::weir::{Site, program};

const SETTINGS: &str = "default_pool_size = 1\nstats_users = weir";
const STATEMENT: &str = "BEGIN; SELECT 1";

/// Starts PgBouncer with one connection for all clients of a user.
fn start_pooler() -> Option<(PostgresServer, PgBouncer)> {
    let server = PostgresServer::start(&["max_connections=40"])?;
    server.run("CREATE ROLE shop LOGIN");
    let pooler = PgBouncer::start(&server, SETTINGS)?;
    Some((server, pooler))
}

#[test]
fn problems_of_a_pooler_are_found_and_their_lines_work() {
    let Some((server, pooler)) = start_pooler() else { return };
    let (url, console, way_in) =
        (server.url("postgres"), pooler.console("weir"), pooler.url("shop"));
    let arguments = ["--window", "10ms", "--postgres", &url, "--pgbouncer-url", &console];
    let busy = PostgresClient::at_begun(&way_in, "puma", "SELECT pg_sleep(600)");
    wait_until("it has the connection", || pooler.active() == 1);
    let waiting = PostgresClient::at_begun(&way_in, "puma", "SELECT pg_sleep(600)");
    let cause = "two clients of a PgBouncer with `default_pool_size = 1`";
    let found = find_in_time(&arguments, "busy-pooler", cause, "its one connection is in use");
    pooler.reload(&format!("{SETTINGS}\n{}", found.line()));
    let mut rows = vec![found.healed_in_time(&arguments)];
    drop((busy, waiting));

    let own = |command: &str| {
        let admin = pooler.console("postgres");
        shell(&format!("psql -X -d {admin} -c '{command}'"), std::path::Path::new("/"), &[]);
    };
    // What is paused waits for the statements in progress.
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%sleep%' AND pid <> pg_backend_pid()");
    own("PAUSE postgres");
    let _waiting = PostgresClient::at_begun(&way_in, "puma", "SELECT 1");
    let cause = "`PAUSE` in the console of PgBouncer, and a client";
    let found = find_in_time(&arguments, "busy-pooler", cause, "is paused (PAUSE)");
    own(found.line());
    rows.push(found.healed_in_time(&arguments));
    show(&rows);
}

#[test]
fn connection_limit_is_read_from_the_pooler() {
    let Some((server, pooler)) = start_pooler() else { return };
    let _busy = PostgresClient::at(&pooler.url("shop"), "puma").unwrap();
    let (url, console) = (server.url("postgres"), pooler.console("weir"));
    let common = ["--window", "10ms", "--postgres", &url, "--pgbouncer-url", &console];
    let said = json(&common);
    assert_eq!(said["observation"]["pooler"]["connections"], 1, "{said}");

    let queue = ["--json", "--cores", "4", "--memory", "8GiB", "--queue", "push=2,0.5"];
    let plan = |more: &[&str]| {
        let output = output_of(program().arg("plan").args(common).args(queue).args(more));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|_| panic!("{output:?}"))
    };
    assert_eq!(plan(&[])["wanted"]["pooler_connections"], 1);
    assert_eq!(plan(&["--pgbouncer", "30"])["wanted"]["pooler_connections"], 30, "it wins");
    let contradiction = run(&[&common[..], &["--pgbouncer", "0"]].concat());
    assert_eq!(code(&contradiction), 64);
    assert!(String::from_utf8_lossy(&contradiction.stderr).contains("--pgbouncer 0 means"));
}

#[test]
fn plan_without_access_names_the_missing_option() {
    let Some((server, pooler)) = start_pooler() else { return };
    let console = pooler.console("shop");
    let arguments = ["--window", "10ms", "--queue", "push=2,0.5", "--pgbouncer-url", &console];
    let output = output_of(
        program().arg("plan").args(["--postgres", &server.url("postgres")]).args(arguments),
    );
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("not allowed") && error.contains("or give --pgbouncer"), "{error}");
}

#[test]
fn waiting_clients_are_shown_as_metrics_and_on_a_page() {
    let Some((server, pooler)) = start_pooler() else { return };
    let mut busy = PostgresClient::at(&pooler.url("shop"), "puma").unwrap();
    busy.say(STATEMENT);
    let mut waiting = PostgresClient::at_begun(&pooler.url("shop"), "puma", STATEMENT);
    let settings = format!(
        "[observe]\ninterval = \"1s\"\npgbouncer_url = \"{}\"\n[observe.postgres]\nurl = \"{}\"\n",
        pooler.console("weir"),
        server.url("postgres")
    );
    let weir = Site::new(&settings).start();
    let (console, waiting_clients) = (weir.console(), "pooler_clients{state=\"waiting\"}");
    wait_for_value(console, waiting_clients, 1.0);
    let name = format!("127.0.0.1:{}/pgbouncer", pooler.port);
    let is_up = format!("source_up{{source=\"pgbouncer\",name=\"{name}\"}}");
    let text = metrics(console);
    for series in ["pooler_connections{state=\"active\"}", "pooler_connections_max", &is_up] {
        assert_eq!(metric_value(&text, series), Some(1.0), "{series}: {text}");
    }
    wait_for_value(console, "rule_findings{rule=\"busy-pooler\",severity=\"warning\"}", 1.0);
    let (_, page) = get(console, "/postgres", "");
    assert!(page.contains("Pools of PgBouncer") && page.contains("postgres/shop"), "{page}");

    busy.say("COMMIT");
    waiting.say("COMMIT");
    wait_for_value(console, waiting_clients, 0.0);
    drop(pooler);
    wait_for_value(console, &is_up, 0.0);
    assert_eq!(
        metric_value(&metrics(console), waiting_clients),
        None,
        "what is not known has no value"
    );
    assert!(weir.stop().success());
}
