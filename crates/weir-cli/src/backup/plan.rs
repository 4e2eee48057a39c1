//! Decides which files of which backups a restore needs.
//!
//! Jobs are restored to a second by cutting their log where that second began. The log then ends in
//! a state before the time of the backup that has it, and may need segments that were removed by
//! that time: those are taken from earlier backups of the same log.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, bail};
use weir_log::{RealDisk, RecordPosition, TimeMark};

use super::manifest::{BackupFile, Discarded, JobLogPart};
use super::repository::Backup;
use super::sources::log_path;

/// What a restore copies.
#[derive(Debug)]
pub(crate) struct RestorePlan<'a> {
    /// `None`: the backup has no jobs.
    pub(crate) jobs: Option<JobLogPlan>,
    /// The backup that has everything else.
    pub(crate) rest: &'a Backup,
    /// The second to which jobs are restored, if one was named.
    pub(crate) at: Option<u64>,
}

/// How the job log is restored.
#[derive(Debug)]
pub(crate) struct JobLogPlan {
    /// The name of the backup that has the end of the log.
    pub(crate) backup: String,
    pub(crate) log_id: u64,
    pub(crate) end: RecordPosition,
    /// The time index up to `end`.
    pub(crate) marks: Vec<TimeMark>,
    /// What earlier restores have discarded.
    pub(crate) discarded: Vec<Discarded>,
    /// Segments, oldest first, and other files of the log.
    pub(crate) files: Vec<PlannedFile>,
}

/// A file to copy into `data_dir`.
#[derive(Debug)]
pub(crate) struct PlannedFile {
    pub(crate) from: PathBuf,
    pub(crate) file: BackupFile,
    /// How many of its bytes are copied; all are read, so that the checksum is compared.
    pub(crate) bytes: u64,
}

/// A segment in a backup.
#[derive(Clone, Debug)]
struct SegmentCopy {
    from: PathBuf,
    file: BackupFile,
}

/// Why the backups can't be restored to a second.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotCovered(String);

/// The segments of one log that several backups have together.
struct LogCopies {
    log_id: u64,
    segments: BTreeMap<u32, SegmentCopy>,
    marks: Vec<TimeMark>,
}

/// Plans a restore of the newest of `backups` (oldest first), or to the second `at`.
///
/// # Errors
/// No backup covers that second; the text says which seconds are covered.
pub(crate) fn plan(backups: &[Backup], at: Option<u64>) -> anyhow::Result<RestorePlan<'_>> {
    let newest = backups.last().context("there is no complete backup")?;
    let Some(second) = at else {
        let jobs = match &newest.manifest.jobs {
            Some(part) => Some(LogCopies::of(newest, part)?.plan(newest, part.end())?),
            None => None,
        };
        return Ok(RestorePlan { jobs, rest: newest, at });
    };
    let Some(base) = first_until(backups, second) else {
        bail!(
            "the newest backup is of {}; without --at it is restored as it is ({})",
            newest.manifest.at,
            seconds_covered(backups)
        );
    };
    let rest = backups.iter().rfind(|it| it.manifest.last_second() <= second);
    let jobs = plan_jobs_at(&backups[..=base], second).map_err(|error| {
        match error.is::<NotCovered>() {
            true => error.context(seconds_covered(backups)),
            false => error,
        }
    })?;
    Ok(RestorePlan { jobs, rest: rest.unwrap_or(&backups[base]), at })
}

/// Returns the index of the first backup whose jobs reach `second`; if none has jobs, of the first
/// that is not earlier. One whose time is later than that of a newer backup was made by a clock that was
/// ahead: its times count for nothing.
fn first_until(backups: &[Backup], second: u64) -> Option<usize> {
    let has_jobs = backups.iter().any(|backup| backup.manifest.jobs.is_some());
    let was_ahead = |index: usize| {
        let mut newer = backups[index + 1..].iter();
        newer.any(|it| it.manifest.last_second() < backups[index].manifest.last_second())
    };
    let reaches = |backup: &Backup| match &backup.manifest.jobs {
        Some(part) => part.restorable_until.is_some_and(|until| until >= second),
        None => !has_jobs && backup.manifest.last_second() >= second,
    };
    (0..backups.len()).find(|index| reaches(&backups[*index]) && !was_ahead(*index))
}

