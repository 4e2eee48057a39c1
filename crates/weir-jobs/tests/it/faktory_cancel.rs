//! Cancelling jobs in progress.

use std::time::Duration;

use crate::faktory_server::{STORES, Server, until};
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::handle::CancelQuery;
use weir_jobs::view::CancelView;

fn cancel(server: &Server, jids: &[&str], jobtype: Option<&str>) -> CancelView {
    let jids = jids.iter().map(|jid| (*jid).to_owned()).collect();
    let query = CancelQuery { jids, jobtype: jobtype.map(str::to_owned) };
    server.block_on(server.handle().cancel(query)).unwrap()
}

fn push(server: &Server, jid: &str, jobtype: &str) {
    let job = r#"{"jid":"JID","jobtype":"TYPE","args":[]}"#.replace("JID", jid);
    server.producer().talk(&format!("> PUSH {}\n< +OK", job.replace("TYPE", jobtype)));
}

fn dead(server: &Server) -> u64 {
    server.block_on(server.handle().overview()).unwrap().dead
}

#[test]
fn only_a_worker_that_understands_it_is_notified() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut stock = server.worker("stock");
        let mut able = server.dial();
        able.talk(
            r#"< +HI {"v":2}
            > HELLO {"v":2,"wid":"able","hostname":"h","pid":8,"weir":{"cancel":true}}
            < +OK"#,
        );
        push(&server, "stock-001", "Slow");
        stock.talk("> FETCH default\n< $*stock-001*");
        for jid in ["able-0001", "able-0002"] {
            push(&server, jid, "Slow");
            able.talk(&format!("> FETCH default\n< $*{jid}*"));
        }
        let cancelled = cancel(&server, &["able-0002", "stock-001", "nowhere-1"], None);
        let notified: Vec<_> =
            cancelled.jobs.iter().map(|job| (&*job.jid, job.is_notified)).collect();
        assert_eq!(notified, [("stock-001", false), ("able-0002", true)], "oldest first");
        assert_eq!(cancelled.jobs[0].worker.as_deref(), Some("h pid 7"));
        assert_eq!(cancelled.not_in_progress, ["nowhere-1"]);
        stock.talk(
            r#"> BEAT {"wid":"stock"}
            < +OK"#,
        );
        able.talk(
            r#"> BEAT {"wid":"able"}
            < ${"cancel":["able-0002"]}
            > BEAT {"wid":"able","current_state":"quiet"}
            < ${"state":"quiet","cancel":["able-0002"]}
            > FAIL {"jid":"able-0002","errtype":"Cancelled","message":"by an operator"}
            < +OK
            > BEAT {"wid":"able"}
            < ${"state":"quiet"}"#,
        );
        assert_eq!(dead(&server), 1, "it is not retried");
        stock.talk(
            r#"> FAIL {"jid":"stock-001","errtype":"E","message":"m"}
            < +OK"#,
        );
        assert_eq!(dead(&server), 2, "nor is that of a worker that was not notified");
        able.talk(
            r#"> FAIL {"jid":"able-0001","errtype":"E","message":"m"}
            < +OK"#,
        );
        assert_eq!(dead(&server), 2, "it was not cancelled");
    }
}

#[test]
fn a_mark_ends_with_its_job() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut worker = server.worker("w1");
        push(&server, "again-001", "Slow");
        worker.talk("> FETCH default\n< $*again-001*");
        assert_eq!(cancel(&server, &[], Some("Quick")).jobs.len(), 0);
        assert_eq!(cancel(&server, &[], Some("Slow")).jobs.len(), 1);
        worker.talk(
            r#"> ACK {"jid":"again-001"}
            < +OK"#,
        );
        push(&server, "again-001", "Slow");
        worker.talk("> FETCH default\n< $*again-001*");
        worker.talk(
            r#"> FAIL {"jid":"again-001","errtype":"E","message":"m"}
            < +OK"#,
        );
        assert_eq!(dead(&server), 0, "the mark was about the job before");
        let neither = server.block_on(server.handle().cancel(CancelQuery::default()));
        assert!(neither.is_err());
    }
}

#[test]
fn a_job_that_extends_its_reservation_is_still_cancelled() {
    for store in STORES {
        let clock = Clock::manual(Timestamp::from_millis(1_795_202_902_500));
        let server = Server::start_with(store, None, clock.clone(), |_| {});
        let mut worker = server.dial();
        worker.talk(
            r#"< +HI {"v":2}
            > HELLO {"v":2,"wid":"able","hostname":"h","pid":8,"weir":{"cancel":true}}
            < +OK"#,
        );
        let job = r#"{"jid":"slow-0001","jobtype":"Slow","args":[],"reserve_for":60}"#;
        server.producer().talk(&format!("> PUSH {job}\n< +OK"));
        worker.talk("> FETCH default\n< $*slow-0001*");
        cancel(&server, &["slow-0001"], None);
        worker.talk(
            r#"> TRACK SET {"jid":"slow-0001","reserve_until":"2999-01-01T00:00:00Z"}
            < +OK"#,
        );
        clock.advance(Duration::from_secs(50));
        // So that the worker is not given up.
        worker.talk("> BEAT {\"wid\":\"able\"}\n< ${\"cancel\":[\"slow-0001\"]}");
        clock.advance(Duration::from_secs(20));
        worker.talk(
            r#"> BEAT {"wid":"able"}
            < ${"cancel":["slow-0001"]}
            > FAIL {"jid":"slow-0001","errtype":"Cancelled","message":"by an operator"}
            < +OK"#,
        );
        assert_eq!(dead(&server), 1, "it is not retried");
    }
}

#[test]
fn the_next_process_of_a_worker_may_run_the_job() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        push(&server, "slow-0001", "Slow");
        for pid in [8, 9] {
            let mut worker = server.dial();
            let hello = format!(
                r#"> HELLO {{"v":2,"wid":"able","hostname":"h","pid":{pid},"weir":{{"cancel":true}}}}"#
            );
            worker.talk(&format!("< +HI {{\"v\":2}}\n{hello}\n< +OK"));
            until("the job is free", || {
                worker.send(b"FETCH default\n");
                worker.reply().contains("slow-0001")
            });
            if pid == 8 {
                cancel(&server, &["slow-0001"], None);
                continue;
            }
            worker.talk(
                r#"> BEAT {"wid":"able"}
                < +OK
                > FAIL {"jid":"slow-0001","errtype":"E","message":"m"}
                < +OK"#,
            );
        }
        assert_eq!(dead(&server), 0, "that process was not asked to end it");
    }
}
