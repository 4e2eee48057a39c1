//! The embedded store on a disk that is full, or that fails.

use std::time::Duration;

use tokio::task::LocalSet;
use weir_base::clock::Clock;
use weir_jobs::engine::EmbeddedStore;
use weir_jobs::job::JobBatch;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::model::{Delivery, FailureReport, JobLocation, QueueName, SetName, Wid, WorkerEnd};
use weir_jobs::settings::{Fsync, JobServerLimits, JobServerSettings};
use weir_jobs::store::{
    BatchSize, FetchRequest, Filter, ScanRequest, Store, StoreCondition, StoreError,
};
use weir_log::SimulatedDisk;

/// Far more than any wait here takes; it only bounds a failure.
const TRIES: u32 = 3_000;

fn settings(fsync: Fsync) -> JobServerSettings {
    JobServerSettings {
        fsync,
        limits: JobServerLimits {
            segment_bytes: 64 << 10,
            reserve_bytes: 16 << 10,
            ..JobServerLimits::default()
        },
        ..JobServerSettings::default()
    }
}

fn open(disk: &SimulatedDisk, fsync: Fsync) -> EmbeddedStore<SimulatedDisk> {
    let opened = EmbeddedStore::open_on(
        disk.clone(),
        &settings(fsync),
        Clock::system(),
        JobsMetrics::detached(),
    );
    opened.expect("the log opens").0
}

async fn push(store: &EmbeddedStore<SimulatedDisk>, nth: u32) -> Result<(), StoreError> {
    let json = format!(r#"{{"jid":"job-{nth:06}","jobtype":"T","args":["{}"]}}"#, "x".repeat(500));
    let mut batch = JobBatch::new();
    let now = Clock::system().now();
    let job = batch.parse_one(json.as_bytes(), now, &JobServerLimits::default()).expect("a job");
    store.push(&[job]).await
}

async fn fetch(store: &EmbeddedStore<SimulatedDisk>) -> Option<Delivery> {
    let queues = [QueueName::parse("default", &JobServerLimits::default()).expect("a name")];
    let request =
        FetchRequest { wid: None, queues: &queues, max: BatchSize::ONE, wait: Duration::ZERO };
    store.fetch(request).await.expect("fetch works").pop()
}

async fn push_to(
    store: &EmbeddedStore<SimulatedDisk>,
    queue: &str,
    jid: &str,
    bytes: usize,
) -> Result<(), StoreError> {
    let text = "x".repeat(bytes);
    let json = format!(r#"{{"jid":"{jid}","jobtype":"T","args":["{text}"],"queue":"{queue}"}}"#);
    let mut batch = JobBatch::new();
    let now = Clock::system().now();
    let job = batch.parse_one(json.as_bytes(), now, &JobServerLimits::default()).expect("a job");
    store.push(&[job]).await
}

async fn fetch_as(
    store: &EmbeddedStore<SimulatedDisk>,
    wid: &Wid,
    queue: &str,
) -> Option<Box<str>> {
    let queues = [QueueName::parse(queue, &JobServerLimits::default()).expect("a name")];
    let (max, wait) = (BatchSize::ONE, Duration::ZERO);
    let request = FetchRequest { wid: Some(wid), queues: &queues, max, wait };
    store.fetch(request).await.expect("fetch works").pop().map(|delivery| delivery.jid)
}

fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), test);
}

