//! Limits on the jobs that wait in a queue, over the real port.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_jobs::model::QueueName;
use weir_jobs::settings::{JobServerSettings, QueueSettings, StoreKind, TenantSettings};

use crate::faktory_cases::{Case, run};
use crate::faktory_server::{Client, Server, until};

/// Two jobs may wait in `a`.
fn two_jobs(settings: &mut JobServerSettings) {
    let queue = QueueName::parse("a", &settings.limits).unwrap();
    let limited = QueueSettings { jobs_max: Some(2), ..QueueSettings::default() };
    settings.queues.insert(queue, limited);
}

/// Jobs of 500 bytes may wait in `a`.
fn few_bytes(settings: &mut JobServerSettings) {
    let queue = QueueName::parse("a", &settings.limits).unwrap();
    let limited = QueueSettings { bytes_max: Some(500), ..QueueSettings::default() };
    settings.queues.insert(queue, limited);
}

/// Two jobs of each tenant may wait in `a`, and one of the tenant `small`.
fn two_jobs_of_each_tenant(settings: &mut JobServerSettings) {
    let queue = QueueName::parse("a", &settings.limits).unwrap();
    let small = TenantSettings { jobs_max: Some(1), ..TenantSettings::default() };
    let limited = QueueSettings {
        fair_by: Some("/args/0".parse().unwrap()),
        tenant_jobs_max: Some(2),
        tenants: BTreeMap::from([("small".to_owned(), small)]),
        ..QueueSettings::default()
    };
    settings.queues.insert(queue, limited);
}

