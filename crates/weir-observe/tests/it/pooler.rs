//! A real PgBouncer in transaction mode: what doctor sees of it, and whether the lines that it prints end what
//! they are about.

use std::path::PathBuf;
use std::time::Duration;

use weir_advisor::observation::{ConnectionPools, SessionState};
use weir_advisor::{Advice, Finding, Observation, advise};
use weir_observe::{
    PgBouncerSource, PostgresEndpoint, PostgresLimits, PostgresSource, Sources, observe,
    pgbouncer_endpoint,
};
use weir_sidekiq::SampleLimits;

use crate::pgbouncer::PgBouncer;
use crate::postgres_server::{PostgresClient, PostgresServer};

/// Samples before a test gives up: half a minute.
const SAMPLES_MAX: usize = 300;
const STATEMENT: &str = "BEGIN; SELECT 1";

fn server() -> Option<PostgresServer> {
    let settings = ["max_connections=20", "shared_buffers=128MB", "effective_cache_size=384MB"];
    let server = PostgresServer::start(&settings)?;
    server.run("CREATE ROLE shop LOGIN");
    Some(server)
}

async fn sample(url: &str, opens: Option<u32>) -> (Observation, Advice) {
    sample_both(url, opens, None).await
}

/// `console`: PgBouncer's own database.
async fn sample_both(
    url: &str,
    opens: Option<u32>,
    console: Option<&str>,
) -> (Observation, Advice) {
    let limits = PostgresLimits {
        statement_timeout: Duration::from_millis(500),
        ..PostgresLimits::default()
    };
    let endpoint = PostgresEndpoint::parse(url).unwrap();
    let web = ConnectionPools {
        name: "web".to_owned(),
        processes: 10,
        pool: 10,
        set_by: "DB_POOL=".to_owned(),
        threads: None,
    };
    let sources = Sources {
        redis: Vec::new(),
        limits: SampleLimits::default(),
        postgres: Some(PostgresSource { endpoint, limits, memory_bytes: Some(1 << 29) }),
        services: vec![web],
        pooler: opens,
        pgbouncer: console.map(|url| asked(url, limits)),
        pushed_queues: Vec::new(),
        window: Duration::from_millis(10),
        proc: Some(PathBuf::from("/proc")),
    };
    let observation = observe(&sources).await;
    let advice = advise(&observation);
    (observation, advice)
}

fn asked(console: &str, limits: PostgresLimits) -> PgBouncerSource {
    PgBouncerSource { endpoint: pgbouncer_endpoint(console).unwrap(), limits }
}

async fn sample_until(url: &str, opens: u32, is_there: impl Fn(&Advice) -> bool) -> Advice {
    for _ in 0..SAMPLES_MAX {
        let (_, advice) = sample(url, Some(opens)).await;
        if is_there(&advice) {
            return advice;
        }
    }
    panic!("it was not seen in {SAMPLES_MAX} samples");
}

fn of<'a>(advice: &'a Advice, rule: &str) -> Option<&'a Finding> {
    advice.findings.iter().find(|finding| finding.rule == rule)
}

fn line(advice: &Advice, rule: &str) -> String {
    let finding = of(advice, rule).unwrap_or_else(|| panic!("{rule}: {:?}", advice.findings));
    finding.line_change().unwrap().line.clone()
}

/// Clients of the pooler with a transaction open: each has a connection to itself.
fn busy(pooler: &PgBouncer, count: usize) -> Vec<PostgresClient> {
    let client = |_| {
        let mut client = PostgresClient::at(&pooler.url("shop"), "puma").unwrap();
        client.say(STATEMENT);
        client
    };
    (0..count).map(client).collect()
}

/// Until so many clients wait.
fn wait_for(pooler: &PgBouncer, clients: u64) {
    let are_waiting = (0..SAMPLES_MAX).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        pooler.waiting() == clients
    });
    assert!(are_waiting, "{} wait", pooler.waiting());
}

