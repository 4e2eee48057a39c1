//! The two versions of everything on a simulated disk: what is visible now, and what remains after
//! a power cut.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

pub(crate) const SECTOR_BYTES: usize = 512;
const SECTORS_PER_PAGE: usize = 8;

#[derive(Debug)]
pub(crate) struct SimulatedState {
    pub(crate) rng: fastrand::Rng,
    pub(crate) generation: u64,
    pub(crate) files: BTreeMap<u64, Content>,
    pub(crate) names: BTreeMap<String, u64>,
    pub(crate) durable_names: BTreeMap<String, u64>,
    /// Changes to `names` that are not yet durable.
    pub(crate) name_changes: Vec<NameChange>,
    pub(crate) next_id: u64,
    pub(crate) space_bytes: Option<u64>,
    pub(crate) allocates: bool,
    pub(crate) short_transfers: bool,
    pub(crate) read_error: Option<i32>,
    /// Number of syncs until one fails.
    pub(crate) syncs_left: Option<u32>,
    /// Number of changes until the power cut.
    pub(crate) operations_left: Option<u32>,
    pub(crate) power_out: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub(crate) cached: Vec<u8>,
    pub(crate) durable: Vec<u8>,
    pub(crate) dirty_sectors: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum NameChange {
    Set(String, u64),
    Remove(String),
    Rename(String, String),
}

impl Content {
    /// Copies a sector to the durable version, as far as both versions contain it.
    pub(crate) fn persist(&mut self, sector: usize) {
        let start = sector * SECTOR_BYTES;
        let end = (start + SECTOR_BYTES).min(self.cached.len()).min(self.durable.len());
        if start < end {
            self.durable[start..end].copy_from_slice(&self.cached[start..end]);
        }
    }

    /// Persists some dirty pages, some of them in part.
    pub(crate) fn persist_some(&mut self, rng: &mut fastrand::Rng) {
        if rng.bool() {
            self.durable.resize(self.cached.len(), 0);
        }
        let whole = rng.u8(..4);
        let mut page_fate = BTreeMap::new();
        for sector in self.dirty_sectors.clone() {
            let fate = *page_fate.entry(sector / SECTORS_PER_PAGE).or_insert_with(|| rng.u8(..3));
            let survives = match (whole, fate) {
                (0, _) | (2.., 0) => true,
                (1, _) | (2.., 1) => false,
                _ => rng.bool(),
            };
            if survives {
                let end = (sector + 1) * SECTOR_BYTES;
                if self.durable.len() < end.min(self.cached.len()) {
                    self.durable.resize(end.min(self.cached.len()), 0);
                }
                self.persist(sector);
            }
        }
    }
}

impl SimulatedState {
    pub(crate) fn new(seed: u64) -> SimulatedState {
        SimulatedState {
            rng: fastrand::Rng::with_seed(seed),
            generation: 0,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            next_id: 0,
            space_bytes: None,
            allocates: true,
            short_transfers: false,
            read_error: None,
            syncs_left: None,
            operations_left: None,
            power_out: false,
        }
    }

    pub(crate) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn file(&mut self, id: u64) -> &mut Content {
        self.files.get_mut(&id).expect("files with handles are kept")
    }

    pub(crate) fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
        if self.rng.u8(..8) == 0 {
            let change = self.name_changes.remove(0);
            change.apply(&mut self.durable_names);
        }
    }

    pub(crate) fn count_sync(&mut self) -> io::Result<()> {
        match &mut self.syncs_left {
            Some(0) => {
                self.syncs_left = None;
                Err(io::Error::other("input/output error"))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns how many of `bytes` are transferred at once.
    pub(crate) fn transfer(&mut self, bytes: usize) -> usize {
        if self.short_transfers && bytes > 1 && self.rng.u8(..4) == 0 {
            return self.rng.usize(1..bytes);
        }
        bytes
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.names.values().map(|id| self.files[id].cached.len() as u64).sum()
    }

    /// Returns the size to which the file can grow: at most `size`, less if the disk is full
    /// before.
    pub(crate) fn room_for(&self, id: u64, size: usize) -> usize {
        let present = self.files[&id].cached.len();
        let Some(space) = self.space_bytes else {
            return size;
        };
        let free = index(space.saturating_sub(self.used_bytes()));
        size.min(present + free)
    }

    /// Simulates the kernel's own write-back at random times.
    pub(crate) fn write_back_sometimes(&mut self, id: u64) {
        if self.rng.u8(..16) == 0 {
            let mut rng = self.rng.fork();
            self.file(id).persist_some(&mut rng);
        }
    }

    pub(crate) fn lose_unsynced(&mut self) {
        let (all, none) = (self.rng.u8(..4) == 0, self.rng.u8(..4) == 0);
        for change in std::mem::take(&mut self.name_changes) {
            if all || (!none && self.rng.bool()) {
                change.apply(&mut self.durable_names);
            }
        }
        self.names = self.durable_names.clone();
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|id, _| named.contains(id));
        for file in self.files.values_mut() {
            file.persist_some(&mut self.rng);
            file.cached = file.durable.clone();
            file.dirty_sectors.clear();
        }
    }
}

impl NameChange {
    pub(crate) fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Set(name, id) => {
                names.insert(name.clone(), *id);
            }
            NameChange::Remove(name) => {
                names.remove(name);
            }
            NameChange::Rename(from, to) => {
                if let Some(id) = names.remove(from) {
                    names.insert(to.clone(), id);
                }
            }
        }
    }
}

pub(crate) fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a simulated file fits in memory")
}
