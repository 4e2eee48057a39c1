//! What broke once, named by what broke.

use crate::faktory_server::{STORES, Server};

/// Ties in time are ordered by each store in its own way; a walk that compared jids stopped early.
#[test]
fn jobs_due_at_the_same_moment_are_all_killed() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.producer();
        let job = |nth: u32| {
            format!(
                r#"{{"jid":"same-at-{:03}","jobtype":"T","args":[],"at":"2099-01-01T00:00:00Z"}}"#,
                (nth * 37) % 100
            )
        };
        let jobs: Vec<String> = (0..100).map(job).collect();
        client.talk(&format!("> PUSHB [{}]\n< ${{}}", jobs.join(",")));
        client.talk(
            r#"> MUTATE {"cmd":"kill","target":"scheduled","filter":{"jobtype":"T"}}
< +OK"#,
        );
        let overview = server.block_on(server.handle().overview()).expect("a running server");
        assert_eq!((overview.scheduled, overview.dead), (0, 100), "{store:?}");
    }
}

/// A worker that was given up had its job delivered to another one, and its late ACK ended the other's
/// reservation.
#[test]
fn a_late_ack_leaves_the_job_of_the_next_worker() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let (mut late, mut next) = (server.worker("late"), server.worker("next"));
        let job = r#"{"jid":"job-00001","jobtype":"T","args":[]}"#;
        server.producer().talk(&format!("> PUSH {job}\n< +OK"));
        next.send(b"FETCH default\r\n");
        assert!(next.reply().contains("job-00001"));
        let working = || server.block_on(server.handle().overview()).expect("a server").working;
        late.talk("> ACK {\"jid\":\"job-00001\"}\n< +OK");
        late.send(b"FAIL {\"jid\":\"job-00001\"}\r\n");
        assert!(late.reply().contains("not found"), "{store:?}");
        assert_eq!(working(), 1, "{store:?}");
        next.talk("> ACK {\"jid\":\"job-00001\"}\n< +OK");
        assert_eq!(working(), 0, "{store:?}");
        let scrape = server.scrape();
        for verb in ["ACK", "FAIL"] {
            let line = format!("weir_jobs_stale_reports_total{{verb=\"{verb}\"}} 1");
            assert!(scrape.contains(&line), "{store:?}: {scrape}");
        }
    }
}
