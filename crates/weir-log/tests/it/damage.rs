//! Damage to what was durable: found, named, never passed over; salvage keeps the rest.

use proptest::prelude::*;
use weir_log::{
    Class, Disk, Log, OpenError, Options, Position, ReadError, SimulatedDisk, Verification, salvage,
};

use crate::history::{body_of, damage, filled, numbers, open, options, read};

const RECORDS: u32 = 200;

fn file(segment: u32) -> String {
    format!("{segment:010}.log")
}

/// A closed log over several segments.
fn closed(seed: u64) -> (SimulatedDisk, Vec<Position>) {
    let disk = SimulatedDisk::new(seed);
    let (mut log, positions) = filled(&disk, RECORDS);
    log.mark();
    log.syncer().sync().expect("synced");
    assert!(log.segments().len() >= 4);
    (disk.crash(), positions)
}

fn flip(disk: &SimulatedDisk, at: Position) {
    damage(disk, &file(at.segment), |bytes| bytes[at.offset as usize + 20] ^= 1);
}

fn verify(disk: &SimulatedDisk) -> Result<Verification, OpenError> {
    weir_log::verify(disk, &mut |_| ())
}

fn try_open(disk: &SimulatedDisk) -> Result<Log<SimulatedDisk>, OpenError> {
    Log::open(disk.clone(), options()).map(|(log, _)| log)
}

/// All but `lost` are there, where they were; the log goes on working. Returns the disk as the next
/// process finds it.
fn check_salvaged(disk: &SimulatedDisk, positions: &[Position], lost: &[u32]) -> SimulatedDisk {
    let mut log = open(disk);
    let expected: Vec<u32> = (0..RECORDS).filter(|number| !lost.contains(number)).collect();
    assert_eq!(numbers(&log), expected);
    for number in expected {
        let body = read(&log, positions[number as usize]).expect("kept where it was");
        assert_eq!(body, body_of(number));
    }
    let next = log.append(Class::Job, &RECORDS.to_le_bytes(), &[]).expect("goes on");
    log.syncer().sync().expect("synced");
    let disk = disk.crash();
    assert_eq!(read(&open(&disk), next).expect("durable"), b"");
    let disk = disk.kill();
    assert!(verify(&disk).expect("readable").is_sound());
    disk
}

#[test]
fn a_sound_log_verifies_and_salvage_leaves_it_alone() {
    let (disk, positions) = closed(1);
    let verification = verify(&disk).expect("readable");
    assert!(verification.is_sound(), "{verification:?}");
    assert_eq!((verification.records(), verification.torn_bytes()), (u64::from(RECORDS), 0));
    let report = salvage(&disk).expect("salvaged");
    assert_eq!((report.records, report.damages, report.files.len()), (RECORDS.into(), 0, 0));
    check_salvaged(&disk, &positions, &[]);
}

#[test]
fn damage_in_the_newest_segment_below_a_mark_stops_opening_and_salvage_keeps_the_rest() {
    let (disk, positions) = closed(2);
    let newest = positions[RECORDS as usize - 1].segment;
    let number = positions.iter().position(|p| p.segment == newest).expect("a record") + 1;
    flip(&disk, positions[number]);
    let error = try_open(&disk).expect_err("refuses");
    let message = error.to_string();
    let named = [file(newest), positions[number].offset.to_string(), "--salvage".into()];
    assert!(named.iter().all(|part| message.contains(part)), "{message}");
    let verification = verify(&disk).expect("readable");
    assert_eq!(verification.damages_total, 1);
    assert_eq!(verification.damages[0].offset, positions[number].offset);
    let report = salvage(&disk).expect("salvaged");
    assert_eq!(report.files[0].set_aside, Some(format!("{}.damaged", file(newest))));
    assert_eq!((report.records, report.damages), (u64::from(RECORDS) - 1, 1));
    check_salvaged(&disk, &positions, &[u32::try_from(number).expect("small")]);
}

#[test]
fn damage_in_an_older_segment_is_met_when_the_record_is_read() {
    let (disk, positions) = closed(3);
    flip(&disk, positions[7]);
    let log = try_open(&disk).expect("older segments are not read in full");
    assert!(matches!(read(&log, positions[7]), Err(ReadError::Damaged { .. })));
    assert_eq!(read(&log, positions[8]).expect("sound"), body_of(8));
    assert_eq!(numbers(&log).len(), RECORDS as usize, "the footer still lists it");
    drop(log);
    let found = verify(&disk).expect("readable");
    assert_eq!((found.damages_total, found.damages[0].offset), (1, positions[7].offset));
    salvage(&disk).expect("salvaged");
    let disk = check_salvaged(&disk, &positions, &[7]);
    assert!(verify(&disk).expect("readable").gap_bytes() > 100, "it remembers what it gave up");
}