const CASES: &[Case] = &[
    (
        "a job that is larger than all that may wait is rejected for good",
        few_bytes,
        r#"
        > PUSH {"jid":"job-0001","jobtype":"T","args":[],"queue":"a","custom":{"x":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}
        < -ERR job too large: * bytes, and no more than 500 may wait in queue a (jobs.queues.a.bytes_max)
        > PUSHB [{"jid":"job-0002","jobtype":"T","args":[],"queue":"a","custom":{"x":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}},{"jid":"job-0003","jobtype":"T","args":[],"queue":"a"}]
        < ${"job-0002":"job too large: *"}
        > FETCHB 9 a
        < [$*job-0003*]
    "#,
    ),
    (
        "a push over the bytes of a queue is rejected until a worker fetches",
        few_bytes,
        r#"
        > PUSH {"jid":"job-0001","jobtype":"T","args":[],"queue":"a","custom":{"x":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}
        < +OK
        > PUSH {"jid":"job-0002","jobtype":"T","args":[],"queue":"a","custom":{"x":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}
        < -BUSY retry-after=5 queue a is full: jobs of * of 500 bytes wait, and this one has * (jobs.queues.a.bytes_max); there is not enough data yet to tell when it is empty
        > PUSHB [{"jid":"job-0003","jobtype":"T","args":[]},{"jid":"job-0004","jobtype":"T","args":[],"queue":"a","custom":{"x":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}]
        < ${"job-0004":"BUSY retry-after=* (jobs.queues.a.bytes_max)*"}
        > FETCH a
        < $*job-0001*
        > PUSH {"jid":"job-0002","jobtype":"T","args":[],"queue":"a","custom":{"x":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}
        < +OK
        > FAIL {"jid":"job-0001","errtype":"E","message":"m"}
        < +OK
        > MUTATE {"cmd":"requeue","target":"retries"}
        < +OK
        > FETCHB 9 a
        < [$*job-0002* $*job-0001*]
    "#,
    ),
    (
        "a push over the jobs of a tenant is rejected, and other tenants are served",
        two_jobs_of_each_tenant,
        r#"
        > PUSHB [{"jid":"job-0001","jobtype":"T","args":["big"],"queue":"a"},{"jid":"job-0002","jobtype":"T","args":["big"],"queue":"a"},{"jid":"job-0003","jobtype":"T","args":["big"],"queue":"a"},{"jid":"job-0004","jobtype":"T","args":["other"],"queue":"a"},{"jid":"job-0005","jobtype":"T","args":["small"],"queue":"a"},{"jid":"job-0006","jobtype":"T","args":["small"],"queue":"a"}]
        < ${"job-0003":"BUSY retry-after=5 tenant \"big\" of queue a is full: 2 of 2 jobs wait (jobs.queues.a.tenant_jobs_max); there is not enough data yet to tell when the queue is empty","job-0006":"BUSY retry-after=5 tenant \"small\" of queue a is full: 1 of 1 jobs wait (jobs.queues.a.tenants.\"small\".jobs_max); there is not enough data yet to tell when the queue is empty"}
        > PUSH {"jid":"job-0003","jobtype":"T","args":["big"],"queue":"a"}
        < -BUSY * tenant "big" of queue a is full: 2 of 2 *
        > PUSH {"jid":"job-0007","jobtype":"T","args":["other"],"queue":"a"}
        < +OK
        > PUSH {"jid":"job-0008","jobtype":"T","args":["big"],"queue":"a","at":"2999-01-01T00:00:00Z"}
        < +OK
        > FETCH a
        < $*job-0001*
        > PUSH {"jid":"job-0003","jobtype":"T","args":["big"],"queue":"a"}
        < +OK
        > FAIL {"jid":"job-0001","errtype":"E","message":"m"}
        < +OK
        > MUTATE {"cmd":"requeue","target":"retries"}
        < +OK
        > PUSH {"jid":"job-0009","jobtype":"T","args":["big"],"queue":"a"}
        < -BUSY * of queue a is full: 3 of 2 *
    "#,
    ),
    (
        "a push to a full queue is rejected until a worker fetches",
        two_jobs,
        r#"
        > PUSH {"jid":"job-0001","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > PUSH {"jid":"job-0002","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > PUSH {"jid":"job-0003","jobtype":"T","args":[],"queue":"a"}
        < -BUSY retry-after=5 queue a is full: 2 of 2 jobs wait (jobs.queues.a.jobs_max); there is not enough data yet to tell when it is empty
        > PUSH {"jid":"job-0004","jobtype":"T","args":[]}
        < +OK
        > FETCH a
        < $*job-0001*
        > PUSH {"jid":"job-0003","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > PUSH {"jid":"job-0005","jobtype":"T","args":[],"queue":"a"}
        < -BUSY*
    "#,
    ),
    (
        "a PUSHB stores the jobs that have room, and names the others",
        two_jobs,
        r#"
        > PUSHB [{"jid":"job-0001","jobtype":"T","args":[],"queue":"a"},{"jid":"job-0002","jobtype":"T","args":[]},{"jid":"job-0003","jobtype":"T","args":[],"queue":"a"},{"jid":"job-0004","jobtype":"T","args":[],"queue":"a"}]
        < ${"job-0004":"BUSY retry-after=*"}
        > FETCHB 9 a default
        < [$*job-0001* $*job-0003* $*job-0002*]
    "#,
    ),
    (
        "a push that would add no job is not rejected because of a full queue",
        two_jobs,
        r#"
        > PUSH {"jid":"job-0001","jobtype":"T","args":[],"queue":"a","custom":{"unique_for":60}}
        < +OK
        > PUSH {"jid":"job-0002","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > PUSH {"jid":"job-0003","jobtype":"T","args":[],"queue":"a","custom":{"unique_for":60}}
        < -NOTUNIQUE Job not unique
        > PUSHB [{"jid":"job-0004","jobtype":"T","args":[1],"queue":"a","custom":{"unique_for":60}},{"jid":"job-0005","jobtype":"T","args":[],"queue":"a","custom":{"unique_for":60}}]
        < ${"job-0004":"BUSY *","job-0005":"NOTUNIQUE Job not unique"}
    "#,
    ),
    (
        "jobs that return to a full queue, and jobs for later, are accepted",
        two_jobs,
        r#"
        > PUSHB [{"jid":"job-0001","jobtype":"T","args":[],"queue":"a"},{"jid":"job-0002","jobtype":"T","args":[],"queue":"a"}]
        < ${}
        > PUSH {"jid":"job-0003","jobtype":"T","args":[],"queue":"a","at":"2999-01-01T00:00:00Z"}
        < +OK
        > FETCH a
        < $*job-0001*
        > FAIL {"jid":"job-0001","errtype":"E","message":"m"}
        < +OK
        > PUSH {"jid":"job-0004","jobtype":"T","args":[],"queue":"a"}
        < +OK
        > MUTATE {"cmd":"requeue","target":"retries"}
        < +OK
        > MUTATE {"cmd":"requeue","target":"scheduled"}
        < +OK
        > FETCHB 9 a
        < [$*job-0002* $*job-0004* * *]
    "#,
    ),
];

#[test]
fn queues_are_limited() {
    run(CASES);
}

fn push_large(client: &mut Client, number: u32) -> String {
    let text = format!(
        "PUSH {{\"jid\":\"job-{number:05}\",\"jobtype\":\"T\",\"args\":[\"{}\"],\"queue\":\"a\"}}\n",
        "x".repeat(10_000)
    );
    client.send(text.as_bytes());
    client.reply()
}

/// The job store may have 256 KiB on the disk.
fn small_disk(settings: &mut JobServerSettings) {
    settings.limits.segment_bytes = 64 << 10;
    settings.limits.reserve_bytes = 16 << 10;
    settings.limits.disk_max = Some(256 << 10);
    settings.limits.fetch_wait = Duration::from_millis(20);
}

#[test]
fn pushes_are_rejected_while_the_store_has_its_bytes_on_the_disk() {
    let server = Server::start(StoreKind::Embedded, small_disk);
    let mut client = server.worker("w1");
    let mut stored = 0;
    let refused = loop {
        let reply = push_large(&mut client, stored);
        if reply != "+OK" {
            break reply;
        }
        stored += 1;
        assert!(stored < 100, "it is never full");
    };
    assert!((20..=27).contains(&stored), "{stored} jobs of 10 KB");
    for part in ["-BUSY retry-after=", " of 262144 bytes on the disk", "(jobs.limits.disk_max)"] {
        assert!(refused.contains(part), "{refused}");
    }
    // Jobs for later take space as well.
    client.talk(
        r#"
        > PUSH {"jid":"later-01","jobtype":"T","args":[],"at":"2999-01-01T00:00:00Z"}
        < -BUSY*
        > FETCH a
        < $*job-00000*
        > FAIL {"jid":"job-00000","errtype":"E","message":"m"}
        < +OK
        > MUTATE {"cmd":"requeue","target":"retries"}
        < +OK
    "#,
    );
    for _ in 0..stored {
        client.send(b"FETCH a\n");
        let job = client.reply();
        let jid = job.split("job-").nth(1).map(|rest| &rest[..5]).expect("a job");
        client.talk(&format!("> ACK {{\"jid\":\"job-{jid}\"}}\n< +OK"));
    }
    until("the space of jobs that have ended is free", || push_large(&mut client, 99_999) == "+OK");
    let limits = server.block_on(server.handle().limits()).expect("limits");
    assert_eq!(limits.disk_max, Some(256 << 10));
    assert!(limits.disk_bytes.is_some_and(|bytes| bytes > 0), "{limits:?}");
    let metrics = server.scrape();
    assert!(metrics.contains(r#"queue_full_total{queue="a",cap="disk_max"}"#), "{metrics}");
}

#[test]
fn caps_change_at_a_reload() {
    for store in [StoreKind::Memory, StoreKind::Embedded] {
        let server = Server::start(store, |_| {});
        let mut client = server.producer();
        let cap = |bytes_max| {
            let mut settings = JobServerSettings { store, ..JobServerSettings::default() };
            few_bytes(&mut settings);
            settings.queues.values_mut().for_each(|queue| queue.bytes_max = bytes_max);
            server.block_on(server.handle().reload(settings)).expect("a reload");
        };
        assert_eq!(push_large(&mut client, 1), "+OK");
        cap(Some(15_000));
        // The job that was there before is counted in the background.
        let counted = || {
            let limits = server.block_on(server.handle().limits()).expect("limits");
            limits.queues[0].caps.bytes.is_some_and(|bytes| bytes > 10_000)
        };
        until("the bytes are counted", counted);
        assert!(push_large(&mut client, 2).contains("bytes_max"), "{store:?}");
        cap(Some(25_000));
        assert_eq!(push_large(&mut client, 2), "+OK", "{store:?}");
        assert!(push_large(&mut client, 3).contains("bytes_max"), "{store:?}");
        cap(None);
        assert_eq!(push_large(&mut client, 3), "+OK", "{store:?}");
    }
}
