//! Damage to what was durable: found, set aside, listed until it is acknowledged; the rest is kept.

use proptest::prelude::*;
use weir_log::{
    Acknowledged, Class, Damage, Disk, OpenError, RecordError, RecordPosition, SegmentLog,
    SegmentLogOptions, SimulatedDisk, Verification,
};

use crate::history::{body_of, damage, filled, numbers, open, options, read};

const RECORDS: u32 = 200;

fn file(segment: u32) -> String {
    format!("{segment:010}.log")
}

/// A closed log over several segments.
fn closed(seed: u64) -> (SimulatedDisk, Vec<RecordPosition>) {
    let disk = SimulatedDisk::new(seed);
    let (mut log, positions) = filled(&disk, RECORDS);
    log.mark();
    log.syncer().sync().expect("synced");
    assert!(log.segments().len() >= 4);
    (disk.crash(), positions)
}

fn flip(disk: &SimulatedDisk, at: RecordPosition) {
    damage(disk, &file(at.segment), |bytes| bytes[at.offset as usize + 20] ^= 1);
}

fn salvage(disk: &SimulatedDisk) -> Result<weir_log::Salvage, OpenError> {
    weir_log::salvage(disk, options())
}

/// What is set aside, with the bytes that stood there.
fn set_aside(disk: &SimulatedDisk, which: Acknowledged) -> Vec<(Damage, Vec<u8>)> {
    let mut found = Vec::new();
    weir_log::set_aside(disk, which, &mut |damage, aside| {
        found.push((damage.clone(), aside.bytes.to_vec()));
    })
    .expect("readable");
    found
}

/// An operator has seen to the damage; the disk as the next process finds it.
fn acknowledge(disk: &SimulatedDisk) -> SimulatedDisk {
    let log = open(disk);
    assert!(log.damages().acknowledge().expect("written") > 0);
    disk.crash()
}

fn verify(disk: &SimulatedDisk) -> Result<Verification, OpenError> {
    weir_log::verify(disk, &mut |_| ())
}

fn try_open(disk: &SimulatedDisk) -> Result<SegmentLog<SimulatedDisk>, OpenError> {
    SegmentLog::open(disk.clone(), options()).map(|(log, _)| log)
}

/// All but `lost` are there, where they were; the log goes on working. Returns the disk as the next
/// process finds it, with the damage acknowledged if there was any.
fn check_kept(disk: &SimulatedDisk, positions: &[RecordPosition], lost: &[u32]) -> SimulatedDisk {
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
    let disk = if lost.is_empty() { disk.kill() } else { acknowledge(&disk.kill()) };
    assert!(verify(&disk).expect("readable").is_sound());
    disk
}

/// Opens a damaged log: it is repaired and says so, now and at the next start.
fn check_reported(disk: &SimulatedDisk) -> SimulatedDisk {
    let (log, report) = SegmentLog::open(disk.clone(), options()).expect("opens");
    let found = log.damages().summary();
    assert!(report.damages > 0 && found.places == report.damages, "{report:?} {found:?}");
    let disk = disk.crash();
    let (log, report) = SegmentLog::open(disk.clone(), options()).expect("opens again");
    let places = log.damages().summary().places;
    assert_eq!((report.damages, places), (0, found.places), "it is not forgotten");
    let disk = disk.kill();
    let verification = verify(&disk).expect("readable");
    assert_eq!((verification.damages_total, verification.is_sound()), (0, false));
    disk
}

#[test]
fn intact_log_verifies_and_salvage_changes_nothing() {
    let (disk, positions) = closed(1);
    let verification = verify(&disk).expect("readable");
    assert!(verification.is_sound(), "{verification:?}");
    assert_eq!((verification.records(), verification.torn_bytes()), (u64::from(RECORDS), 0));
    let report = salvage(&disk).expect("salvaged");
    assert_eq!((report.records, report.damages), (RECORDS.into(), 0));
    check_kept(&disk, &positions, &[]);
}

#[test]
fn damage_before_a_mark_costs_one_record() {
    let (disk, positions) = closed(2);
    let newest = positions[RECORDS as usize - 1].segment;
    let number = positions.iter().position(|p| p.segment == newest).expect("a record") + 1;
    let RecordPosition { offset, .. } = positions[number];
    flip(&disk, positions[number]);
    let verification = verify(&disk).expect("readable");
    assert_eq!(verification.damages_total, 1);
    assert_eq!(verification.damages[0].offset, offset);
    let stood = disk.file_bytes(&file(newest)).expect("there");
    let disk = check_reported(&disk);
    let kept = set_aside(&disk, Acknowledged::No);
    let (damage, bytes) = &kept[0];
    assert_eq!((kept.len(), &damage.file, damage.offset), (1, &file(newest), offset));
    assert_eq!(damage.set_aside, damage.bytes);
    assert_eq!(bytes[..], stood[offset as usize..][..bytes.len()]);
    let disk = check_kept(&disk, &positions, &[u32::try_from(number).expect("small")]);
    assert_eq!(set_aside(&disk, Acknowledged::No), []);
    assert_eq!(set_aside(&disk, Acknowledged::Yes), kept, "until the next is acknowledged");
}