/// Pushes until the disk is full; returns how many were stored.
async fn fill(store: &EmbeddedStore<SimulatedDisk>) -> u32 {
    for nth in 0..5_000 {
        match push(store, nth).await {
            Ok(()) => {}
            Err(StoreError::DiskFull) => return nth,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the disk never filled up");
}

#[test]
fn on_a_full_disk_cron_jobs_wait_and_the_reserve_is_left_to_workers() {
    run(async {
        let disk = SimulatedDisk::new(1);
        disk.set_space(Some(256 << 10));
        let store = open(&disk, Fsync::Always);
        fill(&store).await;
        let now = Clock::system().now();
        let json = format!(r#"{{"jid":"cron-0001","jobtype":"T","args":["{}"]}}"#, "x".repeat(500));
        let mut batch = JobBatch::new();
        let job =
            batch.parse_one(json.as_bytes(), now, &JobServerLimits::default()).expect("a job");
        let refused = store.cron_run("ticker", now, Some(job)).await;
        assert_eq!(refused, Err(StoreError::DiskFull));
        assert_eq!(store.cron_states().await.expect("they are read").by_name.len(), 0);
        let delivery = fetch(&store).await.expect("a job");
        assert_eq!(store.ack(&[&delivery.jid]).await, Ok(Vec::new()));
    });
}

/// The reserve of the disk does not hold its record.
#[test]
fn a_job_that_can_not_be_made_dead_now_keeps_no_other_job_and_dies_once() {
    run(async {
        let (disk, metrics) = (SimulatedDisk::new(1), JobsMetrics::detached());
        let (mut settings, clock) = (settings(Fsync::Always), Clock::system());
        settings.limits.segment_bytes = 256 << 10;
        let opened = EmbeddedStore::open_on(disk.clone(), &settings, clock, metrics.clone());
        let store = opened.expect("the log opens").0;
        let wid = Wid::new("w1");
        let lose = async || store.release(&wid, WorkerEnd::Killed).await;
        push_to(&store, "q", "large-job", 60_000).await.expect("stored");
        for _ in 0..2 {
            assert_eq!(fetch_as(&store, &wid, "q").await.as_deref(), Some("large-job"));
            assert_eq!(lose().await, Ok(1));
        }
        push_to(&store, "q", "small-job", 10).await.expect("stored");
        disk.set_space(Some(disk.used_bytes() + 300_000));
        fill(&store).await;
        for jid in ["large-job", "small-job"] {
            assert_eq!(fetch_as(&store, &wid, "q").await.as_deref(), Some(jid));
        }
        let deaths = || {
            let hits = metrics.limit_hits().into_iter();
            hits.filter(|hit| hit.limit == "returns_max").map(|hit| hit.hits).sum::<u64>()
        };
        for _ in 0..2 {
            assert_eq!(lose().await, Err(StoreError::DiskFull));
            assert_eq!((store.busy(&wid), deaths()), (1, 0));
        }
        let other = Wid::new("w2");
        assert_eq!(fetch_as(&store, &other, "q").await.as_deref(), Some("small-job"));
        disk.set_space(None);
        let mut released = Err(StoreError::DiskFull);
        for _ in 0..TRIES {
            released = lose().await;
            if released.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!((released, store.counts().await.dead, deaths()), (Ok(1), 1, 1));
    });
}

#[test]
fn on_a_full_disk_pushes_are_refused_and_workers_go_on() {
    for (fsync, allocates) in [
        (Fsync::Always, true),
        (Fsync::Always, false),
        (Fsync::EverySecond, true),
        (Fsync::EverySecond, false),
    ] {
        run(async {
            let disk = SimulatedDisk::new(7);
            disk.set_allocates(allocates);
            let store = open(&disk, fsync);
            push(&store, 99_999).await.expect("room for the first");
            disk.set_space(Some(disk.used_bytes() + 100_000));
            let stored = fill(&store).await + 1;
            assert!(store.storage().await.condition != StoreCondition::Ok || !allocates);

            // Workers go on: what can be acknowledged and failed on the reserve is.
            if allocates {
                for _ in 0..20 {
                    let delivery = fetch(&store).await.expect("a waiting job");
                    store.ack(&[&delivery.jid]).await.expect("an ACK on a full disk");
                }
                let jid = fetch(&store).await.expect("a waiting job").jid;
                let report = FailureReport { jid, ..FailureReport::default() };
                store.fail(report).await.expect("a FAIL on a full disk");
            }
            let counts = store.counts().await;
            let there = counts.queues[0].depth + counts.retries + counts.processed_total.min(20);
            assert_eq!(there, u64::from(stored), "refused jobs are not there, stored ones are");

            disk.set_space(None);
            let mut resumed = false;
            for nth in 0..TRIES {
                resumed = push(&store, 10_000 + nth).await.is_ok();
                if resumed {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert!(resumed, "pushes resume by themselves ({fsync:?}, {allocates})");
            store.close().await.expect("a clean end");
        });
    }
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    run(async {
        let disk = SimulatedDisk::new(3);
        let store = open(&disk, Fsync::Always);
        push(&store, 1).await.expect("a sync that works");
        disk.fail_sync_after(0);
        let failed = push(&store, 2).await;
        assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
        let failed = push(&store, 3).await;
        assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
        assert!(matches!(store.storage().await.condition, StoreCondition::Failed(_)));
        store.close().await.expect_err("what was not synced is not claimed to be");
    });
}

/// What the system answers when no file can be opened any more, and what a bad disk answers.
const EMFILE: i32 = 24;
const EIO: i32 = 5;

#[test]
fn a_job_that_cannot_be_read_just_now_waits() {
    run(async {
        let disk = SimulatedDisk::new(5);
        let store = open(&disk, Fsync::Always);
        for nth in 1..=3 {
            push(&store, nth).await.expect("room");
        }
        disk.fail_reads(Some(EMFILE));
        assert!(fetch(&store).await.is_none());
        assert_eq!(store.counts().await.queues[0].depth, 3);
        disk.fail_reads(None);
        let jid = fetch(&store).await.expect("the first job").jid;
        assert_eq!(&*jid, "job-000001");

        disk.fail_reads(Some(EMFILE));
        let report = FailureReport { jid, ..FailureReport::default() };
        let failed = store.fail(report.clone()).await;
        assert!(matches!(&failed, Err(StoreError::Failed(text)) if text.contains("try again")));
        disk.fail_reads(None);
        store.fail(report).await.expect("the worker holds it still");
        assert_eq!((store.counts().await.retries, store.storage().await.damages), (1, 0));
    });
}

#[test]
fn a_job_on_a_bad_place_of_the_disk_is_left_out_and_the_next_is_served() {
    run(async {
        let disk = SimulatedDisk::new(5);
        let store = open(&disk, Fsync::Always);
        push(&store, 1).await.expect("room");
        disk.fail_reads(Some(EIO));
        assert!(fetch(&store).await.is_none());
        disk.fail_reads(None);
        push(&store, 2).await.expect("room");
        assert_eq!(&*fetch(&store).await.expect("the next job").jid, "job-000002");
        assert_eq!(store.storage().await.damages, 1);
    });
}

/// Jobs that are due at the same time, far off; more than a segment holds.
async fn schedule(store: &EmbeddedStore<SimulatedDisk>, count: u32) {
    let now = Clock::system().now();
    for nth in 0..count {
        let padding = "x".repeat(500);
        let json = format!(
            r#"{{"jid":"job-{nth:06}","jobtype":"T","args":["{padding}"],"at":"2999-01-01T00:00:00Z"}}"#
        );
        let mut batch = JobBatch::new();
        let job =
            batch.parse_one(json.as_bytes(), now, &JobServerLimits::default()).expect("a job");
        store.push(&[job]).await.expect("room");
    }
}

/// The jids of a set, read in pages of one job.
async fn walk(store: &EmbeddedStore<SimulatedDisk>, newest_first: bool) -> Vec<String> {
    let (mut jids, mut after) = (Vec::new(), None);
    for _page in 0..1_000 {
        let request = ScanRequest {
            place: JobLocation::Set(SetName::Scheduled),
            after,
            newest_first,
            limit: 1,
            scan_max: 1,
            filter: Filter::default(),
        };
        let page = store.scan(request).await.expect("a page");
        jids.extend(page.jobs.iter().map(|job| job.key.jid.to_string()));
        after = page.next;
        if after.is_none() {
            return jids;
        }
    }
    panic!("the walk does not end");
}

#[test]
fn a_walk_leaves_out_damaged_jobs_and_no_other() {
    for newest_first in [false, true] {
        run(async {
            let disk = SimulatedDisk::new(5);
            let store = open(&disk, Fsync::Always);
            schedule(&store, 200).await;
            store.close().await.expect("a clean end");
            drop(store);
            let file = "0000000001.log";
            let mut bytes = disk.file_bytes(file).expect("the first segment");
            for jid in [b"job-000000", b"job-000007", b"job-000008"] {
                let at = bytes.windows(10).position(|window| window == jid).expect("in it");
                bytes[at + 100] ^= 1;
            }
            disk.put_file(file, bytes);
            let store = open(&disk.kill(), Fsync::Always);
            let mut expected: Vec<String> = (0..200).map(|nth| format!("job-{nth:06}")).collect();
            expected.retain(|jid| !["job-000000", "job-000007", "job-000008"].contains(&&**jid));
            if newest_first {
                expected.reverse();
            }
            assert_eq!(walk(&store, newest_first).await, expected);
            assert_eq!((store.counts().await.scheduled, store.storage().await.damages), (197, 3));
        });
    }
}
