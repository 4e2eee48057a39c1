//! Shared resources, as Faktory clients and operators see them: with the timers of the stores.

use std::time::Duration;

use weir_jobs::settings::{JobServerSettings, ResourceSettings};
use weir_jobs::view::QueueView;

use crate::faktory_server::{STORES, Server, until};

/// A FETCH that is not woken waits longer than a test.
const FETCH_WAIT: Duration = Duration::from_secs(3_600);

fn rules(settings: &mut JobServerSettings) {
    settings.limits.fetch_wait = FETCH_WAIT;
    let (types, queues) = (vec!["Pay".to_owned()], vec!["exports".to_owned()]);
    let payments =
        ResourceSettings { concurrency: Some(1), types, queues, ..ResourceSettings::default() };
    settings.resources.insert("payments".to_owned(), payments);
    let rate = Some("10/s burst 1".parse().expect("a rate"));
    let types = vec!["Call".to_owned()];
    let api = ResourceSettings { rate, types, ..ResourceSettings::default() };
    settings.resources.insert("api".to_owned(), api);
}

fn job(jid: &str, jobtype: &str, queue: &str) -> String {
    format!(r#"{{"jid":"{jid}","jobtype":"{jobtype}","queue":"{queue}","args":[]}}"#)
}

#[test]
fn a_fetch_is_served_when_a_job_of_another_queue_leaves_the_resource() {
    for store in STORES {
        let server = Server::start(store, rules);
        let (mut first, mut second) = (server.worker("w1"), server.worker("w2"));
        let jobs = [
            job("paid-0001", "Pay", "shop"),
            job("paid-0002", "Pay", "shop"),
            job("export-01", "Report", "exports"),
            job("mail-0001", "Mail", "shop"),
        ];
        first.talk(&format!("> PUSHB [{}]\n< ${{}}", jobs.join(",")));
        first.talk("> FETCH shop\n< $*paid-0001*\n> FETCH shop\n< $*mail-0001*");
        let metrics = [
            "resource_working{resource=\"payments\"} 1",
            "resource_concurrency{resource=\"payments\"} 1",
            "resource_blocked{resource=\"payments\"} 2",
            "queue_resource_blocked{queue=\"exports\"} 1",
            "queue_blocked{queue=\"shop\"} 1",
        ];
        for line in metrics {
            until(line, || server.scrape().contains(&format!("weir_jobs_{line}\n")));
        }
        let queues = server.block_on(server.handle().queues()).expect("queues");
        let queue =
            |name: &str| queues.iter().find(|queue| queue.name == name).expect("it is there");
        let QueueView { blocked, blocked_by, resources, .. } = queue("shop");
        assert_eq!((*blocked, blocked_by.resource), (1, 1));
        let payments = &resources[0];
        assert_eq!((payments.name.as_str(), payments.used, payments.blocked), ("payments", 1, 1));
        assert_eq!((payments.concurrency, resources.len()), (Some(1), 1));
        second.send(b"FETCH exports\n");
        until("the FETCH waits", || server.scrape().contains("weir_jobs_fetches_waiting 1\n"));
        first.talk("> ACK {\"jid\":\"paid-0001\"}\n< +OK");
        let reply = second.reply();
        assert!(reply.contains("export-01"), "{reply}");
        let queues = server.block_on(server.handle().queues()).expect("queues");
        let exports = queues.iter().find(|queue| queue.name == "exports").expect("it is there");
        assert_eq!((exports.resources[0].used, exports.resources[0].blocked), (1, 0), "in use");
    }
}

#[test]
fn a_fetch_is_served_when_the_rate_of_a_resource_allows_it() {
    for store in STORES {
        let server = Server::start(store, rules);
        let mut worker = server.worker("w1");
        let jobs: Vec<String> =
            (0..4).map(|number| job(&format!("call-{number:04}"), "Call", "shop")).collect();
        worker.talk(&format!("> PUSHB [{}]\n< ${{}}", jobs.join(",")));
        for jid in ["call-0000", "call-0001", "call-0002", "call-0003"] {
            worker.talk(&format!("> FETCH shop\n< $*{jid}*"));
        }
    }
}
