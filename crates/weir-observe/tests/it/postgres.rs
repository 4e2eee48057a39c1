//! A real Postgres, stock, short of slots, without rights, over TLS.

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_advisor::observation::{DatabaseObservation, MissingReason, SessionState};
use weir_advisor::{Advice, Fact, Observation, Severity, advise};
use weir_observe::{PostgresEndpoint, PostgresLimits, PostgresSource, Sources, observe};
use weir_sidekiq::SampleLimits;

use crate::postgres_server::PostgresServer;

/// Samples before a test gives up: half a minute.
pub(crate) const SAMPLES_MAX: usize = 300;
const GIB: u64 = 1 << 30;

fn source(url: &str) -> PostgresSource {
    let endpoint = PostgresEndpoint::parse(url).unwrap();
    let limits = PostgresLimits::default();
    PostgresSource { endpoint, limits, memory_bytes: Some(GIB / 2) }
}

async fn sample_at(postgres: PostgresSource) -> (Observation, Advice) {
    let sources = Sources {
        redis: Vec::new(),
        limits: SampleLimits::default(),
        postgres: Some(postgres),
        services: Vec::new(),
        pooler: None,
        pgbouncer: None,
        pushed_queues: Vec::new(),
        window: Duration::from_millis(100),
        proc: Some(PathBuf::from("/proc")),
    };
    let observation = observe(&sources).await;
    let advice = advise(&observation);
    (observation, advice)
}

pub(crate) async fn sample(server: &PostgresServer, user: &str) -> (DatabaseObservation, Advice) {
    let (observation, advice) = sample_at(source(&server.url(user))).await;
    (observation.postgres.known().unwrap().clone(), advice)
}

pub(crate) fn rules(advice: &Advice) -> Vec<&str> {
    advice.findings.iter().map(|finding| &*finding.rule).collect()
}

/// What PgTune has for half a gigabyte.
pub(crate) const TUNED: [&str; 3] =
    ["shared_buffers=128MB", "effective_cache_size=384MB", "random_page_cost=1.1"];

#[tokio::test]
async fn a_tuned_one_gives_none_and_a_stock_one_is_said_to_be_so() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    let (postgres, advice) = sample(&server, "postgres").await;
    assert_eq!(advice.findings, []);
    let settings = postgres.settings.known().unwrap();
    assert_eq!((settings.max_connections, settings.superuser_reserved_connections), (100, 3));
    assert_eq!((settings.shared_buffers_bytes, settings.work_mem_bytes), (128 << 20, 4 << 20));

    let stock = PostgresSource { memory_bytes: Some(8 * GIB), ..source(&server.url("postgres")) };
    let (_, advice) = sample_at(stock).await;
    assert_eq!(rules(&advice), ["untuned-database", "untuned-database"]);
    let line = &advice.findings[0].line_change().unwrap().line;
    assert_eq!(line, "-c shared_buffers=2GB", "it was started with another value");

    let here = PostgresSource { memory_bytes: None, ..source(&server.url("postgres")) };
    let (observation, _) = sample_at(here).await;
    let host = observation.postgres.known().unwrap().host.known().copied();
    let machine = observation.machine.known().unwrap().memory_bytes;
    assert!(host.is_some_and(|host| host.memory_bytes <= machine), "{host:?}");
}

#[tokio::test]
async fn sessions_are_those_of_the_processes_that_hold_them() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    server.run("CREATE ROLE shop LOGIN");
    let _web = server.client("shop", "puma: cluster worker 0: 7 [shop]");
    let mut jobs = server.client("shop", "sidekiq 7.3.9 shop [1 of 5 busy]");
    jobs.say("BEGIN; SELECT 1");
    let (postgres, _) = sample(&server, "postgres").await;
    let connections = postgres.connections.known().unwrap();
    assert_eq!(connections.open(), 2, "{connections:?}");
    assert_eq!(connections.of("web", SessionState::Idle), 1, "{connections:?}");
    assert_eq!(connections.of("sidekiq", SessionState::IdleInTransaction), 1, "{connections:?}");
}