#[test]
fn damage_in_an_older_segment_is_found_on_read() {
    let (disk, positions) = closed(3);
    flip(&disk, positions[7]);
    let log = try_open(&disk).expect("older segments are not read in full");
    assert!(matches!(read(&log, positions[7]), Err(RecordError::Damaged { .. })));
    assert_eq!(read(&log, positions[8]).expect("sound"), body_of(8));
    assert_eq!(numbers(&log).len(), RECORDS as usize, "the footer still lists it");
    drop(log);
    let found = verify(&disk).expect("readable");
    assert_eq!((found.damages_total, found.damages[0].offset), (1, positions[7].offset));
    assert_eq!(salvage(&disk).expect("salvaged").damages, 1);
    let disk = check_kept(&disk.crash(), &positions, &[7]);
    assert!(verify(&disk).expect("readable").gap_bytes() > 100, "it remembers what it gave up");
}

#[test]
fn noted_damage_is_set_aside_by_the_next_sync() {
    let (disk, positions) = closed(3);
    flip(&disk, positions[7]);
    let log = open(&disk);
    log.damages().note(positions[7], "the record's checksum does not match");
    log.damages().note(positions[7], "the record's checksum does not match");
    let summary = log.damages().summary();
    assert_eq!((summary.places, summary.is_waiting), (1, true));
    log.syncer().sync().expect("synced");
    let disk = disk.crash();
    let kept = set_aside(&disk, Acknowledged::No);
    let next = positions[8].offset - positions[7].offset;
    assert_eq!((kept.len(), kept[0].0.offset), (1, positions[7].offset));
    let bytes = kept[0].1.len();
    assert!(bytes <= next as usize && bytes > 100, "the whole record");
    assert_eq!(open(&disk).damages().summary().places, 1);
    let disk = acknowledge(&disk.kill());
    assert!(verify(&disk).expect("readable").is_sound(), "what is known is no news");
    let log = open(&disk);
    log.damages().note(positions[7], "again");
    assert_eq!(log.damages().summary().places, 0);
}

#[test]
fn damaged_footer_is_rebuilt_from_the_segment() {
    for from_end in [3, 40, 200] {
        let (disk, positions) = closed(4);
        damage(&disk, &file(1), |bytes| {
            let at = bytes.len() - from_end;
            bytes[at] ^= 0xff;
        });
        assert!(!verify(&disk).expect("readable").is_sound());
        let disk = check_reported(&disk);
        let log = open(&disk);
        assert_eq!(numbers(&log).len(), RECORDS as usize);
        assert_eq!(read(&log, positions[0]).expect("sound"), body_of(0));
    }
}

#[test]
fn missing_segment_is_reported_anywhere() {
    for missing in [vec![1], vec![2], vec![1, 2], vec![2, 3]] {
        let (disk, positions) = closed(5);
        missing.iter().for_each(|segment| disk.take_file(&file(*segment)));
        let found = verify(&disk).expect("readable");
        assert_eq!(found.damages_total, missing.len() as u64);
        assert!(found.damages.iter().all(|damage| damage.why == "the file is missing"));
        let disk = check_reported(&disk);
        let is_lost = |n: &u32| missing.contains(&positions[*n as usize].segment);
        let lost: Vec<u32> = (0..RECORDS).filter(is_lost).collect();
        check_kept(&disk, &positions, &lost);
    }
}

#[test]
fn removed_segment_is_not_missing() {
    let disk = SimulatedDisk::new(14);
    let (mut log, _) = filled(&disk, RECORDS);
    assert!(log.remove_first_segment() && log.remove_first_segment());
    log.syncer().sync().expect("synced");
    log.syncer().maintain_some().expect("one of the two is deleted");
    drop(log);
    let disk = disk.crash();
    assert!(verify(&disk).expect("readable").is_sound());
    let log = open(&disk);
    assert_eq!((log.segments()[0].number, log.damages().summary().places), (3, 0));
    let there = disk.list().expect("listed");
    assert!(!there.contains(&file(1)) && !there.contains(&file(2)), "the other one as well");
}

