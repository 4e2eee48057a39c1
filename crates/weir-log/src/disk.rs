//! The disk operations that the log needs, as traits that tests can simulate.

use std::io;

/// A directory that holds one log. Cheap to clone; clones refer to the same directory.
pub trait Disk: Clone + std::fmt::Debug + Send + Sync + 'static {
    type File: DiskFile;

    /// Returns the names of all files in the directory, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Creates an empty file, replacing one of that name.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the creation, renaming and deletion of files durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Returns a random number that serves as the id of a new log.
    fn random(&self) -> u64;
}

/// An open file of a [`Disk`].
pub trait DiskFile: std::fmt::Debug + Send + Sync + 'static {
    /// Reads up to `into.len()` bytes. Returns the number read; 0 at the end of the file.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes a prefix of `bytes`. Returns the number of bytes written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Allocates disk space for the first `bytes` of the file, which becomes at least that long.
    fn allocate(&self, bytes: u64) -> io::Result<Allocation>;
    /// Truncates the file, or extends it with zeros.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    /// Makes the file's content and size durable.
    fn sync_data(&self) -> io::Result<()>;
    fn size(&self) -> io::Result<u64>;
}

/// The outcome of [`DiskFile::allocate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    Reserved,
    /// The file system cannot allocate in advance, so a full disk is only noticed on a write.
    Unsupported,
}

/// Reads until `into` is full or the file ends. Returns the number of bytes read.
pub(crate) fn read_full<F: DiskFile>(file: &F, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all of `bytes`, repeating short writes.
pub(crate) fn write_full<F: DiskFile>(file: &F, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns whether the error is a full disk or quota, which a later retry may resolve.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
