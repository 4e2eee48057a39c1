//! Replication slots of a real Postgres.

use weir_advisor::Severity;
use weir_advisor::observation::SlotLimit;

use crate::postgres::{SAMPLES_MAX, TUNED, obey, rules, sample};
use crate::postgres_server::PostgresServer;

#[tokio::test]
async fn a_slot_that_nobody_uses_is_told_until_it_is_dropped() {
    let settings: Vec<_> = TUNED.into_iter().chain(["max_wal_size=32MB"]).collect();
    let Some(server) = PostgresServer::start(&settings) else { return };
    server.run("CREATE ROLE weir LOGIN; GRANT pg_monitor TO weir");
    server.run("SELECT pg_create_physical_replication_slot('standby', true)");
    server.run("SELECT pg_create_physical_replication_slot('new')");
    let (_, advice) = sample(&server, "weir").await;
    assert_eq!(advice.findings, [], "it holds little");

    let write = "SELECT repeat('x', 1000) FROM generate_series(1, 40000)";
    server.run(&format!("CREATE TABLE one AS {write}"));
    let (postgres, advice) = sample(&server, "weir").await;
    let replication = postgres.replication.known().unwrap();
    let names: Vec<_> = replication.slots.iter().map(|slot| slot.name.as_str()).collect();
    assert_eq!(names, ["standby", "new"], "those that hold back most first");
    assert_eq!((replication.wal_bytes_max, replication.limit), (32 << 20, SlotLimit::Unlimited));
    assert!(!replication.slots[0].active && replication.slots[0].held_bytes > 40 << 20);
    assert_eq!(rules(&advice), ["replication-slot"]);
    let finding = &advice.findings[0];
    assert_eq!(finding.severity, Severity::Warning);
    assert!(!finding.evidence.contains(" for 0 "), "before 17 nobody tells: {finding:?}");
    let line = &finding.line_change().unwrap().line;
    assert_eq!(line, "max_slot_wal_keep_size = '1GB'");

    // With less than is held, the next checkpoint breaks it.
    server.run("ALTER SYSTEM SET max_slot_wal_keep_size = '16MB'");
    server.run("SELECT pg_reload_conf()");
    let mut lost = None;
    for _ in 0..SAMPLES_MAX {
        server.run("CHECKPOINT");
        let (_, advice) = sample(&server, "weir").await;
        if advice.findings[0].evidence.ends_with("(wal_status is lost)") {
            lost = Some(advice);
            break;
        }
    }
    let finding = lost.unwrap().findings.remove(0);
    assert_eq!((&*finding.rule, finding.severity), ("replication-slot", Severity::Critical));
    // As it says.
    let next = finding.next_step().unwrap().to_owned();
    let statement = next.split('"').nth(1).unwrap();
    assert_eq!(statement, "SELECT pg_drop_replication_slot('standby')", "{next}");
    server.run(statement);
    assert_eq!(sample(&server, "weir").await.1.findings, []);
}

#[tokio::test]
async fn a_replica_goes_by_what_it_has_received() {
    let settings = TUNED.join("\n");
    let Some(mut server) = PostgresServer::start_including(&[], &settings) else { return };
    server.run("SELECT pg_create_physical_replication_slot('cascaded', true)");
    server.run("CREATE TABLE one AS SELECT repeat('x', 1000) FROM generate_series(1, 9000)");
    std::fs::write(server.folder().join("data/standby.signal"), "").unwrap();
    server.restart_including(&settings);
    let (postgres, advice) = sample(&server, "postgres").await;
    let slot = &postgres.replication.known().unwrap().slots[0];
    assert!(slot.name == "cascaded" && slot.held_bytes > 8 << 20, "{slot:?}");
    let found: Vec<_> = advice.findings.iter().map(|it| (&*it.rule, it.severity)).collect();
    assert_eq!(found, [("read-only-database", Severity::Notice)]);
}

#[tokio::test]
async fn slots_that_may_not_be_seen_are_unknown_with_the_grant_that_shows_them() {
    let Some(server) = PostgresServer::start(&TUNED) else { return };
    server.run("CREATE ROLE weir LOGIN; GRANT pg_monitor TO weir");
    server.run("REVOKE SELECT ON pg_replication_slots FROM PUBLIC");
    let (_, advice) = sample(&server, "weir").await;
    assert_eq!(rules(&advice), ["unseen"]);
    assert_eq!(
        obey(&server, &advice, "replication slots"),
        "GRANT SELECT ON pg_replication_slots TO \"weir\";"
    );
    assert_eq!(sample(&server, "weir").await.1.findings, []);
}