/// Plans the job log as it was when `second` began. The last backup is the first that covers it.
fn plan_jobs_at(backups: &[Backup], second: u64) -> anyhow::Result<Option<JobLogPlan>> {
    let (base, earlier) = backups.split_last().context("there is no backup")?;
    let Some(part) = &base.manifest.jobs else { return Ok(None) };
    if let Some(period) = part.discarded.iter().find(|it| it.from < second && second < it.until) {
        return Err(discarded_by(*period).into());
    }
    let mut copies = LogCopies::of(base, part)?;
    for backup in earlier.iter().rev() {
        copies.add_earlier(backup)?;
    }
    if copies.marks.first().is_none_or(|first| second < first.second) {
        return Err(NotCovered("the index of times begins after it".to_owned()).into());
    }
    let end = weir_log::position_at(&copies.marks, second);
    let end = end.ok_or_else(|| NotCovered("the index of times ends before it".to_owned()))?;
    copies.plan(base, end.min(part.end())).map(Some)
}

/// Returns which seconds each backup covers by itself.
fn seconds_covered(backups: &[Backup]) -> String {
    let covered = |backup: &Backup| {
        let part = backup.manifest.jobs.as_ref()?;
        let (from, until) = part.restorable_from.zip(part.restorable_until)?;
        Some(format!("{} to {}", stamp(from), stamp(until)))
    };
    let ranges: Vec<String> = backups.iter().filter_map(covered).collect();
    match ranges.is_empty() {
        true => "no backup can be restored to a named second".to_owned(),
        false => {
            format!("jobs can't be restored to this second; covered are {}", ranges.join(", "))
        }
    }
}

/// Formats a second as RFC 3339.
pub(crate) fn stamp(second: u64) -> String {
    const MILLIS_PER_SECOND: u64 = 1_000;
    let time = weir_base::clock::Timestamp::from_millis(second * MILLIS_PER_SECOND);
    weir_jobs::stamp::rfc3339(time)
}

impl LogCopies {
    fn of(backup: &Backup, part: &JobLogPart) -> anyhow::Result<Self> {
        let log_id = part.id()?;
        let mut copies = Self { log_id, segments: BTreeMap::new(), marks: Vec::new() };
        copies.segments.extend(segments_of(backup));
        copies.marks = marks_of(backup, log_id)?;
        Ok(copies)
    }

    /// Adds the segments and marks of an earlier backup, if it is one of the same log and history.
    /// A restore begins another history of the same log: its segments have the same numbers and
    /// other contents.
    fn add_earlier(&mut self, backup: &Backup) -> anyhow::Result<()> {
        let Some(part) = &backup.manifest.jobs else { return Ok(()) };
        if part.id()? != self.log_id || !self.continues(backup, part)? {
            return Ok(());
        }
        let lowest = self.segments.keys().next().copied().unwrap_or(u32::MAX);
        self.segments.extend(segments_of(backup).filter(|(number, _)| *number < lowest));
        let first = self.marks.first().map_or(u64::MAX, |first| first.second);
        let mut marks = marks_of(backup, self.log_id)?;
        marks.retain(|mark| mark.second < first);
        marks.append(&mut self.marks);
        self.marks = marks;
        Ok(())
    }

    /// Returns whether the segment in which the earlier backup ends begins with the same bytes here.
    fn continues(&self, earlier: &Backup, part: &JobLogPart) -> anyhow::Result<bool> {
        let path = segment_path(part.segment);
        let (Some(here), Some(there)) =
            (self.segments.get(&part.segment), earlier.manifest.file(&path))
        else {
            return Ok(false);
        };
        if there.bytes > here.file.bytes {
            return Ok(false);
        }
        let open = File::open(&here.from);
        let mut file = open.with_context(|| format!("cannot read {}", here.from.display()))?;
        let mut begin = Vec::new();
        Read::by_ref(&mut file).take(there.bytes).read_to_end(&mut begin)?;
        Ok(crc32c::crc32c(&begin) == there.crc32c)
    }

