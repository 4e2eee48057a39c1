//! The explicit way out of corruption: keep every record whose checksum holds, where it is.
//!
//! A damaged segment is written anew with a gap record over each hole, so no position changes.
//! The damaged file is set aside as `NAME.damaged` (`NAME.2.damaged`, ... if there is one).

use crate::directory::{Directory, Found};
use crate::disk::{self, Disk, DiskFile};
use crate::error::OpenError;
use crate::format::{self, HEADER_BYTES, Kind, RECORD_HEADER_BYTES, Seed, SegmentHeader};
use crate::index::Index;
use crate::scan::Scanner;
use crate::survey::{Hole, Survey, survey};

/// Salvages of one segment whose damaged files are all kept.
const SET_ASIDE_MAX: u32 = 1000;
const COPY_BYTES: u32 = 1024 * 1024;

/// What salvage did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvage {
    /// Data records in the log now.
    pub records: u64,
    /// Damaged places, missing files included.
    pub damages: u64,
    /// Bytes in damaged places (of missing files nothing is known).
    pub bytes_lost: u64,
    /// Segments that were written anew.
    pub files: Vec<SalvagedFile>,
}

impl Salvage {
    fn add(&mut self, done: Option<SalvagedFile>) {
        self.damages += done.as_ref().map_or(0, |file| file.damages);
        self.bytes_lost += done.as_ref().map_or(0, |file| file.bytes_lost);
        self.files.extend(done);
    }
}

/// A segment that was written anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedFile {
    pub file: String,
    /// Where the damaged file is now; `None` if the file was missing.
    pub set_aside: Option<String>,
    pub records: u32,
    pub damages: u64,
    pub bytes_lost: u64,
}

/// Repairs the log in `disk`, which nobody has open, so that it opens with every record that still
/// holds. Sound segments are not touched. Can be repeated if it was interrupted.
///
/// # Errors
/// `Io` (a rewritten segment needs room beside the damaged one), `Foreign`, `Version`,
/// `NoIdentity`.
pub fn salvage<D: Disk>(disk: &D) -> Result<Salvage, OpenError> {
    restore_interrupted(disk)?;
    let directory = Directory::read(disk)?;
    let mut report = Salvage::default();
    let Some(log_id) = directory.identity()? else {
        return Ok(report);
    };
    let salvager = Salvager { disk, directory: &directory, log_id };
    let (last, mut last_survey) = salvager.last_used()?;
    let mut files = directory.files.iter().peekable();
    for number in directory.first()..=last {
        let found = files.next_if(|found| found.number == number);
        let is_last = number == last;
        let known = last_survey.take_if(|_| is_last);
        let done = salvager.segment(number, found, is_last, known, &mut report)?;
        report.add(done);
    }
    for found in files {
        let done = salvager.leftover(found.number)?;
        report.add(done);
    }
    disk.sync_dir().map_err(OpenError::io("sync the log's directory"))?;
    Ok(report)
}

struct Salvager<'a, D: Disk> {
    disk: &'a D,
    directory: &'a Directory<D>,
    log_id: u64,
}