#[tokio::test]
async fn a_pooler_is_seen_by_the_sessions_that_it_holds() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    server.run("CREATE ROLE shop LOGIN");
    let _pool = [server.client("shop", "pgbouncer"), server.client("shop", "pgbouncer")];
    let (observation, _) = sample_at(source(&server.url("postgres"))).await;
    let pooler = observation.pooler.unwrap();
    assert_eq!((pooler.name.as_str(), pooler.connections), ("pgbouncer", None));
    assert_eq!(pooler.shown_by, "it holds 2 connections");
    let postgres = observation.postgres.known().unwrap();
    assert_eq!(postgres.other_port, None, "this address is its own");
    assert_eq!(postgres.clients.len(), 2, "{:?}", postgres.clients);
}

/// What comes to a port is passed on to another.
fn forward(to: u16) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let copy = |mut from: std::net::TcpStream, mut to: std::net::TcpStream| {
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            })
        };
        for near in listener.incoming().map_while(Result::ok) {
            let far = std::net::TcpStream::connect(("127.0.0.1", to)).unwrap();
            copy(near.try_clone().unwrap(), far.try_clone().unwrap());
            copy(far, near);
        }
    });
    port
}

#[tokio::test]
async fn an_address_that_is_not_the_databases_own_is_seen() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    server.run("CREATE ROLE shop LOGIN");
    let _web = server.client("shop", "puma: cluster worker 0: 7 [shop]");
    let through = forward(server.port);
    let url = format!("postgres://postgres@127.0.0.1:{through}/postgres");
    let (observation, _) = sample_at(source(&url)).await;
    let postgres = observation.postgres.known().unwrap();
    assert_eq!(postgres.other_port, Some(server.port));
    let shown = observation.pooler.unwrap().shown_by;
    assert_eq!(shown, format!("the configured address leads to its port {}", server.port));
    let connections = postgres.connections.known().unwrap();
    assert_eq!(connections.of("web", SessionState::Idle), 1, "{connections:?}");
}

#[tokio::test]
async fn the_line_to_change_is_the_one_that_takes_effect() {
    let Some(server) = PostgresServer::start(&["effective_cache_size=384MB"]) else { return };
    server.run("ALTER SYSTEM SET work_mem = '64MB'");
    server.run("ALTER SYSTEM SET shared_buffers = '1GB'");
    server.run("SELECT pg_reload_conf()");
    let origin = |postgres: &DatabaseObservation, name: &str| {
        let origin = postgres.origins.iter().find(|it| it.name == name).cloned();
        origin.map(|it| (it.source, it.file.unwrap_or_default()))
    };
    // The reload takes its time.
    let mut seen = None;
    for _ in 0..SAMPLES_MAX {
        let (postgres, advice) = sample(&server, "postgres").await;
        let altered = origin(&postgres, "work_mem");
        if altered.is_some_and(|(_, file)| file.ends_with("/postgresql.auto.conf"))
            && postgres.pending_restart == ["shared_buffers"]
        {
            seen = Some((postgres, advice));
            break;
        }
    }
    let (postgres, advice) = seen.unwrap();
    let started = origin(&postgres, "effective_cache_size").unwrap();
    assert_eq!(started, ("command line".to_owned(), String::new()));
    let line = |subject: &str| {
        let finding = advice.findings.iter().find(|it| it.subject == subject);
        finding.and_then(|it| it.line_change().cloned()).map(|it| it.line)
    };
    let work_mem = line("work_mem").unwrap();
    assert!(work_mem.starts_with("ALTER SYSTEM SET work_mem = '"), "{work_mem}");
    // As it says.
    for statement in work_mem.split_terminator(';') {
        server.run(statement);
    }
    let mended = |advice: &Advice| advice.findings.iter().all(|it| it.subject != "work_mem");
    let mut is_mended = false;
    for _ in 0..SAMPLES_MAX {
        is_mended = mended(&sample(&server, "postgres").await.1);
        if is_mended {
            break;
        }
    }
    assert!(is_mended);
}

