//! Whatever the files hold: opening, verifying and salvaging a log return, without a panic and
//! without more memory than the files take; what salvage leaves opens and reads.
//!
//! Run with `cargo +nightly fuzz run recovery` in `crates/weir-log`. Three kinds of input, by the
//! first byte: raw files; a real log with bytes changed; records with valid checksums but
//! arbitrary content (written here from the format's description, so the fuzzer need not guess
//! checksums).

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_log::{Class, SegmentLog, OpenError, SegmentLogOptions, SimulatedDisk, salvage, verify};

const LOG_ID: u64 = 0x0102_0304_0506_0708;

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    let disk = SimulatedDisk::new(u64::from(*kind));
    match kind % 3 {
        0 => raw_files(&disk, data),
        1 => changed_log(&disk, data),
        _ => forged_records(&disk, data),
    }
    check(&disk.kill());
});

fn options() -> SegmentLogOptions {
    SegmentLogOptions {
        segment_bytes: 4096,
        reserve_bytes: 256,
        record_bytes_max: 512,
        buffered_bytes_max: 1 << 16,
        open_files_max: 2,
        set_aside_bytes_max: 1 << 16,
    }
}

fn check(disk: &SimulatedDisk) {
    let before = verify(disk, &mut |_| ());
    if let Ok((mut log, _)) = SegmentLog::open(disk.clone(), options()) {
        read_all(&log);
        let _ = log.append(Class::Job, b"head", &[b"body"]);
        log.syncer().sync().expect("a simulated disk syncs");
        drop(log);
        let (log, report) = SegmentLog::open(disk.kill(), options()).expect("what was opened opens");
        assert_eq!(report.cut, None);
        read_all(&log);
    }
    let disk = disk.kill();
    match salvage(&disk, options()) {
        Ok(_) => match SegmentLog::open(disk.clone(), options()) {
            Ok((log, _)) => read_all(&log),
            Err(error) => panic!("after salvage: {error}"),
        },
        Err(
            OpenError::Foreign { .. }
            | OpenError::Version { .. }
            | OpenError::NoIdentity
            | OpenError::Corrupt { .. },
        ) => {}
        Err(error) => panic!("salvage: {error} (verify said {before:?})"),
    }
}

fn read_all(log: &SegmentLog<SimulatedDisk>) {
    let reader = log.reader();
    let mut buffer = Vec::new();
    for segment in log.segments() {
        let _ = log.heads(segment.number, &mut |head| {
            let _ = reader.read(head.position, &mut buffer);
        });
    }
}

/// Files of arbitrary bytes: a length of two bytes before each.
fn raw_files(disk: &SimulatedDisk, mut data: &[u8]) {
    for number in 1..=4 {
        let Some((size, rest)) = data.split_first_chunk::<2>() else {
            return;
        };
        let size = usize::from(u16::from_le_bytes(*size)).min(rest.len());
        disk.put_file(&name(number), rest[..size].to_vec());
        data = &rest[size..];
    }
}

/// A sound log of four segments, then changes of four bytes each.
fn changed_log(disk: &SimulatedDisk, data: &[u8]) {
    let (mut log, _) = SegmentLog::open(disk.clone(), options()).expect("an empty disk opens");
    for number in 0..60u32 {
        log.append(Class::Job, &number.to_le_bytes(), &[&[b'x'; 200]])
            .expect("room");
        if number % 5 == 4 {
            log.syncer().sync().expect("synced");
            log.syncer().maintain().expect("maintained");
        }
    }
    log.mark();
    log.flush().expect("flushed");
    drop(log);
    for change in data.chunks_exact(4) {
        let file = name(u32::from(change[0] % 5) + 1);
        let at = usize::from(u16::from_le_bytes([change[1], change[2]]));
        let Some(mut bytes) = disk.file_bytes(&file) else {
            continue;
        };
        match change[0] >> 5 {
            0 => disk.take_file(&file),
            1 => {
                bytes.truncate(at);
                disk.put_file(&file, bytes);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= change[3];
                }
                disk.put_file(&file, bytes);
            }
        }
    }
}

/// Segments of records whose checksums hold; every record takes four bytes of input and its
/// payload.
fn forged_records(disk: &SimulatedDisk, mut data: &[u8]) {
    for number in 1..=3u32 {
        let mut file = header(number);
        while let Some((control, rest)) = data.split_first_chunk::<4>() {
            let [kind, length, head_length, more] = *control;
            let length = usize::from(length).min(rest.len());
            let claimed = u32::try_from(length).expect("a byte") + u32::from(more & 1);
            let payload = &rest[..length];
            data = &rest[length..];
            put_record(&mut file, number, kind % 7, claimed, head_length, payload);
            if more > 200 {
                break;
            }
        }
        disk.put_file(&name(number), file);
    }
}

fn put_record(file: &mut Vec<u8>, number: u32, kind: u8, length: u32, head: u8, payload: &[u8]) {
    let offset = u32::try_from(file.len()).expect("a small file");
    let mut record = (u32::from(kind) << 28 | length).to_le_bytes().to_vec();
    record.extend_from_slice(&u16::from(head).to_le_bytes());
    record.extend_from_slice(payload);
    let seed = crc32c::crc32c_append(crc32c::crc32c(&LOG_ID.to_le_bytes()), &number.to_le_bytes());
    let checksum = crc32c::crc32c_append(seed ^ offset, &record);
    file.extend_from_slice(&checksum.to_le_bytes());
    file.extend_from_slice(&record);
}

fn header(number: u32) -> Vec<u8> {
    let mut header = b"WEIRLOG\n".to_vec();
    header.extend_from_slice(&1u32.to_le_bytes());
    header.extend_from_slice(&number.to_le_bytes());
    header.extend_from_slice(&LOG_ID.to_le_bytes());
    header.extend_from_slice(&[0; 4]);
    let checksum = crc32c::crc32c(&header);
    header.extend_from_slice(&checksum.to_le_bytes());
    header
}

fn name(number: u32) -> String {
    format!("{number:010}.log")
}
