//! What the log needs from a disk; a trait, so that tests can simulate one.

use std::io;

/// A directory that holds one log. Cheap to clone; clones mean the same directory.
pub trait Disk: Clone + std::fmt::Debug + Send + Sync + 'static {
    type File: DiskFile;

    /// The names of all files in the directory, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes an empty file, replacing one of that name.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes created and deleted names durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// A number that no other log has; asked once, when a log is made.
    fn random(&self) -> u64;
}

/// An open file of a [`Disk`].
pub trait DiskFile: std::fmt::Debug + Send + Sync + 'static {
    /// Reads what is there, possibly less than asked for; 0 at the end.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes a prefix of `bytes` and says how much.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Reserves room for the first `bytes` of the file, which becomes at least that long.
    fn allocate(&self, bytes: u64) -> io::Result<Allocation>;
    /// Cuts or (with zeros) extends the file.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    /// Makes content and size durable.
    fn sync_data(&self) -> io::Result<()>;
    fn size(&self) -> io::Result<u64>;
}

/// What became of a request for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    Reserved,
    /// The file system cannot reserve: a full disk is then met when writing.
    Unsupported,
}

/// Reads until `into` is full or the file ends; returns how much was read.
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

/// Writes all of `bytes`, through short writes.
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

/// A full disk or quota: worth another try later.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
