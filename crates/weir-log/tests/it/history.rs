//! Small logs for the other tests, and what they hold.

use weir_log::{Class, RecordError, RecordPosition, SegmentLog, SegmentLogOptions, SimulatedDisk};

pub(crate) fn options() -> SegmentLogOptions {
    SegmentLogOptions {
        segment_bytes: 8 * 1024,
        reserve_bytes: 2 * 1024,
        record_bytes_max: 1024,
        buffered_bytes_max: 64 * 1024,
        open_files_max: 2,
        set_aside_bytes_max: 64 * 1024,
    }
}

pub(crate) fn open(disk: &SimulatedDisk) -> SegmentLog<SimulatedDisk> {
    SegmentLog::open(disk.clone(), options()).expect("opens").0
}

/// A log of `records` records of about 140 bytes, synced every ten.
pub(crate) fn filled(
    disk: &SimulatedDisk,
    records: u32,
) -> (SegmentLog<SimulatedDisk>, Vec<RecordPosition>) {
    let mut log = open(disk);
    let syncer = log.syncer();
    let mut positions = Vec::new();
    for number in 0..records {
        let head = number.to_le_bytes();
        positions.push(log.append(Class::Job, &head, &[&body_of(number)]).expect("appended"));
        if number % 10 == 9 {
            syncer.sync().expect("synced");
            syncer.maintain().expect("maintained");
        }
    }
    syncer.sync().expect("synced");
    (log, positions)
}

/// What record `number` of a filled log holds.
pub(crate) fn body_of(number: u32) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(number.into());
    let bytes = 100 + rng.usize(..60);
    std::iter::repeat_with(|| rng.u8(..)).take(bytes).collect()
}

pub(crate) fn read(
    log: &SegmentLog<SimulatedDisk>,
    position: RecordPosition,
) -> Result<Vec<u8>, RecordError> {
    let mut buffer = Vec::new();
    let parts = log.reader().read(position, &mut buffer)?;
    Ok(buffer[parts.body].to_vec())
}

/// The numbers that a filled log's heads show, oldest first.
pub(crate) fn numbers(log: &SegmentLog<SimulatedDisk>) -> Vec<u32> {
    let mut numbers = Vec::new();
    for segment in log.segments() {
        log.heads(segment.number, &mut |head| {
            numbers.push(u32::from_le_bytes(head.head.try_into().expect("four bytes")));
        })
        .expect("heads are readable");
    }
    numbers
}

/// Changes a file in place.
pub(crate) fn damage(disk: &SimulatedDisk, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = disk.file_bytes(name).expect("there is such a file");
    change(&mut bytes);
    disk.put_file(name, bytes);
}
