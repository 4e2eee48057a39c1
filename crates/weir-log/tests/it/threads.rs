//! Owner, sync thread and readers at once, on the file system.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use weir_log::{
    AppendError, Class, RealDisk, RecordError, RecordPosition, SegmentLog, SegmentLogOptions,
};

const RECORDS: u32 = 20_000;

fn body_of(number: u32) -> Vec<u8> {
    vec![number.to_le_bytes()[0]; 20 + number as usize % 300]
}

/// Every position is readable from the moment it is known, whatever the syncer does meanwhile.
#[test]
fn readers_and_syncer_never_block_the_owner() {
    let directory = TempDir::new().expect("tempdir");
    let options = SegmentLogOptions {
        segment_bytes: 64 * 1024,
        reserve_bytes: 1024,
        record_bytes_max: 4096,
        buffered_bytes_max: 32 * 1024,
        open_files_max: 3,
        set_aside_bytes_max: 64 * 1024,
    };
    let disk = RealDisk::new(directory.path()).expect("a directory");
    let (mut log, _) = SegmentLog::open(disk.clone(), options.clone()).expect("opens");
    let (syncer, reader) = (log.syncer(), log.reader());
    let known = Mutex::new(Vec::<RecordPosition>::new());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                syncer.sync().expect("synced");
                syncer.maintain().expect("maintained");
            }
        });
        for seed in 0..2 {
            let (reader, known, done) = (reader.clone(), &known, &done);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                let mut buffer = Vec::new();
                while !done.load(Ordering::Acquire) {
                    let chosen = {
                        let known = known.lock().expect("no panic");
                        let recent = known.len().saturating_sub(50 + 1000 * rng.usize(..2));
                        (recent < known.len())
                            .then(|| rng.usize(recent..known.len()))
                            .map(|number| (number, known[number]))
                    };
                    let Some((number, position)) = chosen else {
                        continue;
                    };
                    match reader.read(position, &mut buffer) {
                        Ok(parts) => {
                            let number = u32::try_from(number).expect("small");
                            assert_eq!(&buffer[parts.body], body_of(number));
                        }
                        Err(RecordError::Gone { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for number in 0..RECORDS {
            let position = append(&mut log, number);
            known.lock().expect("no panic").push(position);
            if number % 997 == 0 {
                log.flush().expect("flushed");
            }
            if log.segments().len() > 20 {
                log.remove_first_segment();
            }
        }
        done.store(true, Ordering::Release);
    });
    log.syncer().sync().expect("synced");
    let (first, records) =
        (log.segments()[0].number, log.segments().iter().map(|s| s.records).sum::<u32>());
    drop(log);
    let (log, report) = SegmentLog::open(disk, options).expect("opens");
    assert_eq!(report.cut, None);
    assert!(log.segments()[0].number <= first && report.records >= records.into());
}

fn append(log: &mut SegmentLog<RealDisk>, number: u32) -> RecordPosition {
    loop {
        match log.append(Class::Job, &number.to_le_bytes(), &[&body_of(number)]) {
            Ok(position) => return position,
            Err(AppendError::Backpressure) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}
