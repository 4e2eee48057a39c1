//! The log against the least that a durable log can do, on the file system of the target folder.
//!
//! `batches` appends a million records of 250 bytes and syncs after every thousand; `plain` is the
//! same with a buffer, a checksum, one `write` and one `fdatasync` per batch. Their ratio is the
//! price of segments, marks, footers and locks. The CPU seconds per million records of both stand
//! beside the times.

#![allow(clippy::print_stderr, reason = "the CPU seconds go beside Criterion's own report")]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;
use weir_log::{AppendError, Class, RealDisk, RecordPosition, SegmentLog, SegmentLogOptions};

const RECORDS: u32 = 1_000_000;
const BATCH_RECORDS: u32 = 1_000;
const HEAD: [u8; 15] = *b"head of a job..";
const BODY: [u8; 235] = [b'x'; 235];

fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn open(directory: &TempDir) -> SegmentLog<RealDisk> {
    let disk = RealDisk::new(directory.path()).expect("a directory");
    SegmentLog::open(disk, SegmentLogOptions::default()).expect("opens").0
}

/// Appends to the log, syncing on this thread after every batch.
fn append_in_batches(log: &mut SegmentLog<RealDisk>) {
    let syncer = log.syncer();
    for _ in 0..RECORDS / BATCH_RECORDS {
        for number in 0..BATCH_RECORDS {
            append(log, number);
        }
        syncer.sync().expect("synced");
        syncer.maintain().expect("maintained");
    }
}

/// The record of the benches: the head's first bytes and the body, as a job has them.
fn append(log: &mut SegmentLog<RealDisk>, number: u32) -> RecordPosition {
    loop {
        match log.append(Class::Job, &HEAD, &[&number.to_le_bytes(), &BODY[4..]]) {
            Ok(position) => return position,
            Err(AppendError::Backpressure) => {
                log.syncer().sync().expect("synced");
                log.syncer().maintain().expect("maintained");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// One file, length and checksum per record, one write and one sync per batch.
fn write_plain(file: &mut File) {
    let mut buffer = Vec::with_capacity(1 << 20);
    for _ in 0..RECORDS / BATCH_RECORDS {
        buffer.clear();
        for number in 0..BATCH_RECORDS {
            let start = buffer.len();
            buffer.extend_from_slice(&[0; 8]);
            buffer.extend_from_slice(&HEAD);
            buffer.extend_from_slice(&number.to_le_bytes());
            buffer.extend_from_slice(&BODY[4..]);
            let checksum = crc32c::crc32c(&buffer[start + 8..]);
            buffer[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
        }
        file.write_all(&buffer).expect("written");
        file.sync_data().expect("synced");
    }
}

/// Times `work`, and tells the CPU seconds of the process meanwhile.
fn timed(name: &str, work: impl FnOnce()) -> Duration {
    let cpu = cpu_seconds();
    let elapsed = elapsed(work);
    let cpu = cpu_seconds() - cpu;
    eprintln!("{name}: {:.3} s, {cpu:.3} CPU s per million", elapsed.as_secs_f64());
    elapsed
}

#[allow(clippy::disallowed_methods, reason = "a bench measures real time")]
fn elapsed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// User and system time of this process so far.
fn cpu_seconds() -> f64 {
    let times = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    #[allow(clippy::cast_precision_loss, reason = "a few seconds in nanoseconds")]
    let seconds = times.tv_sec as f64 + times.tv_nsec as f64 / 1e9;
    seconds
}

/// Criterion shows the log's times. Before each of them the plain loop runs, so that both meet the
/// same disk; the ratio of the sums is printed at the end.
fn batches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batches");
    group.sample_size(10).throughput(Throughput::Elements(RECORDS.into()));
    let (mut log_total, mut plain_total) = (Duration::ZERO, Duration::ZERO);
    group.bench_function("log", |bencher| {
        bencher.iter_custom(|rounds| {
            let round = |_| {
                plain_total += time_plain();
                let log_time = time_log();
                log_total += log_time;
                log_time
            };
            (0..rounds).map(round).sum()
        });
    });
    group.finish();
    let ratio = log_total.as_secs_f64() / plain_total.as_secs_f64();
    eprintln!("the log takes {ratio:.2} of the time of the plain loop");
}

fn time_log() -> Duration {
    let directory = directory();
    let mut log = open(&directory);
    timed("log", || append_in_batches(&mut log))
}

fn time_plain() -> Duration {
    let directory = directory();
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    let mut file = options.open(directory.path().join("plain")).expect("a file");
    timed("plain", || write_plain(&mut file))
}

fn append_alone(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Elements(BATCH_RECORDS.into()));
    group.bench_function("250 bytes to memory", |bencher| {
        let directory = directory();
        let mut log = open(&directory);
        let syncer = log.syncer();
        bencher.iter_custom(|rounds| {
            let round = |_| {
                syncer.sync().expect("synced");
                syncer.maintain().expect("maintained");
                elapsed(|| {
                    for number in 0..BATCH_RECORDS {
                        append(&mut log, number);
                    }
                })
            };
            (0..rounds).map(round).sum()
        });
    });
    group.finish();
}

fn read_alone(criterion: &mut Criterion) {
    let directory = directory();
    let mut log = open(&directory);
    let positions: Vec<RecordPosition> =
        (0..100_000).map(|number| append(&mut log, number)).collect();
    log.flush().expect("flushed");
    let waiting: Vec<RecordPosition> = (0..1000).map(|number| append(&mut log, number)).collect();
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Elements(1));
    for (name, positions) in [("from the page cache", positions), ("from memory", waiting)] {
        let reader = log.reader();
        let mut buffer = Vec::new();
        let mut next = positions.iter().cycle();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let position = next.next().expect("a cycle has no end");
                reader.read(*position, &mut buffer).expect("readable")
            });
        });
    }
    group.finish();
}

