//! Cancelling jobs in progress.

use crate::faktory_server::{STORES, Server};
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
