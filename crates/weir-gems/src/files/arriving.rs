//! An incomplete file. It is removed on drop unless it is persisted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

/// Removes a path when dropped.
#[derive(Debug)]
struct Remove(Option<PathBuf>);

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Arriving {
    file: File,
    path: Remove,
}

/// Removes files that a crashed process left behind.
pub(super) fn remove_orphans(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // A file that has disappeared was completed meanwhile.
        let Ok(file) = File::open(&path) else { continue };
        if file.try_lock().is_ok() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

impl Arriving {
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let path = folder.join(hex::encode(random));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        // The lock is released when the file is closed, also by a crash. It tells other processes
        // that the file is not abandoned.
        file.lock()?;
        Ok(Self { file, path: Remove(Some(path)) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Rewinds the file to read what was written.
    pub(crate) fn read_again(&mut self) -> io::Result<&File> {
        self.file.rewind()?;
        Ok(&self.file)
    }

    /// Syncs the file to disk and renames it.
    pub(super) fn persist(mut self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        if let Some(from) = self.path.0.take() {
            fs::rename(from, path)?;
        }
        Ok(())
    }
}

impl Drop for Remove {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            // If this fails, the next start removes the file.
            let _ = fs::remove_file(path);
        }
    }
}
