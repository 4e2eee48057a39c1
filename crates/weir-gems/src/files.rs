//! The directory of `.gem` files. Each file is named by its SHA-256, so its name determines its
//! content, and a file that no release refers to is never served.

mod arriving;
mod check;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use self::arriving::Arriving;
pub use self::check::FileProblem;
use crate::release::Checksum;

/// Subdirectory for files that are incomplete.
const ARRIVING: &str = "arriving";

/// The directory of `.gem` files.
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
}

/// Whether a file existed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    New,
    Known,
}

impl Files {
    /// Opens the directory, creating it if needed, and removes incomplete files left by a crash.
    /// Another process may use the directory at the same time: files it is receiving are locked.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let files = Self { folder: folder.into() };
        let arriving = files.folder.join(ARRIVING);
        fs::create_dir_all(&arriving)?;
        arriving::remove_orphans(&arriving)?;
        Ok(files)
    }

    fn path(&self, checksum: Checksum) -> PathBuf {
        let name = checksum.to_string();
        self.folder.join(&name[..2]).join(format!("{name}.gem"))
    }

    /// Opens the file of a release. Blocks.
    pub(crate) fn get(&self, checksum: Checksum) -> io::Result<File> {
        File::open(self.path(checksum))
    }

    /// Creates a temporary file to receive a `.gem` file. Blocks.
    pub(crate) fn arrive(&self) -> io::Result<Arriving> {
        Arriving::new(&self.folder.join(ARRIVING))
    }

    /// Moves a received file with this checksum to its final name and syncs it to disk before
    /// returning. Replaces an existing file, which may be damaged. Blocks.
    pub(crate) fn keep(&self, arriving: Arriving, checksum: Checksum) -> io::Result<Kept> {
        let path = self.path(checksum);
        let kept = if path.exists() { Kept::Known } else { Kept::New };
        let parent = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(parent)?;
        arriving.persist(&path)?;
        sync_folder(parent)?;
        sync_folder(&self.folder)?;
        Ok(kept)
    }

    /// Removes a file that no release refers to. Blocks.
    pub(crate) fn remove(&self, checksum: Checksum) -> io::Result<()> {
        fs::remove_file(self.path(checksum))
    }
}

/// Syncs a directory; only then is a new name in it durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_writes_any_more_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::open(folder.path()).unwrap();
        let mut arriving = files.arrive().unwrap();
        arriving.write(b"gem").unwrap();
        fs::write(folder.path().join(ARRIVING).join("orphan"), b"half").unwrap();
        let again = Files::open(folder.path()).unwrap();
        let count = || fs::read_dir(folder.path().join(ARRIVING)).unwrap().count();
        assert_eq!(count(), 1);
        let checksum = Checksum([9; 32]);
        assert_eq!(files.keep(arriving, checksum).unwrap(), Kept::New);
        assert_eq!(count(), 0);
        assert_eq!(io::read_to_string(again.get(checksum).unwrap()).unwrap(), "gem");
        // The existing file is at best identical to the received one.
        fs::write(files.path(checksum), "mud").unwrap();
        let mut arriving = again.arrive().unwrap();
        arriving.write(b"gem").unwrap();
        assert_eq!(again.keep(arriving, checksum).unwrap(), Kept::Known);
        assert_eq!(count(), 0);
        assert_eq!(io::read_to_string(again.get(checksum).unwrap()).unwrap(), "gem");
        again.remove(checksum).unwrap();
        assert!(files.get(checksum).is_err());
    }
}
