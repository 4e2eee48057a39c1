//! The folder of `.gem` files. Each is named by its SHA-256, so a name says what must be there, and
//! a file that no release names is invisible.

mod arriving;
mod check;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use self::arriving::Arriving;
pub use self::check::FileProblem;
use crate::release::Checksum;

/// Files that are not whole yet.
const ARRIVING: &str = "arriving";

/// The folder.
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
}

/// Whether a file was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    New,
    Known,
}

impl Files {
    /// Opens the folder, or makes it, and removes what arrived only in part before a crash. Another
    /// process may use it at the same time: what arrives there is locked.
    ///
    /// # Errors
    /// The system's.
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

    /// The file of a release. Blocks.
    pub(crate) fn get(&self, checksum: Checksum) -> io::Result<File> {
        File::open(self.path(checksum))
    }

    /// A place for a file that comes. Blocks.
    pub(crate) fn arrive(&self) -> io::Result<Arriving> {
        Arriving::new(&self.folder.join(ARRIVING))
    }

    /// Keeps a file that has come and has this checksum; it is on disk when this returns. One that is
    /// there already may be damaged, and is replaced. Blocks.
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

    /// Removes a file that no release names. Blocks.
    pub(crate) fn remove(&self, checksum: Checksum) -> io::Result<()> {
        fs::remove_file(self.path(checksum))
    }
}

/// A name is on disk when its folder is.
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
        // What is there is as good as what comes, or worse.
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
