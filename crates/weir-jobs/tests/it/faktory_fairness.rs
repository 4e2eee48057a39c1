//! Tenants of a queue (`fair_by`), as Faktory clients see them.

use weir_jobs::model::QueueName;
use weir_jobs::settings::{JobServerSettings, QueueSettings, StoreKind, TenantSettings};

use crate::faktory_server::{STORES, Server, until};

/// The tenant of a job in `crawl` is the domain of its first argument.
fn by_domain(settings: &mut JobServerSettings) {
    let queue = QueueName::parse("crawl", &settings.limits).unwrap();
    let fair = QueueSettings {
        fair_by: Some("/args/0/domain".parse().unwrap()),
        ..QueueSettings::default()
    };
    settings.queues.insert(queue, fair);
}

fn job(number: u32, domain: &str) -> String {
    format!(
        r#"{{"jid":"job-{number:06}","jobtype":"Crawl","queue":"crawl","args":[{{"url":"/","domain":"{domain}"}},1]}}"#
    )
}

#[test]
fn a_tenant_with_many_jobs_does_not_keep_others_waiting() {
    for store in STORES {
        let server = Server::start(store, by_domain);
        let mut client = server.worker("w1");
        let hog: Vec<String> = (0..1_000).map(|number| job(number, "hog.org")).collect();
        client.talk(&format!("> PUSHB [{}]\n< ${{}}", hog.join(",")));
        client.talk("> FETCH crawl\n< $*job-000000*");
        client.talk(&format!("> PUSH {}\n< +OK", job(2_000, "quiet.org")));
        client.talk(&format!("> PUSH {}\n< +OK", job(2_001, "quiet.org")));
        client.talk("> FETCH crawl other\n< $*job-002000*");
        client.talk("> FETCHB 3 crawl\n< [$*job-000001* $*job-002001* $*job-000002*]");
        let lanes = "weir_jobs_queue_tenant_lanes{queue=\"crawl\"} 2\n";
        until("the lanes are counted", || server.scrape().contains(lanes));
        let scraped = server.scrape();
        assert!(scraped.contains("limit=\"tenants_max\"} 0\n"), "{scraped}");
        assert!(!scraped.contains("quiet.org"), "names of tenants are no labels");
    }
}

#[test]
fn a_reload_applies_to_the_jobs_that_wait() {
    let server = Server::start(StoreKind::Embedded, |_| {});
    let mut client = server.worker("w1");
    let hog: Vec<String> = (0..1_000).map(|number| job(number, "hog.org")).collect();
    client.talk(&format!("> PUSHB [{}]\n< ${{}}", hog.join(",")));
    client.talk(&format!(
        "> PUSHB [{},{}]\n< ${{}}",
        job(2_000, "quiet.org"),
        job(2_001, "quiet.org")
    ));
    client.talk("> FETCH crawl\n< $*job-000000*");
    let mut settings =
        JobServerSettings { store: StoreKind::Embedded, ..JobServerSettings::default() };
    by_domain(&mut settings);
    server.block_on(server.handle().reload(settings.clone())).expect("reloaded");
    // The lanes are filled in the background.
    let lanes = "weir_jobs_queue_tenant_lanes{queue=\"crawl\"} 2\n";
    until("the lanes are counted", || server.scrape().contains(lanes));
    client.talk("> FETCH crawl\n< $*job-002000*");
    let queue = settings.queues.values_mut().next().expect("the queue");
    queue
        .tenants
        .insert("hog.org".to_owned(), TenantSettings { weight: 10, ..TenantSettings::default() });
    server.block_on(server.handle().reload(settings)).expect("reloaded");
    client.talk("> FETCHB 9 crawl\n< [$*job-000001* $*job-000002* $*job-000003* $*job-000004* $*job-000005* $*job-000006* $*job-000007* $*job-000008* $*job-000009*]");
    client.talk("> ACK {\"jid\":\"job-002000\"}\n< +OK");
    client.talk("> FETCHB 2 crawl\n< [$*job-002001* $*job-000010*]");
}
