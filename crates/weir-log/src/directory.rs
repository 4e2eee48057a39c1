//! Lists the segment files of a directory, with their headers and trailers.

use crate::disk::{self, Disk, DiskFile};
use crate::error::OpenError;
use crate::format::{
    self, HEADER_BYTES, Seal, SegmentHeader, TRAILER_BYTES, Trailer, VERSION, VERSION_MIN,
};
use crate::scan::Scanner;

/// The segment files in a directory, before any of their content is trusted.
pub(crate) struct Directory<D> {
    disk: D,
    /// Sorted by number.
    pub(crate) files: Vec<SegmentFile>,
}

/// One segment file.
pub(crate) struct SegmentFile {
    pub(crate) number: u32,
    /// `None` if it is unreadable or has another number than the file.
    pub(crate) header: Option<SegmentHeader>,
    pub(crate) trailer: Option<Trailer>,
}

impl SegmentFile {
    /// Returns the layout if header and trailer are those of a sealed segment of this log.
    pub(crate) fn seal(&self, log_id: u64) -> Option<Seal> {
        let (header, trailer) = (self.header?, self.trailer?);
        (header.log_id == log_id && trailer.log_id == log_id).then_some(trailer.seal)
    }
}

impl<D: Disk> Directory<D> {
    pub(crate) fn read(disk: &D) -> Result<Directory<D>, OpenError> {
        let names = disk.list().map_err(OpenError::io("list the log's directory"))?;
        let mut numbers: Vec<u32> = names.iter().filter_map(|n| format::file_number(n)).collect();
        numbers.sort_unstable();
        let mut directory = Directory { disk: disk.clone(), files: Vec::new() };
        for number in numbers {
            let found = directory.inspect(number)?;
            directory.files.push(found);
        }
        Ok(directory)
    }

    /// Returns the number of the oldest segment, or 1 if there is none.
    pub(crate) fn first(&self) -> u32 {
        self.files.first().map_or(1, |found| found.number)
    }

    pub(crate) fn open(&self, number: u32) -> Result<D::File, OpenError> {
        let name = format::file_name(number);
        self.disk.open(&name).map_err(OpenError::io(format!("open {name}")))
    }

    pub(crate) fn create(&self, number: u32) -> Result<D::File, OpenError> {
        let name = format::file_name(number);
        self.disk.create(&name).map_err(OpenError::io(format!("make {name}")))
    }

    pub(crate) fn sync(&self) -> Result<(), OpenError> {
        self.disk.sync_dir().map_err(OpenError::io("sync the log's directory"))
    }

    pub(crate) fn remove(&self, number: u32) -> Result<(), OpenError> {
        let name = format::file_name(number);
        self.disk.remove(&name).map_err(OpenError::io(format!("delete {name}")))
    }

    /// Returns the log's id, or `None` if nothing was ever written. Returns an error if the files
    /// disagree.
    pub(crate) fn identity(&self) -> Result<Option<u64>, OpenError> {
        let mut identity = None;
        for found in &self.files {
            let header = found.header.map(|header| header.log_id);
            for id in header.into_iter().chain(found.trailer.map(|trailer| trailer.log_id)) {
                let expected = *identity.get_or_insert(id);
                if id != expected {
                    let file = format::file_name(found.number);
                    return Err(OpenError::Foreign { file, found: id, expected });
                }
            }
        }
        if identity.is_none() && !self.is_untouched()? {
            return Err(OpenError::NoIdentity);
        }
        Ok(identity)
    }

    fn inspect(&self, number: u32) -> Result<SegmentFile, OpenError> {
        let name = format::file_name(number);
        let io = || OpenError::io(format!("read {name}"));
        let file = self.open(number)?;
        let size = file.size().map_err(io())?;
        let mut header = [0; HEADER_BYTES as usize];
        let read = disk::read_full(&file, &mut header, 0).map_err(io())?;
        let header = SegmentHeader::decode(&header[..read]).filter(|h| h.number == number);
        if let Some(SegmentHeader { version, .. }) = header
            && !(VERSION_MIN..=VERSION).contains(&version)
        {
            return Err(OpenError::Version { file: name, found: version, expected: VERSION });
        }
        let mut trailer = [0; TRAILER_BYTES as usize];
        let at = size.saturating_sub(TRAILER_BYTES.into());
        let read = disk::read_full(&file, &mut trailer, at).map_err(io())?;
        let trailer = Trailer::decode(&trailer[..read], size).filter(|t| t.number == number);
        Ok(SegmentFile { number, header, trailer })
    }

    /// Returns whether no file has data after its header, which happens when power fails while the
    /// first segment is created.
    fn is_untouched(&self) -> Result<bool, OpenError> {
        for found in &self.files {
            let file = self.open(found.number)?;
            let last = Scanner::new(&file, 0, found.number)
                .and_then(|mut scanner| scanner.last_byte(HEADER_BYTES))
                .map_err(OpenError::io(format!("read {}", format::file_name(found.number))))?;
            if last.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
