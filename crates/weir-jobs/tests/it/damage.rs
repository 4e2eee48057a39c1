//! Damage to the store of jobs, wherever it is: it opens, and either all is as it was, or the damage
//! is reported until it is acknowledged, with what stood there set aside. No job goes in silence.
//!
//! `WEIR_DAMAGE_FLIPS` sets how many bits are flipped, each in a store of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::task::LocalSet;
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::engine::EmbeddedStore;
use weir_jobs::job::JobBatch;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::model::{Delivery, FailureReport, JobLocation, QueueName, SetName};
use weir_jobs::salvage::jobs_in;
use weir_jobs::settings::{JobServerLimits, JobServerSettings};
use weir_jobs::store::{BatchSize, FetchRequest, Filter, QueueAction, ScanRequest, Store};
use weir_log::{Acknowledged, Disk, SimulatedDisk};

const QUEUES: [&str; 3] = ["default", "mailers", "reports"];
const JOBS: u32 = 200;
/// Before this, jobs end or fail, and their segments go; behind it, they stay.
const JOBS_WORKED_OFF: u32 = 80;

/// What a store holds: where each job is by its jid, and which queues are paused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Contents {
    jobs: BTreeMap<String, String>,
    paused: Vec<String>,
}

/// Whether what is damaged is still in some file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bytes {
    AreThere,
    AreGone,
}

/// The files of a store that was closed, and what it held.
struct Closed {
    files: Vec<(String, Vec<u8>)>,
    contents: Contents,
}

fn settings(segment_bytes: u32) -> JobServerSettings {
    let reserve_bytes = segment_bytes / 4;
    let limits = JobServerLimits { segment_bytes, reserve_bytes, ..JobServerLimits::default() };
    JobServerSettings { limits, ..JobServerSettings::default() }
}

/// No retry comes due.
fn clock() -> Clock {
    Clock::manual(Timestamp::from_millis(1_700_000_000_000))
}

fn open_with(disk: &SimulatedDisk, segment_bytes: u32) -> EmbeddedStore<SimulatedDisk> {
    let settings = settings(segment_bytes);
    let metrics = JobsMetrics::detached();
    EmbeddedStore::open_on(disk.clone(), &settings, clock(), metrics).expect("opens").0
}

fn open(disk: &SimulatedDisk) -> EmbeddedStore<SimulatedDisk> {
    open_with(disk, 32 << 10)
}

fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), test);
}

fn queue(name: &str) -> QueueName {
    QueueName::parse(name, &JobServerLimits::default()).expect("a name")
}

/// A job is found in bytes by its jid or, if that is damaged, by its argument.
fn names(number: u32) -> [String; 2] {
    [format!("jid-{number:06}"), format!("argument-{number:06}")]
}

