//! Rates, as Faktory clients see them: with the timers of the stores.

use std::time::Duration;

use weir_jobs::model::QueueName;
use weir_jobs::settings::{JobServerSettings, QueueSettings};

use crate::faktory_server::{STORES, Server, until};

/// A FETCH that is not woken waits longer than a test.
const FETCH_WAIT: Duration = Duration::from_secs(3_600);
const WORKERS: usize = 4;

fn rules(queue: QueueSettings) -> impl FnOnce(&mut JobServerSettings) {
    move |settings| {
        settings.limits.fetch_wait = FETCH_WAIT;
        let name = QueueName::parse("rated", &settings.limits).expect("a name");
        settings.queues.insert(name, queue);
    }
}

/// Each FETCH that waits gets a job, although most may not start yet when the jobs are pushed.
fn each_waiting_fetch_is_served(queue: &QueueSettings) {
    for store in STORES {
        let server = Server::start(store, rules(queue.clone()));
        let mut workers: Vec<_> =
            (0..WORKERS).map(|number| server.worker(&format!("w{number}"))).collect();
        for worker in &mut workers {
            worker.send(b"FETCH rated\n");
        }
        let waiting = format!("weir_jobs_fetches_waiting {WORKERS}\n");
        until("the FETCHes wait", || server.scrape().contains(&waiting));
        let job = |number| {
            format!(r#"{{"jid":"job-{number:06}","jobtype":"T","queue":"rated","args":["a"]}}"#)
        };
        let jobs: Vec<String> = (0..WORKERS).map(job).collect();
        server.producer().talk(&format!("> PUSHB [{}]\n< ${{}}", jobs.join(",")));
        let mut jids: Vec<String> = Vec::new();
        for worker in &mut workers {
            let reply = worker.reply();
            let jid = reply.find("job-").map(|at| reply[at..at + 10].to_owned());
            jids.push(jid.unwrap_or(reply));
        }
        jids.sort_unstable();
        assert_eq!(jids, ["job-000000", "job-000001", "job-000002", "job-000003"]);
        // Nothing but the FETCH itself happens while it waits.
        server.producer().talk(&format!("> PUSHB [{},{}]\n< ${{}}", job(10), job(11)));
        for jid in ["job-000010", "job-000011"] {
            workers[0].talk(&format!("> FETCH rated\n< $*{jid}*"));
        }
    }
}

#[test]
fn a_fetch_is_served_when_the_rate_of_the_queue_allows_it() {
    let rate = Some("10/s burst 1".parse().expect("a rate"));
    each_waiting_fetch_is_served(&QueueSettings { rate, ..QueueSettings::default() });
}

#[test]
fn a_fetch_is_served_when_the_rate_of_the_tenant_allows_it() {
    each_waiting_fetch_is_served(&QueueSettings {
        fair_by: Some("/args/0".parse().expect("a key")),
        tenant_rate: Some("10/s burst 1".parse().expect("a rate")),
        ..QueueSettings::default()
    });
}

#[test]
fn jobs_that_wait_for_a_rate_are_counted() {
    let fair_by = Some("/args/0".parse().expect("a key"));
    let tenant_rate = Some("1/d".parse().expect("a rate"));
    let queue = QueueSettings { fair_by, tenant_rate, ..QueueSettings::default() };
    for store in STORES {
        let server = Server::start(store, rules(queue.clone()));
        let mut client = server.worker("w1");
        let job = |number| {
            format!(r#"{{"jid":"job-{number:06}","jobtype":"T","queue":"rated","args":["a"]}}"#)
        };
        let jobs: Vec<String> = (0..5).map(job).collect();
        client.talk(&format!("> PUSHB [{}]\n< ${{}}", jobs.join(",")));
        client.talk("> FETCH rated\n< $*job-000000*");
        for (name, value) in [("blocked", 4), ("rate_blocked", 4), ("sleeping_lanes", 1)] {
            let line = format!("weir_jobs_queue_{name}{{queue=\"rated\"}} {value}\n");
            until(name, || server.scrape().contains(&line));
        }
        let queues = server.block_on(server.handle().queues()).expect("queues");
        let queue = queues.iter().find(|queue| queue.name == "rated").expect("the queue");
        assert_eq!((queue.blocked, queue.blocked_by.rate, queue.blocked_by.concurrency), (4, 4, 0));
    }
}