impl<D: Disk> Salvager<'_, D> {
    /// The newest segment that holds anything, and what is known of it.
    fn last_used(&self) -> Result<(u32, Option<Survey>), OpenError> {
        for found in self.directory.files.iter().rev() {
            let survey = self.survey(found.number)?;
            if survey.offset > HEADER_BYTES || survey.sealed {
                return Ok((found.number, Some(survey)));
            }
        }
        Ok((self.directory.first(), None))
    }

    fn survey(&self, number: u32) -> Result<Survey, OpenError> {
        let file = self.directory.open(number)?;
        let scanner = Scanner::new(&file, self.log_id, number);
        scanner.and_then(survey).map_err(io("read", number))
    }

    /// Writes one segment anew if it needs it.
    fn segment(
        &self,
        number: u32,
        found: Option<&Found>,
        last: bool,
        known: Option<Survey>,
        report: &mut Salvage,
    ) -> Result<Option<SalvagedFile>, OpenError> {
        let file = format::file_name(number);
        let Some(found) = found else {
            self.write_empty(number)?;
            let done =
                SalvagedFile { file, set_aside: None, records: 0, damages: 1, bytes_lost: 0 };
            return Ok(Some(done));
        };
        let survey = known.map_or_else(|| self.survey(number), Ok)?;
        let records = survey.index.records();
        report.records += u64::from(records);
        let complete = last || survey.sealed;
        if found.header.is_some() && survey.holes.is_empty() && survey.torn.is_none() && complete {
            return Ok(None);
        }
        let torn = survey.torn.iter();
        let lost = |hole: &Hole| u64::from(hole.end - hole.start);
        let bytes_lost = survey.holes.iter().chain(torn.clone()).map(lost).sum();
        let damages =
            survey.holes.len() as u64 + torn.count() as u64 + u64::from(found.header.is_none());
        self.rewrite(number, survey, last)?;
        let set_aside = Some(self.swap(number)?);
        Ok(Some(SalvagedFile { file, set_aside, records, damages, bytes_lost }))
    }

    /// A segment behind the last valid record: made ahead and never used, or wholly damaged.
    fn leftover(&self, number: u32) -> Result<Option<SalvagedFile>, OpenError> {
        let Some(torn) = self.survey(number)?.torn else {
            self.directory.remove(number)?;
            return Ok(None);
        };
        let aside = self.free_aside_name(number)?;
        let file = format::file_name(number);
        self.disk.rename(&file, &aside).map_err(io("set aside", number))?;
        let bytes_lost = (torn.end - torn.start).into();
        Ok(Some(SalvagedFile { file, set_aside: Some(aside), records: 0, damages: 1, bytes_lost }))
    }

    /// Writes the segment's sound content beside it.
    fn rewrite(&self, number: u32, survey: Survey, last: bool) -> Result<(), OpenError> {
        let from = self.directory.open(number)?;
        let to = self.disk.create(&new_name(number)).map_err(io("rewrite", number))?;
        copy(&from, &to, survey.offset).map_err(io("copy", number))?;
        let seed = Seed::new(self.log_id, number);
        let write = |bytes: &[u8], offset: u32| {
            disk::write_full(&to, bytes, offset.into()).map_err(io("rewrite", number))
        };
        write(&SegmentHeader::encode(self.log_id, number), 0)?;
        for hole in &survey.holes {
            let zeros = vec![0; (hole.end - hole.start - RECORD_HEADER_BYTES) as usize];
            let mut gap = Vec::with_capacity(zeros.len() + RECORD_HEADER_BYTES as usize);
            format::put_record(&mut gap, seed, hole.start, Kind::Gap, &[], &[&zeros]);
            write(&gap, hole.start)?;
        }
        if survey.sealed || !last {
            let (_, bytes) = survey.index.seal(self.log_id, number, survey.offset);
            write(&bytes, survey.offset)?;
        }
        to.sync_data().map_err(io("sync", number))
    }

    /// In the place of a file that is missing: a sealed segment without records.
    fn write_empty(&self, number: u32) -> Result<(), OpenError> {
        let mut bytes = SegmentHeader::encode(self.log_id, number);
        let (_, seal) = Index::new().seal(self.log_id, number, HEADER_BYTES);
        bytes.extend_from_slice(&seal);
        let file = self.disk.create(&new_name(number)).map_err(io("write", number))?;
        disk::write_full(&file, &bytes, 0)
            .and_then(|()| file.sync_data())
            .and_then(|()| self.disk.rename(&new_name(number), &format::file_name(number)))
            .map_err(io("write", number))
    }

    /// Puts the rewritten file in the damaged one's place; returns where that is now.
    fn swap(&self, number: u32) -> Result<String, OpenError> {
        let name = format::file_name(number);
        let aside = self.free_aside_name(number)?;
        self.disk
            .sync_dir() // the new file's name, before the old one loses its own
            .and_then(|()| self.disk.rename(&name, &aside))
            .and_then(|()| self.disk.rename(&new_name(number), &name))
            .and_then(|()| self.disk.sync_dir())
            .map_err(io("set aside", number))?;
        Ok(aside)
    }

    /// Once all names are taken the last one is used again.
    fn free_aside_name(&self, number: u32) -> Result<String, OpenError> {
        let names = self.disk.list().map_err(OpenError::io("list the log's directory"))?;
        let free = (1..SET_ASIDE_MAX)
            .map(|attempt| aside_name(number, attempt))
            .find(|aside| !names.contains(aside));
        Ok(free.unwrap_or_else(|| aside_name(number, SET_ASIDE_MAX)))
    }
}

/// A salvage that stopped between its two renames left a segment without its name.
fn restore_interrupted<D: Disk>(disk: &D) -> Result<(), OpenError> {
    let names = disk.list().map_err(OpenError::io("list the log's directory"))?;
    let unfinished = |name: &String| format::file_number(name.strip_suffix(".new")?);
    for number in names.iter().filter_map(unfinished) {
        let latest = (1..=SET_ASIDE_MAX)
            .map(|attempt| aside_name(number, attempt))
            .rfind(|aside| names.contains(aside));
        let name = format::file_name(number);
        if let Some(aside) = latest.filter(|_| !names.contains(&name)) {
            disk.rename(&aside, &name).map_err(io("restore", number))?;
        }
        disk.remove(&new_name(number)).map_err(io("restore", number))?;
    }
    disk.sync_dir().map_err(OpenError::io("sync the log's directory"))
}

fn copy<F: DiskFile>(from: &F, to: &F, end: u32) -> std::io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES.min(end) as usize];
    let mut at = 0;
    while at < end {
        let wanted = (end - at).min(COPY_BYTES);
        let read = disk::read_full(from, &mut buffer[..wanted as usize], at.into())?;
        disk::write_full(to, &buffer[..read], at.into())?;
        at += wanted;
    }
    Ok(())
}

fn new_name(number: u32) -> String {
    format!("{}.new", format::file_name(number))
}

fn aside_name(number: u32, attempt: u32) -> String {
    match attempt {
        1 => format!("{}.damaged", format::file_name(number)),
        _ => format!("{}.{attempt}.damaged", format::file_name(number)),
    }
}

fn io(what: &str, number: u32) -> impl FnOnce(std::io::Error) -> OpenError {
    OpenError::io(format!("{what} {}", format::file_name(number)))
}