/// What a finding says to change, done as it says.
pub(crate) fn obey(server: &PostgresServer, advice: &Advice, subject: &str) -> String {
    let finding = advice.findings.iter().find(|it| it.subject == subject);
    let finding = finding.unwrap_or_else(|| panic!("{subject}: {:?}", advice.findings));
    let line = finding.line_change().unwrap().line.clone();
    server.run(&line);
    line
}

#[tokio::test]
async fn what_a_role_or_a_database_has_instead_is_changed_there() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    server.run("CREATE ROLE shop LOGIN");
    server.run("ALTER ROLE shop SET work_mem = '1GB'");
    server.run("ALTER ROLE shop IN DATABASE postgres SET effective_cache_size = 1024");
    server.run("ALTER ROLE shop IN DATABASE template1 SET work_mem = '2GB'");
    server.run("ALTER DATABASE postgres SET work_mem = '900MB'");
    // It is defeated by what the database has.
    server.run("ALTER SYSTEM SET work_mem = '4MB'");
    server.run("SELECT pg_reload_conf()");
    let (_, advice) = sample(&server, "postgres").await;
    assert_eq!(rules(&advice), ["work-memory", "work-memory", "untuned-database"]);
    let line = obey(&server, &advice, "work_mem");
    assert!(line.starts_with(r#"ALTER DATABASE "postgres" SET work_mem = '"#), "{line}");
    let line = obey(&server, &advice, "work_mem of role shop");
    assert!(line.starts_with(r#"ALTER ROLE "shop" SET work_mem = '"#), "{line}");
    let line = obey(&server, &advice, "effective_cache_size of role shop in database postgres");
    let expected =
        r#"ALTER ROLE "shop" IN DATABASE "postgres" SET effective_cache_size = '384MB';"#;
    assert_eq!(line, expected);
    assert_eq!(sample(&server, "postgres").await.1.findings, []);
}

#[tokio::test]
async fn a_role_or_a_database_at_its_own_limit_is_told_with_the_line_that_ends_it() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    server.run("CREATE ROLE shop LOGIN; CREATE ROLE weir LOGIN; GRANT pg_monitor TO weir");
    server.run("ALTER ROLE shop CONNECTION LIMIT 2");
    let _web = [server.client("shop", "puma"), server.client("shop", "puma")];
    let (_, advice) = sample(&server, "weir").await;
    assert_eq!(rules(&advice), ["connection-limit"]);
    assert_eq!(obey(&server, &advice, "role shop"), r#"ALTER ROLE "shop" CONNECTION LIMIT 5;"#);
    assert_eq!(sample(&server, "weir").await.1.findings, []);

    server.run("ALTER DATABASE postgres CONNECTION LIMIT 2");
    let (_, advice) = sample(&server, "postgres").await;
    assert_eq!(rules(&advice), ["connection-limit"], "a superuser is let in");
    // Who is none is refused, as the application is.
    let (observation, advice) = sample_at(source(&server.url("weir"))).await;
    let missing = observation.postgres.missing().unwrap();
    assert_eq!(missing.obstacle, MissingReason::LimitReached, "{missing:?}");
    assert!(missing.reason.contains("(SQLSTATE 53300); held by web 2 (2 idle)"), "{missing:?}");
    assert_eq!(rules(&advice), ["connection-limit"]);
    let shown = r#"ALTER DATABASE "postgres" CONNECTION LIMIT NUMBER;"#;
    raise_limit(&server, &advice, &missing.what, shown, 5);
    assert_eq!(sample(&server, "weir").await.1.findings, []);

    server.run("ALTER ROLE weir CONNECTION LIMIT 0");
    let (observation, advice) = sample_at(source(&server.url("weir"))).await;
    let what = &observation.postgres.missing().unwrap().what;
    let shown = r#"ALTER ROLE "weir" CONNECTION LIMIT NUMBER;"#;
    raise_limit(&server, &advice, what, shown, 3);
    assert_eq!(sample(&server, "weir").await.1.findings, []);
}

/// Runs the command of a limit that rejected the observer, and its line with a number.
fn raise_limit(server: &PostgresServer, advice: &Advice, subject: &str, line: &str, number: u32) {
    let finding = advice.findings.iter().find(|it| it.subject == subject).unwrap();
    // The number is the operator's to choose: nothing that can be run as it is.
    assert_eq!(finding.line_change(), None);
    let (_, shown) = finding.consequence.rsplit_once("As a superuser: ").unwrap();
    assert_eq!(shown, line);
    let (_, statement) = finding.next_step().unwrap().split_once(" -c ").unwrap();
    server.run(statement.trim_matches('\''));
    server.run(&line.replace("NUMBER", &number.to_string()));
}

#[tokio::test]
async fn a_role_without_rights_gives_unknown_until_it_has_them() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    server.run("CREATE ROLE shop LOGIN; CREATE ROLE weir LOGIN");
    let _idle = server.client("shop", "puma");
    let (postgres, advice) = sample(&server, "weir").await;
    assert_eq!(postgres.connections.known().unwrap().in_state(SessionState::Hidden), 1);
    assert_eq!(rules(&advice), ["unseen"]);
    assert_eq!(advice.findings[0].severity, Severity::Unknown);
    let line = &advice.findings[0].line_change().unwrap().line;
    assert_eq!(line, r#"GRANT pg_monitor TO "weir";"#);

    server.run("GRANT pg_monitor TO weir");
    let (postgres, advice) = sample(&server, "weir").await;
    assert_eq!(postgres.connections.known().unwrap().in_state(SessionState::Idle), 1);
    assert_eq!(advice.findings, []);
}

#[tokio::test]
async fn the_last_slot_is_told_and_so_is_that_there_is_none() {
    let settings = ["max_connections=8", "superuser_reserved_connections=3"];
    let settings: Vec<_> = TUNED.into_iter().chain(settings).collect();
    let Some(server) = PostgresServer::start(&settings) else { return };
    server.run("CREATE ROLE shop LOGIN; CREATE ROLE weir LOGIN; GRANT pg_monitor TO weir");
    let web: Vec<_> = (0..4).map(|_| server.client("shop", "puma")).collect();
    let (_, advice) = sample(&server, "postgres").await;
    assert_eq!(rules(&advice), ["idle-connections"], "one is left");

    let _jobs = server.client("shop", "sidekiq");
    let (_, advice) = sample(&server, "postgres").await;
    assert_eq!(rules(&advice), ["connection-slots", "idle-connections"]);
    let evidence = &advice.findings[0].evidence;
    assert_eq!(evidence, "5 of 5 usable slots are taken: web 4 (4 idle), sidekiq 1 (1 idle)");

    let (observation, advice) = sample_at(source(&server.url("weir"))).await;
    let missing = observation.postgres.missing().unwrap();
    assert_eq!(missing.obstacle, MissingReason::SlotsExhausted);
    let held = "(SQLSTATE 53300); held by web 4 (4 idle), sidekiq 1 (1 idle)";
    assert!(missing.reason.ends_with(held), "{}", missing.reason);
    assert_eq!(rules(&advice), ["slots-exhausted"]);

    drop(web);
}

#[tokio::test]
async fn waits_for_a_row_are_known_without_the_states_of_sessions() {
    let settings: Vec<_> = TUNED.into_iter().chain(["track_activities=off"]).collect();
    let Some(server) = PostgresServer::start(&settings) else { return };
    server.run("CREATE TABLE accounts (id int)");
    server.run("INSERT INTO accounts VALUES (1)");
    let mut holder = server.client("postgres", "puma");
    holder.say("BEGIN; UPDATE accounts SET id = 2");
    let mut waiter = server.client("postgres", "sidekiq");
    waiter.begin("UPDATE accounts SET id = 3");
    let mut seen = None;
    for _ in 0..SAMPLES_MAX {
        let (postgres, advice) = sample(&server, "postgres").await;
        let waits = postgres.lock_waits.known().unwrap();
        if let Some(wait) = waits.iter().find(|wait| wait.waited >= Duration::from_secs(1)) {
            seen = Some((wait.clone(), advice));
            break;
        }
    }
    let (wait, advice) = seen.unwrap();
    assert!(wait.is_of_row);
    assert_eq!(wait.waiting_service, "sidekiq");
    let unseen = advice.findings.iter().find(|it| it.rule == "unseen").unwrap();
    assert!(unseen.evidence.contains("track_activities is off"), "{}", unseen.evidence);
}

#[tokio::test]
async fn who_waits_for_whom_and_what_waits_for_a_restart() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    server.run("CREATE TABLE accounts (id int)");
    server.run("ALTER SYSTEM SET max_connections = 300");
    server.run("SELECT pg_reload_conf()");
    let mut holder = server.client("postgres", "puma");
    holder.say("BEGIN; LOCK TABLE accounts");
    let mut waiter = server.client("postgres", "sidekiq");
    waiter.begin("SELECT count(*) FROM accounts");
    // The reload and the lock take their time.
    let mut seen = None;
    for _ in 0..SAMPLES_MAX {
        let (postgres, advice) = sample(&server, "postgres").await;
        let pending = postgres.pending_restart == ["max_connections"];
        if let ([wait], true) = (postgres.lock_waits.known().unwrap().as_slice(), pending) {
            assert_eq!(rules(&advice), ["pending-restart"], "the wait is short");
            seen = Some(wait.clone());
            break;
        }
    }
    let wait = seen.unwrap();
    assert_eq!((wait.waiting_service.as_str(), wait.blocking_service.as_str()), ("sidekiq", "web"));
    assert_eq!(wait.relation.as_deref(), Some("accounts"));
}

#[tokio::test]
async fn an_advisory_lock_of_a_session_without_a_transaction_is_told() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    let mut holder = server.client("postgres", "pgbouncer");
    holder.say("SELECT pg_advisory_lock(7)");
    let mut waiter = server.client("postgres", "sidekiq");
    waiter.begin("SELECT pg_advisory_lock(7)");
    for _ in 0..SAMPLES_MAX {
        let (mut observation, _) = sample_at(source(&server.url("postgres"))).await;
        let Fact::Known(postgres) = &mut observation.postgres else { panic!("{observation:?}") };
        let Fact::Known(waits) = &mut postgres.lock_waits else { panic!("{observation:?}") };
        let [wait] = waits.as_mut_slice() else { continue };
        assert!(wait.is_advisory && wait.relation.is_none(), "{wait:?}");
        wait.waited = Duration::from_secs(20);
        let findings = advise(&observation).findings;
        let finding = findings.iter().find(|it| it.rule == "lock-waits").unwrap();
        let expected = "1 session of sidekiq waits for its advisory lock, the longest for 20 s";
        assert!(finding.evidence.ends_with(expected), "{finding:?}");
        return;
    }
    panic!("the wait was not seen in {SAMPLES_MAX} samples");
}

#[tokio::test]
async fn of_a_chain_of_waits_the_one_at_its_end_is_told_with_what_it_does() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    server.run("CREATE TABLE accounts (id int); CREATE TABLE statuses (id int)");
    let mut holder = server.client("postgres", "puma");
    holder.say("BEGIN; LOCK TABLE accounts");
    let mut between = server.client("postgres", "sidekiq");
    between.say("BEGIN; LOCK TABLE statuses");
    between.begin("SELECT count(*) FROM accounts");
    let mut victim = server.client("postgres", "sidekiq");
    victim.begin("SELECT count(*) FROM statuses");
    for _ in 0..SAMPLES_MAX {
        let (mut observation, _) = sample_at(source(&server.url("postgres"))).await;
        let Fact::Known(postgres) = &mut observation.postgres else { panic!("{observation:?}") };
        let Fact::Known(waits) = &mut postgres.lock_waits else { panic!("{observation:?}") };
        if waits.len() < 2 {
            continue;
        }
        // The test takes the waiting away, not the waits.
        waits.iter_mut().for_each(|wait| wait.waited = Duration::from_secs(20));
        let findings = advise(&observation).findings;
        assert_eq!(findings.len(), 1, "{findings:?}");
        let evidence = &findings[0].evidence;
        // Within the first second no time is given.
        assert!(evidence.starts_with("a session of web, idle in transaction"), "{evidence}");
        let waiting = "2 sessions of sidekiq wait for its lock on accounts or behind sessions \
                       that do, the longest for 20 s";
        assert!(evidence.ends_with(waiting), "{evidence}");
        return;
    }
    panic!("the waits were not seen in {SAMPLES_MAX} samples");
}