/// A store whose newest segments are gone is as it was at some time before.
#[test]
fn tail_cut_at_a_segment_looks_like_an_older_log() {
    let (disk, positions) = closed(5);
    let newest = positions[RECORDS as usize - 1].segment;
    for segment in [newest, newest + 1] {
        disk.take_file(&file(segment));
    }
    assert!(verify(&disk).expect("readable").is_sound());
    let log = open(&disk);
    let left = positions.iter().filter(|position| position.segment < newest).count();
    assert_eq!((numbers(&log).len(), log.damages().summary().places), (left, 0));
}

/// The power went while the files of a cut tail were deleted: one of them is still there.
#[test]
fn gap_after_the_highest_mark_is_a_torn_tail() {
    let (disk, positions) = closed(21);
    let newest = positions[RECORDS as usize - 1].segment;
    let mut header = disk.file_bytes(&file(newest)).expect("there");
    header.truncate(32);
    header[12..16].copy_from_slice(&(newest + 1).to_le_bytes());
    let checksum = crc32c::crc32c(&header[..28]);
    header[28..].copy_from_slice(&checksum.to_le_bytes());
    for segment in [newest, newest + 1] {
        disk.take_file(&file(segment));
    }
    disk.put_file(&file(newest + 1), header);
    let (log, report) = SegmentLog::open(disk.clone(), options()).expect("opens");
    assert_eq!((report.damages, log.damages().summary().places), (0, 0));
    let left = positions.iter().filter(|position| position.segment < newest).count();
    assert_eq!(numbers(&log).len(), left);
    drop(log);
    assert!(verify(&disk.kill()).expect("readable").is_sound());
}

#[test]
fn damaged_segment_header_costs_no_record() {
    let newest = closed(6).1[RECORDS as usize - 1].segment;
    for segment in [1, 2, newest] {
        let (disk, positions) = closed(6);
        damage(&disk, &file(segment), |bytes| bytes[9] ^= 1);
        let disk = check_reported(&disk);
        assert_eq!(set_aside(&disk, Acknowledged::No)[0].1.len(), 32);
        check_kept(&acknowledge(&disk), &positions, &[]);
    }
}

#[test]
fn truncated_segment_keeps_its_beginning() {
    for size in [4000, 20] {
        let (disk, positions) = closed(7);
        damage(&disk, &file(2), |bytes| bytes.truncate(size));
        let lost: Vec<u32> = (0..RECORDS)
            .filter(|number| {
                let (at, next) = (positions[*number as usize], positions.get(*number as usize + 1));
                let end = next.filter(|next| next.segment == 2).map_or(u32::MAX, |it| it.offset);
                at.segment == 2 && end as usize > size
            })
            .collect();
        assert!(!lost.is_empty());
        check_kept(&check_reported(&disk), &positions, &lost);
    }
}

#[test]
fn damaged_length_costs_no_other_record() {
    let (disk, positions) = closed(15);
    let newest = positions[RECORDS as usize - 1].segment;
    let number = positions.iter().position(|p| p.segment == newest).expect("a record") + 2;
    let at = positions[number].offset as usize;
    for bit in 32..80 {
        let (disk, _) = (closed(15).0, disk.clone());
        damage(&disk, &file(newest), |bytes| bytes[at + bit / 8] ^= 1 << (bit % 8));
        let number = u32::try_from(number).expect("small");
        check_kept(&check_reported(&disk), &positions, &[number]);
    }
}

#[test]
fn set_aside_bytes_are_bounded_but_all_damage_is_listed() {
    let (disk, positions) = closed(16);
    disk.take_file(&file(1));
    flip(&disk, positions[RECORDS as usize - 5]);
    flip(&disk, positions[RECORDS as usize - 2]);
    let options = SegmentLogOptions { set_aside_bytes_max: 300, ..options() };
    let (log, report) = SegmentLog::open(disk.clone(), options).expect("opens");
    let summary = log.damages().summary();
    assert_eq!((report.damages, summary.places, log.damages().list().len()), (3, 3, 3));
    assert!(summary.bytes_left_out > 0);
    let size = disk.file_bytes("damaged.log").expect("there").len();
    assert!(size < 300 + 3 * 100, "{size}");
}

#[test]
fn segment_of_another_log_is_not_touched() {
    let (disk, _) = closed(8);
    let (other, _) = closed(9);
    disk.put_file(&file(2), other.file_bytes(&file(2)).expect("there"));
    for result in [try_open(&disk).err(), salvage(&disk).err(), verify(&disk).err()] {
        assert!(matches!(result, Some(OpenError::Foreign { .. })), "{result:?}");
    }
    assert_eq!(disk.file_bytes(&file(2)), other.file_bytes(&file(2)));
}