async fn push(store: &EmbeddedStore<SimulatedDisk>, number: u32) {
    let ([jid, argument], name) = (names(number), QUEUES[number as usize % 3]);
    let is_scheduled = number > JOBS_WORKED_OFF && number % 20 == 19;
    let at = if is_scheduled { r#","at":"2999-01-01T00:00:00Z""# } else { "" };
    let padding = "x".repeat(400);
    let json = format!(
        r#"{{"jid":"{jid}","jobtype":"T","queue":"{name}","args":["{argument}","{padding}"]{at}}}"#
    );
    let mut batch = JobBatch::new();
    let now = clock().now();
    let job = batch.parse_one(json.as_bytes(), now, &JobServerLimits::default()).expect("a job");
    store.push(&[job]).await.expect("room");
}

async fn fetch(store: &EmbeddedStore<SimulatedDisk>) -> Option<Delivery> {
    let queues = QUEUES.map(queue);
    let request =
        FetchRequest { wid: None, queues: &queues, max: BatchSize::ONE, wait: Duration::ZERO };
    store.fetch(request).await.expect("fetch works").pop()
}

async fn contents(store: &EmbeddedStore<SimulatedDisk>) -> Contents {
    let mut contents = Contents::default();
    let queues: Vec<QueueName> =
        store.counts().await.queues.into_iter().map(|it| it.name).collect();
    let sets = SetName::ALL.map(JobLocation::Set);
    for place in queues.into_iter().map(JobLocation::Queue).chain(sets) {
        let request = ScanRequest {
            place: place.clone(),
            after: None,
            newest_first: false,
            limit: 1_000,
            scan_max: 1_000,
            filter: Filter::default(),
        };
        for job in store.scan(request).await.expect("a page").jobs {
            contents.jobs.insert(job.key.jid.to_string(), format!("{place:?}"));
        }
    }
    let counts = store.counts().await;
    let paused = counts.queues.iter().filter(|queue| queue.paused);
    contents.paused = paused.map(|queue| queue.name.to_string()).collect();
    contents
}

/// A store with jobs that wait, are done, have failed or are scheduled, and with a paused queue.
async fn closed() -> Closed {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    for number in 0..JOBS_WORKED_OFF {
        push(&store, number).await;
    }
    for nth in 0..JOBS_WORKED_OFF {
        let jid = fetch(&store).await.expect("a job").jid;
        if nth % 10 == 9 {
            let report = FailureReport { jid, ..FailureReport::default() };
            store.fail(report).await.expect("room");
        } else {
            store.ack(&[&jid]).await.expect("room");
        }
    }
    for number in JOBS_WORKED_OFF..JOBS {
        push(&store, number).await;
    }
    store.act_on_queues(&[queue("mailers")], QueueAction::Pause).await.expect("room");
    store.tick().await.expect("room");
    let contents = contents(&store).await;
    store.close().await.expect("a clean end");
    drop(store);
    // What was removed and is still there goes at the next start.
    let disk = disk.kill();
    open(&disk).close().await.expect("a clean end");
    let disk = disk.kill();
    let mut names = disk.list().expect("listed");
    names.sort();
    assert!(names.len() >= 4 && names[0].as_str() > "0000000001.log", "{names:?}");
    let bytes = |name: String| (name.clone(), disk.file_bytes(&name).expect("there"));
    Closed { files: names.into_iter().map(bytes).collect(), contents }
}

impl Closed {
    /// A disk with these files, one of them changed; `None`: it is gone.
    fn with(&self, nth: usize, change: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> SimulatedDisk {
        let disk = SimulatedDisk::new(2);
        let mut files = self.files.clone();
        let stays = change(&mut files[nth].1).is_some();
        for (other, (name, bytes)) in files.into_iter().enumerate() {
            if other != nth || stays {
                disk.put_file(&name, bytes);
            }
        }
        disk
    }

    /// The newest segment that holds anything: its end is the end of the log.
    fn newest(&self) -> usize {
        let used = |bytes: &Vec<u8>| bytes.iter().skip(32).any(|byte| *byte != 0);
        let is_used = |(name, bytes): &(String, Vec<u8>)| name.ends_with(".log") && used(bytes);
        self.files.iter().rposition(is_used).expect("a used one")
    }

    /// Opens the damaged store, reads all of it, and checks the rule. Returns whether the damage was
    /// met.
    async fn check(&self, disk: SimulatedDisk, bytes: Bytes, what: &str) -> bool {
        let store = open(&disk);
        let found = contents(&store).await;
        if store.storage().await.damages == 0 {
            assert_eq!(found, self.contents, "{what}: neither as it was nor reported");
            return false;
        }
        store.close().await.expect("a clean end");
        drop(store);
        let disk = disk.kill();
        if bytes == Bytes::AreThere {
            self.check_missing(&disk, &found, what);
        }

        let store = open(&disk);
        assert!(store.storage().await.damages > 0, "{what}: forgotten by a restart");
        assert_eq!(contents(&store).await.jobs, found.jobs, "{what}");
        assert!(store.acknowledge_damages().await.expect("written") > 0);
        assert_eq!(store.storage().await.damages, 0);
        store.close().await.expect("a clean end");
        drop(store);
        let disk = disk.kill();
        let store = open(&disk);
        assert_eq!(store.storage().await.damages, 0, "{what}: reported again");
        assert_eq!(contents(&store).await.jobs, found.jobs, "{what}");
        true
    }

    /// What is not there any more was set aside.
    fn check_missing(&self, disk: &SimulatedDisk, found: &Contents, what: &str) {
        let (mut kept, mut salvaged) = (Vec::new(), Vec::new());
        weir_log::set_aside(disk, Acknowledged::No, &mut |_, aside| {
            kept.extend_from_slice(aside.bytes);
            salvaged.extend(jobs_in(aside).into_iter().filter(|job| job.is_exact));
        })
        .expect("readable");
        let has = |name: &str| kept.windows(name.len()).any(|it| it == name.as_bytes());
        for number in 0..JOBS {
            let [jid, argument] = names(number);
            let is_lost = self.contents.jobs.contains_key(&jid) && !found.jobs.contains_key(&jid);
            let is_salvaged = || salvaged.iter().any(|job| job.json.contains(&jid));
            assert!(!is_lost || is_salvaged(), "{what}: {jid} is not salvaged");
            assert!(!is_lost || has(&jid) || has(&argument), "{what}: {jid} went in silence");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a long run by hand asks for more flips")]
fn flips() -> usize {
    std::env::var("WEIR_DAMAGE_FLIPS").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

#[test]
fn a_flipped_bit_anywhere_is_harmless_or_reported() {
    run(async {
        let closed = closed().await;
        let mut random = fastrand::Rng::with_seed(7);
        let (mut met, flips) = (0, flips());
        for _ in 0..flips {
            let nth = random.usize(..=closed.newest());
            let bytes = &closed.files[nth].1;
            let end = bytes.iter().rposition(|byte| *byte != 0).expect("used") + 1;
            // Half of them in headers, first records and footers.
            let byte = match random.u8(..4) {
                0 => random.usize(..200),
                1 => end - 1 - random.usize(..200),
                _ => random.usize(..end),
            };
            let bit = random.u8(..8);
            let disk = closed.with(nth, |bytes| {
                bytes[byte] ^= 1 << bit;
                Some(())
            });
            let what = format!("{}, byte {byte}, bit {bit}", closed.files[nth].0);
            met += usize::from(closed.check(disk, Bytes::AreThere, &what).await);
        }
        assert!(met > flips / 2, "{met} of {flips} were met");
    });
}

#[test]
fn a_missing_segment_is_reported() {
    run(async {
        let closed = closed().await;
        for nth in 0..closed.newest() {
            let what = format!("without {}", closed.files[nth].0);
            assert!(
                closed.check(closed.with(nth, |_| None), Bytes::AreGone, &what).await,
                "{what}"
            );
        }
    });
}

#[test]
fn a_segment_that_is_cut_short_is_reported() {
    run(async {
        let closed = closed().await;
        let mut random = fastrand::Rng::with_seed(8);
        for nth in 0..closed.newest() {
            for size in [0, 20, 32, 50, random.usize(51..32 << 10)] {
                let disk = closed.with(nth, |bytes| {
                    bytes.truncate(size);
                    Some(())
                });
                let is_shorter = size < closed.files[nth].1.len();
                let what = format!("{} cut to {size} bytes", closed.files[nth].0);
                assert_eq!(closed.check(disk, Bytes::AreGone, &what).await, is_shorter, "{what}");
            }
        }
    });
}

/// What every record holds but jobs: queues, counters, the seed of the hashes. With it gone, jobs
/// still say which queue is theirs, and are found by their ids.
#[test]
fn without_any_snapshot_jobs_are_in_their_queues_and_can_be_acknowledged() {
    run(async {
        let disk = SimulatedDisk::new(3);
        let store = open_with(&disk, 1 << 20);
        for number in 0..30 {
            push(&store, number).await;
        }
        let expected = contents(&store).await;
        store.close().await.expect("a clean end");
        drop(store);
        let disk = disk.kill();
        let mut bytes = disk.file_bytes("0000000001.log").expect("there");
        // The header, the first record, then the snapshot; and the definitions of the queues.
        bytes[32 + 18 + 12] ^= 1;
        for name in QUEUES {
            let at = bytes.windows(name.len()).position(|it| it == name.as_bytes());
            bytes[at.expect("its definition")] ^= 1;
        }
        disk.put_file("0000000001.log", bytes);
        for _start in 0..2 {
            let store = open_with(&disk.kill(), 1 << 20);
            assert_eq!(store.storage().await.damages, 3, "the first two stand side by side");
            assert_eq!(contents(&store).await, expected);
            assert!(store.find("jid-000007").await.expect("read").job().is_some());
            store.close().await.expect("a clean end");
        }
        let disk = disk.kill();
        let store = open_with(&disk, 1 << 20);
        let mut left: BTreeSet<String> = expected.jobs.into_keys().collect();
        while let Some(delivery) = fetch(&store).await {
            assert!(left.remove(&*delivery.jid));
            assert!(store.ack(&[&delivery.jid]).await.expect("room").is_empty());
        }
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn a_damaged_job_of_an_older_segment_is_reported_when_a_worker_would_have_got_it() {
    run(async {
        let closed = closed().await;
        let [jid, argument] = names(JOBS_WORKED_OFF + 1);
        let place = closed.files.iter().zip(0..).find_map(|((_, bytes), nth)| {
            let found = bytes.windows(argument.len()).position(|it| it == argument.as_bytes());
            found.map(|at| (nth, at))
        });
        let (nth, at) = place.expect("a file holds it");
        assert!(nth < closed.newest());
        let disk = closed.with(nth, |bytes| {
            bytes[at] ^= 1;
            Some(())
        });
        let store = open(&disk);
        assert_eq!(store.storage().await.damages, 0, "older segments are not read at the start");
        store.act_on_queues(&[queue("mailers")], QueueAction::Resume).await.expect("room");
        let mut delivered = BTreeSet::new();
        while let Some(delivery) = fetch(&store).await {
            delivered.insert(delivery.jid.to_string());
        }
        let waiting = closed.contents.jobs.iter().filter(|(_, place)| place.contains("Queue"));
        let waiting: BTreeSet<String> = waiting.map(|(jid, _)| jid.clone()).collect();
        let lost: Vec<&String> = waiting.difference(&delivered).collect();
        assert_eq!((lost, store.storage().await.damages), (vec![&jid], 1));
        store.close().await.expect("a clean end");
        let damages = open(&disk.kill()).damages();
        assert_eq!((damages.len(), &damages[0].file), (1, &closed.files[nth].0));
        assert_eq!(damages[0].set_aside, damages[0].bytes);
    });
}

/// Written by a Weir whose segments had version 1.
const FORMAT_1: [(&str, &[u8]); 2] = [
    ("0000000001.log", include_bytes!("format_1/0000000001.log")),
    ("0000000002.log", include_bytes!("format_1/0000000002.log")),
];

#[test]
fn a_store_of_the_first_format_opens_and_goes_on() {
    run(async {
        let disk = SimulatedDisk::new(4);
        FORMAT_1.iter().for_each(|(name, bytes)| disk.put_file(name, bytes.to_vec()));
        let store = open_with(&disk, 2 << 20);
        let found = contents(&store).await;
        let jids: Vec<&str> = found.jobs.keys().map(String::as_str).collect();
        let expected = ["old-job-0001", "old-job-0002", "old-job-0003", "old-mail-0001"];
        assert_eq!((jids, found.paused), (expected.to_vec(), vec!["mailers".to_owned()]));
        assert_eq!(store.storage().await.damages, 0);
        push(&store, 0).await;
        store.close().await.expect("a clean end");
        drop(store);
        let disk = disk.kill();
        let (name, before) = FORMAT_1[0];
        let now = disk.file_bytes(name).expect("there");
        assert!(now.starts_with(before), "what stood there stays");
        let store = open_with(&disk, 2 << 20);
        assert_eq!((contents(&store).await.jobs.len(), store.storage().await.damages), (5, 0));
    });
}

/// Written by a Weir whose segments had version 2 and that ignored `unique_for` and `expires_at`.
const FORMAT_2: [(&str, &[u8]); 2] = [
    ("0000000001.log", include_bytes!("format_2/0000000001.log")),
    ("0000000002.log", include_bytes!("format_2/0000000002.log")),
];

#[test]
fn a_store_of_the_second_format_opens_and_its_jobs_have_no_locks() {
    run(async {
        let disk = SimulatedDisk::new(5);
        FORMAT_2.iter().for_each(|(name, bytes)| disk.put_file(name, bytes.to_vec()));
        let store = open_with(&disk, 2 << 20);
        let found = contents(&store).await;
        let jids: Vec<&str> = found.jobs.keys().map(String::as_str).collect();
        let expected = ["old-job-0001", "old-job-0002", "old-job-0003", "old-mail-001"];
        assert_eq!((jids, found.paused), (expected.to_vec(), vec!["mailers".to_owned()]));
        assert_eq!((store.storage().await.damages, store.counts().await.unique_locks), (0, 0));
        push(&store, 0).await;
        store.close().await.expect("a clean end");
        drop(store);
        let disk = disk.kill();
        let (name, before) = FORMAT_2[0];
        let now = disk.file_bytes(name).expect("there");
        assert!(now.starts_with(before), "what stood there stays");
        let newest = disk.file_bytes("0000000003.log").expect("a new segment");
        assert_eq!(newest[8..12], 5u32.to_le_bytes(), "an older Weir rejects the store");
        let store = open_with(&disk, 2 << 20);
        assert_eq!((contents(&store).await.jobs.len(), store.storage().await.damages), (5, 0));
    });
}

/// Written by a Weir whose segments had version 3, which kept no reservations.
const FORMAT_3: [(&str, &[u8]); 2] = [
    ("0000000001.log", include_bytes!("format_3/0000000001.log")),
    ("0000000002.log", include_bytes!("format_3/0000000002.log")),
];

#[test]
fn a_store_of_the_third_format_opens_with_its_locks_and_without_reservations() {
    run(async {
        let disk = SimulatedDisk::new(6);
        FORMAT_3.iter().for_each(|(name, bytes)| disk.put_file(name, bytes.to_vec()));
        let store = open_with(&disk, 2 << 20);
        let found = contents(&store).await;
        let jids: Vec<&str> = found.jobs.keys().map(String::as_str).collect();
        let expected = ["old-job-0001", "old-job-0002", "old-job-0003", "old-mail-001"];
        assert_eq!((jids, found.paused), (expected.to_vec(), vec!["mailers".to_owned()]));
        let counts = store.counts().await;
        assert_eq!(
            (store.storage().await.damages, counts.unique_locks, counts.reserved),
            (0, 1, 0)
        );
        push(&store, 0).await;
        store.close().await.expect("a clean end");
        drop(store);
        let disk = disk.kill();
        let newest = disk.file_bytes("0000000003.log").expect("a new segment");
        assert_eq!(newest[8..12], 5u32.to_le_bytes(), "an older Weir rejects the store");
        let store = open_with(&disk, 2 << 20);
        assert_eq!((contents(&store).await.jobs.len(), store.storage().await.damages), (5, 0));
    });
}