#[tokio::test]
async fn every_statement_is_read_only_and_limited() {
    let Some(server) = PostgresServer::start(&["log_statement=all"]) else { return };
    sample(&server, "postgres").await;
    let log = server.end();
    let statements: Vec<_> =
        log.iter().filter_map(|line| Some(line.split_once("statement: ")?.1)).collect();
    assert!(statements.len() > 5, "{log:?}");
    let begin = "BEGIN READ ONLY; SET LOCAL statement_timeout = 5000; SET LOCAL lock_timeout = 1000; \
                 SELECT ";
    for statement in statements {
        assert!(statement.starts_with(begin) && statement.ends_with("; COMMIT"), "{statement}");
    }
}

#[tokio::test]
async fn a_view_that_is_refused_is_unknown_and_no_other() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    server.run("REVOKE SELECT ON pg_stat_database FROM public");
    server.run("CREATE ROLE weir LOGIN; GRANT pg_monitor TO weir");
    let (postgres, advice) = sample(&server, "weir").await;
    let missing = postgres.cache_hit_ratio.missing().unwrap();
    assert_eq!(missing.obstacle, MissingReason::NotAllowed, "{missing:?}");
    assert!(postgres.connections.known().is_some() && postgres.settings.known().is_some());
    assert_eq!(rules(&advice).iter().filter(|rule| **rule == "unseen").count(), 1);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_left_within_the_limit() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let mut postgres = source(&format!("postgres://weir@127.0.0.1:{port}/shop"));
    postgres.limits.connect_timeout = Duration::from_millis(200);
    let (observation, advice) = sample_at(postgres).await;
    let missing = observation.postgres.missing().unwrap();
    assert_eq!(missing.obstacle, MissingReason::Unreachable);
    assert!(missing.what.contains(&format!("127.0.0.1:{port}/shop")), "{missing:?}");
    assert_eq!(rules(&advice), ["unreachable"]);
}