#[test]
fn a_damaged_footer_is_replaced_by_reading_the_segment() {
    for from_end in [3, 40, 200] {
        let (disk, positions) = closed(4);
        damage(&disk, &file(1), |bytes| {
            let at = bytes.len() - from_end;
            bytes[at] ^= 0xff;
        });
        assert!(!verify(&disk).expect("readable").is_sound());
        let log = try_open(&disk).expect("the records are sound");
        assert_eq!(numbers(&log).len(), RECORDS as usize);
        assert_eq!(read(&log, positions[0]).expect("sound"), body_of(0));
    }
}

#[test]
fn a_missing_segment_stops_opening_and_salvage_goes_on_without_it() {
    let (disk, positions) = closed(5);
    disk.take_file(&file(2));
    let error = try_open(&disk).expect_err("refuses").to_string();
    assert!(error.contains(&file(2)) && error.contains("missing"), "{error}");
    assert!(!verify(&disk).expect("readable").is_sound());
    salvage(&disk).expect("salvaged");
    let in_it = |number: &u32| positions[*number as usize].segment == 2;
    let lost: Vec<u32> = (0..RECORDS).filter(in_it).collect();
    check_salvaged(&disk, &positions, &lost);
}

#[test]
fn a_damaged_header_costs_no_record() {
    for segment in [1, 2] {
        let (disk, positions) = closed(6);
        damage(&disk, &file(segment), |bytes| bytes[9] ^= 1);
        assert!(matches!(try_open(&disk), Err(OpenError::Corrupt { .. })));
        salvage(&disk).expect("salvaged");
        check_salvaged(&disk, &positions, &[]);
    }
}

#[test]
fn a_segment_cut_short_is_corruption_and_salvage_keeps_its_beginning() {
    let (disk, positions) = closed(7);
    damage(&disk, &file(2), |bytes| bytes.truncate(4000));
    assert!(matches!(try_open(&disk), Err(OpenError::Corrupt { .. })));
    salvage(&disk).expect("salvaged");
    let lost: Vec<u32> = (0..RECORDS)
        .filter(|number| {
            let (at, next) = (positions[*number as usize], positions.get(*number as usize + 1));
            let end = next.filter(|next| next.segment == 2).map_or(u32::MAX, |next| next.offset);
            at.segment == 2 && end > 4000
        })
        .collect();
    assert!(!lost.is_empty());
    check_salvaged(&disk, &positions, &lost);
}

#[test]
fn a_segment_of_another_log_is_not_touched() {
    let (disk, _) = closed(8);
    let (other, _) = closed(9);
    disk.put_file(&file(2), other.file_bytes(&file(2)).expect("there"));
    for result in [try_open(&disk).err(), salvage(&disk).err(), verify(&disk).err()] {
        assert!(matches!(result, Some(OpenError::Foreign { .. })), "{result:?}");
    }
    assert_eq!(disk.file_bytes(&file(2)), other.file_bytes(&file(2)));
}

#[test]
fn a_segment_copied_over_another_does_not_pass_for_it() {
    let (disk, _) = closed(10);
    disk.put_file(&file(2), disk.file_bytes(&file(1)).expect("there"));
    assert!(matches!(try_open(&disk), Err(OpenError::Corrupt { .. })));
}

#[test]
fn other_files_in_the_directory_are_left_alone() {
    let (disk, _) = closed(11);
    for name in ["README", "0000000001.log.damaged", "1.log"] {
        disk.put_file(name, b"mine".to_vec());
    }
    assert_eq!(numbers(&open(&disk)).len(), RECORDS as usize);
    salvage(&disk).expect("salvaged");
    assert_eq!(disk.file_bytes("1.log"), Some(b"mine".to_vec()));
    assert_eq!(disk.file_bytes("0000000001.log.damaged"), Some(b"mine".to_vec()));
}

#[test]
fn a_salvage_that_was_interrupted_anywhere_can_be_repeated() {
    for operations in 0..40 {
        let (disk, positions) = closed(operations);
        flip(&disk, positions[7]);
        flip(&disk, positions[90]);
        disk.cut_power_after(u32::try_from(operations).expect("small"));
        let _ = salvage(&disk);
        let disk = disk.crash();
        salvage(&disk).expect("repeated");
        check_salvaged(&disk, &positions, &[7, 90]);
    }
}