#[tokio::test]
async fn what_it_may_open_is_brought_below_what_the_database_has() {
    let Some(server) = server() else { return };
    let Some(pooler) = PgBouncer::start(&server, "default_pool_size = 18") else { return };
    let _busy = busy(&pooler, 2);
    // Whichever way doctor comes, it sees one.
    let (observation, advice) = sample(&pooler.url("postgres"), None).await;
    let seen = observation.pooler.clone().unwrap();
    assert_eq!(seen.name, "pgbouncer");
    let evidence = &of(&advice, "over-commit").unwrap().evidence;
    assert!(evidence.contains("and pgbouncer is in between"), "{evidence}");
    let (observation, _) = sample(&server.url("postgres"), None).await;
    let held = |observation: &Observation| {
        let connections = observation.postgres.known().unwrap().connections.known().unwrap();
        connections.of("pgbouncer", SessionState::IdleInTransaction)
    };
    assert_eq!(held(&observation), 2, "{observation:?}");
    assert!(observation.pooler.unwrap().shown_by.starts_with("it holds "));

    let (_, advice) = sample(&server.url("postgres"), Some(18)).await;
    let line = line(&advice, "over-commit");
    assert_eq!(line, "max_db_connections = 17");
    pooler.reload(&format!("default_pool_size = 18\n{line}"));
    let (_, advice) = sample(&server.url("postgres"), Some(17)).await;
    assert_eq!(of(&advice, "over-commit"), None);
    // As it says: the eighteenth waits at the pooler, and the database refuses nobody.
    let _more = busy(&pooler, 15);
    let mut last = PostgresClient::at_begun(&pooler.url("shop"), "puma", STATEMENT);
    wait_for(&pooler, 1);
    let (observation, _) = sample(&server.url("postgres"), Some(17)).await;
    assert_eq!(held(&observation), 17);
    drop(_busy);
    last.say("COMMIT");
}

#[tokio::test]
async fn one_that_takes_no_more_clients_is_told_with_what_to_raise() {
    let Some(server) = server() else { return };
    let Some(pooler) = PgBouncer::start(&server, "max_client_conn = 1") else { return };
    let client = PostgresClient::at(&pooler.url("shop"), "puma").unwrap();
    let (_, advice) = sample(&pooler.url("shop"), Some(20)).await;
    let finding = of(&advice, "unreachable").unwrap();
    assert!(finding.evidence.contains("no more connections allowed"), "{finding:?}");
    let next = finding.next_step().unwrap();
    assert!(next.starts_with("raise max_client_conn in PgBouncer's settings"), "{next}");
    drop(client);
}

#[tokio::test]
async fn one_whose_connections_are_all_busy_is_told_and_a_larger_pool_ends_it() {
    let Some(server) = server() else { return };
    let Some(pooler) = PgBouncer::start(&server, "default_pool_size = 2") else { return };
    let _busy = busy(&pooler, 2);
    let mut waiting = PostgresClient::at_begun(&pooler.url("shop"), "puma", STATEMENT);
    let is_told = |advice: &Advice| of(advice, "busy-pooler").is_some();
    let seen = sample_until(&server.url("postgres"), 2, is_told).await;
    let finding = of(&seen, "busy-pooler").unwrap();
    let expected = "all 2 connections that it may open are busy: 0 run a statement, 2 are idle in \
                    a transaction";
    assert_eq!((finding.subject.as_str(), finding.evidence.as_str()), ("pgbouncer", expected));
    wait_for(&pooler, 1);

    // Who comes the same way waits as well: that is said once, and at once.
    let (observation, advice) = sample(&pooler.url("shop"), Some(2)).await;
    let rules: Vec<_> = advice.findings.iter().map(|finding| &*finding.rule).collect();
    assert_eq!(rules, ["unreachable"], "{:?}", advice.findings);
    let missing = observation.postgres.missing().unwrap();
    assert!(missing.reason.starts_with("it accepts clients but sends no response"), "{missing:?}");
    assert!(missing.remedy.as_ref().unwrap().contains("SHOW POOLS"), "{missing:?}");

    let finding = of(&seen, "busy-pooler").unwrap();
    assert_eq!(finding.line_change(), None, "open transactions hold them");
    assert!(finding.consequence.starts_with("The application holds them"), "{finding:?}");
    pooler.reload("default_pool_size = 4");
    waiting.say("COMMIT");
    assert_eq!(pooler.waiting(), 0);
    let (_, advice) = sample(&server.url("postgres"), Some(4)).await;
    assert_eq!(of(&advice, "busy-pooler"), None);
    assert!(sample(&pooler.url("shop"), Some(4)).await.0.postgres.known().is_some());
}

