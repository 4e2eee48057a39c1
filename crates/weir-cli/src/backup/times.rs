//! The index of times of the log that is backed up.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use weir_jobs::view::{BackupPoint, BackupSegment};
use weir_log::{RealDisk, RecordPosition, TimeMark};

use super::manifest::MILLIS_PER_SECOND;
use super::open::open_if_present;

/// Reads the index of times of a log. Without one it is empty.
fn read_times(directory: &Path) -> anyhow::Result<Vec<u8>> {
    let path = directory.join(weir_log::TIMES_FILE);
    let mut bytes = Vec::new();
    if let Some(mut file) = open_if_present(&path)? {
        file.read_to_end(&mut bytes).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(bytes)
}

/// Returns [`BackupPoint::marked_second`] of a log that is not open: later than any mark if the
/// index is damaged.
pub(crate) fn last_marked_second(directory: &Path, log_id: u64) -> anyhow::Result<u64> {
    let bytes = read_times(directory)?;
    let marks = weir_log::time_marks(&bytes, log_id);
    let is_whole = bytes.is_empty() || weir_log::time_marks_file(&marks, log_id) == bytes;
    let last = marks.last().map_or(0, |last| last.second);
    Ok(if is_whole { last } else { u64::MAX })
}

/// Returns the marks up to the end of a state of the log. If no mark was lost, nothing was appended
/// after the last one's second, so that the time of the state gets a mark at the log's end. Marks of
/// later seconds than the state are of a clock that was ahead: they and what follows are left out.
pub(crate) fn marks_until(directory: &Path, point: &BackupPoint) -> anyhow::Result<Vec<TimeMark>> {
    let log_id = u64::from_str_radix(&point.log_id, 16).context("the log's id is not a number")?;
    let mut marks = weir_log::time_marks(&read_times(directory)?, log_id);
    let end = RecordPosition { segment: point.segment, offset: point.offset };
    let last = |marks: &[TimeMark]| marks.last().map_or(0, |last| last.second);
    let is_complete = last(&marks) >= point.marked_second;
    let second = point.at_ms / MILLIS_PER_SECOND;
    let was_ahead = last(&marks) > second;
    marks.retain(|mark| mark.position <= end && mark.second <= second);
    if is_complete && !was_ahead && last(&marks) < second {
        marks.push(TimeMark { second, position: end });
    }
    Ok(marks)
}

/// Returns the first second to which the log with these segments can be restored: the segments
/// before them were removed from the log by then. `None`: to no named second.
pub(crate) fn restorable_from(
    directory: &Path,
    log_id: u64,
    segments: &[BackupSegment],
    marks: &[TimeMark],
) -> Option<u64> {
    let numbers: Vec<u32> = segments.iter().map(|segment| segment.number).collect();
    let disk = RealDisk::read_only(directory);
    // Without an answer the backup is as good, for its own time.
    let begin = weir_log::complete_from(&disk, log_id, &numbers).ok().flatten()?;
    let mark = marks.iter().find(|mark| mark.position >= begin)?;
    Some(mark.second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(second: u64, offset: u32) -> TimeMark {
        TimeMark { second, position: RecordPosition { segment: 1, offset } }
    }

    #[test]
    fn a_clock_that_was_ahead_gives_no_time_to_what_follows() {
        let folder = tempfile::tempdir().expect("a folder");
        let point = |at_second: u64, marked_second: u64| BackupPoint {
            log_id: format!("{:016x}", 7),
            at_ms: at_second * MILLIS_PER_SECOND,
            segment: 1,
            offset: 900,
            marked_second,
            segments: Vec::new(),
        };
        let until = |marks: &[TimeMark], point: &BackupPoint| {
            let path = folder.path().join(weir_log::TIMES_FILE);
            std::fs::write(path, weir_log::time_marks_file(marks, 7)).expect("written");
            marks_until(folder.path(), point).expect("read")
        };
        let [first, second] = [mark(1_000, 100), mark(1_010, 200)];
        let marks = until(&[first, second], &point(1_020, 1_010));
        assert_eq!(marks, [first, second, mark(1_020, 900)]);
        let ahead = mark(9_000, 300);
        let marks = until(&[first, second, ahead], &point(1_020, 9_000));
        assert_eq!(marks, [first, second], "what was appended since has no time");
    }
}