/// A header has its version where every Weir looks for it, and a checksum that every Weir accepts.
#[test]
fn newer_format_is_rejected_by_version() {
    let (disk, _) = closed(8);
    let header = disk.file_bytes(&file(2)).expect("there");
    assert_eq!((&header[..8], &header[8..12]), (&b"WEIRLOG\n"[..], &5u32.to_le_bytes()[..]));
    assert_eq!(crc32c::crc32c(&header[..28]).to_le_bytes(), header[28..32]);
    damage(&disk, &file(2), |bytes| {
        bytes[8] = 6;
        let checksum = crc32c::crc32c(&bytes[..28]);
        bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
    });
    for result in [try_open(&disk).err(), salvage(&disk).err(), verify(&disk).err()] {
        let said = result.expect("refused").to_string();
        let expected = "0000000002.log has format version 6; this program reads versions up to 5";
        assert_eq!(said, expected);
    }
}

#[test]
fn copied_segment_is_detected() {
    let (disk, _) = closed(10);
    disk.put_file(&file(2), disk.file_bytes(&file(1)).expect("there"));
    let disk = check_reported(&disk);
    assert!(numbers(&open(&disk)).len() < RECORDS as usize);
}

#[test]
fn other_files_are_not_touched() {
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
fn interrupted_repair_can_be_repeated() {
    for operations in 0..40 {
        let (disk, positions) = closed(operations);
        flip(&disk, positions[7]);
        flip(&disk, positions[90]);
        disk.cut_power_after(u32::try_from(operations).expect("small"));
        let _ = salvage(&disk);
        let disk = disk.crash();
        salvage(&disk).expect("repeated");
        assert_eq!(set_aside(&disk, Acknowledged::No).len(), 2);
        check_kept(&disk.crash(), &positions, &[7, 90]);
    }
}

/// What an operator has not acknowledged is listed, whatever becomes of the list.
#[test]
fn damage_to_the_damage_log_costs_one_entry() {
    let (disk, positions) = closed(17);
    for number in [150, 170, 190] {
        flip(&disk, positions[number]);
    }
    assert_eq!(salvage(&disk).expect("salvaged").damages, 3);
    let size = disk.file_bytes("damaged.log").expect("there").len();
    for at in 0..size {
        let disk = SimulatedDisk::clone(&disk).kill();
        let before = disk.file_bytes("damaged.log").expect("there");
        damage(&disk, "damaged.log", |bytes| bytes[at] ^= 1);
        assert!(set_aside(&disk, Acknowledged::No).len() >= 2, "byte {at}");
        disk.put_file("damaged.log", before);
    }
}

/// Valid records may stand behind a hole in the tail. New ones that end just where such a record
/// begins must not bring it back.
#[test]
fn truncated_records_do_not_reappear() {
    let disk = SimulatedDisk::new(12);
    let (mut log, _) = filled(&disk, 1);
    let torn = log.append(Class::Job, &1u32.to_le_bytes(), &[b"torn"]).expect("appended");
    log.append(Class::Job, &2u32.to_le_bytes(), &[b"cut off"]).expect("appended");
    log.flush().expect("flushed");
    let mark = torn.offset - 18;
    damage(&disk, &file(1), |bytes| bytes[mark as usize + 12] ^= 1);
    let disk = disk.kill();
    let (mut log, report) = SegmentLog::open(disk.clone(), options()).expect("a torn tail opens");
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
fn long_records_after_plausible_damage_are_kept() {
    const MIB: u32 = 1024 * 1024;
    const DAMAGED: std::ops::Range<u32> = 3_000_000..3_400_000;
    static BODY: [u8; 50_000] = [b'x'; 50_000];
    let options = SegmentLogOptions {
        segment_bytes: 16 * MIB,
        record_bytes_max: MIB,
        buffered_bytes_max: u64::from(16 * MIB),
        ..options()
    };
    let disk = SimulatedDisk::new(13);
    let (mut log, _) = SegmentLog::open(disk.clone(), options.clone()).expect("opens");
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
    weir_log::salvage(&disk, options.clone()).expect("salvaged");
    let (log, _) = SegmentLog::open(disk.kill(), options).expect("opens after salvage");
    assert!(log.damages().list()[0].bytes >= 400_000);
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
    fn flipped_bytes_never_panic_or_return_wrong_data(
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
        let disk = disk.kill();
        let log = try_open(&disk).expect("opens after salvage");
        check_readable(&log, &positions)?;
        prop_assert!(numbers(&log).len() >= RECORDS as usize / 4, "a few flips cost a few records");
    }
}

/// A record reads as it was written or as an error.
fn check_readable(
    log: &SegmentLog<SimulatedDisk>,
    positions: &[RecordPosition],
) -> Result<(), TestCaseError> {
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
