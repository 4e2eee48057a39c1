//! A small file system for a data directory, which can be filled up.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::commands::run;
use crate::clock::monotonic;

/// Much more than the data of an hour, and little enough to be filled.
const SIZE: &str = "size=768m";
const FILLER: &str = "filler";
const FILL_INTERVAL: Duration = Duration::from_millis(200);
/// Sizes of the pieces that fill the file system up, the last of them a page.
const PIECES: [u64; 3] = [64 << 20, 1 << 20, 4 << 10];

#[derive(Debug)]
pub(in crate::soak) struct Disk {
    path: PathBuf,
}

impl Disk {
    /// Mounts an empty file system, in memory.
    pub(super) fn mount(path: &Path) -> Result<Self> {
        let text = path.display().to_string();
        run("mount", &["-t", "tmpfs", "-o", SIZE, "weir-soak", &text])
            .context("the data directory can't be a file system of its own")?;
        Ok(Self { path: path.to_owned() })
    }

    /// Keeps the file system full for so long.
    pub(in crate::soak) fn keep_full(&self, lasts: Duration) -> Result<()> {
        let filler = self.path.join(FILLER);
        let end = monotonic() + lasts;
        let outcome = self.fill_until(&filler, end);
        std::fs::remove_file(&filler).context("removing the filler")?;
        outcome
    }

    fn fill_until(&self, filler: &Path, end: Duration) -> Result<()> {
        let file = File::create(filler).context("creating the filler")?;
        let mut length = 0;
        while monotonic() < end {
            for piece in PIECES {
                while is_added(&file, length, piece)? {
                    length += piece;
                }
            }
            std::thread::sleep(FILL_INTERVAL);
        }
        Ok(())
    }
}

/// Returns false if there is no space for this piece.
fn is_added(file: &File, at: u64, bytes: u64) -> Result<bool> {
    match fallocate(file, FallocateFlags::empty(), at, bytes) {
        Ok(()) => Ok(true),
        Err(Errno::NOSPC) => Ok(false),
        Err(error) => Err(error).context("filling the file system"),
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let text = self.path.display().to_string();
        // Lazily, in case that a process has not ended yet; the run is over.
        let _ = run("umount", &["--lazy", &text]);
    }
}

/// Returns the bytes that the files below a folder occupy on the disk. Files that disappear meanwhile are not counted.
pub(in crate::soak) fn bytes_of(folder: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += metadata.blocks() * 512;
            }
        }
    }
    Ok(bytes)
}