/// A certificate for 127.0.0.1, signed by itself.
fn certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) =
        (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
    std::fs::write(&certificate, own.cert.pem()).unwrap();
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

#[tokio::test]
async fn a_certificate_is_verified() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    let (authority, key) = certificate(server.folder(), "server");
    let (stranger, _) = certificate(server.folder(), "stranger");
    let owner = std::fs::metadata(server.folder()).unwrap();
    let (uid, gid) =
        (std::os::unix::fs::MetadataExt::uid(&owner), std::os::unix::fs::MetadataExt::gid(&owner));
    std::os::unix::fs::chown(&key, Some(uid), Some(gid)).unwrap();
    let only_mine = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key, only_mine).unwrap();
    for (setting, file) in [("ssl_cert_file", &authority), ("ssl_key_file", &key)] {
        server.run(&format!("ALTER SYSTEM SET {setting} = '{}'", file.display()));
    }
    server.run("ALTER SYSTEM SET ssl = on");
    server.run("SELECT pg_reload_conf()");
    let url = format!("{}?sslmode=verify-full", server.url("postgres"));
    let with = |authority: &PathBuf| {
        let mut source = source(&url);
        source.endpoint.authority = Some(authority.clone());
        source
    };
    // The reload takes its time; until then TLS is refused.
    let mut seen = false;
    for _ in 0..SAMPLES_MAX {
        match sample_at(with(&authority)).await.0.postgres {
            Fact::Unknown(missing) => assert!(missing.reason.contains("TLS"), "{missing:?}"),
            _ => seen = true,
        }
        if seen {
            break;
        }
    }
    assert!(seen);
    let (observation, _) = sample_at(with(&stranger)).await;
    let missing = observation.postgres.missing().unwrap();
    assert!(missing.reason.contains("certificate"), "{}", missing.reason);
}
