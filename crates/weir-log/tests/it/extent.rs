//! What a backup reads of a log: its extent, the position at each second, and which segments a
//! position needs.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use weir_log::{
    Class, RealDisk, RecordPosition, SegmentLog, SegmentLogOptions, TIMES_FILE, complete_from,
    extent, oldest_segment_at, position_at, segment_file_name, time_marks,
};

const RECORDS: u32 = 600;

fn open(directory: &Path) -> SegmentLog<RealDisk> {
    let options = SegmentLogOptions {
        segment_bytes: 16 * 1024,
        reserve_bytes: 1024,
        record_bytes_max: 4096,
        ..SegmentLogOptions::default()
    };
    SegmentLog::open(RealDisk::new(directory).expect("a directory"), options).expect("opens").0
}

/// Appends a record each "second" and removes the oldest segment with every hundredth but the last.
/// Returns the log's end before each second, with the oldest segment at that time.
fn filled(directory: &Path) -> (SegmentLog<RealDisk>, Vec<(RecordPosition, u32)>) {
    let mut log = open(directory);
    let syncer = log.syncer();
    let mut ends = Vec::new();
    for second in 0..RECORDS {
        ends.push((log.position(), log.segments()[0].number));
        log.note_second(u64::from(second) + 1);
        if second % 100 == 99 && second + 1 < RECORDS {
            assert!(log.remove_first_segment());
        }
        log.append(Class::Job, &second.to_le_bytes(), &[&[b'x'; 200]]).expect("appended");
        syncer.sync().expect("synced");
        syncer.maintain().expect("maintained");
    }
    (log, ends)
}

#[test]
fn each_second_has_the_position_at_which_it_began() {
    let directory = TempDir::new().expect("tempdir");
    let (log, ends) = filled(directory.path());
    let bytes = fs::read(directory.path().join(TIMES_FILE)).expect("the index");
    let marks = time_marks(&bytes, log.id());
    assert_eq!(marks.len(), ends.len());
    for (second, (end, _)) in (1..).zip(&ends) {
        assert_eq!(position_at(&marks, second), Some(*end));
    }
    assert_eq!(position_at(&marks, u64::from(RECORDS) + 1), None);
}

/// A restart within a second, or after the clock was set back, must not add a mark that hides all
/// later ones.
#[test]
fn marks_stay_readable_after_restarts_within_a_second_and_with_an_earlier_clock() {
    let directory = TempDir::new().expect("tempdir");
    let append = |seconds: &[u64]| {
        let mut log = open(directory.path());
        for second in seconds {
            log.note_second(*second);
            log.append(Class::Job, b"head", &[b"body"]).expect("appended");
        }
        log.syncer().sync().expect("synced");
        (log.id(), log.marked_second())
    };
    append(&[10, 11, 12]);
    append(&[12, 12]);
    append(&[7, 8]);
    let (id, marked) = append(&[12, 13, 14]);
    let bytes = fs::read(directory.path().join(TIMES_FILE)).expect("the index");
    let seconds: Vec<u64> = time_marks(&bytes, id).iter().map(|mark| mark.second).collect();
    assert_eq!((seconds.as_slice(), marked), (&[10, 11, 12, 13, 14][..], 14));
}

#[test]
fn the_extent_is_that_of_the_open_log() {
    let directory = TempDir::new().expect("tempdir");
    let disk = RealDisk::read_only(directory.path());
    assert_eq!(extent(&disk).expect("read"), None);
    let (log, _) = filled(directory.path());
    let found = extent(&disk).expect("read").expect("a log");
    assert_eq!((found.log_id, found.end), (log.id(), log.position()));
    assert_eq!(found.segments, log.segments());
}

#[test]
fn a_torn_tail_is_left_out_and_a_damaged_segment_is_an_error() {
    let directory = TempDir::new().expect("tempdir");
    let (log, _) = filled(directory.path());
    let end = log.position();
    let path = |number| directory.path().join(segment_file_name(number));
    let mut bytes = fs::read(path(end.segment)).expect("the tail");
    bytes[end.offset as usize + 20] = 1;
    fs::write(path(end.segment), bytes).expect("written");
    let disk = RealDisk::read_only(directory.path());
    assert_eq!(extent(&disk).expect("read").expect("a log").end, end);

    let mut bytes = fs::read(path(end.segment - 1)).expect("a sealed segment");
    bytes.truncate(bytes.len() - 1);
    fs::write(path(end.segment - 1), bytes).expect("written");
    let error = extent(&disk).expect_err("rejected").to_string();
    assert!(error.contains(&segment_file_name(end.segment - 1)), "{error}");
}

/// A log that is cut at a position, with the segments from the one that it names, opens completely.
#[test]
fn a_position_needs_the_segments_from_the_oldest_that_it_names() {
    let directory = TempDir::new().expect("tempdir");
    let (log, ends) = filled(directory.path());
    let disk = RealDisk::read_only(directory.path());
    let numbers: Vec<u32> = log.segments().iter().map(|segment| segment.number).collect();
    let from = complete_from(&disk, log.id(), &numbers).expect("read").expect("a position");
    let mut complete = 0;
    for (end, oldest) in ends.iter().filter(|(end, _)| end.segment >= numbers[0]) {
        let named = oldest_segment_at(&disk, log.id(), *end).expect("read");
        assert_eq!(named, Some(*oldest), "{end}");
        assert_eq!(*end >= from, *oldest >= numbers[0], "{end}, {from}");
        complete += usize::from(*end >= from);
    }
    assert!(complete > 50, "{complete}");
}

#[test]
fn a_log_that_is_cut_at_a_second_opens_there() {
    let directory = TempDir::new().expect("tempdir");
    let (log, ends) = filled(directory.path());
    let first = log.segments()[0].number;
    let mut opened_logs = 0;
    for (second, (end, oldest)) in
        ends.iter().enumerate().filter(|(_, (_, oldest))| *oldest >= first)
    {
        let cut = TempDir::new().expect("tempdir");
        for number in *oldest..=end.segment {
            let name = segment_file_name(number);
            fs::copy(directory.path().join(&name), cut.path().join(&name)).expect("copied");
        }
        let last = cut.path().join(segment_file_name(end.segment));
        let file = fs::File::options().write(true).open(last).expect("opened");
        file.set_len(end.offset.into()).expect("cut");
        fs::copy(directory.path().join(TIMES_FILE), cut.path().join(TIMES_FILE)).expect("copied");
        let opened = open(cut.path());
        let mut last_head = None;
        for segment in opened.segments() {
            let mut visit =
                |head: weir_log::IndexedRecord<'_>| last_head = Some(head.head.to_vec());
            opened.heads(segment.number, &mut visit).expect("readable");
        }
        let expected = u32::try_from(second).expect("small").checked_sub(1);
        assert_eq!(last_head, expected.map(|number| number.to_le_bytes().to_vec()));
        // Marks behind the end are dropped with it.
        let bytes = fs::read(cut.path().join(TIMES_FILE)).expect("the index");
        let marks = time_marks(&bytes, opened.id());
        assert!(marks.iter().all(|mark| mark.position <= *end), "{end}");
        opened_logs += 1;
    }
    assert!(opened_logs > 50, "{opened_logs}");
}
