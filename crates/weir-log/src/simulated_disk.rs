//! A disk in memory that loses unsynced data. Deterministic for a given seed.
//!
//! It stores two versions of everything: what a running process sees (the page cache) and what
//! remains after a power cut. Unsynced 4 KiB pages survive or vanish independently, some of them in
//! part (512-byte sectors are atomic), and so do file sizes and names. At random times the kernel
//! writes pages back by itself, so an older version of a page may survive.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Allocation, Disk, DiskFile};
use crate::simulated_state::{Content, NameChange, SECTOR_BYTES, SimulatedState, index};

/// A directory on a simulated disk. Clones refer to the same directory.
///
/// [`SimulatedDisk::crash`] and [`SimulatedDisk::kill`] return the disk as the next process sees
/// it; handles of the old one return errors.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    state: Arc<Mutex<SimulatedState>>,
    generation: u64,
}

/// An open file of a [`SimulatedDisk`].
#[derive(Debug)]
pub struct SimulatedFile {
    disk: SimulatedDisk,
    id: u64,
}

impl SimulatedDisk {
    /// Creates an empty disk.
    #[must_use]
    pub fn new(seed: u64) -> SimulatedDisk {
        let state = SimulatedState::new(seed);
        SimulatedDisk { state: Arc::new(Mutex::new(state)), generation: 0 }
    }

    /// Cuts the power: unsynced data survives in part. Resets injected power cuts and sync errors.
    #[must_use]
    pub fn crash(&self) -> SimulatedDisk {
        let mut state = self.state();
        state.lose_unsynced();
        state.power_out = false;
        state.operations_left = None;
        state.syncs_left = None;
        state.generation += 1;
        SimulatedDisk { state: Arc::clone(&self.state), generation: state.generation }
    }

    /// Kills the process: the page cache survives.
    #[must_use]
    pub fn kill(&self) -> SimulatedDisk {
        let mut state = self.state();
        state.operations_left = None;
        state.generation += 1;
        SimulatedDisk { state: Arc::clone(&self.state), generation: state.generation }
    }

    /// Limits the sum of all file sizes. `None`: no limit.
    pub fn set_space(&self, bytes: Option<u64>) {
        self.state().space_bytes = bytes;
    }

    /// Returns the sum of all file sizes.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Sets whether space can be allocated (otherwise `Allocation::Unsupported`).
    pub fn set_allocates(&self, allocates: bool) {
        self.state().allocates = allocates;
    }

    /// Sets whether reads and writes sometimes transfer fewer bytes than requested.
    pub fn set_short_transfers(&self, short: bool) {
        self.state().short_transfers = short;
    }

    /// Makes every read fail with this error number, until it is `None`.
    pub fn fail_reads(&self, errno: Option<i32>) {
        self.state().read_error = errno;
    }

    /// Makes the sync after the next `syncs` fail with EIO and lose its pages.
    pub fn fail_sync_after(&self, syncs: u32) {
        self.state().syncs_left = Some(syncs);
    }

    /// Makes everything fail after `operations` more changes, until [`SimulatedDisk::crash`].
    pub fn cut_power_after(&self, operations: u32) {
        self.state().operations_left = Some(operations);
    }

    /// Returns a file's bytes as a running process sees them.
    #[must_use]
    pub fn file_bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let id = state.names.get(name)?;
        Some(state.files[id].cached.clone())
    }

    /// Puts a file on the disk, durable at once, to simulate damage.
    pub fn put_file(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        let id = state.new_id();
        let content =
            Content { cached: bytes.clone(), durable: bytes, dirty_sectors: BTreeSet::new() };
        state.files.insert(id, content);
        state.names.insert(name.to_owned(), id);
        state.durable_names.insert(name.to_owned(), id);
    }

    /// Removes a file from the disk, durable at once.
    pub fn take_file(&self, name: &str) {
        let mut state = self.state();
        state.names.remove(name);
        state.durable_names.remove(name);
    }

    fn state(&self) -> MutexGuard<'_, SimulatedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> io::Result<MutexGuard<'_, SimulatedState>> {
        let state = self.state();
        if state.power_out || state.generation != self.generation {
            return Err(io::Error::other("the power is out"));
        }
        Ok(state)
    }

    /// Like `running`, and counts the operation towards the next power cut.
    fn changing(&self) -> io::Result<MutexGuard<'_, SimulatedState>> {
        let mut state = self.running()?;
        match &mut state.operations_left {
            Some(0) => {
                state.power_out = true;
                return Err(io::Error::other("the power is out"));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(state)
    }

    fn handle(&self, id: u64) -> SimulatedFile {
        SimulatedFile { disk: self.clone(), id }
    }
}

impl Disk for SimulatedDisk {
    type File = SimulatedFile;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.running()?.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<SimulatedFile> {
        let mut state = self.changing()?;
        let id = state.new_id();
        state.files.insert(id, Content::default());
        state.change_name(NameChange::Set(name.to_owned(), id));
        Ok(self.handle(id))
    }

    fn open(&self, name: &str) -> io::Result<SimulatedFile> {
        let state = self.running()?;
        let id = state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(*id))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.changing()?;
        if !state.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change_name(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.changing()?;
        if !state.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change_name(NameChange::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.changing()?;
        state.count_sync()?;
        state.durable_names = state.names.clone();
        state.name_changes.clear();
        Ok(())
    }

    fn random(&self) -> u64 {
        self.state().rng.u64(..)
    }
}

impl DiskFile for SimulatedFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.running()?;
        if let Some(errno) = state.read_error {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let wanted = state.transfer(into.len());
        let bytes = &state.files[&self.id].cached;
        let start = index(offset).min(bytes.len());
        let read = wanted.min(bytes.len() - start);
        into[..read].copy_from_slice(&bytes[start..start + read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.changing()?;
        let start = index(offset);
        let wanted = state.transfer(bytes.len());
        let room = state.room_for(self.id, start + wanted);
        let end = (start + wanted).min(room);
        if end <= start {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = state.file(self.id);
        if end > file.cached.len() {
            file.cached.resize(end, 0);
        }
        file.cached[start..end].copy_from_slice(&bytes[..end - start]);
        file.dirty_sectors.extend(start / SECTOR_BYTES..=(end - 1) / SECTOR_BYTES);
        state.write_back_sometimes(self.id);
        Ok(end - start)
    }

    fn allocate(&self, bytes: u64) -> io::Result<Allocation> {
        let mut state = self.disk.changing()?;
        if !state.allocates {
            return Ok(Allocation::Unsupported);
        }
        let bytes = index(bytes);
        if state.room_for(self.id, bytes) < bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = state.file(self.id);
        if bytes > file.cached.len() {
            file.cached.resize(bytes, 0);
        }
        Ok(Allocation::Reserved)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.changing()?;
        let file = state.file(self.id);
        let (before, after) = (file.cached.len(), index(bytes));
        file.cached.resize(after, 0);
        // Bytes that are cut off and added again must read as zeros, even after a sync.
        let changed = before.min(after)..before.max(after);
        if !changed.is_empty() {
            file.dirty_sectors
                .extend(changed.start / SECTOR_BYTES..=(changed.end - 1) / SECTOR_BYTES);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.changing()?;
        let failed = state.count_sync();
        let file = state.file(self.id);
        let dirty = std::mem::take(&mut file.dirty_sectors); // a failed sync forgets them too
        failed?;
        file.durable.resize(file.cached.len(), 0);
        for sector in dirty {
            file.persist(sector);
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.running()?.files[&self.id].cached.len() as u64)
    }
}
