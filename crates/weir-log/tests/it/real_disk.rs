//! The log on the file system.

use tempfile::TempDir;
use weir_log::{Class, Lsn, RealDisk, RecordError, RecordPosition, SegmentLog, SegmentLogOptions};

fn options() -> SegmentLogOptions {
    SegmentLogOptions {
        segment_bytes: 16 * 1024,
        reserve_bytes: 1024,
        record_bytes_max: 4096,
        ..SegmentLogOptions::default()
    }
}

fn open(directory: &TempDir) -> SegmentLog<RealDisk> {
    let disk = RealDisk::new(directory.path()).expect("a directory");
    SegmentLog::open(disk, options()).expect("opens").0
}

fn body(log: &SegmentLog<RealDisk>, position: RecordPosition) -> Result<Vec<u8>, RecordError> {
    let mut buffer = Vec::new();
    let parts = log.reader().read(position, &mut buffer)?;
    Ok(buffer[parts.body].to_vec())
}

fn heads(log: &SegmentLog<RealDisk>) -> Vec<(RecordPosition, Vec<u8>)> {
    let mut seen = Vec::new();
    for segment in log.segments() {
        log.heads(segment.number, &mut |head| seen.push((head.position, head.head.to_vec())))
            .expect("readable");
    }
    seen
}

#[test]
fn records_are_readable_at_every_stage() {
    let directory = TempDir::new().expect("tempdir");
    let mut log = open(&directory);
    let position = log.append(Class::Job, b"head", &[b"one ", b"record"]).expect("appended");
    assert_eq!(body(&log, position).expect("from memory"), b"one record");
    log.flush().expect("flushed");
    assert_eq!(body(&log, position).expect("from the page cache"), b"one record");
    assert_eq!(log.syncer().sync().expect("synced"), log.end());
    drop(log);
    let log = open(&directory);
    assert_eq!(body(&log, position).expect("after reopening"), b"one record");
    assert_eq!(heads(&log), [(position, b"head".to_vec())]);
    assert_eq!(log.end(), Lsn(0));
}

#[test]
fn log_spans_segments_and_reopens_completely() {
    let directory = TempDir::new().expect("tempdir");
    let mut log = open(&directory);
    let syncer = log.syncer();
    let mut written = Vec::new();
    for number in 0..2000u32 {
        let head = number.to_le_bytes();
        let position = log.append(Class::Job, &head, &[&[b'x'; 100]]).expect("appended");
        written.push((position, head.to_vec()));
        if number % 50 == 0 {
            syncer.sync().expect("synced");
            syncer.maintain().expect("maintained");
        }
    }
    assert!(log.segments().len() > 10);
    assert_eq!(heads(&log), written);
    log.flush().expect("flushed");
    drop(log);
    let log = open(&directory);
    assert_eq!(heads(&log), written);
    for (position, _) in &written {
        assert_eq!(body(&log, *position).expect("readable"), [b'x'; 100]);
    }
}

#[test]
fn removed_segment_file_is_deleted_by_the_next_sync() {
    let directory = TempDir::new().expect("tempdir");
    let mut log = open(&directory);
    let syncer = log.syncer();
    let first = log.append(Class::Job, b"a", &[b"first"]).expect("appended");
    syncer.sync().expect("synced");
    log.rotate().expect("rotated");
    log.append(Class::Essential, b"b", &[b"replaces it"]).expect("appended");
    assert!(log.remove_first_segment());
    assert!(!log.remove_first_segment(), "the one being written stays");
    assert!(matches!(body(&log, first), Err(RecordError::Gone { segment: 1 })));
    let file = directory.path().join("0000000001.log");
    syncer.maintain().expect("maintained");
    assert!(file.exists(), "what replaces the segment is not yet durable");
    syncer.sync().expect("synced");
    syncer.maintain().expect("maintained");
    assert!(!file.exists());
}