    fn plan(&self, base: &Backup, end: RecordPosition) -> anyhow::Result<JobLogPlan> {
        let last = self.segments.get(&end.segment).ok_or_else(|| missing(end.segment))?;
        let folder = last.from.parent().context("a segment is in a folder")?;
        let disk = RealDisk::read_only(folder);
        let oldest = weir_log::oldest_segment_at(&disk, self.log_id, end)
            .with_context(|| format!("cannot read {}", last.from.display()))?;
        // Format 1 does not record it: then all of them are needed.
        let lowest = self.segments.keys().next().copied().unwrap_or(end.segment);
        let mut files = Vec::new();
        for number in oldest.unwrap_or(lowest)..=end.segment {
            let SegmentCopy { from, file } =
                self.segments.get(&number).ok_or_else(|| missing(number))?.clone();
            let is_last = number == end.segment;
            let bytes = if is_last { end.offset.into() } else { file.bytes };
            if bytes > file.bytes {
                bail!("{} is shorter than the manifest says", from.display());
            }
            files.push(PlannedFile { from, file, bytes });
        }
        files.extend(other_log_files(base));
        let marks = self.marks.iter().filter(|mark| mark.position <= end).copied().collect();
        let backup = base.name.clone();
        let part = base.manifest.jobs.as_ref();
        let discarded = part.map_or_else(Vec::new, |part| part.discarded.clone());
        Ok(JobLogPlan { backup, log_id: self.log_id, end, marks, discarded, files })
    }
}

fn discarded_by(Discarded { from, until }: Discarded) -> NotCovered {
    let (from, until) = (stamp(from), stamp(until));
    NotCovered(format!(
        "a restore at {until} continued with the jobs as of {from}, and no backup that was made in between reaches this second"
    ))
}

fn missing(segment: u32) -> NotCovered {
    let file = weir_log::segment_file_name(segment);
    NotCovered(format!("{file} is in no backup: Weir had removed it before one was made"))
}

fn segment_path(number: u32) -> String {
    log_path(&weir_log::segment_file_name(number))
}

/// Returns the segments of a backup with their numbers.
fn segments_of(backup: &Backup) -> impl Iterator<Item = (u32, SegmentCopy)> + '_ {
    backup.manifest.files.iter().filter_map(move |file| {
        let name = file.path.strip_prefix(&log_path(""))?;
        let number = weir_log::segment_number(name)?;
        Some((number, SegmentCopy { from: backup.path(&file.path), file: file.clone() }))
    })
}

/// Returns the files of the log that are neither segments nor the time index.
fn other_log_files(backup: &Backup) -> impl Iterator<Item = PlannedFile> + '_ {
    let is_other = |file: &&BackupFile| {
        file.path.strip_prefix(&log_path("")).is_some_and(|name| {
            weir_log::segment_number(name).is_none() && name != weir_log::TIMES_FILE
        })
    };
    let planned = move |file: &BackupFile| PlannedFile {
        from: backup.path(&file.path),
        file: file.clone(),
        bytes: file.bytes,
    };
    backup.manifest.files.iter().filter(is_other).map(planned)
}

fn marks_of(backup: &Backup, log_id: u64) -> anyhow::Result<Vec<TimeMark>> {
    let path = log_path(weir_log::TIMES_FILE);
    let Some(file) = backup.manifest.file(&path) else { return Ok(Vec::new()) };
    let from = backup.path(&path);
    let bytes = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
    if (bytes.len() as u64, crc32c::crc32c(&bytes)) != (file.bytes, file.crc32c) {
        bail!("{} is damaged: its checksum does not match", from.display());
    }
    Ok(weir_log::time_marks(&bytes, log_id))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use weir_base::clock::Timestamp;

    use super::*;
    use crate::backup::manifest::{JobLogPart, Manifest};

    fn backup(sequence: u64, second: u64) -> Backup {
        let mut manifest = Manifest::new(Timestamp::from_millis(second * 1_000), sequence);
        let part = JobLogPart::new(format!("{:016x}", 7), 1, 0);
        manifest.jobs = Some(JobLogPart { restorable_until: Some(second), ..part });
        Backup { name: sequence.to_string(), folder: PathBuf::new(), manifest }
    }

    #[test]
    fn a_backup_of_a_clock_that_was_ahead_covers_no_second() {
        let backups = [backup(1, 100), backup(2, 9_000), backup(3, 200), backup(4, 300)];
        for (second, expected) in
            [(100, Some(0)), (101, Some(2)), (250, Some(3)), (301, None), (9_000, None)]
        {
            assert_eq!(first_until(&backups, second), expected, "{second}");
        }
        assert_eq!(first_until(&backups[..2], 9_000), Some(1), "nothing shows that it was ahead");
    }
}