/// For what a pool may have, and who may ask.
fn pool_of(size: u32) -> String {
    format!("default_pool_size = {size}\nstats_users = weir")
}

#[tokio::test]
async fn who_waits_at_it_it_says_itself_and_a_larger_pool_ends_that() {
    let Some(server) = server() else { return };
    let Some(pooler) = PgBouncer::start(&server, &pool_of(2)) else { return };
    let (url, console) = (server.url("postgres"), pooler.console("weir"));
    let _busy = busy(&pooler, 2);
    let (observation, advice) = sample_both(&url, None, Some(&console)).await;
    assert_eq!(of(&advice, "busy-pooler"), None, "nobody waits, however busy all are");
    assert_eq!(observation.pooler.unwrap().connections, Some(2), "it says so itself");

    let client = |_| PostgresClient::at_begun(&pooler.url("shop"), "puma", STATEMENT);
    let mut waiting: Vec<_> = (0..2).map(client).collect();
    wait_for(&pooler, 2);
    let mut told = None;
    for _ in 0..SAMPLES_MAX {
        let (_, advice) = sample_both(&url, None, Some(&console)).await;
        told = of(&advice, "busy-pooler").cloned();
        if told.is_some() {
            break;
        }
    }
    let told = told.unwrap();
    let Finding { subject, evidence, consequence, .. } = &told;
    assert_eq!(subject, "pool postgres/shop of pgbouncer");
    assert!(
        evidence.starts_with("2 clients wait for a connection, the longest for "),
        "{evidence}"
    );
    let why = ": 2 of its 2 connections are in use, of at most 2; 2 of 2 busy sessions in Postgres \
               are idle in a transaction";
    assert!(evidence.ends_with(why), "{evidence}");
    assert!(consequence.contains("for 2 min are rejected"), "{consequence}");

    // Who looks through it waits as well, and is told why all the same.
    let (_, advice) = sample_both(&pooler.url("shop"), None, Some(&console)).await;
    let rules: Vec<_> = advice.findings.iter().map(|finding| &*finding.rule).collect();
    assert_eq!(rules, ["unreachable", "busy-pooler"], "{:?}", advice.findings);

    assert_eq!(told.line_change(), None, "open transactions hold them");
    pooler.reload(&pool_of(4));
    waiting.iter_mut().for_each(|client| client.say("COMMIT"));
    let (observation, advice) = sample_both(&url, None, Some(&console)).await;
    assert_eq!(of(&advice, "busy-pooler"), None);
    assert_eq!(observation.pooler.unwrap().connections, Some(4));
}

#[tokio::test]
async fn who_may_not_ask_it_is_told_the_line() {
    let Some(server) = server() else { return };
    let Some(pooler) = PgBouncer::start(&server, "") else { return };
    let (_, advice) =
        sample_both(&server.url("postgres"), None, Some(&pooler.console("shop"))).await;
    let line = line(&advice, "unreachable");
    assert!(line.starts_with("stats_users = shop in pgbouncer.ini"), "{line}");
    pooler.reload("stats_users = shop");
    let (observation, advice) =
        sample_both(&server.url("postgres"), None, Some(&pooler.console("shop"))).await;
    assert_eq!(of(&advice, "unreachable"), None);
    let seen = observation.pgbouncer.known().unwrap();
    assert_eq!((seen.pools.len(), observation.pooler.unwrap().connections), (0, None));

    let (_, advice) =
        sample_both(&server.url("postgres"), None, Some(&pooler.console("nobody"))).await;
    let finding = of(&advice, "unreachable").unwrap();
    let next = finding.next_step().unwrap_or_default();
    assert!(next.contains("nobody must be in PgBouncer's auth_file"), "{finding:?}");
}
