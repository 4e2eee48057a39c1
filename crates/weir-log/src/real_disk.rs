//! The implementation of [`Disk`] on the file system.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::disk::{Allocation, Disk, DiskFile};

/// A directory of the file system.
#[derive(Clone, Debug)]
pub struct RealDisk {
    directory: Arc<PathBuf>,
    is_read_only: bool,
}

impl RealDisk {
    /// Returns the disk for `directory`, which is created if it is missing.
    pub fn new(directory: &Path) -> io::Result<RealDisk> {
        std::fs::create_dir_all(directory)?;
        if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?; // a log whose directory is lost is lost
        }
        Ok(RealDisk { directory: Arc::new(directory.to_owned()), is_read_only: false })
    }

    /// Returns the disk for a `directory` that is only read, such as a backup on a medium that can't
    /// be written. Files open for reading; everything else fails or changes nothing.
    #[must_use]
    pub fn read_only(directory: &Path) -> RealDisk {
        RealDisk { directory: Arc::new(directory.to_owned()), is_read_only: true }
    }
}

impl Disk for RealDisk {
    type File = RealFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&*self.directory)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<RealFile> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        options.open(self.directory.join(name)).map(RealFile)
    }

    fn open(&self, name: &str) -> io::Result<RealFile> {
        let mut options = File::options();
        options.read(true).write(!self.is_read_only);
        options.open(self.directory.join(name)).map(RealFile)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.directory.join(from), self.directory.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.directory.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&*self.directory)?.sync_all()
    }

    fn random(&self) -> u64 {
        RandomState::new().build_hasher().finish()
    }
}

/// A file of a [`RealDisk`].
#[derive(Debug)]
pub struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, into, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(&self.0, bytes, offset)
    }

    fn allocate(&self, bytes: u64) -> io::Result<Allocation> {
        loop {
            match fallocate(&self.0, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => return Ok(Allocation::Reserved),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Allocation::Unsupported),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
