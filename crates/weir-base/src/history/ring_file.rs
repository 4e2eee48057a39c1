//! The file of a ring: a header and rows of one size. Never incomplete: a new file, or one with a
//! changed shape, is written under another name and renamed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::band::Band;
use super::ring::RingShape;
use super::{header, row};

/// Approximate size of a read of rows.
pub(super) const READ_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct RingFile {
    file: File,
    head_bytes: usize,
}

impl RingFile {
    /// Opens the file for `shape`. An older file with other columns or sizes is rewritten; a
    /// damaged one is renamed and replaced.
    pub(super) fn open(path: &Path, shape: &RingShape) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Self::create(path, shape);
            }
            Err(error) => return Err(error),
        };
        let mut start = vec![0; header::BYTES_MAX];
        let length = read_up_to(&file, &mut start, 0)?;
        match header::decode(&start[..length]) {
            Some((found, head_bytes)) if found == *shape => Ok(Self { file, head_bytes }),
            Some((found, head_bytes)) => Self { file, head_bytes }.rewrite(path, &found, shape),
            None => {
                let aside = path.with_extension("damaged");
                tracing::warn!(path = %path.display(), aside = %aside.display(),
                    "history file has no readable head; set aside, a new one begins");
                fs::rename(path, aside)?;
                Self::create(path, shape)
            }
        }
    }

    /// Creates the file under another name first, so that a crash leaves the old file or the new
    /// one.
    fn create(path: &Path, shape: &RingShape) -> io::Result<Self> {
        let fresh = Self::create_at(&path.with_extension("new"), shape)?;
        fs::rename(path.with_extension("new"), path)?;
        Ok(fresh)
    }

    fn create_at(path: &Path, shape: &RingShape) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
        let head = header::encode(shape);
        file.write_all_at(&head, 0)?;
        Ok(Self { file, head_bytes: head.len() })
    }

    /// Copies the rows into a file of the new shape, matching columns by name.
    fn rewrite(self, path: &Path, old: &RingShape, new: &RingShape) -> io::Result<Self> {
        let fresh_path = path.with_extension("new");
        let fresh = Self::create_at(&fresh_path, new)?;
        let of_old = |name: &String| old.columns.iter().position(|column| column == name);
        let sources: Vec<Option<usize>> = new.columns.iter().map(of_old).collect();
        let mut rows = Vec::new();
        if old.step_seconds == new.step_seconds {
            self.every_row(old, &mut |second, row| {
                let band = |source: &Option<usize>| {
                    source.map_or(Band::NONE, |at| row::band(row, at, old.values_per_column))
                };
                rows.push((second, sources.iter().map(band).collect::<Vec<_>>()));
            });
        }
        rows.sort_unstable_by_key(|(second, _)| *second);
        let mut encoded = Vec::new();
        for (second, bands) in &rows {
            row::encode(*second, bands, new.values_per_column, &mut encoded);
            fresh.write(new, *second, &encoded)?;
        }
        fresh.file.sync_data()?;
        fs::rename(fresh_path, path)?;
        Ok(fresh)
    }

    fn offset(&self, shape: &RingShape, slot: u64) -> u64 {
        self.head_bytes as u64 + slot * shape.row_bytes() as u64
    }

    pub(super) fn write(&self, shape: &RingShape, second: u64, encoded: &[u8]) -> io::Result<()> {
        self.file.write_all_at(encoded, self.offset(shape, shape.slot(second)))
    }

    /// Reads rows from `slot` on and returns the number of bytes. On an error it returns 0, a gap.
    pub(super) fn read(&self, shape: &RingShape, slot: u64, buffer: &mut [u8]) -> usize {
        read_up_to(&self.file, buffer, self.offset(shape, slot)).unwrap_or(0)
    }

    /// Passes every valid row to `each`, in the order of the file.
    pub(super) fn every_row(&self, shape: &RingShape, each: &mut dyn FnMut(u64, &[u8])) {
        let row_bytes = shape.row_bytes();
        let rows_max = (READ_BYTES / row_bytes).max(1) as u64;
        let mut buffer = Vec::new();
        let mut slot = 0;
        while slot < shape.slots {
            let rows = rows_max.min(shape.slots - slot);
            buffer.resize(usize::try_from(rows).unwrap_or(0) * row_bytes, 0);
            let bytes = self.read(shape, slot, &mut buffer);
            for row in buffer[..bytes].chunks_exact(row_bytes) {
                if let Some(second) = row::second(row) {
                    each(second, row);
                }
            }
            if bytes < buffer.len() {
                return;
            }
            slot += rows;
        }
    }
}

/// Fills `buffer` from `offset` up to the end of the file.
fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