/// Salvage of one segment of 64 MiB whose records begin with a damaged one, by what follows: sound
/// records, or 32 MiB of other bytes. Random bytes look like a record at every 64th place, 0x10 at
/// every one. CPU time: what the disk needs for the segment that is written anew is left out.
fn salvage_a_segment(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("salvage 64 MiB");
    group.sample_size(10).sampling_mode(criterion::SamplingMode::Flat);
    let mut rng = fastrand::Rng::with_seed(1);
    let sound = sound_segment();
    let noise: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(32 << 20).collect();
    for (name, garbage) in [
        ("one record", vec![b'y'; 100]),
        ("text", b"{\"a\": [1, 2.5E3, \"Text\"]} ".repeat(1_300_000)[..32 << 20].to_vec()),
        ("random bytes", noise),
        ("bytes of 0x10", vec![0x10; 32 << 20]),
    ] {
        let mut damaged = sound.clone();
        damaged[100..100 + garbage.len()].copy_from_slice(&garbage);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| time_salvage(&damaged)).sum());
        });
    }
    group.finish();
}

/// The bytes of the first segment of a log.
fn sound_segment() -> Vec<u8> {
    let directory = directory();
    let mut log = open(&directory);
    for number in 0..250_000 {
        append(&mut log, number);
    }
    log.syncer().sync().expect("synced");
    std::fs::read(directory.path().join("0000000001.log")).expect("a segment")
}

fn time_salvage(segment: &[u8]) -> Duration {
    let directory = directory();
    std::fs::write(directory.path().join("0000000001.log"), segment).expect("written");
    let disk = RealDisk::new(directory.path()).expect("a directory");
    let cpu = cpu_seconds();
    let report = weir_log::salvage(&disk, SegmentLogOptions::default()).expect("salvaged");
    let cpu = Duration::from_secs_f64(cpu_seconds() - cpu);
    assert!(report.records > 100_000 && report.damages > 0, "{report:?}");
    cpu
}

criterion_group!(benches, batches, append_alone, read_alone, salvage_a_segment);
criterion_main!(benches);
