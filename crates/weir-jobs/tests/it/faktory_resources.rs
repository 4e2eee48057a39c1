//! Shared resources, as Faktory clients and operators see them: with the timers of the stores.

use std::time::Duration;

use weir_base::clock::{Clock, Timestamp};
use weir_jobs::settings::{JobServerSettings, ResourceSettings, StoreKind};
use weir_jobs::temporary_limits::{ALL_QUEUES, RunningLimit, TemporaryLimits};
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

fn of_type(jobtype: &str, max: u32) -> TemporaryLimits {
    TemporaryLimits { types: [(jobtype.to_owned(), max)].into(), ..TemporaryLimits::default() }
}

fn push(client: &mut crate::faktory_server::Client, jobs: &[(&str, &str)]) {
    let jobs: Vec<_> = jobs.iter().map(|(jid, jobtype)| job(jid, jobtype, "shop")).collect();
    client.talk(&format!("> PUSHB [{}]\n< ${{}}", jobs.join(",")));
}

#[test]
fn a_limit_of_a_type_is_set_raised_and_ended_at_run_time() {
    for store in STORES {
        let server = Server::start(store, |settings| settings.limits.fetch_wait = FETCH_WAIT);
        let lease = Duration::from_secs(60);
        let set = |limits| server.block_on(server.handle().limit_temporarily(limits, lease));
        let (mut first, mut second) = (server.worker("w1"), server.worker("w2"));
        push(&mut first, &[("hog-0001", "Hog"), ("hog-0002", "Hog"), ("mail-0001", "Mail")]);
        set(of_type("Hog", 1)).expect("set");
        // The second one of its type waits, and others overtake it.
        first.talk("> FETCH shop\n< $*hog-0001*\n> FETCH shop\n< $*mail-0001*");
        second.send(b"FETCH shop\n");
        until("the FETCH waits", || server.scrape().contains("weir_jobs_fetches_waiting 1\n"));
        set(of_type("Hog", 2)).expect("raised");
        assert!(second.reply().contains("hog-0002"));
        push(&mut first, &[("hog-0003", "Hog")]);
        second.send(b"FETCH shop\n");
        until("the FETCH waits", || server.scrape().contains("weir_jobs_fetches_waiting 1\n"));
        set(TemporaryLimits::default()).expect("ended");
        assert!(second.reply().contains("hog-0003"));
    }
}

#[test]
fn a_limit_of_all_queues_survives_a_reload_and_ends_without_a_renewal() {
    for store in STORES {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let mut settings = JobServerSettings::default();
        let change = |settings: &mut JobServerSettings| {
            settings.limits.fetch_wait = FETCH_WAIT;
            settings.limits.heartbeat_timeout = FETCH_WAIT;
        };
        change(&mut settings);
        let server = Server::start_with(store, None, clock.clone(), change);
        let queues = ["shop".to_owned()].into();
        let limits = TemporaryLimits {
            running: Some(RunningLimit { max: 1, queues }),
            ..TemporaryLimits::default()
        };
        let lease = Duration::from_secs(60);
        let set = || {
            let handle = server.handle();
            server.block_on(handle.limit_temporarily(limits.clone(), lease)).expect("set");
        };
        let (mut first, mut second) = (server.worker("w1"), server.worker("w2"));
        push(&mut first, &[("mail-0001", "Mail"), ("mail-0002", "Mail")]);
        set();
        first.talk("> FETCH shop\n< $*mail-0001*");
        let shown = server.block_on(server.handle().limits()).expect("limits");
        assert_eq!(shown.resources[0].name, ALL_QUEUES);
        assert_eq!((shown.resources[0].used, shown.resources[0].blocked), (1, 1));
        server.block_on(server.handle().reload(settings)).expect("reloaded");
        second.send(b"FETCH shop\n");
        until("the FETCH waits", || server.scrape().contains("weir_jobs_fetches_waiting 1\n"));
        // Renewed after most of the lease, it holds for another one.
        clock.advance(Duration::from_secs(50));
        set();
        clock.advance(Duration::from_secs(50));
        let limits = server.block_on(server.handle().limits()).expect("limits");
        assert_eq!(limits.resources.len(), 1, "it was renewed");
        clock.advance(Duration::from_secs(11));
        assert!(second.reply().contains("mail-0002"));
    }
}

#[test]
fn limits_at_run_time_need_a_bounded_lease() {
    let server = Server::start(StoreKind::Memory, |_| {});
    let lease = Duration::from_secs(3_601);
    let set = server.block_on(server.handle().limit_temporarily(of_type("Hog", 1), lease));
    let error = set.expect_err("too long").to_string();
    assert_eq!(error, "limits at run time are set for at most 3600 s at once");
}