/// Valid records may stand behind a hole in the tail. New ones that end just where such a record
/// begins must not bring it back.
#[test]
fn what_was_cut_does_not_come_back_behind_new_records() {
    let disk = SimulatedDisk::new(12);
    let (mut log, _) = filled(&disk, 1);
    let torn = log.append(Class::Job, &1u32.to_le_bytes(), &[b"torn"]).expect("appended");
    log.append(Class::Job, &2u32.to_le_bytes(), &[b"cut off"]).expect("appended");
    log.flush().expect("flushed");
    let mark = torn.offset - 18;
    damage(&disk, &file(1), |bytes| bytes[mark as usize + 12] ^= 1);
    let disk = disk.kill();
    let (mut log, report) = Log::open(disk.clone(), options()).expect("a torn tail opens");
    let cut = report.cut.expect("and is reported");
    assert!(cut.bytes > 35 && cut.position.offset == mark, "{cut:?}");
    // It begins with a mark as well, so it comes to lie in the torn one's place.
    let again = log.append(Class::Job, &3u32.to_le_bytes(), &[b"anew"]).expect("appended");
    assert_eq!(again, torn);
    log.syncer().sync().expect("synced");
    assert_eq!(numbers(&open(&disk.crash())), [0, 3]);
}

/// Random bytes look like the beginning of a long record at many places. What lies behind them is
/// found all the same, however long its records are and with no mark between them.
#[test]
fn long_records_behind_damage_that_looks_like_records_are_kept() {
    const MIB: u32 = 1024 * 1024;
    const DAMAGED: std::ops::Range<u32> = 3_000_000..3_400_000;
    static BODY: [u8; 50_000] = [b'x'; 50_000];
    let options = Options {
        segment_bytes: 16 * MIB,
        record_bytes_max: MIB,
        buffered_bytes_max: u64::from(16 * MIB),
        ..options()
    };
    let disk = SimulatedDisk::new(13);
    let (mut log, _) = Log::open(disk.clone(), options.clone()).expect("opens");
    let mut append = |number: u32| log.append(Class::Job, &number.to_le_bytes(), &[&BODY]);
    let starts: Vec<u32> = (0..300).map(|number| append(number).expect("room").offset).collect();
    log.mark();
    log.syncer().sync().expect("synced");
    drop(log);
    let mut rng = fastrand::Rng::with_seed(1);
    damage(&disk, &file(1), |bytes| {
        bytes[DAMAGED.start as usize..DAMAGED.end as usize].fill_with(|| rng.u8(..));
    });
    let disk = disk.kill();
    salvage(&disk).expect("salvaged");
    let (log, _) = Log::open(disk, options).expect("opens after salvage");
    let is_sound = |start: u32| start + 50_014 <= DAMAGED.start || start >= DAMAGED.end;
    let kept: Vec<u32> =
        (0..300).zip(&starts).filter(|(_, start)| is_sound(**start)).map(|(n, _)| n).collect();
    assert_eq!(kept.len(), 291);
    assert_eq!(numbers(&log), kept);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(500),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever is damaged: no panic, no wrong byte, and salvage makes it open again.
    #[test]
    fn flipped_bytes_never_panic_and_never_show_wrong_data(
        seed in 0u64..20,
        flips in proptest::collection::vec((0usize..1 << 20, 1u8..), 1..6),
        cut in proptest::option::weighted(0.2, (0usize..8, 0usize..9000)),
    ) {
        let (disk, positions) = closed(seed);
        let mut files = disk.list().expect("listed");
        files.sort();
        for (at, mask) in flips {
            damage(&disk, &files[at % files.len()], |bytes| {
                let at = at % bytes.len();
                bytes[at] ^= mask;
            });
        }
        if let Some((which, size)) = cut {
            damage(&disk, &files[which % files.len()], |bytes| bytes.truncate(size));
        }
        if let Ok(log) = try_open(&disk.kill()) {
            check_readable(&log, &positions)?;
        }
        prop_assert!(verify(&disk.kill()).is_ok());
        let disk = disk.kill();
        salvage(&disk).expect("some header is sound");
        let log = try_open(&disk).expect("opens after salvage");
        check_readable(&log, &positions)?;
        prop_assert!(numbers(&log).len() >= RECORDS as usize / 4, "a few flips cost a few records");
    }
}

/// A record reads as it was written or as an error.
fn check_readable(log: &Log<SimulatedDisk>, positions: &[Position]) -> Result<(), TestCaseError> {
    for (number, position) in (0u32..).zip(positions) {
        if let Ok(body) = read(log, *position) {
            prop_assert_eq!(body, body_of(number));
        }
    }
    for segment in log.segments() {
        let _ = log.heads(segment.number, &mut |_| ());
    }
    Ok(())
}
